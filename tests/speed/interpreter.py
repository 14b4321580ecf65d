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


def _of_today() -> None:
    """Triton 3.6's interpreter under numpy 2.4: int() of an array of one element is gone."""
    from triton.runtime import interpreter

    patch = interpreter._patch_lang_tensor

    def patched(tensor: Any, scope: Any) -> None:
        patch(tensor, scope)
        scope.set_attr(tensor, "__index__", lambda self: np.asarray(self.handle.data).item())

    interpreter._patch_lang_tensor = patched


if HERE:
    torch.set_num_threads(1)
    _of_today()
