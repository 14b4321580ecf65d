"""One row of the chorale table, trained as musictx train does it, but without Lightning and Hydra.

Every draw follows from (seed, step), so a run that is cut into sittings sees the batches and the
dropout that a whole one would. Its state lies in two places:

keep/NAME/full.pt     everything, exactly: there as long as the machine is
runs/NAME/state.pt    the same with tensors in bfloat16, small enough to travel to the next machine

Of a finished run there are line.json (its line of the table), metrics.csv and keep/NAME/model.
"""

from __future__ import annotations

import dataclasses
import json
import math
import os
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import torch
from maestro_run import autocast
from torch import Tensor, nn
from torch.nn import functional as F

from musictx.config import TrainConfig
from musictx.data.batches import TrainingBatches
from musictx.data.draw import TrainingRows
from musictx.data.shards import Shards
from musictx.data.windows import UNSCORED, EvaluationWindows, collate
from musictx.errors import UserError
from musictx.evaluate.protocol import write_table
from musictx.model.transformer import MusicTransformer
from musictx.tokens.vocab import Tokenizer
from musictx.train import checkpoint
from musictx.train.ema import Ema
from musictx.train.network import build_model
from musictx.train.optimizer import build_optimizer
from musictx.train.schedule import learning_rate, multiplier

#: Seconds between two writings of the full state.
SAVE_EVERY = 120.0
#: Pieces that are validated at a time.
TOGETHER = 16


def use_attention(model: MusicTransformer, names: Sequence[str]) -> None:
    """Make layer i compute attention by ``names[i]``; a single name is for all."""
    names = list(names) * (len(model.blocks) if len(names) == 1 else 1)
    if len(names) != len(model.blocks):
        raise UserError(
            f"attention={','.join(names)}: expected one name, or one for each of "
            f"{len(model.blocks)} layers"
        )
    for block, name in zip(model.blocks, names):
        block.attention.implementation = name  # type: ignore[union-attr, assignment]


def step_seed(seed: int, step: int) -> int:
    """The seed of a step's dropout, unrelated to its neighbours'."""
    return int(np.random.SeedSequence((seed, 0, step)).generate_state(1, np.uint64)[0])


def identity(config: TrainConfig) -> dict[str, Any]:
    """The settings that must be equal for a run to go on, or to count as done."""
    settings = dataclasses.asdict(config)
    kept = {name: settings[name] for name in ("tokenizer", "model", "position", "optim", "seed")}
    kept["model"].pop("attention")
    kept["augment"] = settings["corpus"]["augment"]
    trainer = settings["trainer"]
    kept["rows"], kept["steps"] = trainer["batch"] * trainer["accumulate"], trainer["steps"]
    plain: dict[str, Any] = json.loads(json.dumps(kept))
    return plain


def compare(folder: Path, mine: dict[str, Any], theirs: dict[str, Any]) -> None:
    """Refuse to go on with, or to count as done, a run of other settings."""
    for group, value in mine.items():
        if value != theirs.get(group):
            raise UserError(
                f"{folder}: its run has {group}={theirs.get(group)}, now {value}; give tag=WORD to "
                "name this run otherwise, or fresh=true to start again"
            )


class Run:
    """A run of ``config`` on ``shards``; goes on from its state if there is one.

    folder   what travels;  keep  what stays on the machine
    best     nats and step of the best validation, whose weights are ``best_weights``
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
        attention: Sequence[str] = ("auto",),
        say: Callable[[str], None] = print,
    ) -> None:
        shards.check(tokenizer)
        self.config, self.shards, self.folder, self.keep = config, shards, folder, keep
        self.device, self.say = device, say
        self.model = build_model(config, tokenizer).to(device)
        use_attention(self.model, attention)
        self.lr = config.optim.lr or learning_rate(config.model.width)
        self.optim = dataclasses.asdict(config.optim) | {"lr": self.lr}
        self.optimizer = build_optimizer(self.model, self.optim, fused=device.type == "cuda")
        self.ema = Ema(self.model, config.optim.ema) if config.optim.ema else None
        rows = TrainingRows(
            shards, tokenizer, config.model.context, config.corpus.augment, config.seed
        )
        count = config.trainer.batch * config.trainer.accumulate
        self.batches = TrainingBatches(rows, count)
        self.step = self.tokens = 0
        self.seconds = 0.0
        self.log: list[dict[str, Any]] = []
        self.best: dict[str, float] | None = None
        self.best_weights: dict[str, Tensor] = {}
        self._restore()

    @property
    def steps(self) -> int:
        return self.config.trainer.steps

    @property
    def finished(self) -> bool:
        return self.step >= self.steps

    # ---------------------------------------------------------------------------------- the state

    def state(self) -> dict[str, Any]:
        """Everything needed to go on from here."""
        return {
            "step": self.step,
            "tokens": self.tokens,
            "seconds": self.seconds,
            "log": self.log,
            "best": self.best,
            "best_weights": self.best_weights,
            "settings": identity(self.config),
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "ema": None if self.ema is None else self.ema.state_dict(),
        }

    def _restore(self) -> None:
        """Go on from the exact state or from the small one, whichever is further."""
        files = (self.keep / "full.pt", self.folder / "state.pt")
        states = [checkpoint.read(file) for file in files if file.is_file()]
        if not states:
            return
        state = max(states, key=lambda s: s["step"])  # the first of equals: the exact one
        compare(self.folder, identity(self.config), state["settings"])
        self.model.load_state_dict(state["model"])
        groups = self.optimizer.state_dict()["param_groups"]  # flags of this machine
        state["optimizer"]["param_groups"] = groups
        self.optimizer.load_state_dict(state["optimizer"])
        if self.ema is not None:
            self.ema.load_state_dict(state["ema"])
        kinds = {name: tensor.dtype for name, tensor in self.model.state_dict().items()}
        self.best_weights = {
            name: tensor.to(self.device, kinds[name])
            for name, tensor in state["best_weights"].items()
        }
        self.step, self.tokens, self.seconds = state["step"], state["tokens"], state["seconds"]
        self.log, self.best = state["log"], state["best"]
        self.say(f"goes on at step {self.step:,} of {self.steps:,}")

    def save(self, *, travelling: bool = False) -> None:
        """The exact state in ``keep``; with ``travelling`` the small one in ``folder`` too."""
        state = self.state()
        self.keep.mkdir(parents=True, exist_ok=True)
        checkpoint.write(self.keep / "full.pt", state)
        if travelling:
            self.folder.mkdir(parents=True, exist_ok=True)
            checkpoint.write(self.folder / "state.pt", smaller(state))

    def forget(self) -> None:
        """Remove the states: the run is done."""
        (self.keep / "full.pt").unlink(missing_ok=True)
        (self.folder / "state.pt").unlink(missing_ok=True)

    # ----------------------------------------------------------------------------------- learning

    def sit(self, left: Callable[[], float], *, compiled: bool = False) -> bool:
        """Train to the end, or while ``left()``, the seconds left, is above 0; True at the end."""
        began = saved = time.monotonic()
        before, every = self.seconds, self.config.trainer.validate_every
        net: Any = torch.compile(self.model) if compiled else self.model
        sums = torch.zeros(2, dtype=torch.float64, device=self.device)
        self.model.train()
        while not self.finished and left() > 0:
            sums += self.learn(net)
            if self.step % every == 0 or self.finished:
                self._look(sums)
                self.seconds = before + time.monotonic() - began
                self._note(sums)
                sums.zero_()
                if time.monotonic() - saved > SAVE_EVERY:
                    self.save()
                    saved = time.monotonic()
        if not self.finished:  # what was learnt since the last look
            self._look(sums)
        self.seconds = before + time.monotonic() - began
        return self.finished

    def learn(self, net: Callable[..., Tensor]) -> Tensor:
        """One optimizer step; (nats, targets) of its batch, still on the device."""
        torch.manual_seed(step_seed(self.config.seed, self.step))
        batch = self.batches.make(self.step)
        targets = batch.targets.to(self.device)
        with autocast(self.device):
            logits = net(batch.ids.to(self.device), piece_ids=batch.piece_ids.to(self.device))
        nats, count = score(logits, targets)
        (nats / count.clamp(min=1)).backward()
        if self.config.optim.clip:
            nn.utils.clip_grad_norm_(self.model.parameters(), self.config.optim.clip)
        for group in self.optimizer.param_groups:
            group["lr"] = self.rate() * group.get("share", 1.0)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        if self.ema is not None:
            self.ema.update(self.model)
        self.step += 1
        return torch.stack([nats.detach().double(), count.double()])

    def rate(self) -> float:
        """The learning rate of the next step."""
        o = self.config.optim
        rise = min(o.warmup, max(1, self.steps // 5))  # as musictx train shortens it
        how: dict[str, Any] = {"warmup": rise, "kind": o.schedule, "min_share": o.min_lr}
        return self.lr * multiplier(self.step, total=self.steps, **how)

    def _look(self, sums: Tensor) -> None:
        """Take the sums off the device. Raises ``UserError`` if they are not finite."""
        nats, targets = sums.tolist()
        if not math.isfinite(nats):
            raise UserError(f"diverged before step {self.step}: lower optim.lr (it is {self.lr:g})")
        self.tokens += int(targets)

    def _note(self, sums: Tensor) -> None:
        """Validate, keep the weights if they are the best so far, and log."""
        nats, targets = sums.tolist()
        with self.averaged():
            validation = self.validate()
            if self.best is None or validation < self.best["nll"]:
                self.best = {"nll": validation, "step": self.step}
                weights = self.model.state_dict()
                self.best_weights = {name: t.detach().clone() for name, t in weights.items()}
        row = {
            "step": self.step,
            "tokens": self.tokens,
            "seconds": round(self.seconds, 1),
            "train_nll": round(nats / max(targets, 1), 4),
            "learning_rate": self.rate(),
            "validation_nll": round(validation, 4),
        }
        self.log.append(row)
        self.say(
            f"step {self.step:,} of {self.steps:,}  {self.tokens / 1e6:.1f} M tokens  "
            f"{self.tokens / max(self.seconds, 1e-3):,.0f} tokens/s  "
            f"train {row['train_nll']:.4f}  validation {validation:.4f}"
        )

    @torch.no_grad()
    def validate(self) -> float:
        """Nats per token on whole validation pieces, in the precision of training."""
        window = longest(self.shards, "validation")
        windows = EvaluationWindows(self.shards, "validation", window)
        count = min(self.config.trainer.validation_windows or len(windows), len(windows))
        chosen = [(2 * i + 1) * len(windows) // (2 * count) for i in range(count)]
        chosen.sort(key=lambda i: windows.table[i].start - windows.table[i].stop)
        sums = torch.zeros(2, dtype=torch.float64, device=self.device)
        self.model.eval()
        for at in range(0, count, TOGETHER):
            batch = collate(windows[i] for i in chosen[at : at + TOGETHER])
            with autocast(self.device):  # one piece a row, padding last: causality hides it
                logits = self.model(batch.ids.to(self.device))
            sums += torch.stack([x.double() for x in score(logits, batch.targets.to(self.device))])
        self.model.train()
        nats, targets = sums.tolist()
        return float(nats / targets)

    def averaged(self) -> AbstractContextManager[Any]:
        """Within it the model has the averaged weights, if there are any."""
        return nullcontext() if self.ema is None else self.ema.swapped(self.model)

    def write_log(self) -> Path:
        self.folder.mkdir(parents=True, exist_ok=True)
        return write_table(self.folder / "metrics.csv", self.log)


def longest(shards: Shards, split: str) -> int:
    """Tokens of the longest piece of a split."""
    return max(piece.tokens for piece in shards.pieces(split))


def score(logits: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """(sum of nats, number of targets)."""
    nats = F.cross_entropy(
        logits.flatten(0, 1).float(), targets.flatten(), ignore_index=UNSCORED, reduction="sum"
    )
    return nats, (targets != UNSCORED).sum()


def smaller(value: Any) -> Any:
    """``value`` with every tensor of floats, but single numbers, in bfloat16 on the CPU."""
    if isinstance(value, Tensor):
        wide = value.is_floating_point() and value.dim() > 0
        return value.detach().cpu().to(torch.bfloat16 if wide else value.dtype)
    if isinstance(value, dict):
        return {key: smaller(inside) for key, inside in value.items()}
    if isinstance(value, list):
        return [smaller(inside) for inside in value]
    return value


def write_json(path: Path, content: Any) -> None:
    """Whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.writing")
    beside.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    os.replace(beside, path)
