# SPDX-License-Identifier: MIT
"""What the drop-in tells the program's log: each thing once, and nothing is raised."""

from __future__ import annotations

import logging

_log = logging.getLogger("percpu_prometheus")
_said: dict[str, None] = {}


def say_once(sentence: str) -> None:
    """Log a warning that was not logged before."""
    if sentence in _said:
        return
    _said[sentence] = None
    try:
        _log.warning("%s", sentence)
    except Exception:  # a handler of the program's; counting goes on
        pass


def said() -> tuple[str, ...]:
    """Return all that was logged."""
    return tuple(_said)
