# SPDX-License-Identifier: MIT
"""The asm statements of a preprocessed unit, and what a compiler makes of each.

A statement's text says what it tells the compiler: outputs, inputs, clobbers. To
learn the rest from the object code, mark() adds a note to each: where its code
begins and ends, where its labels are, and what stands for each of its operands.
"""

import copy
import dataclasses
import re
import struct

SECTION = ".percpu_statements"
STRING = re.compile(r'"((?:[^"\\]|\\.)*)"')
FUNCTION = re.compile(r"\b(\w+)\s*\((?:[^(){};]|\([^(){};]*\))*\)\s*\n\{\n")
ASM = re.compile(r"\b(?:__asm__|asm)\s*(__volatile__|volatile)?\s*(goto)?\s*\(")


@dataclasses.dataclass
class Operand:
    """name and constraint as they are written; text: what the compiler put there."""

    name: str
    constraint: str
    text: str = ""


@dataclasses.dataclass
class Statement:
    """One of the source; at, end and targets are of one copy in the object code."""

    function: str
    outputs: list
    inputs: list
    clobbers: list
    labels: list
    at: int = 0
    end: int = 0
    targets: dict = dataclasses.field(default_factory=dict)


def parts(text, begin):
    """Return where the parts between colons begin and end, up to the closing parenthesis."""
    found, depth, at, last = [], 0, begin, begin
    while True:
        string = STRING.match(text, at)
        if string:
            at = string.end()
            continue
        if text[at] in ")]}" and depth == 0:
            return [*found, (last, at)]
        if text[at] == ":" and depth == 0:
            found.append((last, at))
            last = at + 1
        depth += (text[at] in "([{") - (text[at] in ")]}")
        at += 1


def strings(text):
    """Return the strings of a part, each as its text."""
    return [s.encode().decode("unicode_escape") for s in STRING.findall(text)]


def operands(text):
    """Return the operands of a part. Where one has no name, its expression is the name."""
    found, depth = [""], 0
    for c in text:
        depth += (c in "([") - (c in ")]")
        if c == "," and depth == 0:
            found.append("")
        else:
            found[-1] += c
    found = [re.match(r'\s*(?:\[(\w+)\])?\s*"([^"]*)"\s*\((.*)\)\s*$', o, re.DOTALL) for o in found]
    return [Operand(o[1] or o[3], o[2]) for o in found if o]


def mark(text, functions, statements):
    """Return the unit with notes in the statements of these functions. Adds them to the list."""
    where = [(m.start(), m[1]) for m in FUNCTION.finditer(text)]
    out, last = [], 0
    for m in ASM.finditer(text):
        function = next((name for at, name in reversed(where) if at < m.start()), None)
        part = [text[a:b] for a, b in parts(text, m.end())]
        template = "".join(strings(part[0]))
        if function not in functions or not template or not (m[1] or part[1:]):
            continue
        part += [""] * (5 - len(part))
        s = Statement(
            function,
            operands(part[1]),
            operands(part[2]),
            strings(part[3]),
            re.findall(r"\w+", part[4]),
        )
        fields = "".join(f"~%{i}" for i in range(len(s.outputs + s.inputs)))
        labels = "".join(f", %l[{label}]" for label in s.labels)
        note = f'\\n9002:\\n\\t.pushsection {SECTION}, \\"?\\"\\n\\t'
        note += f'.asciz \\"{len(statements)}{fields}\\"\\n\\t'
        note += f".quad 9001b, 9002b{labels}\\n\\t.popsection"
        a, b = parts(text, m.end())[0]
        out += [text[last:a], '"9001:\\n\\t"', text[a:b], f' "{note}" ']
        last = b
        statements.append(s)
    return "".join([*out, text[last:]])


class Object:
    """The sections of a linked ELF file with 64-bit addresses, low bytes first."""

    def __init__(self, path):
        data = path.read_bytes()
        (offset,) = struct.unpack_from("<Q", data, 40)
        size, count, names = struct.unpack_from("<HHH", data, 58)
        headers = [struct.unpack_from("<IIQQQQ", data, offset + i * size) for i in range(count)]
        self.sections = []
        for name, kind, _, address, at, length in headers:
            start = headers[names][4] + name
            name = data[start : data.index(b"\0", start)].decode()
            self.sections.append((name, address, b"" if kind == 8 else data[at : at + length]))
        self.exits, self.symbols = self._read_exits(), self._read_symbols()

    def section(self, name):
        """Return the bytes of a section; none if there is no such section."""
        return b"".join(data for n, _, data in self.sections if n == name)

    def word(self, address):
        """Return the 4 bytes there, as a number; None if nothing is there."""
        for _, start, data in self.sections:
            if start and start <= address <= start + len(data) - 4:
                return struct.unpack_from("<I", data, address - start)[0]
        return None

    def records(self):
        """Return what the kernel is told: {start: (record, end, abort handler)}, and faults."""
        where = [address for n, address, _ in self.sections if n == "__rseq_cs"]
        data, found, faults = self.section("__rseq_cs"), {}, []
        for at in range(0, len(data), 32):
            version, flags, start, length, abort = struct.unpack_from("<IIQQQ", data, at)
            if version or flags or not 0 < length <= 4096:
                faults.append(f"record of {start:x}: version, flags or length")
            if start in found:
                faults.append(f"two records of {start:x}")
            found[start] = (where[0] + at, start + length, abort)
        pointers = [p for (p,) in struct.iter_unpack("<Q", self.section("__rseq_cs_ptr_array"))]
        if sorted(pointers) != sorted(record for record, _, _ in found.values()):
            faults.append("the list for debuggers is not that of the records")
        return found, faults

    def _read_exits(self):
        """Return where debuggers are told that a sequence leaves for: {start: addresses}."""
        found = {}
        for start, to in struct.iter_unpack("<QQ", self.section("__rseq_exit_point_array")):
            found.setdefault(start, set()).add(to)
        return found

    def _read_symbols(self):
        """Return {address: (name, type, size)} of what has a size."""
        names = self.section(".strtab")
        found = {}
        for name, info, _, _, at, size in struct.iter_unpack("<IBBHQQ", self.section(".symtab")):
            if size:
                found[at] = (names[name : names.index(b"\0", name)].decode(), info & 15, size)
        return found

    def statements(self, source):
        """Yield each copy of each statement."""
        data, at = self.section(SECTION), 0
        while at < len(data):
            end = data.index(b"\0", at)
            number, *texts = data[at:end].decode().split("~")
            s = copy.deepcopy(source[int(number)])
            for operand, operand.text in zip(s.outputs + s.inputs, texts, strict=True):
                pass
            s.at, s.end, *targets = struct.unpack_from(f"<{2 + len(s.labels)}Q", data, end + 1)
            s.targets = dict(zip(s.labels, targets, strict=True))
            at = end + 1 + 8 * (2 + len(s.labels))
            yield s
