#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Make patches of bugs follow the code: relay.py COMMIT.

At COMMIT all patches apply. The working tree has other code since. Each patch of a file that has
changed is made again, by a merge of the three: what it was, what it is, and what it was with the bug.
Where that fails, lines are matched by their code, without comments. Patches for which that fails,
too, are listed, to be made by hand.
"""

import difflib
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


def plant(directory, diff, *options):
    """Apply a patch in a directory. Return whether it applies without fuzz."""
    command = ["patch", "-s", "-p1", "-f", "-F0", *options]
    done = subprocess.run(command, cwd=directory, input=diff, capture_output=True, check=False)
    return done.returncode == 0


def merge(now, then, bug):
    """Return the file now with the bug, or None if the bug is where the code has changed."""
    merged = subprocess.run(
        ["git", "merge-file", "-p", "--diff3", now, then, bug], capture_output=True, check=False
    )
    return merged.stdout if merged.returncode == 0 else None


def codes(lines):
    """Return the code of each line, without comments and blanks."""
    result, inside = [], False
    for line in lines:
        code = ""
        for part in re.split(r"(/\*|\*/)", line):
            inside = part == "/*" or (inside and part != "*/")
            code += "" if inside or part == "*/" else part
        result.append("".join(code.split()))
    return result


def merge_codes(now, then, bug):
    """Do what merge() does, by the code of lines: its text may have changed beside the bug."""
    now, then, bug = (p.read_text(encoding="utf-8").splitlines(True) for p in (now, then, bug))
    now_codes, then_codes = codes(now), codes(then)
    now_at = [i for i, code in enumerate(now_codes) if code]
    then_at = [i for i, code in enumerate(then_codes) if code]
    same = difflib.SequenceMatcher(
        None, [then_codes[i] for i in then_at], [now_codes[i] for i in now_at], False
    )
    place = {
        then_at[a + i]: now_at[b + i] for a, b, n in same.get_matching_blocks() for i in range(n)
    }
    result = list(now)
    changes = difflib.SequenceMatcher(None, then, bug, False).get_opcodes()
    for tag, i1, i2, j1, j2 in reversed(changes):
        if tag == "equal":
            continue
        old = [i for i in range(i1, i2) if then_codes[i]]
        if any(i not in place for i in old):
            return None
        before = [i for i in place if i < i1]
        if old:
            first, end = place[old[0]], place[old[-1]] + 1
        elif i2 in place:
            first = end = place[i2]
        elif before:
            first = end = place[max(before)] + 1
        else:
            return None
        kept = {now_codes[i]: now[i] for i in range(first, end)}
        lines = [kept.get(code, line) for line, code in zip(bug[j1:j2], codes(bug[j1:j2]))]
        result[first:end] = lines
    if "".join(now_codes) == "".join(then_codes) and "".join(codes(result)) != "".join(codes(bug)):
        return None
    return "".join(result).encode()


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
            return plant(ROOT, mark + diff, "--dry-run")
        parts = []
        for name in names:
            files = (ROOT / name, then / name, bug / name)
            merged = merge(*files) or merge_codes(*files)
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
