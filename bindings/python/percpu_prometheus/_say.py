# SPDX-License-Identifier: MIT
"""What the drop-in tells the program's log: each thing once, and nothing is raised."""

from __future__ import annotations

import contextlib
import logging

_log = logging.getLogger("percpu_prometheus")
_said: dict[str, None] = {}


def say_once(sentence: str) -> None:
    """Log a warning that was not logged before."""
    if sentence in _said:
        return
    _said[sentence] = None
    with contextlib.suppress(Exception):  # of the program's handlers; counting goes on
        _log.warning("%s", sentence)


def said() -> tuple[str, ...]:
    """Return all that was logged."""
    return tuple(_said)
