#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""needed.py DIRECTORY: print what the tests need that "meson test --list" prints.

Meson's own build of what tests need comes with running them.
"""

import json
import os
import subprocess
import sys


def main():
    """Print a file of the build directory a line."""
    directory = sys.argv[1]
    listed = {line.strip() for line in sys.stdin}
    command = ["meson", "introspect", "--tests", "--targets", directory]
    build = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
    ids = set()
    for test in build["tests"]:
        if any(f"{suite} / {test['name']}" in listed for suite in test["suite"]):
            ids.update(test["depends"])
    for target in build["targets"]:
        if target["id"] in ids:
            print(os.path.relpath(target["filename"][0], directory))


if __name__ == "__main__":
    main()
