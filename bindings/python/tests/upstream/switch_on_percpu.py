# SPDX-License-Identifier: MIT
"""A plugin of pytest: the drop-in is switched on before a test module takes names of the client.

The switch is only there while it is loaded: upstream's tests set it themselves.
"""

import os
import tempfile

with tempfile.TemporaryDirectory() as directory:
    os.environ["PROMETHEUS_MULTIPROC_DIR"] = directory
    import percpu_prometheus  # noqa: F401

    del os.environ["PROMETHEUS_MULTIPROC_DIR"]
