# SPDX-License-Identifier: MIT
"""The service of docs/prometheus_client.md, by the commands of that page but for its port."""

import pathlib
import re

import pytest

from . import load, processes

PAGE = pathlib.Path(__file__).resolve().parents[4] / "docs/prometheus_client.md"


def test_the_page(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers count what the page's program counts, and any of them shows all of it."""
    text = PAGE.read_text()
    (program,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    (command,) = re.findall(r"^\t(gunicorn .*)$", text, re.MULTILINE)
    (tmp_path / "app.py").write_text(program)
    port = processes.free_port()
    monkeypatch.setattr(processes, "APPS", tmp_path)
    server = processes.Server(command.replace("8000", str(port)).split(), tmp_path)
    try:
        processes.wait_for(lambda: len(server.workers()) == 4, "four workers")
        for _ in range(40):
            assert load.get(port, "/") == b"hello\n"
        shown = load.get(port, "/metrics").decode().splitlines()
        assert 'hello_requests_total{path="/"} 40.0' in shown
        assert "hello_in_flight 0.0" in shown
        assert [file.name for file in server.metrics.iterdir()] == ["metrics.percpu"]
    finally:
        server.end()
