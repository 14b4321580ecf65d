"""One training run that is cut into sittings by the clock: the loop of scripts/gpu/maestro.py.

A sitting ends when its seconds are used up. Where it goes on depends on what is left of it:

full.pt               weights, optimizer, averages in float32, in the folder ``keep``: as long as
                      the machine is held, nothing is lost
weights.safetensors   the weights alone in bfloat16, in the folder that travels: from them a fresh
                      machine goes on. The optimizer's moments begin anew, with the learning rate
                      rising over REWARM steps, and so do the averages. Moments would cost 4 to 8
                      bytes a parameter where 64 MiB hold everything, and they forget what they knew
                      within 1 / (1 - beta) = 20 to 50 steps anyway.
"""

from __future__ import annotations

import dataclasses
import json
import math
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.nn import functional as F

from musictx.config import TrainConfig
from musictx.data.batches import TrainingBatches, ValidationBatches, load
from musictx.data.draw import TrainingRows
from musictx.data.shards import Shards
from musictx.data.windows import PADDING, UNSCORED, Batch, EvaluationWindows, Row, join
from musictx.errors import UserError
from musictx.model.transformer import MusicTransformer
from musictx.tokens.vocab import Tokenizer
from musictx.train import checkpoint
from musictx.train.ema import Ema
from musictx.train.network import build_model
from musictx.train.optimizer import build_optimizer
from musictx.train.schedule import learning_rate, multiplier, multiplier_by_time

#: Steps over which the learning rate rises again when the optimizer's moments are lost.
REWARM = 100
#: Steps between two looks at the loss (each waits for the device).
LOOK = 20
#: Validations in a whole run, at equal shares of it.
VALIDATIONS = 10
#: Seconds between two writings of the full state.
SAVE_EVERY = 180.0


class OneWindow(TrainingRows):
    """Training rows of one window each: what the end of a piece leaves over is padding.

    On MAESTRO that is a few places in a hundred, and it saves attention the question which piece a
    token is of: causality alone hides padding at the end from what is scored.
    """

    def row(self, batch: int, row: int, rank: int = 0) -> Row:
        random = np.random.default_rng([self.seed, rank, batch, row])
        return join([self._window(random, self.context, 0)], self.context)


def use_attention(model: MusicTransformer, name: str) -> None:
    """Make every layer compute attention by the implementation called ``name``."""
    for block in model.blocks:
        block.attention.implementation = name  # type: ignore[union-attr, assignment]


def autocast(device: torch.device) -> AbstractContextManager[Any]:
    """bfloat16 for the products on a GPU; on the CPU everything stays as it is."""
    if device.type == "cuda":
        return torch.autocast("cuda", torch.bfloat16)
    return nullcontext()


def score(
    model: Callable[..., Tensor], batch: Batch, device: torch.device
) -> tuple[Tensor, Tensor]:
    """(sum of nats, number of targets) of rows that hold one piece each."""
    ids = batch.ids.to(device, non_blocking=True)
    targets = batch.targets.to(device, non_blocking=True).flatten()
    with autocast(device):
        logits = model(ids)
    nats = F.cross_entropy(
        logits.flatten(0, 1).float(), targets, ignore_index=UNSCORED, reduction="sum"
    )
    return nats, (targets != UNSCORED).sum()


class Run:
    """A run of ``config`` on ``shards``: ``sit`` trains for a while, ``save_...`` keep the state.

    folder   what travels;  keep  what stays on the machine
    budget   seconds of training in all sittings together, to which the schedule is fitted
    steps    optimizer steps of the whole run instead (rows that are to be compared at equal steps)
    """

    def __init__(
        self,
        config: TrainConfig,
        shards: Shards,
        tokenizer: Tokenizer,
        folder: Path,
        keep: Path,
        *,
        device: torch.device,
        budget: float,
        steps: int | None = None,
        fresh: bool = False,
        say: Callable[[str], None] = print,
    ) -> None:
        shards.check(tokenizer)
        self.config, self.shards, self.folder, self.keep = config, shards, folder, keep
        self.device, self.budget, self.steps, self.say = device, budget, steps, say
        self.batch = config.trainer.batch * config.trainer.accumulate
        self.model = build_model(config, tokenizer).to(device)
        self.lr = config.optim.lr or learning_rate(config.model.width)
        optim = dataclasses.asdict(config.optim) | {"lr": self.lr}
        self.optimizer = build_optimizer(self.model, optim, fused=device.type == "cuda")
        self.step = self.tokens = 0
        self.seconds = 0.0
        self.log: list[dict[str, Any]] = []
        self.cold = -REWARM  # the step at which the moments were last lost
        self._ema_state: dict[str, Any] | None = None
        if not fresh:
            self._restore()
        self.ema = Ema(self.model, config.optim.ema) if config.optim.ema else None
        if self.ema is not None and self._ema_state is not None:
            self.ema.load_state_dict(self._ema_state)
        self.rows = OneWindow(
            shards, tokenizer, config.model.context, config.corpus.augment, config.seed
        )

    # ---------------------------------------------------------------------------------- the state

    def identity(self) -> dict[str, Any]:
        """The settings that must be equal for a run to go on."""
        settings = dataclasses.asdict(self.config)
        kept = {
            name: settings[name] for name in ("tokenizer", "model", "position", "optim", "seed")
        }
        kept["augment"] = settings["corpus"]["augment"]
        kept["batch"] = self.batch
        plain: dict[str, Any] = json.loads(json.dumps(kept))
        plain["model"].pop("attention")
        return plain

    def _counters(self) -> dict[str, Any]:
        return {
            "step": self.step,
            "tokens": self.tokens,
            "seconds": self.seconds,
            "log": self.log,
            "settings": self.identity(),
        }

    def _restore(self) -> None:
        """Go on from the full state or the carried weights, whichever is further."""
        carried: dict[str, Any] = {}
        if (self.folder / "state.json").is_file():
            carried = json.loads((self.folder / "state.json").read_text(encoding="utf-8"))
        full = self.keep / "full.pt"
        kept = checkpoint.read(full) if full.is_file() else {}
        state = kept if kept.get("step", -1) >= carried.get("step", -1) else carried
        if not state:
            return
        self._compare(state["settings"])
        if state is kept:
            self.model.load_state_dict(state["model"])
            self.optimizer.load_state_dict(state["optimizer"])
            self._ema_state = state["ema"]
        else:
            weights = load_file(self.folder / "weights.safetensors")
            tied = self.model.state_dict()
            self.model.load_state_dict({n: weights[n].to(tied[n].dtype) for n in tied})
            self.cold = state["step"]
        self.step, self.tokens = state["step"], state["tokens"]
        self.seconds, self.log = state["seconds"], state["log"]
        how = "with everything" if state is kept else "from carried weights, moments anew"
        self.say(f"resume at step {self.step:,} after {self.seconds:.0f} s, {how}")

    def _compare(self, settings: dict[str, Any]) -> None:
        mine, theirs = self.identity(), settings
        for group, value in mine.items():
            if value != theirs.get(group):
                raise UserError(
                    f"{self.folder}: its run has {group}={theirs.get(group)}, now {value}; "
                    "give another name=, or fresh=true to start again"
                )

    def save_full(self) -> None:
        """Everything, for the next sitting on this machine."""
        self.keep.mkdir(parents=True, exist_ok=True)
        state = self._counters() | {
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "ema": None if self.ema is None else self.ema.state_dict(),
        }
        checkpoint.write(self.keep / "full.pt", state)

    def save_weights(self) -> dict[str, Path]:
        """What travels of an unfinished run: {name: file}."""
        self.folder.mkdir(parents=True, exist_ok=True)
        files = {n: self.folder / n for n in ("weights.safetensors", "state.json")}
        state = {n: t.detach().bfloat16().cpu().clone() for n, t in self.model.state_dict().items()}
        save_file(state, files["weights.safetensors"])
        files["state.json"].write_text(json.dumps(self._counters()), encoding="utf-8")
        return files

    # ----------------------------------------------------------------------------------- learning

    def share(self, seconds: float) -> float:
        """How much of the run is done after so many seconds of training."""
        if self.steps is not None:
            return min(1.0, self.step / self.steps)
        return min(1.0, seconds / self.budget)

    def rate(self, share: float) -> float:
        """The learning rate of the next step."""
        o = self.config.optim
        kind, low = o.schedule, o.min_lr
        if self.steps is None:
            times = multiplier_by_time(self.step, share, warmup=o.warmup, kind=kind, min_share=low)
        else:
            rise = min(o.warmup, max(1, self.steps // 5))
            times = multiplier(self.step, total=self.steps, warmup=rise, kind=kind, min_share=low)
        return self.lr * times * min(1.0, (self.step - self.cold + 1) / REWARM)

    def sit(self, until: Callable[[], float], *, compiled: bool = False, workers: int = 0) -> bool:
        """Train while ``until()``, the seconds left, is above 0; True if the run is at its end."""
        began, before = time.monotonic(), self.seconds
        net: Any = torch.compile(self.model) if compiled else self.model
        self.model.train()
        torch.manual_seed(self.config.seed + self.step)
        sums = torch.zeros(2, dtype=torch.float64, device=self.device)
        saved = looked = began
        looked_at, next_validation = self.step, self._next_validation(before)
        for batch in self.batches(workers):
            now = time.monotonic()
            self.seconds = before + now - began
            share = self.share(self.seconds)
            if share >= 1.0 or until() <= 0:
                break
            sums += self.learn(net, batch, share)
            if self.step % LOOK == 0 or share >= next_validation:
                nats, targets = sums.tolist()  # waits for the device
                sums.zero_()
                if not math.isfinite(nats):
                    raise UserError(f"diverged at step {self.step}: lower optim.lr ({self.lr:g})")
                self.tokens += int(targets)
                now = time.monotonic()
                row = {
                    "step": self.step,
                    "tokens": self.tokens,
                    "seconds": round(before + now - began, 1),
                    "share": round(share, 4),
                    "train_nll": round(nats / max(targets, 1), 4),
                    "learning_rate": self.optimizer.param_groups[0]["lr"],
                    "tokens_per_second": round(
                        (self.step - looked_at) * self.batch * self.model.context / (now - looked)
                    ),
                }
                if share >= next_validation:
                    row["validation_nll"] = round(self.validate(), 4)
                    next_validation = self._next_validation(self.seconds)
                    self._tell(row)
                self.log.append(row)
                looked, looked_at = time.monotonic(), self.step
            if time.monotonic() - saved > SAVE_EVERY:
                self.save_full()
                saved = time.monotonic()
        self.tokens += int(sums[1])
        self.seconds = before + time.monotonic() - began
        return self.share(self.seconds) >= 1.0

    def batches(self, workers: int) -> Iterator[Batch]:
        """The training batches from this step on, without end."""
        return iter(load(TrainingBatches(self.rows, self.batch, start=self.step), workers))

    def _next_validation(self, seconds: float) -> float:
        return (math.floor(self.share(seconds) * VALIDATIONS + 1e-9) + 1) / VALIDATIONS

    def learn(self, net: Callable[..., Tensor], batch: Batch, share: float) -> Tensor:
        """One optimizer step; (nats, targets) of its batch, still on the device."""
        nats, targets = score(net, batch, self.device)
        (nats / targets.clamp(min=1)).backward()
        if self.config.optim.clip:
            nn.utils.clip_grad_norm_(self.model.parameters(), self.config.optim.clip)
        for group in self.optimizer.param_groups:
            group["lr"] = self.rate(share) * group.get("share", 1.0)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        if self.ema is not None:
            self.ema.update(self.model)
        self.step += 1
        return torch.stack([nats.detach().double(), targets.double()])

    def _tell(self, row: dict[str, Any]) -> None:
        self.say(
            f"step {row['step']:,}  {row['share']:.0%}  {row['tokens'] / 1e6:.1f} M tokens  "
            f"{row['tokens_per_second']:,} tokens/s  train {row['train_nll']:.4f}  "
            f"validation {row['validation_nll']:.4f}"
        )

    @torch.no_grad()
    def validate(self) -> float:
        """Nats per token of the averaged weights on some windows: to watch, not to report."""
        windows = EvaluationWindows(self.shards, "validation", self.model.context)
        count = min(self.config.trainer.validation_windows or len(windows), len(windows))
        chosen = [(2 * i + 1) * len(windows) // (2 * count) for i in range(count)]
        sums = torch.zeros(2, dtype=torch.float64, device=self.device)
        self.model.eval()
        with self.averaged():
            for batch in ValidationBatches(windows, chosen, self.batch):
                assert ((batch.piece_ids == 0) | (batch.piece_ids == PADDING)).all()
                sums += torch.stack([x.double() for x in score(self.model, batch, self.device)])
        self.model.train()
        nats, targets = sums.tolist()
        return float(nats / targets)

    def averaged(self) -> AbstractContextManager[Any]:
        """Within it the model has the averaged weights, if there are any."""
        return nullcontext() if self.ema is None else self.ema.swapped(self.model)
