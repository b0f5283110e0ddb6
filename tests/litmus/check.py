#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Check the litmus tests beside this file against the memory model of Armv8.

Does what herd7 would, for the few instructions that are here: tries all values
that the loads can return, and all orders of the stores to a location, keeps what
the model allows (Arm ARM, B2.3), and looks whether the outcome that "~exists"
excludes is among it. And it must be among it when one of the instructions that
the comment says the test needs is made a plain load or store, of an address that
comes from no load, or a barrier is left out. Prints TAP.
"""

import itertools
import pathlib
import re
import sys


class Event:
    """A load or store of one thread."""

    def __init__(self, thread, kind, where, value, sort):
        self.thread, self.kind, self.where, self.value = thread, kind, where, value
        self.acquire, self.release = sort == "acquire", sort == "release"


def parse(text):
    """Return (memory, registers, threads, outcome) of a test, and what it needs."""
    needs = [(int(t), line) for t, line in re.findall(r"Needs P(\d): (.*)", text)]
    text = re.sub(r"\(\*.*?\*\)", "", text, flags=re.DOTALL)
    init, body = re.search(r"\{(.*?)\}(.*)~exists", text, re.DOTALL).groups()
    memory = {n: int(v) for n, v in re.findall(r"(?<![:\w])([a-z]\w*)=(\d+);", init)}
    registers = {(int(t), r): at for t, r, at in re.findall(r"(\d):X(\d+)=([a-z]\w*);", init)}
    rows = [[c.strip() for c in row.split("|")] for row in body.replace(";", "").split("\n")]
    rows = [row for row in rows if row != [""]]
    outcome = re.search(r"~exists (.*)", text, re.DOTALL).group(1)
    outcome = outcome.replace("/\\", " and ").replace("\\/", " or ")
    outcome = re.sub(r"(\d):X(\d+)=(-?\d+)", r"(at.get((\1, '\2')) == \3)", outcome)
    threads = [[row[t] for row in rows[1:] if row[t]] for t in range(len(rows[0]))]
    return (memory, registers, threads, outcome.strip()), needs


def run(thread, code, registers, values):
    """Run a thread whose loads return the values; return (events, barriers, edges, registers),
    or None if it makes more loads than there are values, or fewer."""
    at, origin, control = {}, {}, set()
    events, order, edges = [], [], set()
    values, skip = list(values), None

    def access(kind, register, value, sort, needs=()):
        e = Event(thread, kind, registers[thread, register], value, sort)
        edges.update((s, e, "ctrl") for s in control)
        edges.update((s, e, "data") for s in needs)
        events.append(e)
        order.append(e)
        return e

    for line in code:
        if skip is not None:
            skip = None if line == skip + ":" else skip
            continue
        name, *args = re.split(r"[ ,]+", line.replace("[", "").replace("]", ""))
        r = [a[1:] for a in args]
        sort = "acquire" if name in ("LDAR", "LDAXR") else None
        sort = "release" if name in ("STLR", "STLXR", "LDADDL") else sort
        if name == "MOV":
            at[r[0]], origin[r[0]] = int(r[1]), set()
        elif name in ("LDR", "LDAR", "LDAXR", "LDXR"):
            if not values:
                return None
            address = origin[r[2]] if r[2:] else ()
            e = access("R", r[1], values.pop(0), sort, address)
            at[r[0]], origin[r[0]] = e.value, {e}
        elif name == "EOR":
            at[r[0]], origin[r[0]] = at[r[1]] ^ at[r[2]], origin[r[1]] | origin[r[2]]
        elif name in ("STR", "STLR"):
            address = origin[r[2]] if r[2:] else set()
            access("W", r[1], at[r[0]], sort, origin[r[0]] | address)
        elif name in ("STLXR", "STXR"):  # succeeds; who fails tries again
            load = [e for e in events if e.kind == "R" and e.where == registers[thread, r[2]]][-1]
            e = access("W", r[2], at[r[1]], sort, origin[r[1]])
            edges.add((load, e, "rmw"))
        elif name in ("LDADDL", "LDADD"):
            if not values:
                return None
            e = access("R", r[2], values.pop(0), None)
            w = access("W", r[2], e.value + at[r[0]], sort, {e})
            edges.add((e, w, "rmw"))
            at[r[1]], origin[r[1]] = e.value, {e}
        elif name in ("CBZ", "CBNZ"):
            control |= origin[r[0]]
            skip = args[1] if (at[r[0]] == 0) == (name == "CBZ") else None
        elif name == "DMB":
            order.append(args[0])
        elif not name.endswith(":"):
            raise ValueError(line)
    if values:
        return None
    return events, order, edges, {(thread, n): v for n, v in at.items()}


def acyclic(pairs):
    """Whether a relation has no cycle."""
    after = {}
    for a, b in pairs:
        after.setdefault(a, set()).add(b)
    while after:
        ends = [a for a in after if not any(b in after for b in after[a])]
        if not ends:
            return False
        for a in ends:
            del after[a]
    return True


def local_order(order, edges, internal):
    """What a thread's own instructions order: dob, aob and bob of the model."""
    ordered = set()
    events = [e for e in order if isinstance(e, Event)]
    for i, a in enumerate(order):
        for j in range(i + 1, len(order)):
            b, between = order[j], order[i + 1 : j]
            if not isinstance(a, Event) or not isinstance(b, Event):
                continue
            full = "SY" in between or ("ISHLD" in between and a.kind == "R")
            stores = "ISHST" in between and a.kind == b.kind == "W"
            if full or stores or a.acquire or b.release or (a.release and b.acquire):
                ordered.add((a, b))
    for a, b, why in edges:
        if why != "ctrl" or b.kind == "W":
            ordered.add((a, b))
        if why == "data":
            ordered.update((a, r) for w, r in internal if w is b)
        if why == "rmw":
            ordered.update((b, r) for w, r in internal if w is b and r.acquire)
    assert all(a in events and b in events for a, b in ordered)
    return ordered


def allowed(memory, runs):
    """Whether the model allows these loads and stores, in some order."""
    events = [e for r in runs for e in r[0]]
    initial = {n: Event(-1, "W", n, v, None) for n, v in memory.items()}
    loads = [e for e in events if e.kind == "R"]
    writes = {n: [e for e in events if e.kind == "W" and e.where == n] for n in memory}
    same = {
        (a, b)
        for r in runs
        for i, a in enumerate(r[0])
        for b in r[0][i + 1 :]
        if a.where == b.where
    }
    sources = [
        [w for w in [initial[e.where], *writes[e.where]] if w.value == e.value] for e in loads
    ]
    orders = [itertools.permutations(writes[n]) for n in memory]
    for chosen in itertools.product(*orders):
        rank = {w: (0, -1) for w in initial.values()}
        rank.update({w: (0, i) for ws in chosen for i, w in enumerate(ws)})
        co = {(a, b) for a in rank for b in rank if a.where == b.where and rank[a] < rank[b]}
        for source in itertools.product(*sources):
            rf = set(zip(source, loads, strict=True))
            fr = {(e, w) for s, e in rf for a, w in co if a is s}
            atomic = not any(
                (a, w) in fr and (w, b) in co
                for r in runs
                for a, b, why in r[2]
                if why == "rmw"
                for w in writes[a.where]
            )
            if not atomic or not acyclic(same | rf | co | fr):
                continue
            outside = {(a, b) for a, b in rf | co | fr if a.thread != b.thread}
            internal = rf - outside
            for r in runs:
                outside |= local_order(r[1], r[2], internal)
            if acyclic(outside):
                return True
    return False


def reachable(memory, registers, threads, outcome):
    """Whether the outcome that the test excludes can come about."""
    domain = {0, 7} | set(range(-1, 3)) | set(memory.values())
    each = []
    for t, code in enumerate(threads):
        most = sum(1 for line in code if line.startswith("LD"))
        tries = (v for n in range(most + 1) for v in itertools.product(domain, repeat=n))
        runs = (run(t, code, registers, values) for values in tries)
        each.append([r for r in runs if r is not None])
    for runs in itertools.product(*each):
        at = {k: v for r in runs for k, v in r[3].items()}
        if eval(outcome, {"at": at}) and allowed(memory, runs):
            return True
    return False


PLAIN = {"LDAR": "LDR", "STLR": "STR", "LDAXR": "LDXR", "STLXR": "STXR", "LDADDL": "LDADD"}


def weaken(line):
    """Return the instruction without what it orders: an address that depends on a load too."""
    name = line.split()[0]
    if name == "DMB":
        return "NOP:"
    return re.sub(r",W\d+,SXTW\]", "]", line.replace(name, PLAIN.get(name, name), 1))


def check(path):
    """Return what is wrong with a test, or None."""
    (memory, registers, threads, outcome), needs = parse(path.read_text())
    if reachable(memory, registers, threads, outcome):
        return "the model allows it"
    for t, line in needs:
        i = threads[t].index(line)
        weak = [*threads[t][:i], weaken(line), *threads[t][i + 1 :]]
        if not reachable(memory, registers, [*threads[:t], weak, *threads[t + 1 :]], outcome):
            return f"does not need {line}"
    return None


def main():
    """Check all tests."""
    tests = sorted(pathlib.Path(__file__).resolve().parent.glob("*.litmus"))
    failed = False
    for n, path in enumerate(tests, 1):
        wrong = check(path)
        failed |= wrong is not None
        print("not ok" if wrong else "ok", n, "-", path.stem + (f": {wrong}" if wrong else ""))
    print(f"1..{len(tests)}")
    return failed


if __name__ == "__main__":
    sys.exit(main())
