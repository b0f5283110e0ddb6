# SPDX-License-Identifier: MIT
"""The instructions of aarch64: the destination is the first operand, but of stores."""

import re

from instructions import Instruction, Mem, Reg, Unknown, condition

NAME = "aarch64"
SIGNATURE = 0xD428BC00
ORDERS = True
ALWAYS = {"sp"}

ALU = {"add", "sub", "and", "orr", "eor", "mul", "lsl", "lsr", "adds", "subs", "ands"}
ALU |= {"fadd", "ubfx"}
LOADS = {"ldr": "", "ldar": "acquire"}
STORES = {"str": "", "stlr": "release"}


def register(text):
    """Return a register by any of its names; also as it is written in clobbers."""
    m = re.fullmatch(r"([xwqvd])(\d+)(?:\.2d|\.d\[\d\])?", text)
    if m and m[1] in "xw":
        return Reg("x" + m[2], 64 if m[1] == "x" else 32)
    if m:
        return Reg("v" + m[2], 64 if m[1] == "d" else 128)
    return Reg("sp", 64) if text == "sp" else None


def operand(text):
    """Return a Reg, Mem or int."""
    if text in ("xzr", "wzr"):
        return 0
    if text.startswith("["):
        m = re.fullmatch(r"\[(\w+)(?:, (\w+)(?:, lsl #(\d+))?)?(?:, #(\S+))?\]", text)
        if not m:
            m = re.fullmatch(r"\[(\w+)()()(?:, (\S+))?\]", text)
        index = register(m[2]).name if m[2] else ""
        number = not m[4] or re.fullmatch(r"-?(0x)?[0-9a-f]+", m[4])
        return Mem(
            register(m[1]).name,
            index,
            1 << int(m[3] or "0"),
            int(m[4] or "0", 0) if number else 0,
            "" if number else m[4],
        )
    found = register(text)
    if found:
        return found
    number = re.fullmatch(r"#?(-?(?:0x)?[0-9a-f]+)", text)
    if not number:
        raise Unknown
    return int(number[1], 0)


def decode(at, text):
    """Return the Instruction."""
    code = text.partition("//")[0].strip()
    name, _, rest = re.sub(r"\s*<.*?>", "", code).partition(" ")
    args = re.findall(r"\[[^]]*\]|[^,\s][^,]*", rest.strip())
    args = [a.strip() for a in args]
    i = Instruction(at, text, name, condition=condition(name))
    if name == "b" or name.startswith("b.") or name in ("cbz", "cbnz", "tbz", "tbnz"):
        i.op, i.target = ("jump" if name == "b" else "branch"), int(args.pop(), 16)
        if name in ("tbz", "tbnz"):  # of a bit within a word, any width tells
            bit = int(args[1].lstrip("#"), 0)
            i.op, i.width = ("branch" if bit < 31 else "compare"), 64 if bit > 31 else 32
        elif args:
            i.op, i.width = "compare", register(args[0]).width
        i.sources = [register(a) for a in args[:1]]
        return i
    if name in ("yield", "nop", "isb", "dmb"):
        i.op = "nothing"
        return i
    if name == "adrp":
        i.op, i.sources, i.to = "mov", [int(args[1], 16)], [register(args[0])]
        return i
    if name in ("mrs", "movz", "movk"):
        i.op, i.to = "other", [register(args[0])]
        i.sources = i.to if name == "movk" else []
        return i
    if args and re.fullmatch(r"lsl #\d+", args[-1]):
        args.pop()
        i.shifted = True
    args = [operand(a) for a in args]
    i.width = max([a.width for a in args if isinstance(a, Reg)], default=64)
    if name in LOADS or name in STORES:
        i.order = LOADS.get(name) or STORES.get(name, "")
        i.width = args[0].width if isinstance(args[0], Reg) else 64
        i.bump = args[2] if args[2:] else 0
        i.op, i.sources, i.to = "mov", [args[1]], [args[0]]
        if name in STORES:
            i.sources, i.to = i.to, i.sources
    elif name in ("cmp", "tst"):
        i.op, i.flags, i.sources = "compare", True, args
    elif name in ("mov", "fmov"):
        i.op, i.sources, i.to = "mov", args[1:], args[:1]
    elif name in ALU:
        i.op, i.flags = name.rstrip("s"), name[-1] == "s"
        if name in ("fadd", "ubfx"):
            i.op = "vector" if name == "fadd" else "bits"
        i.op = "vector" if i.width == 128 else {"mul": "imul", "eor": "xor"}.get(i.op, i.op)
        i.sources, i.to = args[1:], args[:1]
    else:
        raise Unknown
    return i
