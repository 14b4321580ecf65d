"""Sets of chorales beside Bach's: voice leading, statistics, what is copied.

The checks are defined in :mod:`musictx.chorale.voice_leading`, the distributions in
:mod:`musictx.chorale.statistics`. The real chorales are the reference; as many of the training
split stand beside them to show how far two sets of Bach's own are apart.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from musictx import formats
from musictx.bundle import Bundle
from musictx.chorale import grid as four
from musictx.chorale import statistics, voice_leading
from musictx.chorale.grid import STEP_SECONDS, Grid
from musictx.chorale.harmonise import harmonise
from musictx.chorale.tokenizer import ChoraleTokenizer
from musictx.chorale.tune import melody_of
from musictx.config import SamplingConfig
from musictx.data.shards import Piece, Shards
from musictx.errors import UserError
from musictx.evaluate.sets import REAL, TRAINING, aligned, files_in, read_list, without_nan
from musictx.sampling.folder import SampleFolder

#: Resamples of pieces from which the standard error of the rate of faults is taken.
RESAMPLES = 1000


class Chorale(NamedTuple):
    """A piece in four voices; what comes before step ``seam`` was given and is not measured."""

    name: str
    grid: Grid
    seam: int = 0

    @property
    def new(self) -> Grid:
        pitches, tied = self.grid.pitches[self.seam :], self.grid.tied[self.seam :].copy()
        tied[:1] = False
        return Grid(pitches, tied)

    @property
    def report(self) -> voice_leading.Report:
        return voice_leading.report(self.new.pitches, self.new.tied)

    @property
    def faults(self) -> list[str]:
        """Every fault of the new part, with bar and beat of the whole piece."""
        found = voice_leading.faults(self.new.pitches, self.new.tied)
        return [str(fault._replace(step=fault.step + self.seam)) for fault in found]


def read_folder(folder: str | Path, option: str) -> list[Chorale]:
    """Every file of music in ``folder`` as four voices; ``UserError`` for one that has more."""
    told = read_list(folder)["samples"]
    found = []
    for file in files_in(folder, option):
        try:
            grid, _ = four.read(formats.read(file))
        except UserError as error:
            raise UserError(f"{option}: {file}: {error}") from None
        name = file.relative_to(folder).with_suffix("").as_posix()
        seam = round(told.get(name, {}).get("seam", 0.0) / STEP_SECONDS)
        found.append(Chorale(name, grid, min(seam, len(grid))))
    return found


def from_shards(shards: Shards, tokenizer: Any, pieces: Iterable[Piece]) -> list[Chorale]:
    """Pieces of a corpus that was prepared with tokens of four voices, or with others."""
    found = []
    for piece in pieces:
        ids = shards.tokens(piece.number)
        if isinstance(tokenizer, ChoraleTokenizer):
            grid = tokenizer.decode_grid(ids)
        else:
            grid, _ = four.read(tokenizer.decode(ids))
        found.append(Chorale(piece.name, grid))
    return found


def harmonise_each(
    out: SampleFolder,
    bundle: Bundle,
    sopranos: Sequence[Chorale],
    *,
    particles: int,
    sampling: SamplingConfig,
    seed: int,
    progress: Callable[[int, int], None],
) -> None:
    """Make what is missing of one harmonisation for the soprano of each chorale."""
    tokenizer = bundle.tokenizer
    assert isinstance(tokenizer, ChoraleTokenizer), "the command has seen to it"
    for i in out.missing(len(sopranos)):
        melody, _ = melody_of(sopranos[i].grid)
        found = harmonise(
            bundle.model, tokenizer, melody, particles=particles, sampling=sampling, seed=(seed, i)
        )
        told = {"source": sopranos[i].name, "seam": 0.0, "ended": "melody"}
        out.add(i, four.write(found.grid), **told, nats_per_note=found.nats_per_note)
        out.write_list()
        progress(i + 1, len(sopranos))


@dataclass(frozen=True)
class ChoraleComparison:
    """pieces  one dict a piece: set, name, bars, key, ending, faults by kind and in words, copies
    sets    set -> quantity -> value;  overlaps  set -> histogram -> overlapping area with Bach's"""

    pieces: list[dict[str, Any]]
    sets: dict[str, dict[str, float]]
    overlaps: dict[str, dict[str, float]]

    def __str__(self) -> str:
        """Two tables for the terminal."""
        return "\n".join(
            [
                *_table("", self.sets),
                "",
                *_table(f"overlap with {REAL} (1 = alike)", self.overlaps),
            ]
        )

    def to_dict(self) -> dict[str, Any]:
        """Everything, as JSON can hold it: nan is null."""
        plain = {
            name: {which: without_nan(column) for which, column in part.items()}
            for name, part in (("sets", self.sets), ("overlaps", self.overlaps))
        }
        return plain | {"pieces": [without_nan(piece) for piece in self.pieces]}


def compare(
    sets: Mapping[str, Sequence[Chorale]],
    training: Sequence[Chorale],
    seed: int = 0,
    progress: Callable[[int, int], None] | None = None,
) -> ChoraleComparison:
    """Measure every set; :data:`REAL` is the one that the others' distributions are laid on.

    training  pieces in which copied spans are looked for; none: nowhere
    """
    sets = {which: [one for one in some if len(one.new)] for which, some in sets.items()}
    if empty := [which for which, some in sets.items() if not some]:
        raise UserError(f"{empty[0]}: there is no piece with music in it to measure")
    corpus = statistics.Copies([one.grid.pitches for one in training])
    pieces: list[dict[str, Any]] = []
    total = sum(map(len, sets.values()))
    for which, some in sets.items():
        for one in some:
            copied = np.nan
            if training and which != TRAINING:  # those would find themselves
                copied = corpus.longest(one.new.pitches) / voice_leading.STEPS_PER_BAR
            pieces.append(_line(which, one) | {"copied bars": copied})
            if progress is not None:
                progress(len(pieces), total)
    of = {name: statistics.statistics(one.new.pitches for one in sets[name]) for name in sets}
    columns = {}
    for which in sets:
        mine = [piece for piece in pieces if piece["set"] == which]
        faults = np.array([len(piece["faults"]) for piece in mine], float)
        bars = np.array([piece["bars"] for piece in mine])
        copies = np.array([piece["copied bars"] for piece in mine])
        columns[which] = (
            statistics.summary(of[which])
            | voice_leading.rates([one.report for one in sets[which]])
            | {"standard error of all faults": error(faults, bars, seed)}
            | {"copied bars, median": float(np.median(copies))}
            | {"copied bars, longest": float(copies.max())}
        )
    apart = {name: statistics.compare(of[REAL], of[name]) for name in sets if name != REAL}
    return ChoraleComparison(pieces, columns, apart)


def _line(which: str, one: Chorale) -> dict[str, Any]:
    report = one.report
    line = {"set": which, "name": one.name, "bars": report.bars, "key": str(report.key)}
    line |= {"triad at the end": report.final_triad, "cadence": report.cadence}
    return line | dict(report.counts) | {"faults": one.faults}


def error(counts: np.ndarray, bars: np.ndarray, seed: int) -> float:
    """The standard error of counts in 100 bars, by drawing the pieces anew (bootstrap); nan for
    fewer than two pieces."""
    if len(counts) < 2:
        return float("nan")
    chosen = np.random.default_rng(seed).integers(0, len(counts), (RESAMPLES, len(counts)))
    return float((100 * counts[chosen].sum(1) / bars[chosen].sum(1)).std(ddof=1))


def _table(title: str, columns: Mapping[str, Mapping[str, float]]) -> list[str]:
    rows = dict.fromkeys(name for column in columns.values() for name in column)
    lines = [[title, *columns, ""]]
    lines += [[r, *(statistics.figure(c.get(r)) for c in columns.values()), ""] for r in rows]
    return aligned(lines).splitlines()
