"""What a run of scripts/gpu/jsb.py leaves: its line of the table, its model, what travels."""

from __future__ import annotations

import dataclasses
import json
import shutil
import tarfile
from pathlib import Path
from typing import Any

import jsb_table
import maestro_pack
import torch
from jsb_run import Run, identity, longest, use_attention, write_json

from musictx import __version__, bundle
from musictx.data.shards import Shards
from musictx.errors import UserError
from musictx.evaluate.habits import habits
from musictx.evaluate.nll import evaluate
from musictx.files import swap
from musictx.tokens.vocab import Tokenizer

LINE, STATE, BEST = "line.json", "state.pt", "best-model"
LICENCE = (
    "Bach's chorales are in the public domain; the encoding they were learnt from (Boulanger-"
    "Lewandowski et al. 2012) was published for research. musictx itself is under the MIT licence."
)


def finish(
    run: Run, tokenizer: Tokenizer, row: str, transposition: str, device: str, command: str
) -> dict[str, Any]:
    """Write the weights of the best validation as ``run.keep/model`` in float16, measure them read
    back, and note the line of the table in ``run.folder``. Returns the line.

    row      its name in the table;  device  as the table shall say it
    command  that makes this line
    """
    assert run.best is not None
    run.model.load_state_dict(run.best_weights)
    use_attention(run.model, ["auto"])  # whatever trained it: it is to play anywhere
    run.model.config["attention"] = "auto"
    folder = run.keep / "model"
    described = card(run, tokenizer, command, device)
    bundle.save(folder, run.model, tokenizer, described, dtype="float16")
    nats = measure(folder, run.shards, run.device)
    described["numbers"] |= {f"{split}, nats per token": n for split, n in nats.items()}
    bundle.save(folder, run.model, tokenizer, described, dtype="float16")
    line = {
        "row": row,
        "transposition": transposition,
        "seed": run.config.seed,
        "validation_nats": f"{nats['validation']:.4f}",
        "test_nats": f"{nats['test']:.4f}" if "test" in nats else "",
        "parameters": sum(p.numel() for p in run.model.parameters()),
        "steps": run.step,
        "tokens_seen": run.tokens,
        "minutes": f"{run.seconds / 60:.1f}",
        "best_step": int(run.best["step"]),
        "device": device,
        "torch": str(torch.__version__),
        "command": command,
    }
    run.write_log()
    write_json(run.folder / LINE, {"line": line, "settings": identity(run.config)})
    run.forget()
    return line


def measure(folder: Path, shards: Shards, device: torch.device) -> dict[str, float]:
    """Nats per token of a model folder on each split held out, in float32: whole pieces, however
    long the windows it learnt from, all voices, the first token given ``bos`` alone, ends not
    counted."""
    model = bundle.load(folder, str(device)).model
    batch = 16 if device.type == "cuda" else 4
    return {
        split: evaluate(
            model, shards, split, window=longest(shards, split), batch=batch
        ).nats_per_token
        for split in ("validation", "test")
        if shards.totals(split).pieces
    }


def card(run: Run, tokenizer: Tokenizer, command: str, device: str) -> dict[str, Any]:
    """What the model folder says about how its model came to be."""
    assert run.best is not None
    config, shards = run.config, run.shards
    train, held_out = shards.totals("train"), shards.totals("validation")
    return {
        "title": "A transformer for four-part chorales, trained on those of J. S. Bach",
        "command": command,
        "corpus": {
            "name": "jsb",
            "pieces": {"train": train.pieces, "validation": held_out.pieces},
            "hours": round(train.seconds / 3600, 3),
            "tokens": train.tokens,
            "split": "as published (Boulanger-Lewandowski et al. 2012)",
            "augmentation": dataclasses.asdict(config.corpus.augment),
        },
        "training": {
            "steps": run.step,
            "batch": f"{run.batches.batch} rows of {config.model.context} tokens",
            "tokens seen": run.tokens,
            "minutes": round(run.seconds / 60, 2),
            "device": device,
            "optimizer": run.optim,
            "seed": config.seed,
            "torch": str(torch.__version__),
            "musictx": __version__,
        },
        "numbers": {
            "of step": int(run.best["step"]),
            "protocol": "whole pieces of the published split, all four voices, repeats counted, "
            "silence in the vocabulary, ends of pieces not counted, the first token scored from "
            "bos alone, float32, weights as stored here",
        },
        "habits": habits(tokenizer.decode(shards.tokens(p.number)) for p in shards.pieces("train")),
        "licence": LICENCE,
    }


# ---------------------------------------------------------------------------------------- together


def done(folder: Path) -> dict[str, Any] | None:
    """The settings of the finished run in ``folder``, or None if it is not finished."""
    path = folder / LINE
    if not path.is_file():
        return None
    settings: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))["settings"]
    return settings


def lines(runs: Path) -> dict[str, dict[str, Any]]:
    """The line of every finished run under ``runs``, by the name of its folder."""
    return {
        path.parent.name: json.loads(path.read_text(encoding="utf-8"))["line"]
        for path in sorted(runs.glob(f"*/{LINE}"))
    }


def keep_best(runs: Path, keep: Path) -> Path | None:
    """The best model of all under ``runs`` as ``runs/best-model``; None while there is none.

    The model of an earlier machine is there only as ``runs/best-model``: it stays unless a run
    whose model is here is better.
    """
    target = runs / BEST
    found = {name: float(line["validation_nats"]) for name, line in lines(runs).items()}
    here = {name: nats for name, nats in found.items() if (keep / name / "model").is_dir()}
    note = runs / "best.json"
    before = json.loads(note.read_text(encoding="utf-8")) if note.is_file() else {"run": ""}
    stands = found.get(before["run"])  # None: it was begun anew
    if here:
        name = min(here, key=lambda name: here[name])
        if stands is None or stands != before["nats"] or here[name] < stands:
            beside = runs / f".{BEST}.writing"
            shutil.rmtree(beside, ignore_errors=True)
            shutil.copytree(keep / name / "model", beside)
            swap(beside, target)
            write_json(note, {"run": name, "nats": here[name]})
    return target if target.is_dir() else None


def travelling(runs: Path) -> tuple[dict[str, Path], list[str]]:
    """What travels of ``runs``, {name in the archive: file}, and the runs whose states do not fit.

    First lines and logs, then the best model, then states, the largest steps first as long as
    there is room.
    """
    files = [*runs.glob(f"*/{LINE}"), *runs.glob("*/metrics.csv"), *runs.glob("best.json")]
    files += sorted((runs / BEST).glob("*"))
    room = maestro_pack.PARTS * maestro_pack.PART - tarfile.RECORDSIZE
    room -= sum(_size(f) for f in files)
    if room < 0:
        raise UserError(f"{runs / BEST}: too large to come back: a smaller model")
    left_behind = []
    for state in sorted(runs.glob(f"*/{STATE}"), key=lambda f: (-_step(f), f)):
        if _size(state) <= room:
            files.append(state)
            room -= _size(state)
        else:
            left_behind.append(state.parent.name)
    return {f"{runs.name}/{f.relative_to(runs)}": f for f in files}, left_behind


def _step(state: Path) -> int:
    step: int = torch.load(state, map_location="cpu", weights_only=True)["step"]
    return step


def _size(file: Path) -> int:
    """Bytes of a file in a tar at most: whole blocks, and headers with its exact time."""
    return 2048 + -(-file.stat().st_size // 512) * 512


def write(runs: Path, out: Path) -> str:
    """jsb.csv and jsb.png of all finished runs in ``out``; returns the table as Markdown."""
    found = list(lines(runs).values())
    jsb_table.write(out / "jsb.csv", found)
    jsb_table.curves(runs, out / "jsb.png")
    return jsb_table.table(found)
