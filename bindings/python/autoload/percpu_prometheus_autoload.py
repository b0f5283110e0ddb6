# SPDX-License-Identifier: MIT
"""Import percpu_prometheus, for programs without a line that does.

percpu_prometheus.pth imports this module when the interpreter starts. No error leaves it: it is
logged, and prometheus_client's own mode goes on.
"""

try:
    import percpu_prometheus  # noqa: F401
except Exception:
    import logging

    logging.getLogger(__name__).exception(
        "percpu_prometheus cannot be imported: prometheus_client's own multi-process mode goes on"
    )
