"""Many samples of a model beside real music of the same length: what a listener would want to know.

    python scripts/evaluate_samples.py model=FOLDER [corpus=DIR] [out=DIR] [samples=64] [seconds=60]
        [primer_seconds=10] [temperature=1.0] [top_p=0.95] [batch=16] [seed=0] [device=auto]
    python scripts/evaluate_samples.py model=FOLDER quick=true     # 4 samples of 8 s: does it run?

1. ``samples`` continuations of the first ``primer_seconds`` of validation pieces, one each (again
   from the first piece if there are too few), and as many pieces from nothing, as MIDI in
   OUT/samples. Batches run side by side; a second run goes on after the last finished batch.
2. The new ``seconds`` of each are measured beside real excerpts of equal number and length, of the
   same pieces where they are continuations: the validation split as the model's tokens hold it, and
   the training split, whose distance from validation is the attainable one.
3. OUT/metrics.csv (a line an excerpt), report.md (the tables), continuations.png and free.png (a
   page of piano rolls each), and large rolls of the first samples.

``corpus`` is a folder with MAESTRO's table or any other, split as ``musictx train`` does, or a
folder of its token shards; by default the one that the model's card names. Needs matplotlib (pip
install "musictx[plot]"). The metrics and distances are defined in musictx/evaluate/musical.py,
distance.py and copies.py.
"""

from __future__ import annotations

import csv
import hashlib
import json
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import options  # beside this file
import samples_report  # beside this file
from tqdm import tqdm

from musictx import midi
from musictx.apps.evaluate import find_shards
from musictx.apps.generate import bar
from musictx.bundle import Bundle, load, locate
from musictx.config import CorpusConfig, EvaluateConfig, SamplingConfig
from musictx.data.shards import SPLITS, Piece, Shards, is_shards
from musictx.errors import UserError
from musictx.evaluate.copies import Copy, CopyIndex
from musictx.evaluate.musical import excerpt, measure
from musictx.notes import Score
from musictx.sampling.music import Primer, Sample, encode_primer
from musictx.sampling.side_by_side import NOTHING, continue_each

DEFAULTS: dict[str, Any] = {
    "model": None,
    "corpus": None,
    "out": "samples_report",
    "samples": 64,
    "seconds": 60.0,
    "primer_seconds": 10.0,
    "temperature": 1.0,
    "top_p": 0.95,
    "batch": 16,
    "seed": 0,
    "device": "auto",
    "quick": False,
}
QUICK = {"samples": 4, "seconds": 8.0, "primer_seconds": 4.0, "batch": 4}
#: What decides the samples: a folder of other settings is not gone on with.
DECIDING = ("samples", "seconds", "primer_seconds", "temperature", "top_p", "batch", "seed")


@dataclass(frozen=True)
class Job:
    """One sample to make: ``number`` of its ``kind``, from a ``primer`` of ``piece`` ("" free)."""

    kind: str
    number: int
    piece: str
    primer: Primer

    @property
    def stem(self) -> str:
        return f"{self.kind}-{self.number:03d}"


@dataclass(frozen=True)
class Excerpt:
    """One line of metrics.csv: ``seconds`` of music, where it is from, how it ended."""

    score: Score
    name: str
    ended: str = ""


class Corpus:
    """The real pieces, as the model's tokens hold them."""

    def __init__(self, shards: Shards, bundle: Bundle, given: dict[str, Any]) -> None:
        self.shards, self.bundle, self.given = shards, bundle, given

    def score(self, piece: Piece) -> Score:
        return self.bundle.tokenizer.decode(self.shards.tokens(piece.number))

    def chosen(self, split: str) -> list[Piece]:
        """``samples`` pieces of ``split`` that are long enough, drawn by ``seed``: fewer if there
        are fewer, none twice."""
        needed = self.given["primer_seconds"] + self.given["seconds"]
        long = [p for p in self.shards.pieces(split) if p.begins and p.seconds >= needed]
        if not long:
            raise UserError(
                f"seconds={self.given['seconds']:g}: no {split} piece of {self.shards.folder} has "
                f"{needed:g} s (primer_seconds + seconds); ask for less"
            )
        rng = np.random.default_rng([self.given["seed"], SPLITS.index(split)])
        order = rng.permutation(len(long))[: self.given["samples"]]
        return [long[i] for i in order.tolist()]

    def excerpts(self, pieces: list[Piece], start: float) -> list[Excerpt]:
        seconds = self.given["seconds"]
        return [Excerpt(excerpt(self.score(p), start, seconds), p.name) for p in pieces]

    def windows(self, split: str) -> Iterator[Score]:
        """Every whole stretch of ``seconds`` of every piece of ``split``, end to end."""
        seconds = self.given["seconds"]
        for piece in tqdm(self.shards.pieces(split), desc=f"reading {split}", disable=None):
            score = self.score(piece)
            for i in range(int(piece.seconds / seconds)):
                yield excerpt(score, i * seconds, seconds)


# ------------------------------------------------------------------------------------------ samples


def plan(corpus: Corpus, given: dict[str, Any]) -> list[list[Job]]:
    """All samples in batches; continuations with primers of like length together."""
    tokenizer, count = corpus.bundle.tokenizer, given["samples"]
    pieces = corpus.chosen("validation")
    primers = [
        encode_primer(tokenizer, corpus.score(p), seconds=given["primer_seconds"], name=p.name)
        for p in tqdm(pieces, desc="reading primers", disable=None, leave=False)
    ]
    jobs = [
        Job("continuation", i, pieces[i % len(pieces)].name, primers[i % len(pieces)])
        for i in range(count)
    ]
    jobs.sort(key=lambda job: (len(job.primer.ids), job.number))
    free = [Job("free", i, "", NOTHING) for i in range(count)]
    size = given["batch"]
    return [some[i : i + size] for some in (jobs, free) for i in range(0, count, size)]


def make(batches: list[list[Job]], bundle: Bundle, given: dict[str, Any], folder: Path) -> None:
    """Write what is missing of the samples: STEM.mid, after STEM.json, which tells about it."""
    sampling = SamplingConfig(temperature=given["temperature"], top_p=given["top_p"])
    for number, jobs in enumerate(batches):
        if all((folder / f"{job.stem}.mid").is_file() for job in jobs):
            continue
        print(f"batch {number + 1} of {len(batches)}: {len(jobs)} of {jobs[0].kind}", flush=True)
        with bar(given["seconds"], None) as progress:
            samples = continue_each(
                bundle.model,
                bundle.tokenizer,
                [job.primer for job in jobs],
                seconds=given["seconds"],
                seeds=[(given["seed"], job.kind == "free", job.number) for job in jobs],
                sampling=sampling,
                habits=bundle.card.get("habits"),
                progress=progress,
            )
        for job, sample in zip(jobs, samples):
            store(job, sample, folder)


def store(job: Job, sample: Sample, folder: Path) -> None:
    told = {
        "piece": job.piece,
        "seam": sample.seam,
        "seconds": sample.seconds,
        "tokens": len(sample.ids),
        "ended": sample.ended,
    }
    (folder / f"{job.stem}.json").write_text(json.dumps(told) + "\n", encoding="utf-8")
    midi.write(sample.score, folder / f"{job.stem}.mid")


def stored(job: Job, folder: Path) -> tuple[Score, dict[str, Any]]:
    """A sample as it was written, and what is told about it."""
    told = json.loads((folder / f"{job.stem}.json").read_text(encoding="utf-8"))
    return midi.read(folder / f"{job.stem}.mid"), told


def settled(out: Path, bundle: Bundle, shards: Shards, given: dict[str, Any]) -> None:
    """Make ``out``, and see that what lies there was made with the same settings."""
    weights = hashlib.sha256((bundle.folder / "model.safetensors").read_bytes()).hexdigest()[:16]
    pieces = hashlib.sha256(repr(shards.pieces("validation")).encode()).hexdigest()[:16]
    settings = {name: given[name] for name in DECIDING} | {"model": weights, "pieces": pieces}
    (out / "samples").mkdir(parents=True, exist_ok=True)
    path = out / "settings.json"
    if path.is_file():
        known = json.loads(path.read_text(encoding="utf-8"))
        if other := [name for name in settings if known.get(name) != settings[name]]:
            raise UserError(
                f"out={out}: the samples there are of another {', '.join(other)}; give another "
                "folder or delete it"
            )
    path.write_text(json.dumps(settings, indent=1) + "\n", encoding="utf-8")


# ---------------------------------------------------------------------------------------- measuring


def gather(
    corpus: Corpus, batches: list[list[Job]], given: dict[str, Any], folder: Path
) -> dict[str, dict[str, list[Excerpt]]]:
    """Kind -> set ("generated", "validation", "train") -> excerpts of equal length."""
    found: dict[str, dict[str, list[Excerpt]]] = {}
    validation, train = corpus.chosen("validation"), corpus.chosen("train")
    for kind, start in (("continuation", given["primer_seconds"]), ("free", 0.0)):
        jobs = sorted((j for b in batches for j in b if j.kind == kind), key=lambda j: j.number)
        generated = []
        for job in jobs:
            score, told = stored(job, folder)
            # A primer's note struck in the very moment of the seam counts as new, as it does there.
            new = excerpt(score, told["seam"], given["seconds"])
            generated.append(Excerpt(new, job.stem, told["ended"]))
        found[kind] = {
            "generated": generated,
            "validation": corpus.excerpts(validation, start),
            "train": corpus.excerpts(train, start),
        }
    return found


def measured(
    sets: dict[str, dict[str, list[Excerpt]]], corpus: Corpus, given: dict[str, Any]
) -> list[dict[str, Any]]:
    """A dict for each excerpt: kind, set, name, ended, every metric, and what it shares with the
    training split (real training excerpts are compared with nothing: they would find themselves).
    """
    pieces = corpus.shards.pieces("train")
    shown = tqdm(pieces, desc="indexing the training split", disable=None, leave=False)
    index = CopyIndex([corpus.score(p) for p in shown])
    rows = []
    everything = [(k, s, e) for k, some in sets.items() for s, many in some.items() for e in many]
    for kind, which, one in tqdm(everything, desc="measuring", disable=None, leave=False):
        copy = Copy(0, -1, -1) if which == "train" else index.longest(one.score)
        rows.append(
            {"kind": kind, "set": which, "name": one.name, "ended": one.ended}
            | {"notes": len(one.score)}
            | measure(one.score, given["seconds"])
            | {samples_report.COPIED: np.nan if which == "train" else copy.notes}
            | {"copied from": pieces[copy.piece].name if copy.notes else ""}
        )
    return rows


def write_csv(rows: list[dict[str, Any]], path: Path) -> None:
    beside = path.with_name(f".{path.name}.part")
    with beside.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    os.replace(beside, path)


def corpus_of(bundle: Bundle, path: str | None) -> CorpusConfig:
    """The folder ``path``, split by the shares that the model was trained with, or token shards;
    without one, no corpus, for which ``find_shards`` takes that of the card."""
    if not path:
        return CorpusConfig()
    if is_shards(Path(path)):
        return CorpusConfig(shards=path)
    held_out = (bundle.card.get("corpus") or {}).get("held out") or {}
    return CorpusConfig(path=path, **held_out)


def main(words: list[str]) -> Path:
    quick = options.read(words, DEFAULTS)["quick"]
    given = options.read(words, DEFAULTS | (QUICK if quick else {}))
    if given["model"] is None:
        raise UserError("model: missing, give a model folder as model=FOLDER")
    for name in ("samples", "seconds", "primer_seconds", "batch"):
        if not given[name]:
            raise UserError(f"{name}=0: expected a number above 0")
    where, out = locate(given["model"]), Path(given["out"])
    bundle = load(where, given["device"])
    shards = find_shards(EvaluateConfig(corpus=corpus_of(bundle, given["corpus"])), bundle)
    shards.check(bundle.tokenizer)
    settled(out, bundle, shards, given)
    corpus = Corpus(shards, bundle, given)
    batches = plan(corpus, given)
    make(batches, bundle, given, out / "samples")
    sets = gather(corpus, batches, given, out / "samples")
    rows = measured(sets, corpus, given)
    write_csv(rows, out / "metrics.csv")
    windows = [measure(score, given["seconds"]) for score in corpus.windows("validation")]
    scores = {
        kind: {which: [one.score for one in many] for which, many in some.items()}
        for kind, some in sets.items()
    }
    facts = {
        "model": where,
        "corpus": shards.folder,
        "parameters": sum(p.numel() for p in bundle.model.parameters()),
        "words": words,
    }
    samples_report.write(out, given | facts, rows, scores, windows)
    samples_report.draw_pages(out, [job for batch in batches for job in batch])
    print(out / "report.md")
    return out


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except UserError as error:
        sys.exit(f"error: {error}")
