"""The LightningModule: loss, learning rate, averaging of weights, and the state of a run.

It owns no architecture (a model is given to it) and no files. What it adds to Lightning is that a
run can be stopped after any optimizer step and go on as if nothing had happened:

- Lightning's own loops always start from zero. How far the run is, is ``step`` here, and it alone
  decides the learning rate, the training batches (:class:`Epochs`) and the random draws.
- Before each batch torch's generators are seeded from (seed, rank, number of the batch), so dropout
  needs no saved generator states.
- ``state()`` holds everything else: weights, optimizer, averages, counters, the best result.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Protocol

import numpy as np
import pytorch_lightning as pl
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from musictx.errors import UserError
from musictx.train.ema import Ema
from musictx.train.optimizer import build_optimizer
from musictx.train.schedule import multiplier, multiplier_by_time

#: The target of positions where nothing is scored.
IGNORE = -100


class Batch(Protocol):
    """What a batch must have: (B, T) int64 tensors; see ``data/module.py``."""

    @property
    def ids(self) -> Tensor: ...

    @property
    def targets(self) -> Tensor: ...

    @property
    def piece_ids(self) -> Tensor: ...


class Training(pl.LightningModule):
    """Trains ``model`` to predict each next token.

    model       called as ``model(ids, piece_ids=...)`` -> logits (B, T, vocab)
    optim       the options of ``config.OptimConfig`` as a plain dict
    steps       optimizer steps of the whole run (ignored with ``minutes``)
    minutes     end by the clock instead, the time of earlier sittings included
    accumulate  batches added up for each step;  seed  of every random draw

    The loss of a step is the mean over all its real targets: the nats of every batch and rank are
    summed, and the gradient is divided by the number of targets of them all just before clipping.
    So a batch with much padding weighs less, exactly, however many are accumulated.

    Validation (``validation_nll``) is likewise the sum of nats over the number of targets, over all
    windows and ranks, with the averaged weights if there are any.
    """

    def __init__(
        self,
        model: nn.Module,
        *,
        optim: Mapping[str, Any],
        steps: int,
        minutes: float | None = None,
        accumulate: int = 1,
        seed: int = 0,
    ) -> None:
        super().__init__()
        self.model = model
        self.optim = dict(optim)
        self.steps = steps
        self.minutes = minutes
        self.accumulate = accumulate
        self.seed = seed
        self.ema: Ema | None = None

        self.step = 0  # optimizer steps done
        self.tokens = 0  # targets learnt from, all ranks
        self.best: dict[str, float] | None = None  # {"nll", "step"} of the best validation
        self.validation_nll: float | None = None  # the latest one
        self.validation_targets = 0
        self.learning_rate = 0.0
        self.gradient_norm: Tensor | None = None
        #: Nats and targets of the steps since the last row of the log; see ``drain``.
        self.window = {"nats": 0.0, "targets": 0}
        #: Told of each step's loss in nats/token as it is drained; for the progress line.
        self.on_loss: Callable[[float], None] | None = None

        self._seconds_before = 0.0
        self._began: float | None = None
        self._saved: Mapping[str, Any] | None = None
        self._undrained: list[Tensor] = []
        self._sums: Tensor | None = None
        self._validation_sums = [0.0, 0]

    # ------------------------------------------------------------------------------- the clock

    @property
    def seconds(self) -> float:
        """Time spent training so far, validation and samples included, over all sittings."""
        since = 0.0 if self._began is None else time.monotonic() - self._began
        return self._seconds_before + since

    @property
    def share(self) -> float:
        """How much of the run is done, 0..1."""
        if self.minutes is None:
            return min(1.0, self.step / self.steps)
        return min(1.0, self.seconds / (60.0 * self.minutes))

    @property
    def finished(self) -> bool:
        """Whether the steps, or the minutes, are used up."""
        return self.share >= 1.0

    # ------------------------------------------------------------------------------- the state

    def state(self) -> dict[str, Any]:
        """Everything needed to go on from here, as tensors and plain values.

        Called between two optimizer steps, on every rank.
        """
        self.drain()
        strategy = self.trainer.strategy
        return {
            "step": self.step,
            "tokens": self.tokens,
            "seconds": self.seconds,
            "best": self.best,
            "validation_nll": self.validation_nll,
            "validation_targets": self.validation_targets,
            "window": dict(self.window),
            "model": self.model.state_dict(),
            "optimizer": strategy.optimizer_state(self.trainer.optimizers[0]),
            "ema": None if self.ema is None else self.ema.state_dict(),
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take over a saved state; call before ``Trainer.fit``. Weights must fit exactly."""
        self.model.load_state_dict(state["model"], strict=True)
        self.step = state["step"]
        self.tokens = state["tokens"]
        self._seconds_before = state["seconds"]
        self.best = state["best"]
        self.validation_nll = state["validation_nll"]
        self.validation_targets = state["validation_targets"]
        self.window = dict(state["window"])
        self._saved = state  # optimizer and averages are made when the device is known

    def on_fit_start(self) -> None:
        if self.optim["ema"] > 0:
            self.ema = Ema(self.model, self.optim["ema"])
        if self._saved is not None:
            optimizer = self.trainer.optimizers[0]
            # This machine's flags (such as fused), that run's moments.
            groups = optimizer.state_dict()["param_groups"]
            saved = {"state": self._saved["optimizer"]["state"], "param_groups": groups}
            self.trainer.strategy.load_optimizer_state_dict({"optimizer_states": [saved]})
            if self.ema is not None and self._saved["ema"] is not None:
                self.ema.load_state_dict(self._saved["ema"])
            self._saved = None
        self._began = time.monotonic()

    def on_fit_end(self) -> None:
        self._seconds_before, self._began = self.seconds, None

    # -------------------------------------------------------------------------------- learning

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return build_optimizer(self.model, self.optim, fused=self.device.type == "cuda")

    def on_train_batch_start(self, batch: Batch, batch_idx: int) -> None:
        number = self.step * self.accumulate + batch_idx % self.accumulate
        torch.manual_seed(batch_seed(self.seed, self.trainer.global_rank, number))

    def training_step(self, batch: Batch, batch_idx: int) -> Tensor:
        nats, targets = self._score(batch)
        sums = torch.stack([nats.detach(), targets.to(nats.dtype)])
        self._sums = sums if self._sums is None else self._sums + sums
        return nats

    def on_before_optimizer_step(self, optimizer: torch.optim.Optimizer) -> None:
        assert self._sums is not None
        strategy, share = self.trainer.strategy, self.share
        sums, self._sums = self._sums, None
        if self.trainer.world_size > 1:
            mine = share if self.trainer.is_global_zero else 0.0  # the first rank's clock counts
            sums = strategy.reduce(torch.cat([sums, sums.new_tensor([mine])]), reduce_op="sum")
            share = float(sums[2])
        # Lightning has divided by ``accumulate`` and averaged over ranks; we want the sum over both
        # divided by all targets.
        scale = self.accumulate * self.trainer.world_size / sums[1].clamp(min=1)
        gradients = [p.grad for p in self.model.parameters() if p.grad is not None]
        torch._foreach_mul_(gradients, scale)
        self._undrained.append(sums[:2])
        self.learning_rate = self.optim["lr"] * self._multiplier(share)
        for group in optimizer.param_groups:
            group["lr"] = self.learning_rate * group.get("share", 1.0)

    def _multiplier(self, share: float) -> float:
        kind, low = self.optim["schedule"], self.optim["min_lr"]
        warmup = self.optim["warmup"]
        if self.minutes is not None:
            return multiplier_by_time(self.step, share, warmup=warmup, kind=kind, min_share=low)
        return multiplier(self.step, total=self.steps, warmup=warmup, kind=kind, min_share=low)

    def configure_gradient_clipping(
        self,
        optimizer: torch.optim.Optimizer,
        gradient_clip_val: float | None = None,
        gradient_clip_algorithm: str | None = None,
    ) -> None:
        largest = self.optim["clip"] or math.inf
        self.gradient_norm = nn.utils.clip_grad_norm_(self.model.parameters(), largest)
        if self.device.type == "cpu" and not bool(self.gradient_norm.isfinite()):
            raise self._diverged()  # before the weights are touched; on a GPU ``drain`` finds it

    def optimizer_step(self, *args: Any, **kwargs: Any) -> None:
        super().optimizer_step(*args, **kwargs)
        self.step += 1
        if self.ema is not None:
            self.ema.update(self.model)

    def drain(self) -> None:
        """Bring the losses of the latest steps from the device into ``window`` and ``tokens``.

        Apart from the steps themselves because reading a number waits for the device. Raises
        ``UserError`` if a loss is not a number.
        """
        for sums in self._undrained:
            nats, targets = sums.tolist()
            if not math.isfinite(nats):
                raise self._diverged()
            self.window["nats"] += nats
            self.window["targets"] += int(targets)
            self.tokens += int(targets)
            if self.on_loss is not None and targets:
                self.on_loss(nats / targets)
        self._undrained.clear()

    def _diverged(self) -> UserError:
        return UserError(
            f"training diverged at step {self.step}: the loss or its gradient is no longer a "
            f"finite number; lower optim.lr (it was {self.optim['lr']:g}) or raise optim.warmup "
            f"(it was {self.optim['warmup']}) and start again with fresh=true"
        )

    # ------------------------------------------------------------------------------ validation

    def on_validation_epoch_start(self) -> None:
        self._validation_sums = [0.0, 0]
        if self.ema is not None:
            self.ema.swap(self.model)

    def validation_step(self, batch: Batch, batch_idx: int) -> None:
        nats, targets = self._score(batch)
        self._validation_sums[0] += float(nats)
        self._validation_sums[1] += int(targets)

    def on_validation_epoch_end(self) -> None:
        if self.ema is not None:
            self.ema.swap(self.model)
        exact = torch.float32 if self.device.type == "mps" else torch.float64
        sums = torch.tensor(self._validation_sums, dtype=exact, device=self.device)
        nats, targets = self.trainer.strategy.reduce(sums, reduce_op="sum").tolist()
        self.validation_targets = int(targets)
        self.validation_nll = nats / targets if targets else None
        if self.validation_nll is not None and not math.isfinite(self.validation_nll):
            raise self._diverged()

    def _score(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """(sum of nats, number of targets) of a batch; positions with target -100 do not count."""
        logits = self.model(batch.ids, piece_ids=batch.piece_ids)
        nats = F.cross_entropy(
            logits.flatten(0, 1).float(),
            batch.targets.flatten(),
            ignore_index=IGNORE,
            reduction="sum",
        )
        return nats, (batch.targets != IGNORE).sum()


def batch_seed(seed: int, rank: int, number: int) -> int:
    """A 64-bit seed for batch ``number`` of ``rank``, unrelated to its neighbours' seeds."""
    return int(np.random.SeedSequence((seed, rank, number)).generate_state(1, np.uint64)[0])


class Take:
    """The first ``count`` batches of an iterable, sized; every ``iter`` begins anew."""

    def __init__(self, batches: Iterable[Batch], count: int) -> None:
        self.batches = batches
        self.count = count

    def __len__(self) -> int:
        return self.count

    def __iter__(self) -> Iterator[Batch]:
        yield from itertools.islice(self.batches, self.count)  # lazily: Lightning asks twice


class Epochs(pl.LightningDataModule):
    """Cuts endless training into Lightning epochs that end where validation is due.

    data      a ``MusicDataModule``: ``start_batch``, ``train_dataloader()``, ``val_dataloader()``
    training  whose ``step`` says where to go on: epochs end at multiples of ``every`` steps and at
              the last step, so after a resume the first one is shorter
    """

    def __init__(self, data: Any, training: Training, *, every: int) -> None:
        super().__init__()
        self.data = data
        self.training = training
        self.every = every

    def setup(self, stage: str) -> None:
        self.data.trainer = self.trainer
        self.data.setup(stage)

    def train_dataloader(self) -> Take:
        """The batches from ``training.step`` to the next validation. Needs ``Trainer`` to ask anew
        for every epoch (``reload_dataloaders_every_n_epochs=1``)."""
        step, accumulate = self.training.step, self.training.accumulate
        count = self.every - step % self.every
        if self.training.minutes is None:
            count = min(count, self.training.steps - step)
        self.data.start_batch = step * accumulate
        return Take(self.data.train_dataloader(), count * accumulate)

    def val_dataloader(self) -> Any:
        return self.data.val_dataloader()
