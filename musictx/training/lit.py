"""The LightningModule around the network: loss, optimizer, learning rate, log.

The network does not depend on Lightning, and this module does not depend on files. It adds to
Lightning:

- The loss of a step is exactly the mean over all its targets, with any number of accumulated
  batches and devices: batches with much padding have less weight.
- Before each batch torch's generators are seeded from (seed, rank, number of the batch). So a
  resumed run draws the same dropout, although checkpoints contain no generator states.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytorch_lightning as pl
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from musictx.attention.terms import most_precise_dtype
from musictx.data.windows import UNSCORED, Batch
from musictx.errors import UserError
from musictx.model.transformer import MusicTransformer
from musictx.training.optimizer import build_optimizer, default_learning_rate, lr_factor
from musictx.training.progress import time_used

#: The factor of the summed loss of a batch, so that float16 gradients do not overflow. A power of
#: two causes no rounding.
LOSS_SCALE = 2.0**-10


class LitMusicTransformer(pl.LightningModule):
    """Trains a Music Transformer to predict each next token.

    network    arguments of ``MusicTransformer`` (``config.plain()``)
    optim      the options of ``config.OptimConfig``; ``lr=None``: the default of new models
    tokenizer  the configuration of the tokenizer, for the checkpoint
    seed       the seed of dropout
    model      an existing network; None: a new one with the arguments ``network``

    All arguments but ``model`` are hyperparameters in the checkpoint, so
    ``LitMusicTransformer.load_from_checkpoint(path)`` needs no other arguments. ``model(ids)`` and
    ``self(ids)`` return logits.

    Logs ``train/loss`` and ``val/loss`` (nats per token), ``train/grad_norm`` (before clipping),
    ``train/tokens`` (number of targets in all steps so far) and ``lr``.
    """

    def __init__(
        self,
        network: Mapping[str, Any],
        optim: Mapping[str, Any],
        tokenizer: Mapping[str, Any] | None = None,
        seed: int = 0,
        *,
        model: nn.Module | None = None,
    ) -> None:
        super().__init__()
        self.save_hyperparameters(ignore=["model"])
        self.model = MusicTransformer(**network) if model is None else model
        self.optim = dict(optim)
        if self.optim["lr"] is None:
            self.optim["lr"] = default_learning_rate(network["width"])
        self.seed = seed
        self._tokens: Tensor | float = 0.0  # number of targets so far; a tensor on the device
        # (sum of losses, number of targets) on this device, since the last step and in validation
        self._step_sums: Tensor | None = None
        self._val_sums = torch.zeros(2)
        #: The share of trainer.max_time that has passed, equal on all devices; None: no max_time.
        self._time_used: float | None = None

    @property
    def tokens(self) -> int:
        """The number of targets in all steps so far, on all devices together."""
        return int(self._tokens)

    def forward(self, ids: Tensor, **kwargs: Any) -> Tensor:
        logits: Tensor = self.model(ids, **kwargs)
        return logits

    @property
    def _has_scaler(self) -> bool:
        return str(self.trainer.precision).startswith("16-mixed")

    def setup(self, stage: str) -> None:
        """Convert the weights to the precision of the run. Lightning does so only after it has
        loaded a checkpoint, which would round float64 weights to float32."""
        self.trainer.strategy.precision_plugin.convert_module(self)

    def configure_optimizers(self) -> Any:
        # The fused AdamW unscales gradients itself, which is after clipping and leaves out Muon.
        fused = self.device.type == "cuda" and not self._has_scaler
        optimizer = build_optimizer(self.model, self.optim, fused=fused)
        scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, self._lr_factor)
        return [optimizer], [{"scheduler": scheduler, "interval": "step"}]

    def _lr_factor(self, step: int) -> float:
        """Return the learning rate of step ``step``, from 0, as a share of the peak rate."""
        return lr_factor(
            step,
            total=self.trainer.max_steps,
            warmup=self.optim["warmup"],
            kind=self.optim["schedule"],
            time_used=self._time_used,
        )

    def on_train_start(self) -> None:
        """Recompute the learning rate, since the length of a resumed run may have changed."""
        self._step_sums = None
        self._update_time_used()
        scheduler: Any = self.lr_schedulers()
        for group, base in zip(scheduler.optimizer.param_groups, scheduler.base_lrs):
            group["lr"] = base * self._lr_factor(scheduler.last_epoch)

    def _update_time_used(self) -> None:
        """Take the time of the first process, so that all have the same learning rate."""
        used = time_used(self.trainer)
        self._time_used = None if used is None else self.trainer.strategy.broadcast(used)

    def on_train_batch_start(self, batch: Batch, batch_idx: int) -> None:
        trainer = self.trainer
        # Sometimes Lightning restores a number that is too small by 1, which shifts logged steps.
        trainer.fit_loop.epoch_loop._batches_that_stepped = trainer.global_step
        accumulate = trainer.accumulate_grad_batches
        number = trainer.global_step * accumulate + batch_idx % accumulate
        # SeedSequence makes unrelated seeds of nearby numbers.
        sequence = np.random.SeedSequence((self.seed, trainer.global_rank, number))
        torch.manual_seed(int(sequence.generate_state(1, np.uint64)[0]))

    def training_step(self, batch: Batch, batch_idx: int) -> Tensor:
        loss, targets = self._loss_sum(batch)
        sums = torch.stack([loss.detach(), targets.to(loss.dtype)])
        self._step_sums = sums if self._step_sums is None else self._step_sums + sums
        return loss * LOSS_SCALE

    def on_before_optimizer_step(self, optimizer: torch.optim.Optimizer) -> None:
        assert self._step_sums is not None
        trainer = self.trainer
        sums, self._step_sums = self._step_sums, None
        if trainer.world_size > 1:
            sums = trainer.strategy.reduce(sums, reduce_op="sum")
        self._update_time_used()
        # Lightning has divided the gradient by the numbers of batches and devices. Multiply by
        # these numbers, and divide by the number of targets.
        factor = trainer.accumulate_grad_batches * trainer.world_size / LOSS_SCALE
        gradients = [p.grad for p in self.model.parameters() if p.grad is not None]
        torch._foreach_mul_(gradients, factor / sums[1].clamp(min=1))
        self._tokens = sums[1].to(most_precise_dtype(self.device)) + self._tokens
        self.log("train/loss", sums[0] / sums[1].clamp(min=1), prog_bar=True)
        self.log("train/tokens", self._tokens)
        self.log("lr", optimizer.param_groups[0]["lr"], prog_bar=True)

    def configure_gradient_clipping(
        self,
        optimizer: torch.optim.Optimizer,
        gradient_clip_val: float | None = None,
        gradient_clip_algorithm: str | None = None,
    ) -> None:
        by_value = gradient_clip_algorithm == "value"
        bound = gradient_clip_val or math.inf  # with infinity the norm is only measured
        norm = nn.utils.clip_grad_norm_(self.model.parameters(), math.inf if by_value else bound)
        # Reading the norm waits for the GPU, so there it is checked only in logged steps.
        trainer: Any = self.trainer
        step, every = trainer.global_step + 1, trainer.log_every_n_steps
        is_checked = self.device.type == "cpu" or (every and step % every == 0)
        # A scaler skips steps that are not finite.
        if is_checked and not self._has_scaler and not norm.isfinite():
            raise self._divergence_error()  # before the weights change
        if by_value and bound < math.inf:  # Lightning's own clipping refuses fused AdamW
            nn.utils.clip_grad_value_(self.model.parameters(), bound)
        self.log("train/grad_norm", norm)

    def on_train_batch_end(self, outputs: Any, batch: Batch, batch_idx: int) -> None:
        trainer: Any = self.trainer
        if trainer.fit_loop.done and not trainer.fast_dev_run:
            trainer.should_stop = True  # Lightning validates once more, then stops

    def _divergence_error(self) -> UserError:
        return UserError(
            f"training diverged at step {self.trainer.global_step}: the loss or its gradient is no "
            f"longer a finite number; lower optim.lr (it was {self.optim['lr']:g}) or raise "
            f"optim.warmup (it was {self.optim['warmup']}) and give another out="
        )

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        checkpoint["tokens"] = self.tokens

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        # int() raises here for infinity in a damaged file, not only when it is saved again.
        self._tokens = float(int(checkpoint.get("tokens", 0)))

    def on_validation_epoch_start(self) -> None:
        self._val_sums = torch.zeros(2, dtype=most_precise_dtype(self.device), device=self.device)

    def validation_step(self, batch: Batch, batch_idx: int) -> None:
        loss, targets = self._loss_sum(batch)
        self._val_sums[0] += loss
        self._val_sums[1] += targets

    def on_validation_epoch_end(self) -> None:
        """Log the mean loss over all targets, on all devices."""
        loss, targets = self.trainer.strategy.reduce(self._val_sums, reduce_op="sum")
        if not targets:
            return
        if not loss.isfinite() and self.trainer.training:
            raise self._divergence_error()
        self.log("val/loss", loss / targets, prog_bar=True)

    def _loss_sum(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Return the sum of the losses, in nats, and the number of targets that are scored."""
        logits = self.model(batch.ids, piece_ids=batch.piece_ids).flatten(0, 1).float()
        targets = batch.targets.flatten()
        loss = F.cross_entropy(logits, targets, ignore_index=UNSCORED, reduction="sum")
        return loss, (targets != UNSCORED).sum()
