# SPDX-License-Identifier: MIT
"""pools.py METHOD NUMBER - count in a pool whose processes do some tasks each, then wait."""

import multiprocessing
import sys

import counted


def work(amount: int) -> str:
    """Count one task."""
    return counted.count("/task", amount)


def main() -> None:
    """Count as many tasks as asked, print how many answers are right, and wait for a line."""
    context = multiprocessing.get_context(sys.argv[1])
    amounts = range(1, int(sys.argv[2]) + 1)
    with context.Pool(3, maxtasksperchild=20) as pool:
        answers = pool.map(work, amounts, chunksize=1)
        print(sum(answer == str(amount) for answer, amount in zip(answers, amounts, strict=True)))
        sys.stdout.flush()
        sys.stdin.readline()


if __name__ == "__main__":
    main()
