#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Where a state is looked at again, a test can change it before.

    rechecks.py TABLE SOURCE...

Looked at again is what is decided while a lock is held, and a load that is compared with an earlier
one. There must be a PERCPU_STEP() before it in the same function, which a test names; or the table
says why there is none:

    a reason, or the step of another function where a test comes between, as "its name":
            file function() function()
"""

import pathlib
import re
import sys

TESTS = pathlib.Path("tests")
FUNCTION = re.compile(r"^(\w[^\n;{}#]*(?:\n[^\n;{}#]+)*)\n\{\n(.*?)^\}", re.MULTILINE | re.DOTALL)
LOCKS = {
    "percpu_descriptor_lock",
    "percpu_mutex_lock",
    "percpu_mutex_trylock",
    "percpu_process_lock",
    "percpu_region_alloc_at",
    "percpu_region_lock",
    "percpu_robust_lock",
}
LOCK_NAME = re.compile(r"(?:^|_)(?:try_?)?lock(?:_|$)|_lock_take$")
UNLOCK = re.compile(r"\w*(?:unlock|lock_release)\w*\(")
STEP = re.compile(r'PERCPU_STEP\("(.*?)"\)')
LOAD = r"(?:__atomic_load_n|\w*load_\w+)\([^;]*\)"
AGAIN = re.compile(
    rf"{LOAD} [!=]= \*?[a-z][\w\[\]]*\b(?!\()|\b[a-z]\w* [!=]= {LOAD}|\bdirectory_is\("
)
DECIDES = re.compile(r"\b(?:if|while) \(|\?|&&|\|\||[^=!<>]==|!=|compare_exchange")
# What the lock itself has returned; the end of a list, or the place in it of what is taken off.
NO_DECISION = re.compile(
    r"^\s*(?:\} )?(?:else )?(?:if|while) \((?:e|got) [!=]= 0\)|^\s*for \(.*|\*(?:at|p) [!=]= \w+\)"
)


def blank(match):
    """The lines of a comment, empty."""
    return "\n" * match[0].count("\n")


def functions(path):
    """Yield (name, line of the body, body) of each function."""
    text = re.sub(r"/\*.*?\*/", blank, path.read_text(encoding="utf-8"), flags=re.DOTALL)
    text = re.sub(r"__attribute__\(\(.*?\)\) ?", "", text)
    for m in FUNCTION.finditer(text):
        name = re.search(r"(\w+)\(", m[1])
        if name:
            yield name[1], text.count("\n", 0, m.start(2)) + 1, m[2]


def calls(body, names):
    """Whether one of these functions is called."""
    return any(re.search(rf"\b{name}\(", body) for name in names)


def find_locks(sources):
    """Return the functions that return with a lock."""
    locks = set(LOCKS)
    more = True
    while more:
        found = {
            name
            for parts in sources.values()
            for name, _, body in parts
            if LOCK_NAME.search(name) and not UNLOCK.search(body) and calls(body, locks)
        }
        more = not found <= locks
        locks |= found
    return locks


def looks_again(body, locks):
    """Yield the index of a line before which something may change, and the steps before it."""
    steps, before, locked, taken = [], [], False, 0
    for i, line in enumerate(body.split("\n")):
        steps += STEP.findall(line)
        if UNLOCK.search(line):
            locked = False
        elif locked and DECIDES.search(line) and not NO_DECISION.search(line):
            yield taken, list(before)
            locked = False
        elif AGAIN.search(line):
            yield i, list(steps)
        if calls(line, locks):
            locked, taken, before = True, i, list(steps)


def read_table(path):
    """Return {(file, function): the reason}."""
    table, reason = {}, ""
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.startswith("\t"):
            file, *names = line.split()
            table |= {(file, name): reason for name in names}
        elif line.endswith(":"):
            reason = line
    return table


def main():
    """Fail, and say where, if nothing can come between."""
    table = read_table(pathlib.Path(sys.argv[1]))
    sources = {path: list(functions(path)) for path in map(pathlib.Path, sys.argv[2:])}
    locks = find_locks(sources)
    tests = "".join(p.read_text(encoding="utf-8") for p in sorted(TESTS.rglob("*.[ch]")))
    all_steps = {
        step for parts in sources.values() for _, _, body in parts for step in STEP.findall(body)
    }
    tested = {  # by its name, or with all that begin so
        step
        for step in all_steps
        if f'"{step}"' in tests or f'"{step.partition(": ")[0]}: "' in tests
    }
    wrong, needed = [], set()
    for path, parts in sources.items():
        for name, line, body in parts:
            if name in locks:
                continue
            for i, steps in looks_again(body, locks):
                if not tested & set(steps):
                    needed.add((str(path), f"{name}()"))
                    if (str(path), f"{name}()") not in table:
                        wrong.append(f"{path}:{line + i}: {name}() looks again: no step before it")
    for (file, name), reason in table.items():
        step = re.search(r'"(.*)"', reason)
        if (file, name) not in needed:
            wrong.append(f"{sys.argv[1]}: {file} {name} needs no reason")
        if step and step[1] not in tested:
            wrong.append(f'{sys.argv[1]}: no test comes to the step "{step[1]}"')
    print("\n".join(wrong))
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
