# SPDX-License-Identifier: MIT
"""Tasks of celery; the broker and the results are folders."""

import os
import time
from pathlib import Path

import counted
from celery import Celery  # type: ignore[import-untyped]

folder = Path(os.environ["SERVERS_QUEUE"])
queue = {name: str(folder / "queue") for name in ("data_folder_in", "data_folder_out")}

app = Celery("tasks", broker="filesystem://", backend=f"file://{folder}/results")
app.conf.broker_transport_options = {
    **queue,
    "control_folder": str(folder / "control"),
    "polling_interval": 0.01,
}


@app.task  # type: ignore[untyped-decorator]
def work(amount: int) -> str:
    """Count a task."""
    return counted.count("/task", amount)


@app.task  # type: ignore[untyped-decorator]
def hold() -> None:
    """Stay in flight until the process is killed."""
    with counted.IN_FLIGHT.track_inprogress():
        time.sleep(600)
