"""Packages that can be called: ``musictx.render(...)`` as well as ``musictx.render.pianoroll``."""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import Any


class _CallablePackage(ModuleType):
    function_module: str

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        """Call the function with the name of the package."""
        module = importlib.import_module(self.function_module)
        return getattr(module, self.__name__.rpartition(".")[2])(*arguments, **options)


def make_callable(name: str, module: str) -> None:
    """Let the package ``name`` be called like the function of the same name in ``module``, which it
    hides: Python sets ``musictx.NAME`` to the package when it imports it."""
    package = sys.modules[name]
    package.__class__ = _CallablePackage
    package.function_module = module  # type: ignore[attr-defined]
