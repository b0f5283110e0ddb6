# SPDX-License-Identifier: MIT
"""Does something when prometheus_client is imported, without importing it before."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from importlib.abc import Loader
    from importlib.machinery import ModuleSpec
    from types import ModuleType

CLIENT = "prometheus_client"


class _Loader:
    """Loads the client by its own loader, and then calls a function."""

    def __init__(self, loader: Loader, finder: _Finder) -> None:
        self.loader = loader
        self.finder = finder

    def __getattr__(self, name: str) -> object:
        return getattr(self.loader, name)

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self.loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        if module.__spec__ is not None:
            module.__spec__.loader = self.loader
        module.__loader__ = self.loader
        self.loader.exec_module(module)
        self.finder.remove()
        self.finder.then()


class _Finder:
    """Finds the client as the others do."""

    def __init__(self, then: Callable[[], object]) -> None:
        self.then = then

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name != CLIENT:
            return None
        for finder in sys.meta_path[sys.meta_path.index(self) + 1 :]:
            spec = finder.find_spec(name, path, target)
            if spec is not None and spec.loader is not None:
                spec.loader = _Loader(spec.loader, self)  # type: ignore[assignment]
                return spec
        return None

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


def wait_no_more() -> None:
    """Call nothing if prometheus_client is imported later."""
    for finder in list(sys.meta_path):
        if isinstance(finder, _Finder):
            finder.remove()
