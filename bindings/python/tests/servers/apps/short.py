# SPDX-License-Identifier: MIT
"""short.py NUMBER - fork so many processes, some at a time: each counts, and is gone."""

import os
import sys

import counted

AT_ONCE = 20


def child(amount: int) -> None:
    """Count in the child and end it as a crash would: no handler of exit runs."""
    code = 1
    try:
        counted.count("/short", amount)
        counted.IN_FLIGHT.inc()
        code = 0
    finally:
        os._exit(code)


def main() -> None:
    """Fork all of them and fail if one failed."""
    left = int(sys.argv[1])
    while left:
        batch = min(AT_ONCE, left)
        for i in range(batch):
            if os.fork() == 0:
                child((left - i) % 1000 + 1)
        for _ in range(batch):
            if os.wait()[1] != 0:
                raise SystemExit("a child failed")
        left -= batch


if __name__ == "__main__":
    main()
