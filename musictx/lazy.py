"""Packages that can be called: ``musictx.render(...)`` beside ``musictx.render.pianoroll``."""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import Any


class _Callable(ModuleType):
    function_stands_in: str

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        """What the function that the package is named after does."""
        module = importlib.import_module(self.function_stands_in)
        return getattr(module, self.__name__.rpartition(".")[2])(*arguments, **options)


def callable_package(name: str, where: str) -> None:
    """Let the package ``name`` be called as the function that it is named after, which stands in
    the module ``where``. Python puts a package where ``musictx`` would otherwise show that
    function."""
    package = sys.modules[name]
    package.__class__ = _Callable
    package.function_stands_in = where  # type: ignore[attr-defined]
