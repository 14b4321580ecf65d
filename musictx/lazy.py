"""Packages that can be called: ``musictx.render(...)`` as well as ``musictx.render.pianoroll``."""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import Any


def make_callable(name: str, module: str) -> None:
    """Let the package ``name`` be called like the function of the same name in ``module``, which it
    hides: Python sets ``musictx.NAME`` to the package when it imports it."""
    function = name.rpartition(".")[2]

    class CallablePackage(ModuleType):
        def __call__(self, *arguments: Any, **options: Any) -> Any:
            return getattr(importlib.import_module(module), function)(*arguments, **options)

    sys.modules[name].__class__ = CallablePackage
