"""Replacements that are made around the moment when a module is first imported."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from contextlib import AbstractContextManager
from importlib.abc import MetaPathFinder
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType

Patch: TypeAlias = "Callable[[ModuleType], AbstractContextManager[None]]"
"""Entered before the code of a module runs and left after it."""


class PatchingFinder(MetaPathFinder):
    """Finds modules as Python does, and runs the code of some of them inside a patch."""

    def __init__(self, patches: Mapping[str, Patch]) -> None:
        """Take patches by the full name of their module."""
        self._patches = dict(patches)
        self._searching: set[str] = set()

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Find a module that has a patch; all others are left to the next finder."""
        del path, target
        patch = self._patches.get(fullname)
        if patch is None or fullname in self._searching:
            return None
        self._searching.add(fullname)
        try:
            spec = importlib.util.find_spec(fullname)
        finally:
            self._searching.discard(fullname)
        if spec is not None and spec.loader is not None:
            run_code = spec.loader.exec_module

            def exec_module(module: ModuleType) -> None:
                with patch(module):
                    run_code(module)

            # On this one loader, which serves this one import; its type stays what tools expect.
            vars(spec.loader)["exec_module"] = exec_module
        return spec
