#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""needed.py DIRECTORY [NAME...]: print what the tests need that "meson test --list" prints.

Meson's own build of what tests need comes with running them. The targets of these names are
printed, too, if there are such; for a name such as "examples/" all that are defined below there.
"""

import json
import os
import subprocess
import sys


def main():
    """Print a file of the build directory a line."""
    directory = sys.argv[1]
    names = sys.argv[2:]
    listed = {line.strip() for line in sys.stdin}
    command = ["meson", "introspect", "--tests", "--targets", directory]
    build = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
    ids = set()
    for test in build["tests"]:
        project = test["suite"][0].partition(":")[0]
        suites = "+".join(suite.partition(":")[2] for suite in test["suite"])
        if f"{project}:{suites} / {test['name']}" in listed:
            ids.update(test["depends"])
    folders = tuple(os.path.abspath(name) + "/" for name in names if name.endswith("/"))
    for target in build["targets"]:
        below = target["defined_in"].startswith(folders)
        if target["id"] in ids or target["name"] in names or below:
            print(os.path.relpath(target["filename"][0], directory))


if __name__ == "__main__":
    main()
