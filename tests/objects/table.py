# SPDX-License-Identifier: MIT
"""What each sequence loads and stores, and what arch/spec.h says of it in words."""

import re

# The loads within the sequence, each at least once, and the stores in their
# order, the last of which is the commit; loops once. An access is a place, the
# bits, and the ordering. Places: "cell" and "cell+8" are words of this CPU's cell
# (in the bank that counts, where there are banks), "cell[]" is anywhere in it,
# "n[]" anywhere in what the argument n points to.
GUARD = "guard:32:acquire "
SEQUENCES = {
    "add": ("cell:64", "cell:64"),
    "add2": ("cell:128 n[]:128", "cell:128"),
    "add4": ("cell:256 n[]:256", "cell:256"),
    "add8": ("cell:512 n[]:512", "cell:512"),
    "bank_add": ("bank:64 cell:64", "cell:64"),
    "bank_add2": ("bank:64 cell:128", "cell:128"),
    "bank_add4": ("bank:64 cell:256", "cell:256"),
    "bank_add8": ("bank:64 cell:512", "cell:512"),
    "pair_add": ("bank:64 cell:64:acquire cell[]:64", "cell[]:64"),
    "bank_update": (
        "bank:64 cell:64:acquire cell[]:128 n[]:128",
        "cell[]:128 cell:64:release",
    ),
    "add_return": (GUARD + "cell:64", "cell:64"),
    "add_limit": (GUARD + "cell:64", "cell:64"),
    "store": (GUARD, "cell:64"),
    "cmpxchg": (GUARD + "cell:64", "cell:64"),
    "xchg": (GUARD + "cell:64", "cell:64"),
    "push": (GUARD + "cell:64", "cell[]:64 cell:64:release"),
    "pop": (GUARD + "cell:64 cell[]:64", "cell:64"),
    "copy": (GUARD + "cell:64 cell+8:64:acquire src[]:64", "cell[]:64 cell:64:release"),
    "append": ("cell:64 cell+8:64:acquire src[]:64", "cell[]:64 cell[]:64 cell:64:release"),
    "append1": ("cell:64 cell+8:64:acquire", "cell[]:128 cell:64:release"),
    "append2": ("cell:64 cell+8:64:acquire", "cell[]:128 " * 2 + "cell:64:release"),
    "append4": ("cell:64 cell+8:64:acquire", "cell[]:128 " * 4 + "cell:64:release"),
    "narrow_add": ("cell:32", "cell:32"),
    "narrow_cross": ("checkpoint:64:acquire cell:32", "cell:32"),
    "spin": ("flag:32", ""),
}
# Those that a port need not have: no instruction stores so much, or forms of append().
OPTIONAL = {"add4", "add8", "bank_add4", "bank_add8", "append1", "append2", "append4"}
POINTERS = {"cell", "guard", "bank", "n", "src", "checkpoint", "flag"}


class Spec:
    """arch/spec.h, as far as a program can read it."""

    def __init__(self, text):
        (exempt,) = re.findall(r"each is a barrier, except ([^:]*): it", text)
        exempt = re.split(r",\s|\sand\s", re.sub(r"\s*\n \* ", " ", exempt))
        self.exempt = [name.replace("*", r"[0-9]*") + "$" for name in exempt]
        text = text[text.index("\n * cpu()") : text.index("*/", text.index("\n * cpu()"))]
        found = re.split(r"^ \* ((?:[a-z_0-9]+, )*[a-z_0-9]+)\(", text, flags=re.MULTILINE)[1:]
        self.blocks = {
            name: block
            for names, block in zip(found[::2], found[1::2], strict=True)
            for name in names.split(", ")
        }

    def block(self, name):
        """Return the pseudo-code; the forms of append() have that of append()."""
        return self.blocks.get(name) or self.blocks[name.rstrip("0123456789")]

    def is_barrier(self, name):
        """Return whether the compiler must not keep memory in registers across it."""
        return not any(re.match(e, name) for e in self.exempt)

    def may_leave_at_end(self, name):
        """Return whether a refusal has an output."""
        return re.search(r"\*ret = \w+; return REFUSED", self.block(name)) is not None

    def sign(self, name):
        """Return whether words are compared as signed or as unsigned numbers."""
        return "signed" if re.search(r"\tsigned$", self.block(name), re.MULTILINE) else "unsigned"

    def faults(self):
        """Yield where SEQUENCES is not what the text says."""
        for name in self.blocks.keys() - SEQUENCES.keys() - {"cpu"}:
            yield f"{name}: in spec.h, and not in the table"
        for name, (loads, stores) in SEQUENCES.items():
            try:
                block = self.block(name)
            except KeyError:
                yield f"{name}: in the table, and not in spec.h"
                continue
            guarded, same = "guard," in block, re.match(r".*\n \*\tas (\w+)\(\)", block)
            block = self.blocks[same[1]] if same else block
            commit = re.search(r"\t+commit(.*)", block)
            text = commit[1] if commit else ""
            if ("release" in text) != stores.endswith(":release"):
                yield f"{name}: whether the commit is release"
            if ("32 bits" in text) != stores.endswith(":32"):
                yield f"{name}: whether the commit is of 32 bits"
            acquire = len(re.findall(r"\tacquire$", block, re.MULTILINE)) + guarded
            if not name[-1].isdigit() and acquire != loads.count(":acquire"):
                yield f"{name}: how many loads are acquire"
