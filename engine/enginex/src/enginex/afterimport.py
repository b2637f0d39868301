"""Do something to a module right after it is imported, and nothing if it never is.

vLLM loads plugins in processes that never touch a model (the API server, the model inspector).
Importing the modules that we patch would make each of them slower; waiting for the import does not.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

__all__ = ["after_import"]

Action = Callable[[ModuleType], None]


def after_import(name: str, action: Action) -> None:
    """Call ``action`` with the module of that name once it is imported, or now if it already is."""
    module = sys.modules.get(name)
    if module is not None:
        action(module)
        return
    _finder().actions.setdefault(name, []).append(action)


def _finder() -> _Finder:
    for finder in sys.meta_path:
        if isinstance(finder, _Finder):
            return finder
    made = _Finder()
    sys.meta_path.insert(0, made)
    return made


class _Finder(MetaPathFinder):
    """Finds a module as Python would, and wraps its loader."""

    def __init__(self) -> None:
        self.actions: dict[str, list[Action]] = {}
        self._looking: set[str] = set()

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,  # noqa: ARG002 - the protocol's arguments
        target: ModuleType | None = None,  # noqa: ARG002
    ) -> ModuleSpec | None:
        if fullname not in self.actions or fullname in self._looking:
            return None
        self._looking.add(fullname)  # the search below comes through here again
        try:
            spec = importlib.util.find_spec(fullname)
        finally:
            self._looking.discard(fullname)
        if spec is None or spec.loader is None:
            return None
        spec.loader = _Loader(spec.loader, self.actions.pop(fullname))
        return spec


class _Loader(Loader):
    """Loads a module as its own loader would, then runs the actions."""

    def __init__(self, inner: Loader, actions: list[Action]) -> None:
        self._inner = inner
        self._actions = actions

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._inner.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self._inner.exec_module(module)
        # From here on the module is as if we had never been there (reload, resources, source).
        if module.__spec__ is not None:
            module.__spec__.loader = self._inner
        module.__loader__ = self._inner
        for action in self._actions:
            action(module)
