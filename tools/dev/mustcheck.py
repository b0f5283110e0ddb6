#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Compilers warn of exactly those dropped results that the rule in percpu/base.h names.

    mustcheck.py HEADER...

The end of a function's name says whether its result may be dropped. A result that is neither an int
nor a bool is not looked at. A function that ends in _call is as the inline function of that name.
"""

import pathlib
import re
import sys

DECLARED = re.compile(
    r"^PERCPU_(?:API|INLINE)\s+(?:PERCPU_NOTHROW\s+)?(PERCPU_MUST_CHECK\s+)?"
    r"(?:int|bool)\s+percpu_(\w+)\(",
    re.MULTILINE,
)
# Programs call none of these: inline functions of headers do.
INTERNAL = re.compile(r"^seq_|_slow$|_try$|_commit$")
DROPPED = re.compile(
    r"_(free|put|unlock|exit|leave|detach|destroy|add|sub|set|store|observe|record|update|update_both|append|setup"
    r"|try_flush|is_\w+|alive|compare|rule|died)"
    r"(_many|_double|_as|_n|_u32)?$"
    r"|^ref_get(_many)?$|^ref_count$|^sfbuf_ref$|^version$|^objcache_dtor$"
)


def main():
    """Print each function that differs from the rule."""
    wrong = []
    for path in map(pathlib.Path, sys.argv[1:]):
        for checked, name in DECLARED.findall(path.read_text(encoding="utf-8")):
            plain = name.removesuffix("_call")
            if INTERNAL.search(plain) or bool(checked) != bool(DROPPED.search(plain)):
                continue
            what = "has" if checked else "lacks"
            wrong.append(f"{path}: percpu_{name}() {what} PERCPU_MUST_CHECK, see percpu/base.h")
    sys.exit("\n".join(wrong) or None)


if __name__ == "__main__":
    main()
