#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Find links in the texts that lead nowhere: to no file, or to no heading of it."""

import pathlib
import re
import sys


def anchors(path):
    """Return what a link to a heading of the text may say behind the #."""
    headings = re.findall(r"^#+ (.*)$", path.read_text(encoding="utf-8"), re.MULTILINE)
    plain = [re.sub(r"[^\w\- ]", "", heading.lower()) for heading in headings]
    return {heading.replace(" ", "-") for heading in plain}


def main():
    """Print what is wrong; fail if anything is."""
    wrong = []
    for name in sys.argv[1:]:
        path = pathlib.Path(name)
        for link in re.findall(r"\]\(([^)\s]+)\)", path.read_text(encoding="utf-8")):
            if "://" in link:
                continue
            file, _, anchor = link.partition("#")
            to = path.parent / file if file else path
            if not to.exists():
                wrong.append(f"{name}: {link}: there is no such file")
            elif anchor and anchor not in anchors(to):
                wrong.append(f"{name}: {link}: there is no such heading")
    print(*wrong, sep="\n", end="\n" if wrong else "")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
