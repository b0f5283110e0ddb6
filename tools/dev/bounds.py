#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Every limit that a public header states has a row in the table of tests/unit/all/test_bounds.c.

    bounds.py TABLE HEADER...

A row begins with the header's name and words of its text. A limit is a number that a comment says
not to pass, an error for what passes one, or a constant with such a name. What is no limit of a
call's arguments, or is tested elsewhere, is in the table's comment "No row:", a line each: the
header's name or *, the words, and the reason; if the reason names a test, as in
unit/test_x: function, that function is there.
"""

import pathlib
import re
import sys

NUMBER = r"(?:-?2\^-?\d+(?!\()|-?[1-9][\d/]*(?![\d^/(])|PERCPU_[A-Z_]+\b)"
NOT_TO_PASS = (
    "at most|at least|up to|more than|less than|larger than|longer than|smaller than|above|below"
    "|reach|beyond the first|larger of"
)
LIMIT = re.compile(
    r"-(?:E2BIG|ERANGE|ENAMETOOLONG|EMSGSIZE|EOVERFLOW|EUSERS|EFBIG)\b"
    rf"|(?<!rounded )\b(?:[Aa]t most|{NOT_TO_PASS}) {NUMBER}"
    rf"|{NUMBER} (?:up )?to {NUMBER}|{NUMBER}(?: \w+)? or (?:more|less)\b"
    r"|\b[01] (?:up )?to (?=\d|PERCPU_[A-Z]|the lane)|\b(?:of|is) 0 or (?=larger|more than|not)"
    r"|(?<!rounded up to )(?<!rounded up to a )(?<!not )(?<!each )\b(?:a |no )?power of two (?!to)"
    r"|\bnot a multiple of"
    r"|#define PERCPU_(?:(?:\w*_)?(?:MAX|MIN|CAP|ROOTS)(?:_\w+)?|METRIC_(?:LABELS|NAME|HELP))\b"
)
# Errors that are said of another call.
ELSEWHERE = re.compile(r"-E\w+(?:, -E\w+)*(?:, \.\.\.| and others)?,? as (?:of other|percpu_)")
STRING = re.compile(r'"((?:[^"\\]|\\.)*)"')
ROW = re.compile(r'^\t\{ "(\w+\.h)",\s*((?:"(?:[^"\\]|\\.)*"\s*)+),', re.MULTILINE)
TEST = re.compile(r"\bunit/(test_\w+): (\w+)")


def text_of(header):
    """Return the comments of a header and its constants, each space one blank."""
    text = []
    pieces = re.findall(r"/\*.*?\*/|^#define PERCPU_\w+\b(?!\()", header, re.DOTALL | re.MULTILINE)
    for piece in pieces:
        piece = re.sub(r"\n[ \t]*\*(?!/)", "\n", piece.strip("/*"))
        text.append(re.sub(r"\s+", " ", piece))
    return " | ".join(text)


def rows_of(table):
    """Return (header, words, reason) of each row, and of what has none."""
    rows = [(m[1], "".join(STRING.findall(m[2])), None) for m in ROW.finditer(table)]
    none = re.search(r"/\* No row:\n(.*?)\*/", table, re.DOTALL)
    for line in re.split(r"\n \*(?=\t\S)", "\n" + none[1]):
        line = re.sub(r"\s+", " ", re.sub(r"\n \*", " ", line)).strip()
        m = re.fullmatch(r'(\w+\.h|\*) "(.*?)": (.*)', line)
        if m:
            rows.append((m[1], m[2], m[3]))
        elif line:
            rows.append((line, "", "is no line of what has no row"))
    return rows


def is_there(folder, reason):
    """Return whether the test that a reason names is there, if it names one."""
    return all(
        any(
            re.search(rf"\b{function}\(", path.read_text(encoding="utf-8"))
            for path in folder.glob(f"*/{file}.c")
        )
        for file, function in TEST.findall(reason)
    )


def main():
    """Print each limit without a row, and each row without a limit."""
    table = pathlib.Path(sys.argv[1])
    texts = {
        path.name: text_of(path.read_text(encoding="utf-8"))
        for path in map(pathlib.Path, sys.argv[2:])
    }
    covered = {name: set() for name in texts}
    wrong = []
    for header, words, reason in rows_of(table.read_text(encoding="utf-8")):
        found = False
        for name in texts if header == "*" else [header]:
            text, at = texts.get(name, ""), -1
            while words and (at := text.find(words, at + 1)) >= 0:
                covered[name].update(range(at, at + len(words)))
                found = True
        if not found:
            wrong.append(f"{table}: {header} does not say: {words}")
        if reason and not is_there(table.parents[1], reason):
            wrong.append(f"{table}: no such test: {reason}")
    for name, text in texts.items():
        for m in LIMIT.finditer(text):
            if m.start() in covered[name]:
                continue
            if ELSEWHERE.match(text, m.start()):
                continue
            around = text[max(0, m.start() - 60) : m.end() + 70]
            wrong.append(f"{name}: {m[0]}: no row in {table}: ...{around}...")
    sys.exit("\n".join(wrong) or None)


if __name__ == "__main__":
    main()
