"""Train and measure the rows of conf/experiment/maestro on MAESTRO v3, by the papers' protocol.

    python -m scripts.reproduce.maestro path=DIR/maestro-v3.0.0     the baselines
    python -m scripts.reproduce.maestro path=DIR rows=best seeds=0,1,2 trainer.accelerator=gpu
    python -m scripts.reproduce.maestro path=DIR seeds=0,1 windows=256 small=true   on one CPU core
    python -m scripts.reproduce.maestro path=DIR rehearse=true      every row, tiny: minutes

Each row is ``musictx train experiment=maestro/ROW`` and two measurements by ``musictx evaluate``:
windows of the training length end to end, remainders included, nothing carried over (compares with
published validation figures), then windows that overlap by three quarters. Every command is printed
before it runs; what is done is not done again. maestro.csv in ``out`` is written after every row.
``small=true``: every row with 4 layers of 128 and windows of 512, 1.6 million tokens, some two
minutes of a core. ``windows=N`` measures in so many windows only, spread evenly.
Words with a dot in them, such as trainer.max_steps=5000, go to every training.
"""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import yaml

from musictx.compose import groups
from musictx.errors import UserError
from musictx.evaluate.nll import SLIDE
from musictx.files import write_table
from scripts.words import musictx, run, with_rest

DEFAULTS = {
    "path": "",
    "rows": "none,sinusoidal,rotary,huang",
    "seeds": "0",
    "split": "validation",
    "out": "runs/maestro",
    "rehearse": "false",
    "small": "false",
    "windows": "",
}
#: The same for every row, so that nothing is left of its size and length; the numbers mean nothing.
REHEARSAL = [
    *("model.layers=2", "model.width=64", "model.heads=2", "model.feedforward=128"),
    *("model.context=256", "trainer.max_time=null", "trainer.max_steps=8", "data.batch_size=2"),
    *("trainer.val_check_interval=4", "data.validation_windows=4", "data.num_workers=0"),
    *("callbacks=quiet", "optim.warmup=2"),
]
#: The same for every row.
SMALL = [
    *("model.layers=4", "model.width=128", "model.heads=2", "model.feedforward=512"),
    *("model.context=512", "model.dropout=0", "data.batch_size=4", "data.num_workers=0"),
    *("trainer.max_steps=800", "trainer.val_check_interval=800", "trainer.precision=fast"),
    *("optim.lr=3e-3", "optim.warmup=80", "optim.schedule=cosine", "callbacks=quiet"),
]
COLUMNS = (
    "row", "protocol", "nats_per_token", "nats_per_note", "bits_per_second", "accuracy", "position",
    "optimizer", "seed", "parameters", "steps", "best_step", "tokens_seen", "epochs", "minutes",
    "device", "split", "pieces", "tokens", "notes", "window", "stride", "windows", "command",
)  # fmt: skip


def options(words: list[str]) -> tuple[dict[str, str], list[str]]:
    """The options of this script, and the words with a dot, which are for ``musictx train``."""
    given, rest = with_rest(words, DEFAULTS)
    known = [c.partition("/")[2] for c in groups("train")["experiment"] if c.startswith("maestro/")]
    for row in given["rows"].split(","):
        if row not in known:
            raise UserError(f"rows={row}: expected some of {', '.join(known)}")
    if not list(Path(given["path"]).expanduser().glob("*.csv")) or not given["path"]:
        raise UserError("path: expected path=FOLDER with maestro-v3.0.0.csv and its MIDI files")
    return given, rest


def evaluate(folder: Path, given: dict[str, str], name: str, *more: str) -> dict[str, Any]:
    """A measurement, kept beside the model until the weights change."""
    out, weights = folder / f"{name}.json", folder / "model" / "model.safetensors"
    if not out.is_file() or out.stat().st_mtime < weights.stat().st_mtime:
        few = ["windows=16"] if given["rehearse"] == "true" else []
        few = few or [f"windows={given['windows']}"] * bool(given["windows"])
        corpus = [f"corpus.shards={given['out']}/shards", f"split={given['split']}"]
        musictx("evaluate", f"model={folder / 'model'}", *corpus, *more, *few, f"out={out}")
    found: dict[str, Any] = json.loads(out.read_text())
    return found


def row(name: str, seed: str, given: dict[str, str], rest: list[str]) -> list[dict[str, Any]]:
    """Train (or find trained) one row and measure it: two lines of the table."""
    folder = Path(given["out"], f"{name}-seed{seed}")
    words = ["train", f"experiment=maestro/{name}", f"corpus.path={given['path']}", f"seed={seed}"]
    words += [f"corpus.shards={given['out']}/shards", f"out={folder}"]
    words += SMALL if given["small"] == "true" else []
    words += REHEARSAL if given["rehearse"] == "true" else []
    musictx(*words, *rest)
    settings = yaml.safe_load((folder / "run.yaml").read_text())
    settings = settings.get("settings", settings)
    status = json.loads((folder / "status.json").read_text())
    card = yaml.safe_load((folder / "model" / "config.yaml").read_text())["card"]
    told = {
        "row": name,
        "position": settings["position"]["name"],
        "optimizer": settings["optim"]["name"],
        "seed": seed,
        "steps": status["step"],
        "best_step": card["numbers"]["of step"],
        "tokens_seen": card["training"]["tokens seen"],
        "epochs": round(card["training"]["tokens seen"] / card["corpus"]["tokens"], 3),
        "minutes": round(status["seconds"] / 60, 2),
        "device": card["training"]["device"],
        "command": "musictx " + shlex.join([*words, *rest]),
    }
    first = evaluate(folder, given, f"{given['split']}-end-to-end")
    stride = f"stride={max(1, first['window'] // SLIDE)}"
    second = evaluate(folder, given, f"{given['split']}-sliding", stride)
    ways = (("end to end", first), ("sliding", second))
    return [found | told | {"protocol": way} for way, found in ways]


def main(words: list[str]) -> Path:
    """Run as ``words`` say; returns the table."""
    given, rest = options(words)
    if given["rehearse"] == "true":
        given["out"] += "-rehearsal"
    path = Path(given["out"], "maestro.csv")
    table: list[dict[str, Any]] = []
    for name in given["rows"].split(","):
        for seed in given["seeds"].split(","):
            table += row(name, seed, given, rest)
            write_table(path, table, COLUMNS)
            for line in table[-2:]:
                print(f"{name}, seed {seed}, {line['protocol']}: {line['nats_per_token']:.4f} nats")
    print(path)
    return path


if __name__ == "__main__":
    run(main)
