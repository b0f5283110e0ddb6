# SPDX-License-Identifier: MIT
"""Does something when prometheus_client is imported, without importing it before."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Callable, Sequence
from types import ModuleType

CLIENT = "prometheus_client"


class _Loader(importlib.abc.Loader):
    """Loads the client by its own loader, and then calls a function."""

    def __init__(self, loader: importlib.abc.Loader, finder: _Finder) -> None:
        self.loader = loader
        self.finder = finder

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        return self.loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        if module.__spec__ is not None:
            module.__spec__.loader = self.loader
        module.__loader__ = self.loader
        self.loader.exec_module(module)
        self.finder.remove()
        self.finder.then()


class _Finder(importlib.abc.MetaPathFinder):
    """Finds the client as the others do."""

    def __init__(self, then: Callable[[], object]) -> None:
        self.then = then
        self.asking = False

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name != CLIENT or self.asking:
            return None
        self.asking = True
        try:
            spec = importlib.util.find_spec(name)
        finally:
            self.asking = False
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader, self)
        return spec

    def remove(self) -> None:
        """Find nothing any more."""
        if self in sys.meta_path:
            sys.meta_path.remove(self)


def when_imported(then: Callable[[], object]) -> None:
    """Call a function once prometheus_client is imported: now, if it is."""
    if CLIENT in sys.modules:
        then()
    else:
        sys.meta_path.insert(0, _Finder(then))
