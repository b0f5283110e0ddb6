#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Make patches of bugs follow the code: relay.py COMMIT.

At COMMIT all patches apply. The working tree has other code since. Each patch of a file that has
changed is made again, by a merge of the three: what it was, what it is, and what it was with the bug.
Patches for which that cannot be done are listed, to be made by hand.
"""

import pathlib
import re
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
CONTEXT = 6


def at(commit, name):
    """Return the text of a file at a commit, or None."""
    shown = subprocess.run(
        ["git", "show", f"{commit}:{name}"], cwd=ROOT, capture_output=True, check=False
    )
    return shown.stdout if shown.returncode == 0 else None


def plant(directory, diff):
    """Apply a patch in a directory. Return whether it applies without fuzz."""
    done = subprocess.run(
        ["patch", "-s", "-p1", "-f", "-F0"], cwd=directory, input=diff, capture_output=True, check=False
    )
    return done.returncode == 0


def merge(now, then, bug):
    """Return the file now with the bug, or None if the bug is where the code has changed."""
    merged = subprocess.run(
        ["git", "merge-file", "-p", "--diff3", now, then, bug], capture_output=True, check=False
    )
    return merged.stdout if merged.returncode == 0 else None


def difference(name, now, bug):
    """Return the patch that plants a bug in a file."""
    diff = subprocess.run(
        ["diff", f"-U{CONTEXT}", f"--label=a/{name}", f"--label=b/{name}", now, bug],
        capture_output=True,
        check=False,
    )
    return diff.stdout


def relay(commit, patch, changed):
    """Make one patch follow. Return whether that was possible."""
    head, mark, diff = patch.read_bytes().partition(b"--- a/")
    names = re.findall(r"^--- a/(\S+)", (mark + diff).decode(), re.MULTILINE)
    if not changed.intersection(names):
        return True
    with tempfile.TemporaryDirectory() as scratch:
        then, bug = pathlib.Path(scratch, "then"), pathlib.Path(scratch, "bug")
        for name in names:
            text = at(commit, name)
            for tree in (then, bug):
                (tree / name).parent.mkdir(parents=True, exist_ok=True)
                (tree / name).write_bytes(text or b"")
        if not plant(bug, mark + diff):
            return False
        parts = []
        for name in names:
            merged = merge(ROOT / name, then / name, bug / name)
            if merged is None:
                return False
            (bug / name).write_bytes(merged)
            parts.append(difference(name, ROOT / name, bug / name))
    if not all(parts):
        return False
    patch.write_bytes(head + b"".join(parts))
    return True


def main():
    """Make all patches follow."""
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    commit = sys.argv[1]
    listed = subprocess.run(
        ["git", "diff", "--name-only", commit], cwd=ROOT, capture_output=True, text=True, check=True
    )
    changed = set(listed.stdout.split())
    left = [p for p in sorted(HERE.glob("*/*/*.patch")) if not relay(commit, p, changed)]
    for patch in left:
        print(f"{patch.relative_to(ROOT)}: to be made by hand")
    sys.exit(1 if left else 0)


if __name__ == "__main__":
    main()
