#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Each exported function that can fail is called while calls of libc fail.

    swept.py TABLE MAP HEADER...

A function can fail if it returns an int or a pointer. It is called if a test that links
tests/unit/all/sweep.c calls it, has it in a table, or passes it on, by its name or by a function or
macro of a header whose text has the name; one that ends in _call is called as the inline function
that it is. What comments and strings say is no call. Or the table says why it is not called:

    a reason:
            function function
"""

import pathlib
import re
import sys

UNIT = pathlib.Path("tests/unit")
# The result, the name and the parameters of what is exported.
EXPORTED = re.compile(r"^PERCPU_API\b([^;{()]*?)\b(\w+)\(", re.MULTILINE)
# The text of an inline function, and of a macro, with its name.
INLINE = re.compile(
    r"^(?:PERCPU_INLINE|static inline)\b[^;{]*?\b(\w+)\([^;{]*\)\n\{\n(.*?)^\}",
    re.MULTILINE | re.DOTALL,
)
MACRO = re.compile(r"^#define (\w+)\b((?:.*\\\n)*.*)", re.MULTILINE)
POINTERS = {"counter_u64_t"}
STRING = r'"(?:\\.|[^"\\\n])*"|' + r"'(?:\\.|[^'\\\n])+'"
COMMENT = re.compile(STRING + r"|/\*.*?\*/", re.DOTALL)


def without_comments(path):
    """Return the text of a file, without its comments, attributes, and what strings say."""
    text = COMMENT.sub(
        lambda m: "" if m[0].startswith("/*") else m[0][0] * 2, path.read_text(encoding="utf-8")
    )
    return re.sub(r"PERCPU_(MUST_CHECK|NOTHROW)\b", "", text)


def sources():
    """Return the text of the tests that link sweep.c, by what their table in meson.build says."""
    table = (UNIT / "all/meson.build").read_text(encoding="utf-8")
    text = ""
    for name, more in re.findall(r"'(\w+)': \{\s*'sources': \[(.*)\]", table):
        files = re.findall(r"'([\w./]+)'", more)
        if "all/sweep.c" in files:
            files += [f"all/test_{name}.c"]
            text += "".join(without_comments(UNIT / file) for file in files)
    return text


def can_fail(result):
    """Return whether a function of this result can say that it has failed."""
    words = result.replace("extern", "").split()
    return words == ["int"] or "*" in result or bool(POINTERS & set(words))


def names_in(text):
    """Return the names that a text has."""
    return set(re.findall(r"\b\w+\b", text))


def names_used(text):
    """Return the names that are called, or stand where an element or an argument ends."""
    return set(re.findall(r"\b\w+\b(?=\s*[(,;)}])", text))


def find_called(headers, text):
    """Return all that the text calls, by inline functions and macros of headers, too."""
    inside = {}
    for header in headers:
        for name, body in INLINE.findall(header) + MACRO.findall(header):
            inside.setdefault(name, set()).update(names_in(body))
    called, more = set(), names_used(text)
    while more:
        called |= more
        more = set().union(*(inside.get(name, set()) for name in more)) - called
    return called


def read_table(path):
    """Return {function: the line that gives the reason}."""
    table, reason = {}, ""
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if not line.startswith("\t"):
            reason = line if line.endswith(":") else ""
        elif reason:
            table |= dict.fromkeys(line.split(), reason)
        else:
            sys.exit(f'{path}:{number}: no reason above it, a line that ends with ":"')
    return table


def main():
    """Print each function that is not called, and each that needs no reason."""
    path, names, *headers = map(pathlib.Path, sys.argv[1:])
    table = read_table(path)
    exported = set(re.findall(r"^\t(\w+);", names.read_text(encoding="utf-8"), re.MULTILINE))
    texts = [without_comments(header) for header in headers]
    failing = {
        name for text in texts for result, name in EXPORTED.findall(text) if can_fail(result)
    }
    called = find_called(texts, sources())
    missing = {
        name for name in failing & exported if not {name, name.removesuffix("_call")} & called
    }
    wrong = [
        f"{name}() can fail, and no sweep calls it: add it to an operation of the"
        f" {UNIT}/test_faults_*.c whose head names the object, or to {path} with a reason"
        for name in sorted(missing - set(table))
    ]
    wrong += [
        f"{path}: {name} is no exported function that can fail, or a sweep calls it"
        for name in sorted(set(table) - missing)
    ]
    sys.exit("\n".join(wrong) or None)


if __name__ == "__main__":
    main()
