"""What scripts/gpu/train_throughput.py runs: the step of training, the textbook, the formula."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from common import VOCABULARY, build
from torch import Tensor, nn
from torch.nn import functional as F

from musictx.attention.skew import skewed
from musictx.attention.terms import Terms
from musictx.model import transformer
from musictx.model.transformer import MusicTransformer
from musictx.train.schedule import parameter_groups

#: The target of positions where nothing is scored, as in ``train/lit.py``.
IGNORE = -100
#: train: what ``musictx train`` does; plain: one piece a row and no dropout, as sdpa likes it best.
SETTINGS = {
    "train": {"dropout": 0.1, "pieces": True},
    "plain": {"dropout": 0.0, "pieces": False},
}
#: The library's own ``attend``, wherever ``textbook`` has been put in its place.
LIBRARY = transformer.attend


def textbook(
    q: Tensor, k: Tensor, v: Tensor, terms: Terms, *, query_pieces: Tensor | None = None,
    key_pieces: Tensor | None = None, dropout: float = 0.0, **_: Any,
) -> Tensor:  # fmt: skip
    """The skew of Huang et al. (2018), section 3.4.1, every operation in the dtype of q.

    ``attention/skew.py`` is the same in float32; this is what a careful reader of the paper would
    train in bfloat16, and so the stronger rival.
    """
    length = q.shape[2]
    with torch.autocast(q.device.type, enabled=False):
        (axis,) = terms.axes
        assert axis.table is not None
        table = axis.descending(axis.table.to(q.dtype), length)
        logits = (q @ k.transpose(-1, -2) + skewed(q @ table.transpose(-1, -2))) * terms.scale
        hidden = torch.ones(length, length, dtype=torch.bool, device=q.device).triu(1)[None, None]
        if query_pieces is not None and key_pieces is not None:
            hidden = hidden | (query_pieces[:, None, :, None] != key_pieces[:, None, None, :])
        weights = logits.masked_fill(hidden, float("-inf")).softmax(-1)
        return F.dropout(weights, dropout) @ v


def use(implementation: str) -> None:
    """Have every model compute attention by the textbook, or by the library again."""
    transformer.attend = textbook if implementation == "textbook" else LIBRARY  # type: ignore[assignment]


def model_for(case: dict[str, Any], device: torch.device, **changes: Any) -> MusicTransformer:
    """The model of a case; sdpa knows no learned distances and gets rotary positions."""
    name = case["attention"]
    position = {"name": "rotary" if name == "sdpa" else "huang"}
    attention = "auto" if name == "textbook" else name
    dropout = SETTINGS[case["setting"]]["dropout"]
    given = {"position": position, "attention": attention, "dropout": dropout} | changes
    return build(case["model"], **given).to(device)


def synthetic(rows: int, length: int, pieces: bool, device: torch.device) -> dict[str, Tensor]:
    """Random ids and targets; two pieces in each row, cut at another place, if ``pieces``."""
    generator = torch.Generator().manual_seed(rows)
    ids = torch.randint(4, VOCABULARY, (rows, length + 1), generator=generator)
    batch = {"ids": ids[:, :-1], "targets": ids[:, 1:]}
    if pieces:
        cuts = torch.randint(1, length, (rows, 1), generator=generator)
        batch["piece_ids"] = (torch.arange(length) >= cuts).long()
    return {name: x.contiguous().to(device) for name, x in batch.items()}


class Step:
    """One step of training as ``train/lit.py`` does it, without Lightning around it: forward in
    bfloat16 autocast, the mean of nats over targets, backward, clipping at 1, fused AdamW.

    ``batch`` is read by every call and never replaced: new data are copied into it (``feed``), so
    that the step can be recorded. Calling returns the loss on the device.
    """

    def __init__(
        self, model: MusicTransformer, batch: dict[str, Tensor], *, autocast: bool = True
    ) -> None:
        self.model, self.batch, self.autocast = model.train(), batch, autocast
        self.device = batch["ids"].device
        cuda = self.device.type == "cuda"
        self.optimizer = torch.optim.AdamW(
            parameter_groups(model, 0.01), lr=1e-4, betas=(0.9, 0.98), fused=cuda, capturable=cuda
        )
        self.forward: Callable[..., Tensor] = model

    def compile(self, backend: str) -> None:
        self.forward = torch.compile(self.model, backend=backend, dynamic=False)

    def feed(self, batch: dict[str, Tensor]) -> None:
        """Copy new data into the buffers, from pinned memory without waiting."""
        for name, x in self.batch.items():
            x.copy_(batch[name], non_blocking=True)

    def __call__(self) -> Tensor:
        self.optimizer.zero_grad(set_to_none=True)
        # Without the cache of cast weights: it would outlive the recording of a graph.
        with torch.autocast(
            self.device.type, torch.bfloat16, enabled=self.autocast, cache_enabled=False
        ):
            logits = self.forward(self.batch["ids"], piece_ids=self.batch.get("piece_ids"))
        targets = self.batch["targets"].flatten()
        nats = F.cross_entropy(
            logits.flatten(0, 1).float(), targets, ignore_index=IGNORE, reduction="sum"
        )
        loss = nats / (targets != IGNORE).sum().clamp(min=1)
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        return loss.detach()


class Recorded:
    """A step as a CUDA graph; the optimizer's state goes on from the steps that warmed it up."""

    def __init__(self, step: Step) -> None:
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                step()
        torch.cuda.current_stream().wait_stream(side)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.loss = step()

    def __call__(self) -> Tensor:
        self.graph.replay()
        return self.loss


def operations_per_token(model: MusicTransformer, length: int) -> dict[str, float]:
    """Floating-point operations a token of a training step needs, by what needs them.

        matrices   6 N: two for each weight of a matrix forward, four backward; N counts the
                   linear layers and the output matrix, not embeddings that are looked up, not norms
        content    6 n L d: q k and w v, 4 (L / 2) d forward for each of n layers, twice that
                   backward; causal, so half of the L x L pairs
        relative   3 n L d: q E forward, as much again for each of two gradients

    L tokens to a row, d channels. Softmax, norms, dropout, loss, optimizer and whatever is computed
    a second time in the backward pass are not counted: utilisation is of work that must be done.
    """
    shape = model.config
    matrices = sum(m.weight.numel() for m in model.modules() if isinstance(m, nn.Linear))
    if shape["tied"]:
        matrices += model.embedding.weight.numel()
    pairs = shape["layers"] * length * shape["width"]
    relative = any(axis.table is not None for axis in model.position.terms(0, reach=length).axes)
    return {"matrices": 6.0 * matrices, "content": 6.0 * pairs, "relative": 3.0 * pairs * relative}
