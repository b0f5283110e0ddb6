# SPDX-License-Identifier: MIT
"""gunicorn's configuration as prometheus_client's manual has it: the hook must do no harm."""

from typing import Any

from prometheus_client import multiprocess


def child_exit(_server: object, worker: Any) -> None:
    """Tell prometheus_client that a worker is dead."""
    multiprocess.mark_process_dead(worker.pid)
