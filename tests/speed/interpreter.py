"""Triton's interpreter on the CPU: TRITON_INTERPRET=1, set before Triton is imported."""

import os
from typing import Any

import numpy as np
import pytest
import torch

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"


def set_tiles(patch: pytest.MonkeyPatch, side: int) -> None:
    """Set tiles of ``side`` queries and keys. Fill outputs with NaN, so that gaps are noticed."""
    from musictx.speed.fused import problem

    nan = float("nan")
    patch.setattr(
        problem, "choose_tiles", lambda *_: problem.Tiles(*[problem.Tile(side, 4, 1)] * 3)
    )
    patch.setattr(problem, "empty", lambda shape, device: torch.full(shape, nan, device=device))
    patch.setattr(problem, "empty_like", lambda x: torch.full_like(problem.unit_stride(x), nan))


def _adapt() -> None:
    """Adapt Triton 3.6's interpreter to numpy 2.4, which lacks int() of an array of one element.
    Save two thirds of its time, in which it patches the language in each call and checks sums."""
    from triton.runtime import interpreter as triton

    patch_tensor, patch_language, patched = triton._patch_lang_tensor, triton._patch_lang, set()

    def tensor_patch(tensor: Any, scope: Any) -> None:
        patch_tensor(tensor, scope)
        scope.set_attr(tensor, "__index__", lambda self: np.asarray(self.handle.data).item())

    def language_patch(function: Any) -> Any:
        if function.__module__ not in patched:  # stays patched: nothing else uses it
            patched.add(function.__module__)
            patch_language(function)
        return triton._LangPatchScope()  # restores nothing

    triton._patch_lang_tensor, triton._patch_lang = tensor_patch, language_patch
    object.__setattr__(triton.interpreter_builder.options, "sanitize_overflow", False)


if INTERPRETED:
    torch.set_num_threads(1)
    _adapt()
