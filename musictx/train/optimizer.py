"""The options of ``config.OptimConfig`` -> an optimizer of a model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from musictx.train import muon
from musictx.train.schedule import parameter_groups


def build_optimizer(
    model: nn.Module, optim: Mapping[str, Any], *, fused: bool
) -> torch.optim.Optimizer:
    """AdamW, or Muon for the hidden matrices and AdamW for the rest (``name=muon``).

    optim  ``config.OptimConfig`` as a dict, ``lr`` given;  fused  AdamW's kernel for CUDA
    """
    options: dict[str, Any] = {"lr": optim["lr"], "betas": tuple(optim["betas"]), "fused": fused}
    tables = optim.get("tables", 1.0)
    if optim.get("name", "adamw") == "muon":
        rest = optim.get("rest", 1.0)
        return muon.Muon(muon.groups(model, optim["weight_decay"], rest, tables), **options)
    return torch.optim.AdamW(parameter_groups(model, optim["weight_decay"], tables), **options)
