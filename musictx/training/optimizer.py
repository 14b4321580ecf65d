"""Make the optimizer, its parameter groups and learning rates from ``config.OptimConfig``."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from musictx.config import TrainConfig
from musictx.config.checks import create, import_class
from musictx.errors import ConfigError
from musictx.training.muon import Muon
from musictx.training.ranks import print_once

#: The default learning rate of fine-tuning, as a share of the default for training from scratch.
FINE_TUNING_SHARE = 0.2
#: The longest warm-up as a share of all steps, so that enough steps have the full learning rate.
WARMUP_SHARE = 0.2
#: The longest warm-up of a run with a time limit, as a share of the time.
TIMED_WARMUP_SHARE = 0.1


def optimizer_options(config: TrainConfig, width: int) -> dict[str, Any]:
    """``config.optim`` as a dict. ``lr=None`` is replaced by the default learning rate, and the
    warm-up is shortened to :data:`WARMUP_SHARE` of the steps if it is longer. Raises
    ``ConfigError`` for AdamW with a precision of 16-true."""
    optim, steps = dataclasses.asdict(config.optim), config.trainer.max_steps
    if config.trainer.precision == "16-true" and ":" not in optim["name"]:
        raise ConfigError(
            "trainer.precision=16-true: AdamW cannot train float16 weights, since its epsilon is 0 "
            "in float16; use 16-mixed"
        )
    if optim["lr"] is None:
        share = 1.0 if config.init is None else FINE_TUNING_SHARE
        optim["lr"] = share * default_learning_rate(width)
    warmup, limit = optim["warmup"], max(1, int(WARMUP_SHARE * steps))
    if config.trainer.seconds is None and steps > 0 and warmup > limit:
        print_once(
            f"note    optim.warmup={warmup} is long for {steps} steps; it ends after {limit}"
        )
        optim["warmup"] = limit
    return optim


def default_learning_rate(width: int) -> float:
    """The default peak learning rate: 1e-3 at width 512, proportional to 1 / sqrt(width).

    Narrow networks need a higher rate. At width 128, 300 steps of 1024 tokens with the rates 1e-3,
    2e-3, 4e-3 end at validation losses of 1.99, 1.54, 1.42 nats on the chorales, and of 3.87, 3.84,
    3.94 on twenty pieces of POP909.
    """
    return 1e-3 * math.sqrt(512 / width)


def lr_factor(
    step: int, *, total: int, warmup: int, kind: str, time_used: float | None = None
) -> float:
    """The learning rate at ``step`` (0 = the first) of ``total`` steps, as a share of the peak
    rate. It is a pure function, so that a resumed run has the same rates.

    The warm-up rises linearly from 1 / warmup at step 0 to 1 at step ``warmup - 1``. Then

    cosine    half a cosine from 1 to 0; 0 is reached at step ``total``, after the last step.
              Constant if ``total`` is below 1 (a run without end)
    rsqrt     sqrt(warmup / (step + 1)): the inverse square root of Vaswani et al. 2017
    constant  1

    In a run with a time limit, ``time_used`` is the share of the time that has passed. Then the
    warm-up ends after :data:`TIMED_WARMUP_SHARE` of the time at the latest, for slow machines, and
    ``cosine`` is a cosine over the whole time, multiplied by the warm-up.
    """
    number, warmup = step + 1, max(warmup, 1)
    rise = min(1.0, max(number / warmup, (time_used or 0.0) / TIMED_WARMUP_SHARE))
    if kind == "rsqrt":
        return min(rise, math.sqrt(warmup / number))
    if kind == "constant" or (time_used is None and total < 1):
        return rise
    share = (number - warmup) / max(total + 1 - warmup, 1) if time_used is None else time_used
    return rise * 0.5 * (1.0 + math.cos(math.pi * min(max(share, 0.0), 1.0)))


def build_optimizer(
    model: nn.Module, optim: Mapping[str, Any], *, fused: bool
) -> torch.optim.Optimizer:
    """Make AdamW; with ``name=muon``, Muon for the hidden matrices and AdamW for the rest; with
    ``name=module:Class``, the user's class with the arguments ``optim["params"]``.

    optim  the result of :func:`optimizer_options`, or other options with a number as ``lr``
    fused  whether AdamW uses its fused CUDA kernel

    Raises ``ConfigError`` for a class that cannot be imported or instantiated.
    """
    name, lr, groups = optim["name"], optim["lr"], parameter_groups(model, optim)
    if ":" not in name:
        optimizer_class = Muon if name == "muon" else torch.optim.AdamW
        return optimizer_class(groups, lr=lr, betas=tuple(optim["betas"]), fused=fused)
    plain = [{k: v for k, v in group.items() if k != "split"} for group in groups]
    user_class = import_class("optim.name", name)
    optimizer = create("optim.name", name, user_class, plain, lr=lr, **optim["params"])
    if not isinstance(optimizer, torch.optim.Optimizer):
        raise ConfigError(f"optim.name={name}: expected a torch.optim.Optimizer")
    return optimizer


def parameter_groups(model: nn.Module, optim: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Divide the parameters into groups of equal weight decay, optimizer and learning rate. Each
    trainable parameter is in exactly one group, in the order of ``named_parameters``.

    Weight decay applies only to the matrices of ``nn.Linear`` layers. Biases, norms, embeddings and
    the tables of relative positions are scales and look-up tables, not linear maps: decay would
    make the model forget rare tokens and large distances, whose rows seldom get a gradient. A
    matrix that is also an embedding (tied output) counts as an embedding.

    With ``name=muon``, Muon trains these matrices, except that of an untied output
    (``model.output``). A matrix named ``qkv`` consists of three maps, which are orthogonalised
    separately (``split``). AdamW trains all other parameters, with the rate multiplied by
    ``adamw_lr``.

    If ``table_lr`` is not 1, the tables of the position scheme and of the sparse features get a
    separate group, and ``table_lr`` multiplies its rate. A batch of few windows has gradients for
    few rows of these tables, so they learn more slowly than matrices.
    """
    embedding_ids = {id(m.weight) for m in model.modules() if isinstance(m, nn.Embedding)}
    matrix_ids = {id(m.weight) for m in model.modules() if isinstance(m, nn.Linear)} - embedding_ids
    output = getattr(model, "output", None)
    output_ids = set() if output is None else {id(p) for p in output.parameters()}
    table_ids = _table_ids(model) if optim["table_lr"] != 1.0 else set()
    groups: dict[tuple[bool, bool, int], dict[str, Any]] = {}
    for name, p in model.named_parameters():
        if not p.requires_grad:
            continue
        is_matrix, is_table = id(p) in matrix_ids, id(p) in table_ids
        split = 0  # AdamW trains it
        if optim["name"] == "muon" and is_matrix and id(p) not in output_ids:
            split = 3 if name.endswith("qkv.weight") else 1
        rate = optim["adamw_lr"] if optim["name"] == "muon" else 1.0
        rate *= optim["table_lr"] if is_table else 1.0
        group = {
            "params": [],
            "weight_decay": optim["weight_decay"] if is_matrix else 0.0,
            "split": split,
            "lr": optim["lr"] * (1.0 if split else rate),
        }
        # Saved states rely on this order of groups: matrices first, and Muon before AdamW (4).
        key = (not is_matrix, is_table, split or 4)
        groups.setdefault(key, group)["params"].append(p)
    return [groups[key] for key in sorted(groups)]


def _table_ids(model: nn.Module) -> set[int]:
    """The ``id()`` of each parameter of the position scheme and the sparse features of ``model``,
    except those of linear layers and embeddings."""
    owners = [getattr(model, "position", None)]
    owners += [feature for feature in getattr(model, "features", []) if feature.sparse]
    modules = [m for owner in owners if isinstance(owner, nn.Module) for m in owner.modules()]
    tables = [m for m in modules if not isinstance(m, nn.Linear | nn.Embedding)]
    return {id(p) for table in tables for p in table.parameters(recurse=False)}
