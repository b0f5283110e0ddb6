#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Find what a room of src/ uses of a room that it may not: arrows go down only.

A source includes the headers of its own room and of those below. What it calls is looked for,
too, because public headers declare the functions of all rooms; a function that is inline there
belongs to the room of the source that has the header's name.

    arrows.py            print what is wrong; fail if anything is
    arrows.py --print    print the arrows that there are, each with one use
"""

import pathlib
import re
import sys

SRC = pathlib.Path(__file__).resolve().parents[2] / "src"
HEADERS = SRC.parent / "include/percpu"

# Each room, and those below that it may use.
BELOW = {
    "cpu": [],
    "memory": ["cpu"],
    "rings": ["cpu", "memory"],
    "counts": ["cpu", "memory", "rings"],
    "owners": ["cpu", "memory", "counts"],
    "caches": ["cpu", "memory", "rings", "counts"],
    "segment": ["cpu", "memory", "counts", "owners"],
    "freebsd": ["cpu", "memory", "rings", "counts", "caches"],
    "dragonfly": ["caches"],
    "netbsd": ["counts"],
    "linux": ["cpu", "counts"],
}


def code(path):
    """Return the text without comments and strings."""
    text = path.read_text(encoding="utf-8")
    return re.sub(r'/\*.*?\*/|"(?:\\.|[^"\\])*"', "", text, flags=re.DOTALL)


def definitions(text):
    """Return the functions and variables that the text defines for other units."""
    functions = re.findall(
        r"^(?!static\b)[\w ]+[ *](percpu_\w+)\([^;{]*\)\s*\{", text, re.MULTILINE
    )
    variables = re.findall(
        r"^(?!static\b|extern\b|struct \w+;)[\w ]+[ *](percpu_\w+)(?: PERCPU_\w+)?(?:\[.*\])?(?:;| =)",
        text,
        re.MULTILINE,
    )
    return functions + variables


def homes(sources):
    """Return {name: its room}."""
    found = {name: path.parent.name for path in sources for name in definitions(code(path))}
    room_of = {path.stem: path.parent.name for path in sources}
    for header in HEADERS.glob("*.h"):
        if header.stem in room_of:
            inline = re.findall(r"^static [\w ]+[ *](percpu_\w+)\(", code(header), re.MULTILINE)
            found.update((name, room_of[header.stem]) for name in inline)
    return found


def main():
    """Compare what each file uses with what its room may."""
    sources = sorted(SRC.glob("*/*.c"))
    home = homes(sources)
    arrows, wrong = {}, []
    for path in sorted(SRC.glob("*/*.[ch]")):
        room = path.parent.name
        used = {
            (home[name], name) for name in re.findall(r"\bpercpu_\w+", code(path)) if name in home
        }
        includes = re.findall(r'^#include "\.\./(\w+)/(\w+\.h)"', path.read_text(), re.MULTILINE)
        for other, name in sorted(used | set(includes)):
            if other == room:
                continue
            arrows.setdefault((room, other), f"{path.name}: {name}")
            if other not in BELOW[room]:
                wrong.append(f"src/{room}/{path.name} uses {name}, of src/{other}/")
    if sys.argv[1:] == ["--print"]:
        for (room, other), use in sorted(arrows.items()):
            print(f"{room} -> {other}\t{use}")
    print(*wrong, sep="\n", end="\n" if wrong else "")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
