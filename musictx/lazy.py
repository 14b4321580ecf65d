"""Packages that can be called: ``musictx.train("seed=1")`` beside ``musictx.train.lit``."""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import Any


class _Callable(ModuleType):
    def __call__(self, *arguments: Any, **options: Any) -> Any:
        """What the function of the same name in ``musictx/api.py`` does."""
        api = importlib.import_module("musictx.api")
        return getattr(api, self.__name__.rpartition(".")[2])(*arguments, **options)


def callable_package(name: str) -> None:
    """Let the package ``name`` be called as the function of ``musictx/api.py`` that it is named
    after. Python puts a package where ``musictx`` would otherwise show that function."""
    sys.modules[name].__class__ = _Callable
