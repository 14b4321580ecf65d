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
    """AdamW, or Muon for the hidden matrices and AdamW for all else (``name=muon``).

    optim  ``config.OptimConfig`` as a dict, ``lr`` given;  fused  AdamW's kernel for CUDA

    Each group's ``lr`` is ``optim["lr"]`` times its multiplier (``adamw_lr``, ``table_lr``).
    """
    decay, table_lr = optim["weight_decay"], optim.get("table_lr", 1.0)
    is_muon = optim.get("name", "adamw") == "muon"
    if is_muon:
        groups = muon.groups(model, decay, optim.get("adamw_lr", 1.0), table_lr)
    else:
        groups = parameter_groups(model, decay, table_lr)
    for group in groups:
        group["lr"] = optim["lr"] * group.pop("lr_multiplier", 1.0)
    kind = muon.Muon if is_muon else torch.optim.AdamW
    return kind(groups, lr=optim["lr"], betas=tuple(optim["betas"]), fused=fused)
