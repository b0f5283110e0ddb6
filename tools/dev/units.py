#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""units.py COMMANDS ONCE EXPRESSION: of a file like compile_commands.json, write the first
command of each source to another, and print the sources; those that do not match.

A source in which PERCPU_LATE makes a difference also keeps one with that defined.
"""

import json
import pathlib
import re
import sys


def main():
    """Write and print."""
    commands, once, expression = sys.argv[1:]
    kept = {}
    for unit in json.loads(pathlib.Path(commands).read_text(encoding="utf-8")):
        source = pathlib.Path(unit["directory"], unit["file"])
        if re.search(expression, unit["file"]):
            continue
        late = "-DPERCPU_LATE" in unit["command"]
        if not late or "PERCPU_LATE" in source.read_text(encoding="utf-8"):
            kept.setdefault((unit["file"], late), unit)
    pathlib.Path(once).write_text(json.dumps(list(kept.values())), encoding="utf-8")
    print(*sorted({file for file, _ in kept}), sep="\n")


if __name__ == "__main__":
    main()
