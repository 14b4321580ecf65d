"""Make a trained model an included one: half the size, no private paths, a card for people.

    python -m scripts.ship model=runs/jsb/best/model name=chorale corpus.path=FILE.json
    python -m scripts.ship model=runs/piano/model name=piano [corpus.shards=DIR] [windows=40]
        [ahead=1] [temperature=1] [out=FOLDER]
    python -m scripts.ship model=runs/a/model,runs/b/model name=song ...

Several models that were trained on from the same weights are averaged: the mean of each weight
(Wortsman et al. 2022, "Model soups", uniform). The card is the first one's, with all commands.

Writes OUT/NAME, by default in place of the included model NAME: weights in float16, or as
scripts/ships/NAME.yaml says (``dtype``), attention=auto, and a card with what that file says of it,
the numbers measured here of the weights as stored, and the command it was made by with the folders
taken out.

The corpus is the one that the model's card names, unless given. For a rehearsal, ``windows`` takes
only so many of each split and leaves the slow row out; the card says so. ``ahead`` softens what is
given ahead to this share (``soften``), ``temperature`` divides all logits
(scripts/LOG.md, 2026-11-25 and 26). The folder is whole before the first number is measured. For a
model that takes controls the card says how well it follows them.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
import yaml

from musictx import bundle, shipped
from musictx.data.shards import Shards
from musictx.data.statistics import of_corpus
from musictx.errors import UserError
from musictx.evaluate.app import find_shards
from musictx.evaluate.nll import SLIDE, evaluate
from musictx.model.features.conditions import Conditions
from musictx.model.transformer import MusicTransformer
from musictx.options import parse, request
from musictx.progress import progress
from scripts.harness import run
from scripts.reproduce import steering

ROOT = Path(__file__).resolve().parents[1]
#: Options of a command that name places on the machine it was typed on.
PRIVATE = ("out=", "corpus.shards=", "init=")
#: Bytes of weights above which a model is too large to be included.
MOST = 20_000_000
#: How a card names its rows by what is measured (``measure.kind`` of scripts/ships/NAME.yaml).
PROTOCOLS = {
    "chorales": "the published split, whole pieces, all four voices, repeats counted, silence in "
    "the vocabulary, ends not counted, first token scored, weights as stored",
    "performances": "windows end to end over each piece, remainders included (or a quarter apart, "
    "each token scored once), nothing carried over, no augmentation, padding and ends not "
    "counted, first token of a window scored, weighted by tokens, weights as stored",
}


def without_places(command: str) -> str:
    """The command with files by their bare names and without output folders."""
    if not command.startswith("musictx "):  # a remark that there was none
        return command
    return shlex.join(bare(w) for w in shlex.split(command) if not w.startswith(PRIVATE))


def bare(word: str) -> str:
    """A word, or the value of an option, that is a place on this machine, by its last name."""
    name, equals, value = word.rpartition("=")
    private = name == "corpus.path" or value.startswith(("/", "~", ".."))
    return f"{name}{equals}{Path(value).name}" if private else word


def described(name: str) -> dict[str, Any]:
    """scripts/ships/NAME.yaml."""
    path = ROOT / "scripts" / "ships" / f"{name}.yaml"
    if not path.is_file():
        names = ", ".join(sorted(p.stem for p in path.parent.glob("*.yaml")))
        raise UserError(f"name={name}: no {path.name} in scripts/ships; there are {names}")
    text: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
    return text


@torch.no_grad()
def soften(feature: Conditions, share: float) -> None:
    """Let ``feature`` embed given notes with this share of their strength; without given notes
    nothing changes.

    In training given notes are targets too, which makes them stronger than is good for the notes
    around them (scripts/LOG.md)."""
    times = feature.context[feature.first_time :]
    times.lerp_(times[-1].clone(), 1 - share)  # the last one stands for no given notes
    feature.coming.mul_(share)
    feature.ending.mul_(share)


def divide_logits(model: MusicTransformer, by: float) -> None:
    """Divide all logits by a number, through the last norm; ``UserError`` where they are not
    linear in what it gives."""
    ids = torch.arange(min(model.context, model.config.vocab_size))[None]
    before = model(ids) if model.cascade is None else None
    model.norm.weight /= by
    model.norm.bias /= by
    if before is None or not torch.allclose(by * model(ids), before, rtol=1e-3, atol=1e-3):
        raise UserError(f"temperature={by:g}: not possible, its logits follow no single norm")


def rows(
    model: MusicTransformer, shards: Shards, kind: str, window: int, rehearsal: bool
) -> dict[str, dict[str, Any]]:
    """Name of a row -> how it is measured."""
    if kind == "chorales":
        there = [split for split in ("validation", "test") if shards.pieces(split)]
        return {split: {"split": split, "window": window} for split in there}
    composes_in = model.config.context
    ways: dict[str, dict[str, Any]] = {f"windows of {window}": {"window": window}}
    if composes_in != window:
        ways[f"windows of {composes_in}, as it composes"] = {"window": composes_in}
    if not rehearsal:
        ways[f"windows of {window}, a quarter apart"] = {
            "window": window,
            "stride": window // SLIDE,
        }
    return ways


def numbers(
    model: MusicTransformer, shards: Shards, kind: str, ways: dict[str, dict[str, Any]], **few: Any
) -> dict[str, Any]:
    """The card's entry."""
    entry: dict[str, Any] = {"protocol": PROTOCOLS[kind]}
    for name, way in ways.items():
        with progress(name, "windows") as tell:
            row = evaluate(model, shards, **way, **few, progress=tell)
        print(f"{name}: {row.nats_per_token:.4f} nats/token", flush=True)
        if kind == "chorales":
            entry[f"{name}, nats per token (note-wise)"] = round(row.nats_per_token, 4)
        else:
            entry[name] = {
                "nats per token": round(row.nats_per_token, 4),
                "nats per note": row.nats_per_note and round(row.nats_per_note, 4),
                "bits per second of music": row.bits_per_second and round(row.bits_per_second, 2),
                "accuracy": round(row.accuracy, 4),
                "windows": row.windows,
            }
        measured = f"{row.pieces} pieces, {row.tokens:,} tokens, {row.notes:,} notes"
        if not row.complete:
            measured = f"A REHEARSAL: {row.windows} windows of {measured}"
        if kind != "chorales":
            entry["measured on"] = f"the {row.split} split, {measured}"
    return entry


def averaged(folders: Sequence[Path]) -> bundle.Bundle:
    """The first model, with the mean of the weights of all; ``UserError`` if their settings
    differ."""
    first, *others = map(bundle.load, folders)
    shape = replace(first.model.config, attention="auto", dropout=0.0)
    total = {name: weight.double() for name, weight in first.model.state_dict().items()}
    for one in others:
        if replace(one.model.config, attention="auto", dropout=0.0) != shape:
            raise UserError(f"model={one.folder}: its settings differ from those of {first.folder}")
        for name, weight in one.model.state_dict().items():
            total[name] += weight
    first.model.load_state_dict({name: weight / len(folders) for name, weight in total.items()})
    if not others:
        return first
    commands = [without_places(str(one.card.get("command", ""))) for one in (first, *others)]
    return replace(first, card=first.card | {"averaged from": commands})


def main(
    model: Sequence[Path],
    name: str,
    corpus: str = "",
    windows: int = 0,
    ahead: float = 1,
    temperature: float = 1,
    out: Path | None = None,
    **more: str,
) -> Path:
    for option, value in (("temperature", temperature), ("ahead", ahead)):
        if not 0 < value < math.inf:
            raise UserError(f"{option}={value:g}: expected a number above 0")
    card, source = described(name), averaged(model)
    measure, dtype = card.pop("measure"), card.pop("dtype", "float16")
    words = [f"{option}={value}" for option, value in more.items()]
    words += [f"corpus={corpus}"] * bool(corpus)
    options = request("evaluate", parse("evaluate", words))
    shards = find_shards(options.corpus, source.tokenizer, card=source.card)
    old = dict(source.card)
    about = dict(old.get("corpus") or {})
    for private in ("path", "shards", "held out"):
        about.pop(private, None)
    training = dict(old.get("training") or {})
    training |= {"init": training.get("init") and bare(training["init"])}
    card = old | card | {"corpus": about, "training": training}
    card |= {"command": without_places(str(old.get("command", "")))}
    card |= {"note_limits": of_corpus(shards, source.tokenizer)}
    card.pop("numbers", None)
    network, folder = source.model, shipped.models()[name] if out is None else out / name
    for feature in network.features:
        if isinstance(feature, Conditions) and ahead != 1:
            soften(feature, ahead)
            card["known ahead, share of its strength"] = ahead
    if temperature != 1:
        divide_logits(network, temperature)
        card["logits divided by"] = temperature
    network.config = replace(network.config, attention="auto")

    def save() -> None:
        bundle.save(folder, network, source.tokenizer, card, dtype=dtype)

    save()
    size = (folder / "model.safetensors").stat().st_size
    if size > MOST:
        raise UserError(f"{folder}: {size:,} bytes of weights, expected at most {MOST:,}")
    stored = bundle.load(folder).model  # as rounded in the file
    few = {"windows": windows} if windows else {}
    ways = rows(stored, shards, measure["kind"], measure["window"], bool(few))
    card["numbers"] = numbers(stored, shards, measure["kind"], ways, **few)
    save()
    if "steer" in dict(about.get("tasks") or {}).get("shares", {}):
        samples, seconds = (8, 4) if few else (32, 12)
        card["steering"] = steering.main(str(folder), samples, seconds)
        save()
    print(f"{folder}: {size / 1e6:.1f} MB")
    return folder


if __name__ == "__main__":
    run(main)
