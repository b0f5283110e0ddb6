# SPDX-License-Identifier: MIT
"""What the drop-in tells the program's log: each thing once, and nothing is raised."""

from __future__ import annotations

import contextlib

_said: dict[str, str] = {}  # what it is about, and the sentence


def say_once(sentence: str, about: str | None = None) -> None:
    """Log a warning that was not logged before; or none was about the same, if that is given."""
    key = sentence if about is None else about
    if key in _said:
        return
    _said[key] = sentence
    with contextlib.suppress(Exception):  # of the program's handlers; counting goes on
        import logging  # a program that is told nothing needs not load it

        logging.getLogger("percpu_prometheus").warning("%s", sentence)


def reason_of(e: BaseException) -> str:
    """Return why, without the number of an OSError."""
    if isinstance(e, OSError) and len(e.args) > 1:
        return str(e.args[1])
    return str(e)


def said() -> tuple[str, ...]:
    """Return all that was logged."""
    return tuple(_said.values())
