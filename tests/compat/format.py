#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Compare docs/memory/format.md with src/memory/format.h.

    format.py SOURCE WORK

Each table there is a struct: its fields have the table's offsets and sizes, without gaps. Numbers
in the text are the header's, too. The claims are compiled, and not run. Prints TAP.
"""

import pathlib
import re
import shutil
import subprocess
import sys

COMPILERS = ["gcc", "clang", "i686-linux-gnu-gcc", "arm-linux-gnueabihf-gcc"]
NUMBERS = {
    r"`(0x\w+)`; written last": "PERCPU_MAGIC",
    r"major number in bits 0 to 15, now (\d+)": "PERCPU_FORMAT_MAJOR",
    r"the minor one above, now (\d+)": "PERCPU_FORMAT_MINOR",
    r"\| N, up to (\d+) \|": "PERCPU_MAX_CPUS",
    r"of which (\d+) fill a lane": "PERCPU_UNITS",
    r"how many, up to (\d+) \|": "PERCPU_JOURNAL_WORDS",
    r"in chunk 0: (\d+) keys": "PERCPU_REGION_ROOTS",
    r"\| 0 to (\d+) \| offset in the lane": "PERCPU_KEY_CHUNK_SHIFT - 1",
    r"\| 40 to (\d+) \| index of the chunk": "PERCPU_KEY_KIND_SHIFT - 1",
    r"\| (\d+) to 63 \| kind": "PERCPU_KEY_KIND_SHIFT",
    r"(\d+) array of counters": "PERCPU_KIND_ARRAY",
    r"(\d+) compact counters,": "PERCPU_KIND_COMPACT",
    r"(\d+) statistics,": "PERCPU_KIND_STATS",
    r"(\d+) counter, \d": "PERCPU_KIND_COUNTER",
    r"(\d+) histograms": "PERCPU_KIND_HISTOGRAM",
    r"(\d+) rate,": "PERCPU_KIND_RATE",
    r"(\d+) approximate sums": "PERCPU_KIND_APPROX",
    r"(\d+) segment, ": "PERCPU_KIND_SEGMENT",
    r"(\d+) read-mostly lock, ": "PERCPU_KIND_RWLOCK",
    r"(\d+) grace periods,": "PERCPU_KIND_GRACE",
    r"(\d+) lanes of critical sections,": "PERCPU_KIND_CRITICAL",
    r"(\d+) group of statistics,": "PERCPU_KIND_STATS_GROUP",
    r"(\d+) exemplars \|": "PERCPU_KIND_EXEMPLARS",
    r"`n` \| slots: 1 to (\d+)": "PERCPU_EXEMPLAR_SLOTS",
    r"\| `version` \| (\d+)\. A reader refuses": "PERCPU_SEGMENT_VERSION",
    r"\| `block` \| (\d+) keys, of bytes: 65536": "PERCPU_SEGMENT_BLOCKS",
    r"keys, of bytes: (\d+) bytes of records": "PERCPU_SEGMENT_BLOCK",
    r"\| `state` \| (\d+) in use, 1 removed": "PERCPU_RECORD_IN_USE",
    r"in use, (\d+) removed, 2 free": "PERCPU_RECORD_REMOVED",
    r"removed, (\d+) free: without": "PERCPU_RECORD_FREE",
    r"an object, (\d+) a family\.": "PERCPU_RECORD_FAMILY",
    r"fewer than (\d+) bytes are left of a block": "sizeof(struct percpu_segment_record)",
    r"(\d+) info, 11": "PERCPU_METRIC_INFO",
    r"10 info, (\d+) statistics \|": "PERCPU_METRIC_STATS",
    r": (\d+) counter, 2 counter of doubles, 3": "PERCPU_METRIC_COUNTER",
    r"(\d+) owned gauge, 9 owned": "PERCPU_METRIC_OWNED_GAUGE",
    r"(\d+) rings,": "PERCPU_KIND_RING",
    r"(\d+) counters of doubles": "PERCPU_KIND_FCOUNTER",
    r"(\d+) gauge,": "PERCPU_KIND_GAUGE",
    r"(\d+) gauge of doubles": "PERCPU_KIND_FGAUGE",
    r"(\d+) latest value": "PERCPU_KIND_LATEST",
    r"atomic lane holds 2\^(\d+) or more": "PERCPU_SEQ_EXPONENT - 1023",
    r"(\d+) owners, ": "PERCPU_KIND_OWNERS",
    r"(\d+) owned gauge, ": "PERCPU_KIND_OWNED",
    r"\| `block` \| (\d+) keys, of bytes: 64 slots": "PERCPU_OWNER_BLOCKS",
    r"keys, of bytes: (\d+) slots": "PERCPU_OWNER_SLOTS",
    r"(\d+) extremes,": "PERCPU_KIND_EXTREMA",
    r"n of them, take (\d+) n bytes of each lane": "PERCPU_COMPACT_SHARE",
    r"bits 0 to (\d+): which bank counts": "__builtin_ctzll(PERCPU_STATS_FLIP) - 1",
}


def claims(text):
    """Yield (what, C expression) for all claims of the text."""
    for struct, table in re.findall(r"^`(struct \w+)`.*?\n\n((?:\|.*\n)+)", text, re.MULTILINE):
        end = 0
        for offset, size, field in re.findall(r"\| (\d+) \| (\d+) \| `(\w+)` \|", table):
            member = f"(({struct} *)0)->{field}"
            place = f"offsetof({struct}, {field}) == {offset} && {offset} == {end}"
            yield f"{struct}: {field}", f"{place} && sizeof({member}) == {size}"
            end = int(offset) + int(size)
        yield f"{struct}: its size", f"sizeof({struct}) == {end}"
    for pattern, expression in NUMBERS.items():
        found = re.findall(pattern, text)
        yield expression, f"{found[0] or 0} == {expression}" if found else "0"


def main():
    """Print a line per compiler and claim."""
    source, work = (pathlib.Path(arg).resolve() for arg in sys.argv[1:3])
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    page = pathlib.Path(__file__).resolve().parents[2] / "docs/memory/format.md"
    every = list(claims(page.read_text(encoding="utf-8")))
    unit = work / "claims.c"
    lines = ["#include <percpu/segment.h>", f'#include "{source}/src/memory/format.h"']
    lines += [f'_Static_assert({what}, "claim {n}");' for n, (_, what) in enumerate(every)]
    unit.write_text("\n".join(lines) + "\n", encoding="utf-8")
    count = 0
    for compiler in COMPILERS:
        if not shutil.which(compiler):
            count += 1
            print(f"ok {count} - {compiler} # SKIP no {compiler}")
            continue
        command = [compiler, "-std=gnu11", f"-I{source}/include", "-fsyntax-only", unit]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        wrong = {int(n) for n in re.findall(r'claim (\d+)"', done.stderr)}
        if done.returncode != 0 and not wrong:
            print(f"Bail out! {compiler}: {done.stderr}")
            return 1
        for n, (name, what) in enumerate(every):
            count += 1
            print(f"{'not ok' if n in wrong else 'ok'} {count} - {compiler}: {name}")
            if n in wrong:
                print(f"# the page says: {what}")
    print(f"1..{count}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
