"""Train and measure the rows of conf/experiment/maestro on MAESTRO v3, by the papers' protocol.

    python scripts/reproduce/maestro.py path=DIR/maestro-v3.0.0        # the baselines on one GPU
    python scripts/reproduce/maestro.py path=DIR rows=best seeds=0,1,2
    python scripts/reproduce/maestro.py path=DIR rows=interim          # three hours on two cores
    python scripts/reproduce/maestro.py path=DIR quick=true            # all of it, tiny: minutes

Each row is ``musictx train experiment=maestro/ROW`` and goes on where it was stopped; what is
measured already is not measured again. maestro.csv in ``out`` (default runs/maestro) is written
after every row: windows of the training length end to end, remainders included, nothing carried
over (compares with published validation figures), then sliding windows. Further words such as
trainer.steps=5000 or trainer.minutes=null are handed to every row.

``quick`` takes eight training and two validation pieces and one small model for every row: it shows
that everything runs, its numbers mean nothing.
"""

from __future__ import annotations

import csv
import json
import shutil
import sys
from pathlib import Path
from typing import Any

from tqdm import tqdm

from musictx import bundle
from musictx.apps import train
from musictx.compose import compose, groups
from musictx.data.prepare import prepare
from musictx.data.shards import Shards
from musictx.errors import UserError
from musictx.evaluate import protocol
from musictx.train.runs import RunFolder

OPTIONS = {
    "path": "",
    "out": "runs/maestro",
    "rows": "none,sinusoidal,rotary,huang",
    "seeds": "0",
    "split": "validation",
    "quick": "false",
}
#: What ``quick`` changes: the same for every row, so that nothing is left of its size and length.
QUICK = {
    "model.layers": "2",
    "model.width": "64",
    "model.heads": "2",
    "model.feedforward": "128",
    "model.context": "256",
    "trainer.minutes": "null",
    "trainer.steps": "60",
    "trainer.batch": "4",
    "trainer.validate_every": "30",
    "trainer.validation_windows": "16",
    "trainer.sample_seconds": "0",
    "trainer.workers": "0",
    "optim.warmup": "10",
}
QUICK_PIECES = {"train": 8, "validation": 2}
WAYS = {"end to end": protocol.end_to_end, "sliding": protocol.sliding}


def few_pieces(corpus: Path, folder: Path) -> Path:
    """A folder with the shortest pieces of each split and their table; made once."""
    tables = sorted(corpus.glob("maestro*.csv"))
    if not tables:
        raise UserError(f"path={corpus}: expected a folder with maestro-v3.0.0.csv in it")
    if folder.is_dir():
        return folder
    with tables[-1].open(newline="", encoding="utf-8") as file:
        rows = [r for r in csv.DictReader(file) if (corpus / r["midi_filename"]).is_file()]
    rows.sort(key=lambda r: (float(r["duration"]), r["midi_filename"]))
    chosen = []
    for split, count in QUICK_PIECES.items():
        chosen += [r for r in rows if r["split"] == split][:count]
    beside = folder.with_name(f".{folder.name}.writing")
    shutil.rmtree(beside, ignore_errors=True)
    for row in chosen:
        target = beside / row["midi_filename"]
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(corpus / row["midi_filename"], target)
    protocol.write_table(beside / tables[-1].name, chosen)
    beside.rename(folder)
    return folder


def measured(folder: Path, model_folder: Path, shards: Shards, split: str) -> list[dict[str, Any]]:
    """The two rows of the protocol; kept in ``folder`` as JSON while the weights stay the same."""
    weights = (model_folder / "model.safetensors").stat()
    key = [split, shards.fingerprint, shards.key, weights.st_size, weights.st_mtime_ns]
    path = folder / f"protocol-{split}.json"
    kept = json.loads(path.read_text()) if path.is_file() else {}
    rows: dict[str, Any] = kept["rows"] if kept.get("key") == key else {}
    loaded = None
    for way, measure in WAYS.items():
        if way in rows:
            continue
        loaded = loaded or bundle.load(model_folder, "auto")
        with tqdm(unit="window", desc=f"{folder.name}, {way}", disable=None, leave=False) as bar:

            def progress(done: int, total: int, bar: Any = bar) -> None:
                bar.total = total
                bar.update(done - bar.n)

            rows[way] = measure(loaded.model, shards, split, progress=progress)
        path.write_text(json.dumps({"key": key, "rows": rows}, indent=1) + "\n")
    return [rows[way] for way in WAYS]


def row(name: str, seed: str, words: list[str], out: Path, split: str) -> list[dict[str, Any]]:
    """Train (or find trained) one row and measure it."""
    folder = out / f"{name}-seed{seed}"
    config = compose(
        "train", [f"experiment=maestro/{name}", f"out={folder}", f"seed={seed}", *words]
    )
    model_folder = train.run(config)
    made = bundle.load(model_folder)
    status, card = RunFolder(folder).status(), made.card
    shards = Shards(prepare(config.corpus, made.tokenizer).folder)
    told = {
        "row": name,
        "position": config.position.name,
        "optimizer": config.optim.name,
        "seed": seed,
        "parameters": sum(p.numel() for p in made.model.parameters()),
        "steps": status["step"],
        "best_step": card["numbers"]["of step"],
        "tokens_seen": card["training"]["tokens seen"],
        "epochs": round(card["training"]["tokens seen"] / shards.totals("train").tokens, 3),
        "minutes": round(status["seconds"] / 60, 2),
        "device": card["training"]["device"],
        "augmentation": "transposed and stretched" if config.corpus.augment.transpose else "none",
    }
    return [told | found for found in measured(folder, model_folder, shards, split)]


def main(words: list[str]) -> Path:
    """Run as ``words`` say; returns the table."""
    given, rest = dict(OPTIONS), []
    for word in words:
        name, equals, value = word.partition("=")
        if equals and name in OPTIONS:
            given[name] = value
        elif equals and "." in name:
            rest.append(word)
        else:
            raise UserError(
                f"{word}: expected NAME=VALUE with {', '.join(OPTIONS)}, or an option of "
                "musictx train with a dot in it"
            )
    known = [c.partition("/")[2] for c in groups("train")["experiment"] if c.startswith("maestro/")]
    names = given["rows"].split(",")
    for name in names:
        if name not in known:
            raise UserError(f"rows={name}: expected some of {', '.join(known)}")
    if not given["path"]:
        raise UserError("path: expected path=FOLDER with maestro-v3.0.0.csv and its MIDI files")
    out, corpus = Path(given["out"]), Path(given["path"]).expanduser()
    if given["quick"] == "true":
        out = out.with_name(out.name + "-quick")
        out.mkdir(parents=True, exist_ok=True)
        corpus = few_pieces(corpus, out / "corpus")
        rest = [f"{name}={value}" for name, value in QUICK.items()] + rest
    common = [f"corpus.path={corpus}", f"corpus.shards={out / 'shards'}", *rest]
    table: list[dict[str, Any]] = []
    for name in names:
        for seed in given["seeds"].split(","):
            print(f"\n== {name}, seed {seed}", flush=True)
            table += row(name, seed, common, out, given["split"])
            path = protocol.write_table(out / "maestro.csv", table)
            for line in table[-len(WAYS) :]:
                print(
                    f"{line['protocol']:<11} {line['nats_per_token']:.4f} nats/token, "
                    f"{line['nats_per_note']:.4f} nats/note, {line['bits_per_second']:.2f} bits/s"
                )
    print(path)
    return path


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except UserError as error:
        sys.exit(f"error: {error}")
    except KeyboardInterrupt:
        sys.exit(130)
