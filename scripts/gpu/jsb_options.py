"""The options of scripts/gpu/jsb.py: what is asked for, by which recipe, in how much time."""

from __future__ import annotations

import dataclasses
import os
import time
from pathlib import Path
from typing import Any

import jsb_table
import maestro_pack
import options

from musictx import bundle
from musictx.config import TrainConfig
from musictx.data.shards import Shards
from musictx.errors import UserError

DEFAULTS: dict[str, Any] = {
    "path": None,
    "pack": "data/shards/jsb-pack",
    "runs": "runs/jsb-gpu",
    "keep": "runs/jsb-keep",
    "out": os.environ.get("OUT") or "runs/jsb-out",
    "rows": jsb_table.ROWS,
    "transposition": ["true", "false"],
    "seeds": ["0"],
    "seconds": 540.0,
    "reserve": 25.0,
    "beside": "auto",
    "device": "auto",
    "attention": "measure",
    "tag": "",
    "clock_steps": 12600,
    "compile": False,
    "fresh": False,
    "quick": False,
    "began": None,  # set by train for the processes that it starts
}
#: Short names of options of the recipes.
SHORT = {
    "steps": "trainer.steps",
    "batch": "trainer.batch",
    "lr": "optim.lr",
    **{n: f"model.{n}" for n in ("width", "feedforward", "heads", "layers", "dropout")},
}
QUICK = {
    "model.width": "32",
    "model.heads": "2",
    "model.feedforward": "32",
    "model.layers": "2",
    "trainer.steps": "6",
    "trainer.validate_every": "3",
    "trainer.validation_windows": "2",
}
#: Runs at a time on a GPU, as far as there are two cores for each.
MOST_BESIDE = 6


@dataclasses.dataclass(frozen=True)
class Job:
    """One line of the table that is to be."""

    row: str
    transposition: str
    seed: str


class Asked:
    """The options of this call, and its clock."""

    def __init__(self, words: list[str], began: float) -> None:
        """``began``: when the command did, as ``time.time()``."""
        self.words = words
        mine: list[str] = []
        self.changes: dict[str, str] = {}
        for word in words:
            name, _, value = word.partition("=")
            if name in SHORT or "." in name:
                self.changes[SHORT.get(name, name)] = value
            else:
                mine.append(word)
        self.given = options.read(mine, DEFAULTS)
        self.began = float(self["began"] or began)
        if self["quick"]:
            self.changes = QUICK | self.changes
            self.given |= {n: f"{self[n]}-quick" for n in ("runs", "keep") if self._default(n)}
            at_rest = {"device": "cpu", "attention": "auto"}
            self.given |= {n: value for n, value in at_rest.items() if self._default(n)}
        self.device = bundle.choose_device(self["device"])
        for name, allowed in (("rows", jsb_table.ROWS), ("transposition", ["true", "false"])):
            for value in self[name]:
                if value not in allowed:
                    raise UserError(f"{name}={value}: expected some of " + ",".join(allowed))
        for seed in self["seeds"]:
            if not seed.isdigit():
                raise UserError(f"seeds={seed}: expected whole numbers from 0")
        if not self["tag"].replace("_", "").isalnum() and self["tag"]:
            raise UserError(f"tag={self['tag']}: expected letters, digits and _")

    def __getitem__(self, name: str) -> Any:
        return self.given[name]

    def _default(self, name: str) -> bool:
        return not any(word.startswith(f"{name}=") for word in self.words)

    def folder(self, name: str) -> Path:
        return Path(self[name])

    def say(self, text: str) -> None:
        print(f"[{time.time() - self.began:5.0f} s] {text}", flush=True)

    @property
    def left(self) -> float:
        """Seconds of this call that remain for training."""
        return float(self["seconds"] - self["reserve"] - (time.time() - self.began))

    @property
    def beside(self) -> int:
        """How many runs at a time."""
        if self["beside"] != "auto":
            if not self["beside"].isdigit() or int(self["beside"]) < 1:
                raise UserError(f"beside={self['beside']}: expected auto or a number from 1")
            return int(self["beside"])
        cores = os.cpu_count() or 1
        return max(1, min(MOST_BESIDE, cores // 2)) if self.device.type == "cuda" else 1

    def shards(self) -> Shards:
        folder = self.folder("pack") / "shards"
        if not folder.is_dir():
            raise UserError(
                f"pack={self['pack']}: no chorales there; make it with the command pack"
            )
        return Shards(folder)

    def jobs(self) -> list[Job]:
        """Seed by seed, so that a table stands early."""
        return [
            Job(row, transposition, seed)
            for seed in self["seeds"]
            for transposition in self["transposition"]
            for row in self["rows"]
        ]

    def row(self, job: Job) -> str:
        """The row's name in the table."""
        return job.row + (f"-{self['tag']}" if self["tag"] else "")

    def name(self, job: Job) -> str:
        return jsb_table.run_name(self.row(job), job.transposition, job.seed)

    def config(self, job: Job) -> TrainConfig:
        """The recipe of ``job``, changed as asked; always by steps."""
        changes = {"seed": job.seed, **self.changes}
        if job.transposition == "false":
            changes["corpus.augment.transpose"] = "0"
        config = maestro_pack.recipe(self.folder("pack"), job.row, changes)
        steps = config.trainer.steps
        if config.trainer.minutes is not None and "trainer.steps" not in self.changes:
            steps = self["clock_steps"]
        trainer = dataclasses.replace(config.trainer, minutes=None, steps=steps)
        return dataclasses.replace(config, trainer=trainer)
