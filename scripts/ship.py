"""Include a trained model in musictx: smaller weights, no private paths, a full card.

    python -m scripts.ship model=runs/jsb/best/model name=chorale corpus.path=FILE.json
    python -m scripts.ship model=runs/piano/model name=piano [corpus.shards=DIR] [windows=40]
        [ahead=1] [temperature=1] [out=FOLDER]
    python -m scripts.ship model=runs/a/model,runs/b/model name=song ...

Several models that were trained from the same weights are averaged: the mean of each weight
(Wortsman et al. 2022, "Model soups", uniform). The card is that of the first model, with the
commands of all.

Writes OUT/NAME; the default replaces the included model NAME. Weights are float16, or the ``dtype``
of scripts/ships/NAME.yaml. The card has the texts of that file, the likelihoods of the stored
weights, which are measured here, how well the model follows controls, and the command of its
training without folders.

The default corpus is that of the model's card. ``windows`` measures only so many windows of each
split, as a rehearsal; the card then says so. ``ahead`` is the argument ``share`` of :func:`soften`,
``temperature`` divides all logits (scripts/LOG.md, 2026-11-25 and 26). The folder is complete
before the first measurement.
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
from musictx.evaluate.nll import evaluate
from musictx.model.features.conditions import Conditions
from musictx.model.transformer import MusicTransformer
from musictx.options import make_config, parse
from musictx.progress import progress
from scripts.harness import run
from scripts.reproduce import steering

ROOT = Path(__file__).resolve().parents[1]
#: Options whose values are paths on the machine of the training.
PRIVATE = ("out=", "corpus.shards=", "init=")
#: The most bytes of weights of an included model.
MOST_BYTES = 20_000_000
#: ``measure.kind`` of scripts/ships/NAME.yaml -> how its likelihoods are measured.
PROTOCOLS = {
    "chorales": "the published split, whole pieces, all four voices, repeats counted, silence in "
    "the vocabulary, ends not counted, first token scored, weights as stored",
    "performances": "windows end to end over each piece, remainders included (or a quarter apart, "
    "each token scored once), nothing carried over, no augmentation, padding and ends not "
    "counted, first token of a window scored, weighted by tokens, weights as stored",
}


def without_paths(command: str) -> str:
    """Remove folders from the paths in a command, and options for output folders."""
    if not command.startswith("musictx "):  # a remark instead of a command
        return command
    return shlex.join(shorten_path(w) for w in shlex.split(command) if not w.startswith(PRIVATE))


def shorten_path(word: str) -> str:
    """Shorten a path, or an option whose value is a path, to the name of the file."""
    name, equals, value = word.rpartition("=")
    is_path = name == "corpus.path" or value.startswith(("/", "~", ".."))
    return f"{name}{equals}{Path(value).name}" if is_path else word


def read_description(name: str) -> dict[str, Any]:
    """Read scripts/ships/NAME.yaml."""
    path = ROOT / "scripts" / "ships" / f"{name}.yaml"
    if not path.is_file():
        names = ", ".join(sorted(p.stem for p in path.parent.glob("*.yaml")))
        raise UserError(f"name={name}: no {path.name} in scripts/ships; there are {names}")
    description: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
    return description


@torch.no_grad()
def soften(feature: Conditions, share: float) -> None:
    """Scale the embeddings of given notes by ``share``.

    In training, given notes are also targets, which makes their embeddings too strong for the
    composed notes (scripts/LOG.md). Without given notes nothing changes.
    """
    times = feature.context[feature.first_time :]
    times.lerp_(times[-1].clone(), 1 - share)  # the last embedding means no given notes
    feature.coming.mul_(share)
    feature.ending.mul_(share)


def divide_logits(model: MusicTransformer, temperature: float) -> None:
    """Divide all logits by scaling the last norm. Raises ``UserError`` if the logits are not linear
    in its output."""
    ids = torch.arange(min(model.context, model.config.vocab_size))[None]
    before = model(ids) if model.cascade is None else None
    model.norm.weight /= temperature
    model.norm.bias /= temperature
    if before is None or not torch.allclose(temperature * model(ids), before, rtol=1e-3, atol=1e-3):
        raise UserError(f"temperature={temperature:g}: the logits are not linear in the last norm")


def rows(
    model: MusicTransformer, shards: Shards, kind: str, window: int
) -> dict[str, dict[str, Any]]:
    """{name of a measurement: arguments of :func:`evaluate`}."""
    if kind == "chorales":
        splits = [split for split in ("validation", "test") if shards.pieces(split)]
        return {split: {"split": split, "window": window} for split in splits}
    context = model.config.context
    arguments: dict[str, dict[str, Any]] = {f"windows of {window}": {"window": window}}
    if context != window:
        arguments[f"windows of {context}, as it composes"] = {"window": context}
    return arguments


def numbers(
    model: MusicTransformer, shards: Shards, kind: str, ways: dict[str, dict[str, Any]], **few: Any
) -> dict[str, Any]:
    """Measure the likelihoods for the card. ``ways`` are the :func:`rows`, ``few`` more arguments
    of :func:`evaluate`."""
    entry: dict[str, Any] = {"protocol": PROTOCOLS[kind]}
    for name, arguments in ways.items():
        with progress(name, "windows") as report:
            row = evaluate(model, shards, **arguments, **few, progress=report)
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
    """The first model with the mean of the weights of all models. Raises ``UserError`` if their
    settings differ."""
    first, *others = map(bundle.load, folders)
    shape = replace(first.model.config, attention="auto", dropout=0.0)
    total = {name: weight.double() for name, weight in first.model.state_dict().items()}
    for other in others:
        if replace(other.model.config, attention="auto", dropout=0.0) != shape:
            raise UserError(f"model={other.folder}: settings differ from those of {first.folder}")
        for name, weight in other.model.state_dict().items():
            total[name] += weight
    first.model.load_state_dict({name: weight / len(folders) for name, weight in total.items()})
    if not others:
        return first
    commands = [without_paths(str(b.card.get("command", ""))) for b in (first, *others)]
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
    card, source = read_description(name), averaged(model)
    measure, dtype = card.pop("measure"), card.pop("dtype", "float16")
    words = [f"{option}={value}" for option, value in more.items()]
    words += [f"corpus={corpus}"] * bool(corpus)
    options = make_config("evaluate", parse("evaluate", words))
    shards = find_shards(options.corpus, source.tokenizer, trained_on=source.corpus)
    old = dict(source.card)
    about = dict(old.get("corpus") or {})
    for key in ("path", "shards", "held out"):
        about.pop(key, None)
    training = dict(old.get("training") or {})
    training |= {"init": training.get("init") and shorten_path(training["init"])}
    card = old | card | {"corpus": about, "training": training}
    card |= {"command": without_paths(str(old.get("command", "")))}
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
    if size > MOST_BYTES:
        raise UserError(f"{folder}: {size:,} bytes of weights, expected at most {MOST_BYTES:,}")
    stored = bundle.load(folder).model  # with rounded weights
    few = {"windows": windows} if windows else {}  # a rehearsal
    ways = rows(stored, shards, measure["kind"], measure["window"])
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
