"""A running mean of the weights (Polyak averaging), kept beside the ones that train."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor, nn


class Ema:
    """Exponential moving average of every parameter of a model.

    After update number n (0, 1, ...) the mean is ``d * mean + (1 - d) * weight`` with
    ``d = min(decay, (1 + n) / (10 + n))``: short at first, so that the random weights of the
    beginning are soon forgotten, then ``decay``. Buffers are not averaged.
    """

    def __init__(self, model: nn.Module, decay: float) -> None:
        if not 0.0 < decay < 1.0:
            raise ValueError(f"decay {decay}: expected a number between 0 and 1")
        self.decay = decay
        self.updates = 0
        self.mean = {name: p.detach().clone() for name, p in model.named_parameters()}

    @torch.no_grad()
    def update(self, model: nn.Module) -> None:
        """Take in the weights as they are now: once after each optimizer step."""
        decay = min(self.decay, (1 + self.updates) / (10 + self.updates))
        for name, p in model.named_parameters():
            self.mean[name].lerp_(p.detach(), 1.0 - decay)
        self.updates += 1

    @torch.no_grad()
    def swap(self, model: nn.Module) -> None:
        """Exchange the model's weights and the means; a second call puts them back, bit for bit."""
        for name, p in model.named_parameters():
            weight = p.detach().clone()
            p.copy_(self.mean[name])
            self.mean[name].copy_(weight)

    @contextmanager
    def swapped(self, model: nn.Module) -> Iterator[None]:
        """Within it the model has the mean weights; whatever happens, they are put back after."""
        self.swap(model)
        try:
            yield
        finally:
            self.swap(model)

    def state_dict(self) -> dict[str, Tensor | int | dict[str, Tensor]]:
        """Everything but ``decay``, for the checkpoint."""
        return {"updates": self.updates, "mean": self.mean}

    def load_state_dict(self, state: Mapping) -> None:
        """Take over a saved state. Raises ``ValueError`` if it is of another model."""
        if state["mean"].keys() != self.mean.keys():
            raise ValueError("these means belong to a model with other parameters")
        self.updates = int(state["updates"])
        for name, mean in self.mean.items():
            mean.copy_(state["mean"][name])
