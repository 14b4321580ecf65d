"""Triton's interpreter, which runs the kernels on the CPU: a process with TRITON_INTERPRET=1.

It must be chosen before anybody imports Triton.
"""

import os
from typing import Any

import numpy as np
import pytest
import torch

HERE = os.environ.get("TRITON_INTERPRET") == "1"


def cut(patch: pytest.MonkeyPatch, side: int) -> None:
    """Tiles of ``side`` queries and keys; outputs begin as NaN: what is not written is seen."""
    from musictx.speed.fused import memory, problem
    from musictx.speed.fused.config import Config, Tile

    def empty(shape: Any, device: torch.device) -> torch.Tensor:
        return torch.full(shape, float("nan"), device=device)

    patch.setattr(problem, "choose", lambda *_: Config(*[Tile(side, 4, 1)] * 3))
    patch.setattr(memory, "empty", empty)
    patch.setattr(
        memory, "empty_like", lambda x: torch.full_like(memory.unit_stride(x), float("nan"))
    )


def _adapt() -> None:
    """Adapt Triton 3.6's interpreter to numpy 2.4, where int() of an array of one element is gone,
    and let it do once what it repeats in every call of a function or operation: patch the language
    (never undone here, because nothing else uses it), and look for overflows of integers."""
    from triton.runtime import interpreter

    patch_tensor, patch_language = interpreter._patch_lang_tensor, interpreter._patch_lang
    modules = set()

    def patched_tensor(tensor: Any, scope: Any) -> None:
        patch_tensor(tensor, scope)
        scope.set_attr(tensor, "__index__", lambda self: np.asarray(self.handle.data).item())

    def patched_language(function: Any) -> Any:
        if function.__module__ not in modules:
            modules.add(function.__module__)
            patch_language(function)
        return interpreter._LangPatchScope()  # which restores nothing

    interpreter._patch_lang_tensor = patched_tensor
    interpreter._patch_lang = patched_language
    options = interpreter.interpreter_builder.options
    object.__setattr__(options, "sanitize_overflow", False)


if HERE:
    torch.set_num_threads(1)
    _adapt()
