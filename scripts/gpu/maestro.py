"""MAESTRO on a GPU lent for minutes, without Hydra and without the corpus: one command a sitting.

Here, once (on the CPU; the 20 MB go to data/shards/maestro-pack):

    python scripts/gpu/maestro.py pack path=DIR/maestro-v3.0.0
    python scripts/gpu/maestro.py recipes        again, after a change of conf/experiment/maestro

There (the checkout and data/shards/maestro-pack travel; it needs torch, triton, numpy, safetensors,
PyYAML and tqdm):

    ... plan budget=1500                 attention, tokens/s, the size that wins for 1500 s
    ... train row=best budget=1000       a sitting of 540 s of a run of 1000 s
    ... train row=best last=true         the last one: the schedule ends with it, then the numbers
    ... train row=none,sinusoidal,rotary,huang steps=1500        rows to compare, at equal steps
    ... evaluate model=FOLDER            the rows of the protocol of a model folder

A sitting ends by the clock (``seconds``, everything included), so it gives other weights each time.
It leaves maestro.csv and run.tar.00, .01, ... in ``out`` ($OUT); put them back here with

    cat run.tar.* | tar x -C runs

Then runs/maestro-gpu/NAME holds the model, or that from which the next sitting goes on: let the
folder travel if the machine is a new one. On the same machine runs/maestro-keep is still there,
has more in it, and is taken instead; let nothing travel but the checkout then.

Options: seconds=540 pack=data/shards/maestro-pack runs=runs/maestro-gpu keep=runs/maestro-keep
out=$OUT name=ROW device=auto attention=auto compile=false workers=auto fresh=false reserve=75
(seconds kept for the evaluation) deliver=auto (all; of several rows the tables only) sizes=6x512x8
(of plan: layers x width x heads, ...), and any option of a recipe by its dotted name:
model.layers=10 optim.lr=1e-3 seed=1.
"""

from __future__ import annotations

import dataclasses
import os
import sys
import time
from pathlib import Path
from typing import Any

BEGAN = time.monotonic()
HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1])]

import maestro_pack  # noqa: E402 - beside this file
import maestro_plan  # noqa: E402
import maestro_report  # noqa: E402
from maestro_run import Run, use_attention  # noqa: E402

from musictx import bundle  # noqa: E402
from musictx.config import TrainConfig  # noqa: E402
from musictx.data.shards import Shards  # noqa: E402
from musictx.errors import UserError  # noqa: E402
from musictx.evaluate.protocol import write_table  # noqa: E402
from musictx.tokens.build import build as build_tokenizer  # noqa: E402
from musictx.tokens.vocab import Tokenizer  # noqa: E402

OPTIONS = {
    "path": "",
    "shards": "",
    "pack": "data/shards/maestro-pack",
    "runs": "runs/maestro-gpu",
    "keep": "runs/maestro-keep",
    "out": os.environ.get("OUT", "runs/maestro-out"),
    "row": "best",
    "name": "",
    "model": "",
    "seconds": "540",
    "budget": "1000",
    "steps": "",
    "last": "false",
    "fresh": "false",
    "reserve": "75",
    "device": "auto",
    "attention": "auto",
    "compile": "false",
    "workers": "auto",
    "deliver": "auto",
    "sizes": "6x512x8,8x512x8,8x640x10,12x512x8",
    "probe": "4",
}
#: What the checkout without its history takes of what may travel, and a little air.
CHECKOUT = 4 * maestro_pack.MIB


def say(text: str) -> None:
    print(f"[{time.monotonic() - BEGAN:5.0f} s] {text}", flush=True)


class Asked:
    """The options of this call, and its clock."""

    def __init__(self, words: list[str]) -> None:
        self.given = dict(OPTIONS)
        self.changes: dict[str, str] = {}
        self.began = BEGAN
        for word in words:
            name, equals, value = word.partition("=")
            if equals and name in OPTIONS:
                self.given[name] = value
            elif equals and ("." in name or name == "seed"):
                self.changes[name] = value
            else:
                known = ", ".join(OPTIONS)
                raise UserError(f"{word}: expected NAME=VALUE with {known} or such as model.width")
        self.device = bundle.choose_device(self.given["device"])

    def __getitem__(self, name: str) -> str:
        return self.given[name]

    def number(self, name: str) -> float:
        try:
            return float(self.given[name])
        except ValueError:
            raise UserError(f"{name}={self.given[name]}: expected a number") from None

    def flag(self, name: str) -> bool:
        if self.given[name] not in ("true", "false"):
            raise UserError(f"{name}={self.given[name]}: expected true or false")
        return self.given[name] == "true"

    def folder(self, name: str) -> Path:
        return Path(self.given[name])

    @property
    def left(self) -> float:
        """Seconds of this call that remain."""
        return self.number("seconds") - (time.monotonic() - self.began)

    @property
    def workers(self) -> int:
        if self.given["workers"] == "auto":
            return max(0, min(12, (os.cpu_count() or 1) - 2)) if self.device.type == "cuda" else 0
        return int(self.number("workers"))

    def recipe(self, row: str) -> TrainConfig:
        return maestro_pack.recipe(self.folder("pack"), row, self.changes)

    def data(self) -> tuple[Shards, Tokenizer]:
        shards = maestro_pack.unpack(self.folder("pack") / maestro_pack.TOKENS, self.folder("keep"))
        return shards, build_tokenizer(**shards.tokenizer_config)

    def run(
        self, config: TrainConfig, data: tuple[Shards, Tokenizer], name: str, *, fresh: bool
    ) -> Run:
        """The run called ``name``, gone on with unless ``fresh``."""
        places = self.folder("runs") / name, self.folder("keep") / name
        steps = int(self.number("steps")) if self["steps"] else None
        budget = self.number("budget")
        how: dict[str, Any] = {"device": self.device, "budget": budget, "steps": steps}
        return Run(config, *data, *places, **how, fresh=fresh, say=say)


# ---------------------------------------------------------------------------------------- commands


def pack(asked: Asked) -> None:
    """The corpus (or ``shards=FOLDER`` made of it before) and the recipes: what travels."""
    if asked["shards"]:
        shards = Shards(asked["shards"])
    else:
        from musictx.compose import compose
        from musictx.data.prepare import prepare

        settings = compose("train", ["experiment=maestro/huang", f"corpus.path={asked['path']}"])
        tokenizer = build_tokenizer(**dataclasses.asdict(settings.tokenizer))
        shards = Shards(prepare(settings.corpus, tokenizer).folder)
    file = maestro_pack.pack(shards, asked.folder("pack"))
    recipes(asked)
    size = file.stat().st_size / maestro_pack.MIB
    say(f"{file}: {size:.1f} MiB; train {shards.totals('train')}")
    say(f"held out {shards.totals('validation')}")


def recipes(asked: Asked) -> None:
    """The composed settings of conf/experiment/maestro."""
    say(str(maestro_pack.write_recipes(asked.folder("pack"))))


def plan(asked: Asked) -> None:
    """The speed of several sizes, and the largest that the budget is enough for."""
    config, data = asked.recipe(asked["row"]), asked.data()
    carried = CHECKOUT + sum(f.stat().st_size for f in asked.folder("pack").iterdir())
    train_tokens, rows = data[0].totals("train").tokens, []
    for size in maestro_plan.sizes(config, asked["sizes"]):
        name = f"{size.model.layers}x{size.model.width}x{size.model.heads}"
        try:
            chosen = attention(asked, size, data[1])
            run = asked.run(size, data, f"plan-{name}", fresh=True)
            use_attention(run.model, chosen)
            speed = maestro_plan.tokens_per_second(
                run, asked.number("probe"), compiled=asked.flag("compile")
            )
        except (RuntimeError, ValueError) as error:  # out of memory, a kernel that fails
            say(f"{name}: {str(error).splitlines()[0]}")
            continue
        parameters = maestro_plan.parameters_of(run.model)
        judged = maestro_plan.judge(
            parameters, speed, asked.number("budget"), train_tokens, carried
        )
        rows.append({"size": name, "attention": chosen, "compiled": asked["compile"], **judged})
        say("  ".join(f"{k} {v}" for k, v in rows[-1].items()))
    write_table(asked.folder("out") / "plan.csv", rows)
    best = maestro_plan.winner(rows)
    if best is None:
        say("no size sees enough tokens and comes back: a smaller one, or a larger budget")
    else:
        say(f"the largest that sees enough tokens and comes back: {best['size']}")


def train(asked: Asked) -> None:
    """A sitting of each row asked for; the seconds are shared out evenly."""
    names = asked["row"].split(",")
    if len(names) > 1 and asked["name"]:
        raise UserError(f"name={asked['name']}: expected with one row only")
    configs, data = {row: asked.recipe(row) for row in names}, asked.data()
    whole = asked["deliver"] == "all" or len(names) == 1
    files: dict[str, Path] = {}
    table: list[dict[str, Any]] = []
    for number, (row, config) in enumerate(configs.items()):
        later = asked.left * (1 - 1 / (len(names) - number))  # seconds that the others keep
        run = asked.run(config, data, asked["name"] or row, fresh=asked.flag("fresh"))
        mine, measured = sitting(asked, run, data[1], row, later)
        table += measured
        place = f"{asked.folder('runs').name}/{run.folder.name}"
        kept = {n: f for n, f in mine.items() if whole or n.endswith(".csv")}
        files |= {f"{place}/{n}": f for n, f in kept.items()}
    out = asked.folder("out")
    write_table(out / "maestro.csv", table)
    for part in maestro_pack.deliver(files, out):
        say(f"{part}: {part.stat().st_size / maestro_pack.MIB:.1f} MiB")


def evaluate(asked: Asked) -> None:
    """The rows of the protocol of ``model=FOLDER``."""
    folder, (shards, _) = asked.folder("model"), asked.data()
    how: dict[str, Any] = {"left": lambda: asked.left, "say": say}
    rows = [
        {"row": folder.name} | maestro_report.measure(folder, shards, way, asked.device, **how)
        for way in maestro_report.WAYS
    ]
    write_table(asked.folder("out") / "evaluation.csv", rows)


# ------------------------------------------------------------------------------------------- parts


def attention(asked: Asked, config: TrainConfig, tokenizer: Tokenizer) -> str:
    """The implementation to train with: as asked, or the fastest that is right."""
    if asked["attention"] != "auto":
        return asked["attention"]
    return maestro_plan.choose_attention(config, tokenizer, asked.device, say=say)


def sitting(
    asked: Asked, run: Run, tokenizer: Tokenizer, row: str, later: float
) -> tuple[dict[str, Path], list[dict[str, Any]]]:
    """Train ``run`` until ``later`` seconds of this call are left.

    Returns the files to bring back by name and, if the run is at its end, its rows of the table.
    """
    name = run.folder.name
    parameters = maestro_plan.parameters_of(run.model)
    if 2 * parameters > maestro_pack.PARTS * maestro_pack.PART:
        raise UserError(f"{name}: {parameters:,} parameters are too many to come back")
    chosen = attention(asked, run.config, tokenizer)
    use_attention(run.model, chosen)
    say(f"{name}: {parameters:,} parameters, attention {chosen}, learning rate {run.lr:.2g}")

    def left() -> float:
        return asked.left - later

    reserve = asked.number("reserve")
    if asked.flag("last") and run.steps is None:
        run.budget = run.seconds + max(1.0, left() - reserve)
    ends_now = run.steps is not None or run.budget - run.seconds <= left() - reserve
    kept = reserve if ends_now else min(20.0, reserve)
    how: dict[str, Any] = {"compiled": asked.flag("compile"), "workers": asked.workers}
    finished = run.sit(lambda: left() - kept, **how)
    run.save_full()
    say(f"{name}: {run.step:,} steps, {run.tokens / 1e6:.1f} M tokens, {run.seconds:.0f} s")
    files = {"metrics.csv": write_table(run.folder / "metrics.csv", run.log)}
    if not finished:
        say(f"{name}: {run.share(run.seconds):.0%} done; the same command goes on")
        return files | run.save_weights(), []
    recipe = f"conf/experiment/maestro/{row}.yaml, {asked.changes or 'unchanged'}"
    folder, rows = maestro_report.finish(run, tokenizer, recipe, left=left, say=say)
    files["maestro.csv"] = write_table(run.folder / "maestro.csv", rows)
    return files | {f"model/{f.name}": f for f in sorted(folder.iterdir())}, rows


COMMANDS = {"pack": pack, "recipes": recipes, "plan": plan, "train": train, "evaluate": evaluate}


def main(words: list[str]) -> None:
    if not words or words[0] not in COMMANDS:
        raise UserError(f"expected a command: {', '.join(COMMANDS)}; help stands in {__file__}")
    COMMANDS[words[0]](Asked(words[1:]))


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except UserError as error:
        sys.exit(f"error: {error}")
