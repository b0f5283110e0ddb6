# SPDX-License-Identifier: MIT
"""Judges one asm statement by its object code: registers, widths, loads and stores.

Follows what each register holds through the instructions, from the first to the
last as they stand, so a loop is gone through once and each branch not taken.
"""

import dataclasses
import re

from instructions import Mem, Reg, Unknown
from table import FENCED, POINTERS, SEQUENCES

LANE, BANK = "distance of the lane", "distance of the bank"
DISTANCES = {LANE, BANK}


@dataclasses.dataclass(frozen=True)
class Value:
    """What a register holds: names of what it came from; how far behind a pointer it
    is (None: a variable distance), and which distances it includes; or a number."""

    names: frozenset = frozenset()
    offset: int | None = 0
    includes: frozenset = frozenset()
    number: int | None = None
    narrow: bool = False  # loaded as 32 bits


@dataclasses.dataclass
class Access:
    """A load or store."""

    value: Value
    width: int
    order: str
    instruction: object

    def is_at(self, place, bank):
        """Return whether it is what SEQUENCES calls that."""
        where, width, *order = place.split(":")
        name, _, offset = where.removesuffix("[]").partition("+")
        lane = {
            "cell": {LANE} | ({BANK} if bank else set()),
            "*at": {LANE},
            "guard": {LANE},
            "partner": {LANE},
        }.get(name, set())
        return (
            name in self.value.names
            and self.value.includes == lane
            and self.is_behind(name, None if where.endswith("[]") else int(offset or "0"))
            and self.width == int(width)
            and self.order in (None, "".join(order))
        )

    def is_behind(self, name, offset):
        """Return whether it is so far behind its pointer; None is anywhere, but a cell's
        first word is what it says of the others."""
        if offset is None:
            return name != "cell" or self.value.offset != 0
        return self.value.offset == offset

    def __str__(self):
        """Return it as SEQUENCES would have it."""
        name = "+".join(sorted(self.value.names)) or "unknown"
        offset = "[]" if self.value.offset is None else f"+{self.value.offset or ''}".rstrip("+")
        order = f":{self.order}" if self.order else ""
        includes = "".join(f" (with the {i})" for i in sorted(self.value.includes - {LANE}))
        return f"{name}{offset}:{self.width}{order}{includes}"


def number(n):
    """Return the value of a number."""
    return Value(number=n)


def add(a, b):
    """Return the value of a sum."""
    if a.number is not None:
        a, b = b, a
    if a.number is not None and b.number is not None:
        return number(a.number + b.number)
    if b.number is not None:
        return dataclasses.replace(
            a, offset=None if a.offset is None else a.offset + b.number, narrow=False
        )
    if a.names <= DISTANCES:
        a, b = b, a
    if b.names and b.names <= DISTANCES:
        return dataclasses.replace(a, includes=a.includes | b.names, narrow=False)
    return Value(a.names | b.names, None, a.includes | b.includes)


class Judge:
    """Goes through one statement, and notes its faults."""

    def __init__(self, machine, code, statement, spec):
        self.machine, self.code, self.s, self.spec = machine, code, statement, spec
        self.name = statement.function.removeprefix("percpu_seq_")
        self.values, self.memory, self.constant = {}, [], {}
        self.outputs, self.written, self.flags = set(), set(), False
        self.loads, self.stores, self.faults = [], [], []
        self.instructions = []
        for operand in statement.inputs + statement.outputs:
            self.enter(operand)

    def fault(self, what, i=None):
        """Note a fault, of an instruction if there is one."""
        self.faults.append(f"{self.s.function}: {what}" + (f": {i.at:x} {i.text}" if i else ""))

    def enter(self, operand):
        """Note what holds an operand before the first instruction."""
        input_ = not operand.constraint.startswith("=")
        try:
            place = self.machine.operand(operand.text)
        except Unknown:
            self.fault(f"operand {operand.text} is unknown to instructions.py")
            return
        names = frozenset([operand.name])
        if isinstance(place, Mem):
            self.memory.append((place, Value(names)))
            for r in place.registers():
                self.values.setdefault(r, Value())
        elif isinstance(place, Reg) and operand in self.s.outputs:
            self.outputs.add(place.name)
        if isinstance(place, Reg) and input_:
            same = self.values.get(place.name, Value())
            self.values[place.name] = Value(names | same.names)
        elif isinstance(place, int):
            self.constant[operand.name] = place

    def is_operand(self, source, value, name):
        """Return whether that is the operand of the name, in a register or as a number."""
        if isinstance(source, int):
            return self.constant.get(name) == source
        return name in value.names

    def address(self, mem, i):
        """Return the value of an address."""
        for place, value in self.memory:
            if (place.base, place.index) == (mem.base, mem.index) and (
                place.rest or place.offset == mem.offset
            ):
                return value
        value = number(mem.offset)
        if mem.base:
            value = add(self.read(mem.base, i), value)
        if mem.index:
            index = self.read(mem.index, i)
            value = add(value, index if mem.scale == 1 else Value(frozenset(["index"])))
        return value

    def read(self, register, i):
        """Return what a register holds."""
        if register not in self.values and register not in self.machine.ALWAYS:
            self.fault(f"{register} is read before it was set", i)
        return self.values.get(register, Value())

    def source(self, s, i):
        """Return the value of a source."""
        if isinstance(s, int):
            return number(s)
        if isinstance(s, Reg):
            return self.read(s.name, i)
        place = self.address(s, i)
        order = i.order if self.machine.ORDERS else None
        self.loads.append(Access(place, i.width, order, i))
        if place.names == {"area"} and place.offset == 4:
            return Value(frozenset(["cpu"]), narrow=i.width == 32)
        return Value(frozenset(f"*{n}" for n in place.names), narrow=i.width == 32)

    def result(self, i, values):
        """Return the value of what an instruction computes."""
        if i.op == "mov" and not i.shifted:
            return values[0]
        if i.op == "add" and not i.shifted and i.width == 64:
            return add(*values)
        pairs = list(zip(i.sources, values, strict=True))
        for (_, v), (other, w) in (pairs, pairs[::-1]) if len(pairs) == 2 else ():
            if i.op == "imul" and v.names == {"cpu"} and self.is_operand(other, w, "stride"):
                if i.width != 64:
                    self.fault("the lane's distance is multiplied in 32 bits", i)
                return Value(frozenset([LANE]))
            if i.op == "and" and v.names == {"*bank"} and self.is_operand(other, w, "mask"):
                return Value(frozenset([BANK]))
            if i.op == "add" and i.shifted and "cell" in v.names:
                return Value(v.names, None, v.includes)
        return Value(frozenset().union(*(v.names for v in values)) - DISTANCES, None)

    def check_width(self, i, values):
        """All is done in 64 bits, but for what was loaded as 32."""
        registers = [v for s, v in zip(i.sources, values, strict=True) if isinstance(s, Reg)]
        memory = any(isinstance(o, Mem) for o in i.sources + i.to)
        if i.width < 32:
            self.fault("works on a part of a word", i)
        elif i.op == "compare" and not memory:
            if registers and all(v.narrow for v in registers) != (i.width == 32):
                self.fault(f"compares {i.width} bits, not what the operands have", i)
        elif i.width == 32 and i.op not in ("mov", "compare", "branch", "imul") and not memory:
            if not self.is_narrow_sum(i):
                self.fault("computes in 32 bits", i)
        elif i.width == 32 and i.op == "mov" and registers and not memory:
            self.fault("moves 32 bits", i)

    def is_narrow_sum(self, i):
        """Return whether the commit stores the result, as 32 bits."""
        last = self.instructions[-1]
        return last.op == "mov" and last.width == 32 and last.sources == i.to

    def run(self, i):
        """Go through one instruction."""
        if i.op == "lea":
            values = [self.address(i.sources[0], i)]
        else:
            values = [self.source(s, i) for s in i.sources]
        self.check_width(i, values)
        self.flags |= i.flags
        if i.op == "xchg":
            results = values[::-1]
        elif i.op == "lea":
            results = values
        else:
            results = [self.result(i, values)] * len(i.to)
        for to, value in zip(i.to, results, strict=True):
            if isinstance(to, Mem):
                order = i.order if self.machine.ORDERS else None
                self.stores.append(Access(self.address(to, i), i.width, order, i))
                self.stored = value
            else:
                self.values[to.name] = value
                self.written.add(to.name)
        for mem in i.sources + i.to if i.bump else ():
            if isinstance(mem, Mem):
                self.values[mem.base] = add(self.read(mem.base, i), number(i.bump))
                self.written.add(mem.base)

    def judge(self, records, linked):
        """Return the faults of the statement."""
        at = self.s.at
        while at < self.s.end:
            text, at_next = self.code.get(at, ("nothing", self.s.end))
            try:
                self.instructions.append(self.machine.decode(at, text))
            except (Unknown, AttributeError, ValueError, IndexError):
                self.fault(f"unknown to instructions.py: {text}")
                return self.faults
            at = at_next
        record = [start for start in records if self.s.at <= start < self.s.end]
        if self.s.labels and len(record) != 1:
            self.fault(f"{len(record)} records")
        elif self.s.labels:
            self.sequence(record[0], *records[record[0]], linked)
        else:
            for i in self.instructions:
                self.run(i)
        self.clobbers()
        return self.faults

    def clobbers(self):
        """What the compiler is told."""
        told = {r.name for c in self.s.clobbers if (r := self.machine.register(c))}
        told |= self.outputs
        for operand in self.s.outputs:
            early = "&" in operand.constraint or "+" in operand.constraint
            if len(self.instructions) > 1 and self.s.inputs and not early:
                self.fault(f"output {operand.name} may share a register with an input: no &")
        for r in sorted(self.written - told):
            self.fault(f"changes {r}, which is neither clobbered nor an output")
        if self.flags and "cc" not in self.s.clobbers:
            self.fault('changes the flags without a clobber of "cc"')
        if self.s.labels and ("memory" in self.s.clobbers) != self.spec.is_barrier(self.name):
            self.fault('"memory" is clobbered, or not, unlike spec.h ("To the compiler")')

    def sequence(self, start, descriptor, end, abort, linked):
        """The frame of a sequence, and what the table says of it."""
        self.exits(start, end, abort, linked)
        self.symbols(descriptor, abort, linked.symbols)
        before = [i for i in self.instructions if i.at < start]
        for i in before:
            self.run(i)
        for access in self.loads:
            if access.value.names & POINTERS:
                self.fault("loads in front of the sequence", access.instruction)
        self.arms(before, descriptor)
        self.loads, self.stores = [], []
        for i in self.instructions[len(before) :]:
            self.run(i)
        if end != self.s.end:
            self.fault("the statement goes on behind the sequence")
        self.accesses()

    def arms(self, before, descriptor):
        """The last instruction in front of the range stores the descriptor's address."""
        last = before[-1] if before else None
        if len(self.stores) != 1 or self.stores[0].instruction is not last:
            self.fault("does not arm the sequence with the instruction in front of it")
            return
        to = last.to[0]
        if self.stored.number != descriptor or last.width != 64 or to.index or to.offset != 8:
            self.fault("arms another sequence, or elsewhere", last)
        self.values[to.base] = Value(frozenset(["area"]))

    def exits(self, start, end, abort, linked):
        """Where the sequence and its abort handler go to."""
        leaves = self.spec.may_leave_at_end(self.name)
        for i in self.instructions:
            inside = start <= i.target < end or (leaves and i.target == end)
            if i.target and not inside and i.target not in self.s.targets.values():
                self.fault("leaves for somewhere else", i)
            if i.condition not in ("", self.spec.sign(self.name)):
                self.fault(f"compares words as {i.condition}", i)
            if i.target and i.at < start:
                self.fault("branches in front of the sequence", i)
        left = {i.target for i in self.instructions if i.target and not start <= i.target <= end}
        if linked.exits.get(start, set()) != left:
            self.fault("the list of exits for debuggers is not that of the branches")
        if linked.word(abort - 4) != self.machine.SIGNATURE:
            self.fault("no signature in front of the abort handler")
        if abort not in self.code:
            self.fault("the abort handler is not code")
            return
        if start <= abort < end:
            self.fault("the abort handler is within the sequence")
        self.handler(abort)

    def handler(self, abort):
        """The abort handler goes to slow."""
        handler = self.machine.decode(abort, self.code[abort][0])
        if handler.op != "jump" or handler.target != self.s.targets["slow"]:
            self.fault("the abort handler does more than to go to slow", handler)

    def symbols(self, descriptor, abort, symbols):
        """Debuggers and profilers have names for what is in sections of its own."""
        for what, at, kind in (("cs", descriptor, 1), ("abort", abort, 2)):
            name, found, size = symbols.get(at, ("", 0, 0))
            if not re.fullmatch(rf"percpu_seq_{self.name}\.{what}\.\d+", name) or found != kind:
                self.fault(f"no symbol for {what}: {name}")
            elif kind == 1 and size != 32:
                self.fault(f"the symbol {name} has {size} bytes")

    def accesses(self):
        """The loads and stores that the table says, and no other."""
        if self.name not in SEQUENCES:
            self.fault("not in table.py")
            return
        loads, stores = (places.split() for places in SEQUENCES[self.name])
        bank = any(place.startswith("bank") for place in loads)
        cpu, *found = self.loads or [None]
        if not cpu or cpu.value.names != {"area"} or (cpu.value.offset, cpu.width) != (4, 32):
            self.fault("does not begin with the CPU number", self.instructions[-1])
        for access in found:
            if not any(access.is_at(place, bank) for place in loads):
                self.fault(f"loads {access}, not {' '.join(loads)}", access.instruction)
        for place in loads:
            if not any(access.is_at(place, bank) for access in found):
                self.fault(f"does not load {place} within the sequence")
        if len(self.stores) != len(stores) or not all(
            access.is_at(place, bank) for access, place in zip(self.stores, stores, strict=True)
        ):
            found = " ".join(str(access) for access in self.stores)
            self.fault(f"stores {found}; not {' '.join(stores)}")
        fences = [n for n, i in enumerate(self.instructions) if i.text.startswith("dmb")]
        wanted = self.machine.ORDERS and self.name in FENCED
        if len(fences) != wanted or not all(
            self.instructions[n].text.split()[1] == "ishst"
            and self.instructions[n - 1] is self.stores[2].instruction
            for n in fences
        ):
            self.fault("no fence of stores behind the third store, or another one")
        if stores and (not self.stores or self.stores[-1].instruction is not self.instructions[-1]):
            self.fault("the last instruction is not the commit", self.instructions[-1])
