# SPDX-License-Identifier: MIT
"""Import percpu_prometheus after prometheus_client, for programs without a line that does.

percpu_prometheus.pth imports this module when the interpreter starts. No error leaves it: each is
logged, and prometheus_client's own mode goes on.
"""

from __future__ import annotations

import sys
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

_CLIENT = "prometheus_client"


def _load() -> None:
    """Import percpu_prometheus, which activates itself."""
    try:
        import percpu_prometheus  # noqa: F401
    except Exception:
        import logging

        logging.getLogger(__name__).exception(
            "percpu_prometheus cannot be imported: prometheus_client's own multi-process mode goes on"
        )


class _Loader(Loader):
    """Loads prometheus_client as its own loader does, then percpu_prometheus."""

    def __init__(self, loader: Loader) -> None:
        self._loader = loader

    def __getattr__(self, name: str) -> object:
        return getattr(self._loader, name)

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        module.__loader__ = self._loader  # as if this one had not been there
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        sys.meta_path[:] = [finder for finder in sys.meta_path if not isinstance(finder, _Finder)]
        self._loader.exec_module(module)
        _load()


class _Finder(MetaPathFinder):
    """Sees imports of prometheus_client: another finder finds it, and its loader is wrapped."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != _CLIENT:
            return None
        for finder in sys.meta_path:
            spec = None if finder is self else finder.find_spec(fullname, path, target)
            if spec is not None and spec.loader is not None:
                spec.loader = _Loader(spec.loader)
                return spec
        return None


if _CLIENT in sys.modules:
    _load()
else:
    sys.meta_path.insert(0, _Finder())
