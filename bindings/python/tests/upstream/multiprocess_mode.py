# SPDX-License-Identifier: MIT
"""A plugin of pytest: each test runs in multi-process mode, in a directory of its own."""

import pathlib
from collections.abc import Iterator

import pytest
from prometheus_client import values


@pytest.fixture(autouse=True)
def own_directory(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Count in a new directory."""
    monkeypatch.setenv("PROMETHEUS_MULTIPROC_DIR", str(tmp_path))
    monkeypatch.setattr(values, "ValueClass", values.MultiProcessValue())  # type: ignore[no-untyped-call]
    yield
    if hasattr(values, "close_all_multiprocess_files"):  # since 0.17
        values.close_all_multiprocess_files()  # type: ignore[no-untyped-call]
