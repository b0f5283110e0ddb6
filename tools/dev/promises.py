#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Every public function of the headers says its Context, Ordering and Progress.

    promises.py HEADER...

Each word is in the comment above the function, which is also that of the functions
that follow it without one; or in one above that, which says that it is of all that
follows: "in common".
"""

import pathlib
import re
import sys

WORDS = ("Context", "Ordering", "Progress")
# Parts of inline functions, which nobody else calls.
INTERNAL = r"_slow$|^percpu_(counter_array_commit|stats_pair|wbuf_(append|entry_of|is_valid|marked|words)|grace_awaits)$"
PIECE = re.compile(
    r"(?P<comment>/\*.*?\*/)|^PERCPU_(?:API|INLINE)\b[^(;]*?\b(?P<name>percpu_\w+)\(",
    re.DOTALL | re.MULTILINE,
)
BODY = re.compile(r"\n\{\n.*?\n\}", re.DOTALL)


def lacking(text):
    """Yield (name, words) for each function that lacks some."""
    common = own = ""
    for piece in PIECE.finditer(BODY.sub(";", text)):
        comment, name = piece["comment"], piece["name"]
        if comment and "in common" in comment:
            common, own = comment, ""
        elif comment:
            own = comment
        elif not re.search(INTERNAL, name):
            missing = [word for word in WORDS if not re.search(rf"\b{word}\b", own + common)]
            if missing:
                yield name, missing


def main():
    """Fail, and say where, if there are some."""
    wrong = [
        f"{path}: {name}() does not say its {', '.join(missing)}"
        for path in map(pathlib.Path, sys.argv[1:])
        for name, missing in lacking(path.read_text(encoding="utf-8"))
    ]
    sys.exit("\n".join(wrong) or None)


if __name__ == "__main__":
    main()
