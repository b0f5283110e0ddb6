#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What a model stands for is there: each function that it names is in the file that it names.

    models.py MODEL...

Above each inline and proctype a comment names functions, or says that it stands for none:

    /* src/memory/journal.c: apply(), percpu_journal_set() */
    /* The kernel: ... */
    /* The test: ... */

The head says the bounds, and names each planted bug.
"""

import pathlib
import re
import sys

NAMED = re.compile(r"((?:src|include)/[\w/.]+\.[ch]): ((?:\w+\(\)(?:,\s+(?:\* )?)?)+)")
PART = re.compile(r"(\*/)?\n((?:active )?(?:\[\w+\] )?proctype|inline) (\w+)\(")


def defines(text, name):
    """Whether a C file defines the function; or declares it with a body elsewhere, as spec.h."""
    return re.search(rf"^[\w ].*?\b{name}\([^;{{}}]*\)\s*(?:\n\{{|;\n)", text, re.MULTILINE)


def comment_above(text, at):
    """The comment that ends there."""
    return text[text.rfind("/*", 0, at) : at]


def complaints(path, text):
    """Yield what is wrong with a model."""
    head = "*/".join(text.split("*/")[:2])
    planted = set(re.findall(r"\b(BUG_\w+)", text[len(head) :]))
    if "\n * Bounds: " not in head:
        yield "the head has no bounds"
    if not planted:
        yield "it has no bug planted"
    for bug in planted ^ set(re.findall(r"^ \* Bug (\w+)", head, re.MULTILINE)):
        yield f"{bug} is planted and not in the head, or the other way round"
    for m in PART.finditer(text):
        said = comment_above(text, m.start() + 2) if m[1] else ""
        if not NAMED.search(said) and not re.search(r"/\* (The kernel|The test)\b", said):
            yield f"{m[3]}: the comment above it names no function"
    for file, functions in NAMED.findall(text):
        there = pathlib.Path(file)
        code = there.read_text(encoding="utf-8") if there.exists() else ""
        for name in re.findall(r"\w+", functions):
            if name != "" and not defines(code, name):
                yield f"{file} has no function {name}()"


def main():
    """Fail, and say where, if something is wrong."""
    wrong = [
        f"{path}: {what}"
        for path in map(pathlib.Path, sys.argv[1:])
        for what in complaints(path, path.read_text(encoding="utf-8"))
    ]
    sys.exit("\n".join(wrong) or None)


if __name__ == "__main__":
    main()
