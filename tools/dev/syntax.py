#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""syntax.py COMMANDS FOLDER: print a command for each source in the folder, which checks it.

COMMANDS is a file like compile_commands.json. The commands make no code, and no files.
"""

import json
import pathlib
import shlex
import sys


def check_of(command):
    """Return the command without what names its output, and without code."""
    words = iter(shlex.split(command))
    kept = []
    for word in words:
        if word in ("-MQ", "-MF", "-o"):
            next(words)
        elif word != "-MD":
            kept.append(word)
    return shlex.join([*kept, "-fsyntax-only"])


def main():
    """Print them."""
    commands, folder = map(pathlib.Path, sys.argv[1:])
    for unit in json.loads(commands.read_text(encoding="utf-8")):
        source = pathlib.Path(unit["directory"], unit["file"]).resolve()
        if source.parent == folder.resolve():
            print(check_of(unit["command"]))


if __name__ == "__main__":
    main()
