# SPDX-License-Identifier: MIT
"""Arguments of any type: the drop-in raises what upstream raises, and has the value that it has."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).with_name("arguments.py")
Outcomes = dict[str, tuple[str | None, str]]


def outcomes(mode: str, directory: Path | None = None) -> Outcomes:
    """Return what the program found in a mode: for each call, the exception and the samples."""
    environment = {k: v for k, v in os.environ.items() if k != "PROMETHEUS_MULTIPROC_DIR"}
    if directory is not None:
        environment["PROMETHEUS_MULTIPROC_DIR"] = str(directory)
    ran = subprocess.run(
        [sys.executable, str(PROGRAM), mode],
        check=False,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert ran.returncode == 0, ran.stderr
    return {what: (raised, samples) for what, raised, samples in json.loads(ran.stdout)}


def is_counted(samples: str) -> bool:
    """Tell whether what upstream shows is what a segment can hold: no infinity, and none so large."""
    return not any(text in samples for text in ("nan", "inf", "e+300", "e+308"))


@pytest.mark.parametrize("mode", ["c", "python"])
def test_arguments(tmp_path: Path, mode: str) -> None:
    """Exceptions, their texts, and values are those of upstream in one process.

    What upstream takes although it is no number is refused, as its multi-process mode does; and
    what raises an exception is not counted by half.
    """
    upstream, ours = outcomes("upstream"), outcomes(mode, tmp_path)
    assert ours.keys() == upstream.keys()
    assert len(ours) > 1000
    for what, (raised, samples) in upstream.items():
        if "no number" in samples:  # an array, or complex
            assert str(ours[what][0]).startswith("TypeError: "), what
            continue
        assert ours[what][0] == raised, what
        if raised is None and is_counted(samples):
            assert ours[what][1] == samples, what
