#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A static variable of one file is not that of another one.

    statics.py SOURCE...

percpu_all.c has all sources in one unit. There two static variables of the same name and type are
one, without a word of the compiler, if neither or only one of them has an initializer.
"""

import collections
import pathlib
import re
import sys

COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
STATIC = re.compile(
    r"^static (?!inline\b)[^=;({\[]*?\b(\w+)(?:\[[^\]]*\])*((?:, \*?\w+)*)(?: __attribute__.*)?(?: = |;)",
    re.MULTILINE,
)


def main():
    """Print the names that several files have."""
    files = collections.defaultdict(set)
    for path in map(pathlib.Path, sys.argv[1:]):
        for declared in STATIC.findall(COMMENT.sub("", path.read_text(encoding="utf-8"))):
            for name in re.findall(r"\w+", ",".join(declared)):
                files[name].add(str(path))
    wrong = {name: sorted(paths) for name, paths in files.items() if len(paths) > 1}
    for name, paths in sorted(wrong.items()):
        print(f"static {name}: in {' and in '.join(paths)}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
