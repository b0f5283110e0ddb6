# SPDX-License-Identifier: MIT
"""What the instructions of a disassembly do: for those that sequences are made of.

An instruction that is not here cannot be judged, and is a fault: add it.
"""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Reg:
    """A register by the name of all of it, and how much of it is used."""

    name: str
    width: int


@dataclasses.dataclass(frozen=True)
class Mem:
    """An address: registers, and numbers. rest: what is no number yet, such as a symbol."""

    base: str = ""
    index: str = ""
    scale: int = 1
    offset: int = 0
    rest: str = ""

    def registers(self):
        """Return the registers that the address is made of."""
        return [r for r in (self.base, self.index) if r]


@dataclasses.dataclass
class Instruction:
    """An operation: sources are Reg, Mem or int, and so is each destination, but int."""

    at: int
    text: str
    op: str
    width: int = 64
    sources: list = dataclasses.field(default_factory=list)
    to: list = dataclasses.field(default_factory=list)
    flags: bool = False
    order: str = ""
    target: int = 0
    shifted: bool = False
    condition: str = ""  # of a branch: "signed" or "unsigned", where that matters
    bump: int = 0  # what is added to the base of an address behind the access


SIGNED = {"jg", "jge", "jl", "jle", "b.gt", "b.ge", "b.lt", "b.le"}
UNSIGNED = {"ja", "jae", "jb", "jbe", "jc", "jnc", "b.hi", "b.hs", "b.lo", "b.ls", "b.cs", "b.cc"}


def condition(name):
    """Return what a branch takes the words for that were compared."""
    return "signed" if name in SIGNED else "unsigned" if name in UNSIGNED else ""


class Unknown(Exception):
    """No rule for this instruction."""
