"""The tables of evaluate_chorales.py: rates of faults, statistics, copies, likelihoods."""

from __future__ import annotations

import csv
import math
import os
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import chorales_pieces  # beside this file
import numpy as np
from chorales_pieces import STEPS_PER_BAR, Piece
from tqdm import tqdm

from musictx.chorale import statistics as chorales
from musictx.chorale import voice_leading
from musictx.chorale.grid import Grid
from musictx.chorale.statistics import STEPS_PER_BEAT, Copy, Statistics

HEADINGS = {
    "free": "Free chorales",
    "continued": "Continuations",
    "harmonised": "Sopranos of Bach, harmonised",
    "melodies": "Other melodies, harmonised",
}
#: Samples of the training split from which the attainable overlap and the errors are taken.
DRAWS, RESAMPLES = 10, 1000


@dataclass
class Set:
    """Pieces that are measured together. kind: what they are compared with ("" Bach's, all)."""

    name: str
    kind: str
    pieces: list[Piece]
    copies: list[Copy] = field(default_factory=list)

    @cached_property
    def reports(self) -> list[voice_leading.Report]:
        return [piece.report for piece in self.pieces]

    @property
    def faults(self) -> np.ndarray:
        return self.counts(*voice_leading.KINDS)

    def counts(self, *kinds: str) -> np.ndarray:
        """(pieces,) faults of these kinds together."""
        return np.array([sum(r.counts[kind] for kind in kinds) for r in self.reports], float)

    def rate(self, counts: np.ndarray, seed: int) -> str:
        """Such counts in 100 bars; the takes of a melody are no independent pieces."""
        names = [piece.source or piece.name for piece in self.pieces]
        found = error(counts, self.bars, names, seed)
        shown = "" if math.isnan(found) else f" ± {found:.1f}"
        return f"{100 * counts.sum() / self.bars.sum():.1f}{shown}"

    @cached_property
    def bars(self) -> np.ndarray:
        return np.array([report.bars for report in self.reports])

    @cached_property
    def statistics(self) -> Statistics:
        return chorales.statistics(piece.new.pitches for piece in self.pieces)

    def column(self) -> dict[str, float]:
        return chorales.summary(self.statistics) | voice_leading.rates(self.reports)


def write(
    out: Path,
    facts: Mapping[str, Any],
    corpus: Any,
    made: Mapping[str, Mapping[str, list[Piece]]],
    bach: list[Piece],
) -> None:
    """OUT/report.md, pieces.csv, faults.txt of every model, a page of rolls of every kind.

    facts  the options, and words, models;  corpus  with train, validation, chosen;
    made   model or against -> kind -> pieces;  bach  his own, of the sopranos harmonised
    """
    sets = gather(corpus, made, bach, facts["opening"] * STEPS_PER_BAR)
    copies([grid for _, grid in corpus.train], sets)
    write_csv(out / "pieces.csv", sets)
    for label, kinds in made.items():
        lines = [line for some in kinds.values() for p in some for line in _told(p)]
        chorales_pieces.write_text(out / label / "faults.txt", "\n".join(lines) + "\n")
        for kind, some in kinds.items():
            chorales_pieces.page(some, out / label / f"{kind}.png")
    own = [line for piece in bach for line in _told(piece)]
    chorales_pieces.write_text(out / "bach" / "faults.txt", "\n".join(own) + "\n")
    if bach:
        chorales_pieces.page(bach, out / "bach" / "harmonised.png")
    lines = [
        "# Chorales of a model beside Bach's",
        "",
        f"    python scripts/evaluate_chorales.py {shlex.join(facts['words'])}",
        "",
        *[f"- {label}: {told}" for label, told in facts["models"].items()],
        f"- corpus `{facts['corpus']}`: {len(corpus.train)} pieces to train, "
        f"{len(corpus.validation)} of validation; the same {len(corpus.chosen)} of these are "
        "continued and harmonised",
        f"- {facts['particles']} particles, temperature {facts['temperature']:g}, top-p "
        f"{facts['top_p']:g}, rules {facts['rules']:g}, at most {facts['seconds']:g} s after the "
        f"opening of {facts['opening']} bars, seed {facts['seed']}",
        "",
        *_overview(sets, facts["seed"]),
        *_details(sets),
        *_overlaps(sets, facts["samples"], facts["seed"]),
        *_copied(sets, corpus.train),
        *_one_by_one(made, bach),
        *_pages(made),
    ]
    chorales_pieces.write_text(out / "report.md", "\n".join(lines) + "\n")


def gather(
    corpus: Any, made: Mapping[str, Mapping[str, list[Piece]]], bach: list[Piece], seam: int
) -> list[Set]:
    """Everything that is measured; of continuations and of what they are compared with, only what
    comes after the opening."""
    sets = [
        Set(name, "", [Piece(n, grid) for n, grid in some])
        for name, some in (("train", corpus.train), ("validation", corpus.validation))
    ]
    rest = [Piece(n, grid, seam=seam) for n, grid in corpus.chosen]
    own = {"continued": rest, "harmonised": bach}
    for kind in HEADINGS:
        if kind in own:
            sets.append(Set(f"{kind}, Bach", kind, own[kind]))
        for label, kinds in made.items():
            sets.append(Set(f"{kind}, {label}", kind, kinds.get(kind, [])))
    asked = {kind for kinds in made.values() for kind in kinds}
    return [one for one in sets if one.pieces and (not one.kind or one.kind in asked)]


def copies(train: Sequence[Grid], sets: list[Set]) -> None:
    """The longest span of each piece that is in the training split too; of training pieces not,
    which would find themselves."""
    theirs = [grid.pitches for grid in train]
    todo = [(one, piece) for one in sets if one.name != "train" for piece in one.pieces]
    for one, piece in tqdm(todo, desc="looking for copies", disable=None, leave=False):
        one.copies.append(chorales.longest_copied(piece.new.pitches, theirs))


def write_csv(path: Path, sets: Sequence[Set]) -> None:
    beside = path.with_name(f".{path.name}.part")
    with beside.open("w", newline="", encoding="utf-8") as file:
        writer = None
        for one in sets:
            found = one.copies or [None] * len(one.pieces)
            for piece, report, copy in zip(one.pieces, one.reports, found):
                line = {"set": one.name, "piece": piece.name, "source": piece.source}
                line |= {"ended": piece.ended, "bars": report.bars, "key": report.key}
                line |= {"nats per note": piece.nats, "nats per note, Bach": piece.given}
                line |= {"triad at the end": report.final_triad, "cadence": report.cadence}
                line |= {"copied bars": copy.bars if copy else math.nan} | dict(report.counts)
                writer = writer or csv.DictWriter(file, list(line))
                if file.tell() == 0:
                    writer.writeheader()
                writer.writerow(line)
    os.replace(beside, path)


def _told(piece: Piece) -> list[str]:
    return [*chorales_pieces.faults_of(piece), ""]


# ------------------------------------------------------------------------------------------- tables


def _overview(sets: Sequence[Set], seed: int) -> list[str]:
    return [
        "## All sets",
        "",
        "Faults in 100 bars with the standard error over pieces or melodies (bootstrap); those but "
        "overlaps, of which Bach has most; faults in 100 chord changes, since voices that stand "
        "still make none; parallels: fifths and octaves in 100 bars; on beats: share of the chord "
        "changes that fall on a beat; closes: the last chord is a triad in root position and the "
        "bass comes to it by a fourth, a fifth or a step; ends: the model ended the piece itself; "
        "nats per note: of whole pieces under the model that wrote them.",
        "",
        "| | pieces | bars | faults | but overlaps | in 100 changes | parallels | on beats "
        "| closes | ends | nats per note |",
        "|---|" + "---:|" * 10,
        *[_overview_line(one, seed) for one in sets],
        "",
    ]


def _overview_line(one: Set, seed: int) -> str:
    total = one.bars.sum()
    grave = one.faults - one.counts("overlap")
    parallels = one.counts("parallel fifths", "parallel octaves").sum()
    closes = np.mean([r.final_triad and r.cadence != "none" for r in one.reports])
    ends = [piece.ended == "model" for piece in one.pieces if piece.ended in ("model", "seconds")]
    nats = [piece.nats for piece in one.pieces if not math.isnan(piece.nats)]
    cells = [
        f"{len(one.pieces)}",
        f"{total:.0f}",
        one.rate(one.faults, seed),
        one.rate(grave, seed),
        f"{100 * one.faults.sum() / max(sum(r.changes for r in one.reports), 1):.1f}",
        f"{100 * parallels / total:.1f}",
        f"{on_beats([piece.new.pitches for piece in one.pieces]):.0%}",
        f"{closes:.0%}",
        f"{np.mean(ends):.0%}" if ends else "-",
        f"{np.mean(nats):.3f}" if nats else "-",
    ]
    return f"| {one.name} | " + " | ".join(cells) + " |"


def on_beats(pieces: Sequence[np.ndarray]) -> float:
    """Share of the steps with a change in any voice that are whole beats from the first; nan if
    there is no change."""
    steps = [1 + np.flatnonzero((p[1:] != p[:-1]).any(1)) for p in pieces]
    beats = np.concatenate(steps) % STEPS_PER_BEAT == 0
    return float(beats.mean()) if len(beats) else math.nan


def error(counts: np.ndarray, bars: np.ndarray, names: Sequence[str], seed: int) -> float:
    """Standard error of 100 x counts / bars of a set, by drawing its names again, all pieces of a
    name together (a cluster bootstrap); nan for a single name."""
    _, which = np.unique(names, return_inverse=True)
    counts, bars = np.bincount(which, counts), np.bincount(which, bars)
    if len(bars) == 1:
        return math.nan
    rng = np.random.default_rng([seed, 7])
    drawn = rng.integers(0, len(bars), (RESAMPLES, len(bars)))
    return float(np.std(100 * counts[drawn].sum(1) / bars[drawn].sum(1)))


def _details(sets: Sequence[Set]) -> list[str]:
    real = [one for one in sets if not one.kind]
    lines = []
    for kind, heading in HEADINGS.items():
        mine = [one for one in sets if one.kind == kind]
        if not mine:
            continue
        columns = {one.name.removeprefix(f"{kind}, "): one.column() for one in [*real, *mine]}
        lines += [f"## {heading}", "", *chorales.table(columns), ""]
    return lines


def _overlaps(sets: Sequence[Set], count: int, seed: int) -> list[str]:
    train, validation = sets[0], sets[1]
    rng = np.random.default_rng([seed, 8])
    columns = {"train, all": chorales.compare(train.statistics, validation.statistics)}
    few = []
    for _ in range(DRAWS):
        chosen = rng.permutation(len(train.pieces))[:count]
        some = chorales.statistics(train.pieces[i].grid.pitches for i in chosen)
        few.append(chorales.compare(some, validation.statistics))
    columns[f"train, {count} pieces"] = {name: _mean(one[name] for one in few) for name in few[0]}
    for one in sets[2:]:
        columns[one.name] = chorales.compare(one.statistics, validation.statistics)
    for column in columns.values():
        column["mean of all"] = _mean(column.values())
    return [
        "## Overlap with the validation split",
        "",
        "1 = the same distribution, 0 = nothing in common. What two sets of real pieces come to: "
        f"all of the training split, and {count} pieces of it (mean of {DRAWS} draws).",
        "",
        *chorales.table(columns),
        "",
    ]


def _mean(values: Any) -> float:
    known = [value for value in values if not math.isnan(value)]
    return float(np.mean(known)) if known else math.nan


def _copied(sets: Sequence[Set], train: Sequence[tuple[str, Grid]]) -> list[str]:
    lines = [
        "## Copied from the training split",
        "",
        "The longest span of each piece that a training piece has too, all four voices, in any "
        "transposition, in bars. The rows of real pieces show what is usual.",
        "",
        "| | median | 90 % | longest | in | at bar | from | at bar | semitones |",
        "|---|---:|---:|---:|---|---:|---|---:|---:|",
    ]
    for one in sets[1:]:
        bars = [copy.bars for copy in one.copies]
        which = int(np.argmax(bars))
        copy, piece = one.copies[which], one.pieces[which]
        cells = [f"{np.median(bars):.2g}", f"{np.quantile(bars, 0.9, method='higher'):.3g}"]
        cells += [f"{copy.bars:.3g}", piece.name, _bar(copy.start + piece.seam)]
        if copy.steps:
            cells += [train[copy.source][0], _bar(copy.source_start), f"{copy.transposition:+d}"]
        else:
            cells += ["-"] * 3
        lines.append(f"| {one.name} | " + " | ".join(cells) + " |")
    return [*lines, ""]


def _bar(step: int) -> str:
    return f"{1 + step / STEPS_PER_BAR:.4g}"


def _one_by_one(made: Mapping[str, Mapping[str, list[Piece]]], bach: list[Piece]) -> list[str]:
    """Faults and nats of every harmonisation; the takes of a melody together."""
    heads = [f"{what}, {label}" for label in made for what in ("faults", "nats", "Bach's nats")]
    lines = [
        "## Every melody",
        "",
        "Faults in 100 bars (all takes together), and nats per note of all four voices under each "
        "model: of its own harmonisation (mean), and of Bach's.",
        "",
        "| melody | takes | bars | faults, Bach | " + " | ".join(heads) + " |",
        "|---|" + "---:|" * (3 + len(heads)),
    ]
    own = {piece.source: piece for piece in bach}
    takes: dict[str, dict[str, list[Piece]]] = {}
    for label, kinds in made.items():
        for piece in [*kinds.get("harmonised", []), *kinds.get("melodies", [])]:
            takes.setdefault(piece.source, {}).setdefault(label, []).append(piece)
    for source, found in takes.items():
        first = next(iter(found.values()))
        cells = [str(len(first)), f"{first[0].report.bars:.1f}"]
        cells.append(_rate([own[source]]) if source in own else "-")
        for label in made:
            pieces = found[label]
            cells += [_rate(pieces), f"{_mean(p.nats for p in pieces):.3f}"]
            cells.append("-" if math.isnan(pieces[0].given) else f"{pieces[0].given:.3f}")
        lines.append(f"| {source} | " + " | ".join(cells) + " |")
    return [*lines, ""]


def _rate(pieces: Sequence[Piece]) -> str:
    return f"{voice_leading.rates([p.report for p in pieces])['all faults / 100 bars']:.1f}"


def _pages(made: Mapping[str, Mapping[str, list[Piece]]]) -> list[str]:
    lines = ["## Piano rolls", ""]
    for label, kinds in made.items():
        lines += [f"![{kind}, {label}]({label}/{kind}.png)" for kind, some in kinds.items() if some]
    return lines
