# SPDX-License-Identifier: MIT
"""What each sequence loads and stores, and what arch/spec.h says of it in words."""

import re

# The loads within the sequence, each at least once, and the stores in their
# order, the last of which is the commit; loops once. An access is a place, the
# bits, and the ordering. Places: "cell" and "cell+8" are words of this CPU's cell
# (in the bank that counts, where there are banks), "cell[]" is anywhere in it,
# "n[]" anywhere in what the argument n points to, and "*at"
# is the word of this CPU behind the address that was loaded from "at".
GROUP = "bank:64 cell:64:acquire cell+8:64 "
GUARD = "guard:32:acquire "
SEQUENCES = {
    "add": ("cell:64", "cell:64"),
    "bank_add": ("bank:64 cell:64", "cell:64"),
    "bank_add2": ("bank:64 cell:128", "cell:128"),
    "bank_add4": ("bank:64 cell:256", "cell:256"),
    "bank_add8": ("bank:64 cell:512", "cell:512"),
    "copies_add": ("bank:64 cell:64:acquire cell[]:64", "cell[]:64"),
    "bank_update": (
        "bank:64 cell:64:acquire cell[]:128 n[]:128",
        "cell[]:128 cell:64:release",
    ),
    "group_update2": (
        GROUP + "cell[]:128",
        "cell[]:128 " * 2 + "cell+8:64:release " + "cell[]:128 " * 2 + "cell:64:release",
    ),
    "group_update4": (
        GROUP + "cell[]:256",
        "cell[]:256 " * 2 + "cell+8:64:release " + "cell[]:256 " * 2 + "cell:64:release",
    ),
    "group_update": (
        GROUP + "cell[]:128 n[]:128",
        "cell[]:128 " * 2 + "cell+8:64:release " + "cell[]:128 " * 2 + "cell:64:release",
    ),
    "group_undo": (GROUP + "cell[]:128", "cell[]:128 " * 2 + "cell:64:release"),
    "add_limit": (GUARD + "cell:64", "cell:64"),
    "cmpxchg": (GUARD + "cell:64", "cell:64"),
    "xchg": (GUARD + "cell:64", "cell:64"),
    "push": (GUARD + "cell:64", "cell[]:64 cell:64:release"),
    "pop": (GUARD + "cell:64 cell[]:64", "cell:64"),
    "copy": (GUARD + "cell:64 cell+8:64:acquire src[]:64", "cell[]:64 cell:64:release"),
    "take": (GUARD + "cell+8:64 cell:64 cell[]:64", "cell+8:64"),
    "append1": ("cell:64 cell+8:64:acquire", "cell[]:128 cell:64:release"),
    "append2": ("cell:64 cell+8:64:acquire", "cell[]:128 " * 2 + "cell:64:release"),
    "append4": ("cell:64 cell+8:64:acquire", "cell[]:128 " * 4 + "cell:64:release"),
    "put": (
        "cell:64:acquire cell+64:64:acquire cell[]:64 src[]:64",
        "cell[]:64 " * 5 + "cell:64:release",
    ),
    "narrow_add": ("cell:32", "cell:32"),
    "add_at": ("at:64:acquire *at:64", "*at:64"),
    "narrow_add_if": ("state:64:acquire cell:32", "cell:32"),
    "enter": ("cell:64:acquire cell+8:64:acquire", "cell:64"),
    "add_double": ("cell:64", "cell:64"),
    "add_count_double": ("cell:64 cell+8:64", "cell:128"),
    "add_within": ("partner:64 cell:64", "cell:64"),
    "widen": (
        "bank:64 cell:64 cell+8:64 cell+16:64",
        "cell+8:64 cell+16:64 cell:64:release",
    ),
    "spin": ("flag:32", ""),
}
# Those with a fence of stores behind the third store, on machines whose stores have no order.
FENCED = {"group_update2", "group_update"}
# Those that a port need not have: no instruction stores so much.
OPTIONAL = {"bank_add4", "bank_add8", "group_update4"}
POINTERS = {"cell", "guard", "partner", "bank", "n", "src", "state", "at", "flag"}


PROTOTYPE = r"PERCPU_INLINE \w+ percpu_seq_(\w+)\(([^;]*)\);\n"
DECLARED = r"/\*\*\n((?: \*.*\n)*?) \*/\n((?:PERCPU_INLINE [^;{}]*;\n)+)"


class Spec:
    """arch/spec.h, as far as a program can read it."""

    def __init__(self, text):
        (exempt,) = re.findall(r"is a barrier, except ([^:]*): the", text)
        exempt = re.split(r",\s|\sand\s", re.sub(r"\s*\n \* ", " ", exempt))
        self.exempt = [name.replace("*", r"[0-9]*") + "$" for name in exempt]
        self.blocks, self.guarded = {}, set()
        for comment, prototypes in re.findall(DECLARED, text):
            for name, parameters in re.findall(PROTOTYPE, prototypes):
                self.blocks[name] = comment
                if "guard" in parameters:
                    self.guarded.add(name)

    def is_barrier(self, name):
        """Return whether the compiler must not keep memory in registers across it."""
        return not any(re.match(e, name) for e in self.exempt)

    def may_leave_at_end(self, name):
        """Return whether a refusal has an output."""
        return re.search(r"\*ret = \w+; return REFUSED", self.blocks[name]) is not None

    def sign(self, name):
        """Return whether words are compared as signed or as unsigned numbers."""
        signed = re.search(r"\tsigned$", self.blocks[name], re.MULTILINE)
        return "signed" if signed else "unsigned"

    def steps(self, name):
        """Return the steps that the pseudo-code names, in their order."""
        return re.findall(r"@(\w+)", self.blocks[name])

    def faults(self):
        """Yield where SEQUENCES is not what the text says."""
        for name in self.blocks.keys() - SEQUENCES.keys() - {"cpu"}:
            yield f"{name}: in spec.h, and not in the table"
        for name, (loads, stores) in SEQUENCES.items():
            if name not in self.blocks:
                yield f"{name}: in the table, and not in spec.h"
                continue
            commit = re.search(r"\t+commit(.*)", self.blocks[name])
            text = commit[1] if commit else ""
            if ("release" in text) != stores.endswith(":release"):
                yield f"{name}: whether the commit is release"
            if ("32 bits" in text) != stores.endswith(":32"):
                yield f"{name}: whether the commit is of 32 bits"
            acquire = len(re.findall(r"\tacquire$", self.blocks[name], re.MULTILINE))
            if acquire + (name in self.guarded) != loads.count(":acquire"):
                yield f"{name}: how many loads are acquire"

    def step_faults(self, text):
        """Yield where a port's text has steps that the pseudo-code has not, or out of order."""
        for name, body in re.findall(
            r"percpu_seq_(\w+)\([^;{}]*\)\n\{\n(.*?)\n\}", text, re.DOTALL
        ):
            found = iter(self.steps(name)) if name in self.blocks else iter(())
            for step in re.findall(r"PERCPU_SEQ_STEP\((\w+)\)", body):
                if step not in found:
                    yield f"{name}: step {step} is not in spec.h, or not there"
