# SPDX-License-Identifier: MIT
"""The page of the plain module, docs/python.md: its programs run, and print what it says."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

import percpu

PAGE = Path(__file__).parents[3] / "docs" / "python.md"


def programs() -> list[str]:
    """Return the programs of the page."""
    return re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)


def printed() -> str:
    """Return what the page says that the second program prints."""
    (lines,) = re.findall(r"^It prints\n\n((?:\t.*\n)+)", PAGE.read_text(), re.MULTILINE)
    return re.sub(r"^\t", "", str(lines), flags=re.MULTILINE)


def run(program: str, path: Path) -> str:
    """Run a program, with a file of the test in place of the user's. Return what it prints."""
    here, n = re.subn(r'(Segment|Reader)\("hello"', rf"\1({str(path)!r}", program)
    assert n == 1
    command = [sys.executable, "-X", "dev", "-c", here]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_programs(tmp_path: Path) -> None:
    count, read = programs()
    assert run(count, tmp_path / "s") == ""
    assert run(read, tmp_path / "s") == printed()
    assert run(count, tmp_path / "s") == ""
    assert "hello_requests_total 200 16.0\n" in run(read, tmp_path / "s")


def names(of: type) -> set[str]:
    """Return the public members of a class."""
    return {name for name in vars(of) if not name.startswith("_")}


@pytest.mark.parametrize("name", sorted(set(percpu.__all__) - {"Error"}))
def test_page_has_all_members(name: str) -> None:
    if issubclass(getattr(percpu, name), tuple):
        return
    page = PAGE.read_text()
    missing = {
        one
        for one in names(getattr(percpu, name))
        if not re.search(rf"`[^`\n]*\b{one}\b[^`\n]*`", page)
    }
    assert missing <= {"shown"}  # of gauges that only the drop-in declares
