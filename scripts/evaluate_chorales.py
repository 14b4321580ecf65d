"""Chorales of a model beside Bach's: voice leading, statistics, what is copied.

    python scripts/evaluate_chorales.py model=FOLDER corpus=Jsb16thSeparated.json [against=FOLDER2]
        [out=DIR] [samples=10] [seconds=60] [opening=2] [particles=24] [melodies=NAME,...] [takes=3]
        [temperature=1.0] [top_p=0.95] [rules=3] [batch=16] [seed=0] [device=cpu]
        [kinds=free,continued,harmonised,melodies]
    python scripts/evaluate_chorales.py model=FOLDER corpus=FILE quick=true         # does it run?

For ``model``, and for ``against`` if given (such as the plain transformer's row of the table):

1. free      ``samples`` chorales from nothing, until the model ends them, ``seconds`` at most
2. continued the first ``opening`` bars of ``samples`` validation chorales, continued likewise
3. harmonised the sopranos of the same chorales, by ``particles`` particles, beside Bach's own
4. melodies  each of ``melodies`` (names of those that come along, by default all, or MIDI files),
             harmonised ``takes`` times

Each is OUT/model/KIND-000.mid with a piano roll beside it (OUT/against, and OUT/bach for Bach's own
harmonisations); OUT/model/faults.txt lists every fault with bar and beat, KIND.png shows a kind on
a page, OUT/pieces.csv has a line for each piece, OUT/report.md the tables. What is finished is not
made again, so a stopped run goes on. Needs matplotlib (pip install "musictx[plot]"). The checks are
defined in musictx/evaluate/voice_leading.py, the statistics in musictx/evaluate/chorales.py.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import chorales_pieces  # beside this file
import chorales_report  # beside this file
import numpy as np
import options  # beside this file
import torch
from chorales_pieces import STEPS_PER_BAR, Piece
from tqdm import tqdm

from musictx import shipped
from musictx.apps.generate import bar, read_music
from musictx.bundle import Bundle, load
from musictx.chorale import grid as four
from musictx.chorale import jsb
from musictx.chorale.grid import STEP_SECONDS, Grid
from musictx.chorale.harmonise import harmonise, melody_of
from musictx.chorale.tokenizer import ChoraleTokenizer
from musictx.config import SamplingConfig
from musictx.errors import UserError
from musictx.sampling.music import Primer
from musictx.sampling.side_by_side import NOTHING, continue_each
from musictx.tokens.vocab import BOS, EOS

KINDS = ("free", "continued", "harmonised", "melodies")
DEFAULTS: dict[str, Any] = {
    "model": None,
    "against": None,
    "corpus": None,
    "out": "chorales_report",
    "samples": 10,
    "seconds": 60.0,
    "opening": 2,
    "particles": 24,
    "melodies": [],
    "takes": 3,
    "temperature": 1.0,
    "top_p": 0.95,
    "rules": SamplingConfig().rules,
    "kinds": list(KINDS),
    "batch": 16,
    "seed": 0,
    "device": "cpu",
    "quick": False,
}
QUICK = {"samples": 2, "seconds": 9.6, "particles": 3, "takes": 1}
#: What decides the pieces: a folder of other settings is not gone on with.
DECIDING = (
    "samples",
    "seconds",
    "opening",
    "particles",
    "takes",
    "temperature",
    "top_p",
    "rules",
    "seed",
)


@dataclass(frozen=True)
class Real:
    """The published chorales: of every split (name, Grid); and those of validation that are
    continued and harmonised."""

    train: list[tuple[str, Grid]]
    validation: list[tuple[str, Grid]]
    chosen: list[tuple[str, Grid]]


@dataclass(frozen=True)
class Melody:
    """What is harmonised: ``name`` of the piece to write; ``grid``, of which the soprano counts;
    ``source`` it is from; ``bach``: the other voices are Bach's."""

    name: str
    grid: Grid
    source: str
    bach: bool
    seed: tuple[int, ...]

    @property
    def kind(self) -> str:
        return "harmonised" if self.bach else "melodies"


def real(path: str | None, given: dict[str, Any], longest: int) -> Real:
    """The corpus, and ``samples`` different validation pieces drawn by ``seed`` that are longer
    than the opening by a bar and no longer than ``longest`` steps."""
    pieces = jsb.read(path)
    splits = {
        split: [(name, grid) for name, its, grid in pieces if its == split]
        for split in ("train", "validation")
    }
    if missing := [split for split, some in splits.items() if not some]:
        raise UserError(f"corpus={path}: there is no {' and no '.join(missing)} piece in it")
    shortest = (given["opening"] + 1) * STEPS_PER_BAR
    fit = [one for one in splits["validation"] if shortest <= len(one[1]) <= longest]
    if not fit:
        raise UserError(
            f"opening={given['opening']}: no validation piece has {shortest} to {longest} "
            "sixteenths; give a shorter opening, or a model of longer context"
        )
    order = np.random.default_rng([given["seed"], 1]).permutation(len(fit))
    return Real(**splits, chosen=[fit[i] for i in order[: given["samples"]].tolist()])


def melodies(names: Sequence[str], takes: int, corpus: Real, seed: int) -> list[Melody]:
    """The sopranos of the chosen chorales, then the melodies by name."""
    found = [
        Melody(f"harmonised-{i:03d}", grid, name, True, (seed, 2, i))
        for i, (name, grid) in enumerate(corpus.chosen)
    ]
    for place, name in enumerate(names or shipped.melodies()):
        score = read_music(name, "melodies", "with a melody")
        try:
            grid = melody_of(four.read(score)[0])[0]
        except UserError as error:
            raise UserError(f"melodies={name}: {error}") from None
        for take in range(takes):
            number = place * takes + take
            found.append(
                Melody(f"melodies-{number:03d}", grid, Path(name).stem, False, (seed, 3, number))
            )
    return found


# ------------------------------------------------------------------------------------------- making


def compose(
    kind: str, starts: Sequence[tuple[str, Grid]], bundle: Bundle, given: dict, folder: Path
) -> list[Piece]:
    """A piece for each of ``starts`` (source, steps it begins with), written to ``folder`` unless
    it is there; side by side, ``batch`` at a time."""
    names = [f"{kind}-{i:03d}" for i in range(len(starts))]
    for first in range(0, len(starts), given["batch"]):
        numbers = range(first, min(len(starts), first + given["batch"]))
        if all(chorales_pieces.written(names[i], folder) for i in numbers):
            continue
        primers = [primer(bundle.tokenizer, starts[i][1]) for i in numbers]
        print(f"{folder.name}: {len(primers)} {kind}", flush=True)
        with bar(given["seconds"], None) as progress:
            samples = continue_each(
                bundle.model,
                bundle.tokenizer,
                primers,
                seconds=given["seconds"],
                seeds=[(given["seed"], kind == "continued", i) for i in numbers],
                sampling=sampling_of(given),
                may_end=True,
                progress=progress,
            )
        for i, start, sample in zip(numbers, primers, samples):
            ids = np.concatenate([start.ids, sample.ids])
            grid = bundle.tokenizer.decode_grid(ids)
            nats = nats_per_note(bundle, grid) if sample.ended == "model" else float("nan")
            source, opening = starts[i]
            made = Piece(names[i], grid, source, len(opening), sample.ended, nats)
            chorales_pieces.write(made, folder)
    return [chorales_pieces.read(name, folder) for name in names]


def primer(tokenizer: ChoraleTokenizer, opening: Grid) -> Primer:
    if not len(opening):
        return NOTHING
    return Primer(tokenizer.encode_grid(opening), len(opening) * STEP_SECONDS)


def harmonised(
    todo: Sequence[Melody], bundle: Bundle, given: dict[str, Any], folder: Path
) -> list[Piece]:
    """Every melody in four voices, written to ``folder`` unless it is there."""
    for number, melody in enumerate(todo):
        if chorales_pieces.written(melody.name, folder):
            continue
        told = f"{folder.name}: melody {number + 1} of {len(todo)}"
        with tqdm(total=len(melody.grid), desc=told, unit="step", disable=None) as shown:
            found = harmonise(
                bundle.model,
                bundle.tokenizer,
                melody.grid,
                particles=given["particles"],
                sampling=sampling_of(given),
                seed=melody.seed,
                progress=lambda step, shown=shown: shown.update(1),
            )
        own = nats_per_note(bundle, melody.grid) if melody.bach else float("nan")
        made = Piece(melody.name, found.grid, melody.source, 0, "melody", found.nats_per_note, own)
        chorales_pieces.write(made, folder)
    return [chorales_pieces.read(melody.name, folder) for melody in todo]


def sampling_of(given: dict[str, Any]) -> SamplingConfig:
    return SamplingConfig(
        temperature=given["temperature"], top_p=given["top_p"], rules=given["rules"]
    )


@torch.inference_mode()
def nats_per_note(bundle: Bundle, grid: Grid) -> float:
    """-ln p(piece and its end) / (4 x steps): as ``Harmony.nats_per_note``; nan where the piece
    does not fit into the model's context."""
    ids = bundle.tokenizer.encode_grid(grid).astype(np.int64)
    if len(ids) + 1 > bundle.model.config["context"]:
        return float("nan")
    read = torch.tensor([[BOS, *ids.tolist()]], device=next(bundle.model.parameters()).device)
    likely = bundle.model(read)[0].double().log_softmax(-1).cpu()
    targets = torch.tensor([*ids.tolist(), EOS])
    return float(-likely[torch.arange(len(targets)), targets].sum() / len(ids))


def make(
    bundle: Bundle, corpus: Real, todo: Sequence[Melody], given: dict[str, Any], folder: Path
) -> dict[str, list[Piece]]:
    """Kind -> pieces of one model, made or read."""
    nothing = Grid.joined(np.empty((0, 4), np.int64))
    steps = given["opening"] * STEPS_PER_BAR
    starts = {
        "free": [("", nothing)] * given["samples"],
        "continued": [(n, Grid.joined(g.pitches[:steps])) for n, g in corpus.chosen],
    }
    made = {
        kind: compose(kind, some, bundle, given, folder)
        for kind, some in starts.items()
        if kind in given["kinds"]
    }
    for piece, melody in zip(harmonised(todo, bundle, given, folder), todo):
        made.setdefault(melody.kind, []).append(piece)
    return made


# --------------------------------------------------------------------------------------------- main


def opened(path: str | None, device: str, name: str) -> Bundle:
    if path is None:
        raise UserError(f"{name}: missing, give a model folder as {name}=FOLDER")
    bundle = load(path, device)
    if not isinstance(bundle.tokenizer, ChoraleTokenizer):
        raise UserError(
            f"{name}={path}: it writes {bundle.tokenizer.name} tokens; expected a model of four "
            "voices (tokenizer=chorale)"
        )
    return bundle


def settled(folder: Path, bundle: Bundle, todo: Sequence[Melody], given: dict[str, Any]) -> None:
    """Make ``folder``, and see that what lies there was made with the same settings."""
    weights = hashlib.sha256((bundle.folder / "model.safetensors").read_bytes()).hexdigest()[:16]
    tunes = hashlib.sha256(b"".join(m.grid.pitches.tobytes() for m in todo)).hexdigest()[:16]
    settings = {name: given[name] for name in DECIDING} | {"weights": weights, "melodies": tunes}
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "settings.json"
    if path.is_file():
        known = json.loads(path.read_text(encoding="utf-8"))
        if other := [name for name in settings if known.get(name) != settings[name]]:
            raise UserError(
                f"out={folder.parent}: what is in {folder.name}/ was made with other "
                f"{', '.join(other)}; give another folder or delete it"
            )
    chorales_pieces.write_text(path, json.dumps(settings, indent=1) + "\n")


def main(words: list[str]) -> Path:
    quick = options.read(words, DEFAULTS)["quick"]
    given = options.read(words, DEFAULTS | (QUICK if quick else {}))
    for name in ("samples", "seconds", "opening", "particles", "takes", "batch"):
        if not given[name]:
            raise UserError(f"{name}=0: expected a number above 0")
    if not given["kinds"] or not set(given["kinds"]) <= set(KINDS):
        raise UserError(f"kinds={given['kinds']}: expected some of {', '.join(KINDS)}")
    bundles = {"model": opened(given["model"], given["device"], "model")}
    if given["against"] is not None:
        bundles["against"] = opened(given["against"], given["device"], "against")
    longest = min((int(b.model.config["context"]) - 1) // 4 for b in bundles.values())
    corpus = real(given["corpus"], given, longest)
    names = given["melodies"] or (list(shipped.melodies())[:1] if quick else [])
    todo = melodies(names, given["takes"], corpus, given["seed"])
    todo = [melody for melody in todo if melody.kind in given["kinds"]]
    out = Path(given["out"])
    made: dict[str, dict[str, list[Piece]]] = {}
    for label, bundle in bundles.items():
        settled(out / label, bundle, todo, given)
        made[label] = make(bundle, corpus, todo, given, out / label)
    bach = bach_own(todo, out / "bach")
    facts = {
        "words": words,
        "models": {label: described(bundle) for label, bundle in bundles.items()},
    }
    chorales_report.write(out, given | facts, corpus, made, bach)
    print(out / "report.md")
    return out


def bach_own(todo: Sequence[Melody], folder: Path) -> list[Piece]:
    """Bach's harmonisations of the sopranos that were harmonised, as files like the others."""
    folder.mkdir(parents=True, exist_ok=True)
    own = [Piece(m.name, m.grid, m.source, ended="melody") for m in todo if m.bach]
    for piece in own:
        if not chorales_pieces.written(piece.name, folder):
            chorales_pieces.write(piece, folder)
    return own


def described(bundle: Bundle) -> str:
    count = sum(p.numel() for p in bundle.model.parameters())
    return f"`{bundle.folder}` ({count:,} parameters)"


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except UserError as error:
        sys.exit(f"error: {error}")
