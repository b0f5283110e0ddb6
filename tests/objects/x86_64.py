# SPDX-License-Identifier: MIT
"""The instructions of x86-64, in AT&T syntax: the destination is the last operand."""

import re

from instructions import Instruction, Mem, Reg, Unknown, condition

NAME = "x86_64"
SIGNATURE = 0x53053053
ORDERS = False  # all loads are acquire, and all stores release
ALWAYS = {"rsp", "rip"}

ALU = {"add", "sub", "and", "or", "xor", "imul", "adc", "sbb", "shl", "shr"}
ONE = {"inc", "dec", "neg"}
COPY = {"mov", "movabs", "movdqa", "movdqu", "movaps", "movups"}
COPY |= {"vmovdqa", "vmovdqu", "vmovdqa64", "vmovdqu64", "vmovaps", "vmovups"}
VECTOR = {"paddq", "vpaddq", "vinserti128", "vinserti64x4", "movlhps"}
DOUBLE = {"movsd", "addsd"}  # of a vector register's lower half
NOTHING = {"pause", "nop", "lfence"}
WORDS = {}
for _n in "abcd":
    for _form, _w in ((f"r{_n}x", 64), (f"e{_n}x", 32), (f"{_n}x", 16), (f"{_n}l", 8)):
        WORDS[_form] = (f"r{_n}x", _w)
for _n in ("si", "di", "bp", "sp"):
    for _form, _w in ((f"r{_n}", 64), (f"e{_n}", 32), (_n, 16), (f"{_n}l", 8)):
        WORDS[_form] = (f"r{_n}", _w)
for _n in range(8, 16):
    for _form, _w in ((f"r{_n}", 64), (f"r{_n}d", 32), (f"r{_n}w", 16), (f"r{_n}b", 8)):
        WORDS[_form] = (f"r{_n}", _w)
WORDS["rip"] = ("rip", 64)


def register(text):
    """Return a register by any of its names; also as it is written in clobbers."""
    text = text.lstrip("%")
    vector = re.fullmatch(r"([xyz])mm(\d+)", text)
    if vector:
        return Reg("xmm" + vector[2], {"x": 128, "y": 256, "z": 512}[vector[1]])
    return Reg(*WORDS[text]) if text in WORDS else None


def operand(text):
    """Return a Reg, Mem or int."""
    if text.startswith("$"):
        return int(text[1:], 0)
    if text.startswith("%") and ":" not in text:
        return register(text)
    m = re.fullmatch(r"((?:%fs:)?)([^()]*)(?:\((.*)\))?", text)
    base, index, scale = ([r.strip() for r in (m[3] or "").split(",")] + ["", ""])[:3]
    number = re.fullmatch(r"-?(0x)?[0-9a-f]+", m[2]) is not None
    return Mem(
        register(base).name if base else "",
        register(index).name if index else "",
        int(scale or "1"),
        int(m[2], 0) if number else 0,
        m[1] + ("" if number else m[2]),
    )


def decode(at, text):
    """Return the Instruction."""
    code, _, comment = text.partition("#")
    name, _, rest = code.strip().partition(" ")
    args = re.findall(r"[^,(\s]*\([^)]*\)|[^,\s]+", rest)
    i = Instruction(at, text, name, condition=condition(name))
    if name == "jmp" or re.fullmatch(r"j[a-z]{1,3}", name):
        i.op, i.target = ("jump" if name == "jmp" else "branch"), int(args[0], 16)
        return i
    if name == "vzeroupper":
        i.op, i.to = "clear", [Reg(f"xmm{n}", 512) for n in range(16)]
        return i
    if name == "rdtsc":
        i.op, i.to = "other", [Reg("rax", 64), Reg("rdx", 64)]
        return i
    if name in NOTHING:
        i.op = "nothing"
        return i
    known = ALU | ONE | COPY | VECTOR | DOUBLE | {"lea", "cmp", "test", "xchg"}
    suffix = 0
    if name not in known and name[:-1] in known and name[-1] in "bwlq":
        suffix = {"b": 8, "w": 16, "l": 32, "q": 64}[name[-1]]
        name = name[:-1]
    if name not in known:
        raise Unknown
    args = [operand(a) for a in args]
    i.width = suffix or max(a.width for a in args if isinstance(a, Reg))
    if name in DOUBLE:
        i.width = 64
    i.sources, i.to, i.op = args[:-1], [args[-1]], "mov"
    if name in ALU:
        i.op, i.flags = name, True
        if name == "xor" and args[0] == args[1]:
            i.op, i.sources = "mov", [0]
        elif len(args) == 2:
            i.sources.append(args[-1])
    elif name in ONE:
        i.op, i.flags, i.sources = "add", True, [1 if name == "inc" else -1, args[0]]
    elif name in ("cmp", "test"):
        i.op, i.flags, i.sources, i.to = "compare", True, args, []
        if name == "test" and isinstance(args[0], int) and 0 <= args[0] < 1 << 31:
            i.op = "branch"  # of bits within a word, any width tells
    elif name == "lea":
        i.op = "lea"
        if "rip" in args[0].registers():
            i.op, i.sources = "mov", [int(comment.split()[0], 16)]
    elif name == "xchg":
        i.op, i.sources, i.to = "xchg", args, args
    elif name in VECTOR:
        i.op = "vector"
        if name in ("paddq", "movlhps"):
            i.sources = args
    elif name == "addsd":
        i.op, i.sources = "vector", args
    return i
