"""Compare a set of samples with real music: a table of measures of excerpts of equal length.

Real music is the reference. A control set of notes at random
(:func:`musictx.evaluate.sets.controls`) shows the values that chance gives. If there is a training
set, it is measured too: the difference between two sets of real music is the best that samples can
be expected to reach. The training set is also searched for spans that samples copy.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from musictx.data.shards import Shards
from musictx.evaluate import measures
from musictx.evaluate.copies import CopyIndex, symbols
from musictx.evaluate.sets import CONTROL, REAL, TRAINING, Excerpt, controls
from musictx.notes import Score
from musictx.tokens.tokenizer import Tokenizer

COPIED = "longest copied span"


class TableRow(NamedTuple):
    """A row of the table: for each set the mean of a measure, or the share of pieces that reach a
    value, or the overlap of a distribution with that of real music (nan for real music itself)."""

    name: str
    unit: str
    values: dict[str, float]


@dataclass(frozen=True)
class Comparison:
    """The measures of sets of samples.

    pieces  a dict for each piece: its set, its name, every measure, and its longest copied span
    rows    the table: first the measures, then the distributions
    """

    pieces: list[dict[str, Any]]
    rows: list[TableRow]

    @property
    def sets(self) -> list[str]:
        return list(dict.fromkeys(piece["set"] for piece in self.pieces))

    def __str__(self) -> str:
        """The table for the terminal."""
        lines = [["", *self.sets, "unit"]]
        for row in self.rows:
            lines.append([row.name, *(number(row.values[name]) for name in self.sets), row.unit])
        return aligned(lines)

    def to_dict(self) -> dict[str, Any]:
        """The table and the pieces for JSON; nan becomes ``None``."""
        rows = [row._asdict() | {"values": without_nan(row.values)} for row in self.rows]
        return {"table": rows, "pieces": [without_nan(piece) for piece in self.pieces]}


def compare(
    sets: Mapping[str, Sequence[Excerpt]],
    copies: tuple[CopyIndex, list[str]] | None = None,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Comparison:
    """Measure every excerpt of every set.

    The distributions of the other sets are compared with those of the set :data:`REAL`, and the
    control set is made from it. If the music of :data:`REAL` keeps to a grid, all sets are measured
    in bars, too. A measure without a value for any set is left out of the table.

    copies    the result of :func:`copy_index`; only samples are searched for copies
    progress  called after each piece with the number of finished pieces and of all pieces
    """
    sets = dict(sets)
    training = sets.pop(TRAINING, None)
    if control := controls(sets[REAL]):
        sets[CONTROL] = control
    sets |= {} if training is None else {TRAINING: training}
    listed, distributions = dict(measures.MEASURES), dict(measures.DISTRIBUTIONS)
    if measures.on_a_grid([excerpt.in_place for excerpt in sets[REAL]]):
        more, others = measures.in_bars()
        listed, distributions = listed | more, distributions | others
    pieces: list[dict[str, Any]] = []
    for set_name, excerpts in sets.items():
        for excerpt in excerpts:
            line = {"set": set_name, "name": excerpt.name, "notes": len(excerpt.alone)}
            line |= measures.measure(excerpt, listed)
            if copies:
                line |= _copied(set_name, excerpt.alone, *copies)
            pieces.append(line)
            progress(len(pieces), sum(map(len, sets.values())))
    listed |= {COPIED: measures.Measure(lambda one: np.nan, "notes")} if copies else {}
    rows = []
    for name, measure in listed.items():
        columns = {s: np.array([p[name] for p in pieces if p["set"] == s], float) for s in sets}
        values = {s: measures.of_set(column, measure) for s, column in columns.items()}
        if np.isfinite(list(values.values())).any():
            rows.append(TableRow(name, measure.unit, values))
    for name, distribution in distributions.items():
        in_bars = name not in measures.DISTRIBUTIONS
        scores = {
            name: [excerpt.in_place if in_bars else excerpt.alone for excerpt in excerpts]
            for name, excerpts in sets.items()
        }
        counts = {s: measures.histogram(some, distribution) for s, some in scores.items()}
        overlaps = {s: measures.overlap(counts[s], counts[REAL]) for s in sets}
        rows.append(TableRow(name, "overlap with real", overlaps | {REAL: np.nan}))
    return Comparison(pieces, rows)


def copy_index(
    shards: Shards, tokenizer: Tokenizer, progress: Callable[[int, int], None]
) -> tuple[CopyIndex, list[str]]:
    """An index of the training split, in which copied spans are searched, and the names of its
    pieces."""
    pieces = shards.pieces("train")
    scores = []
    for done, piece in enumerate(pieces):
        scores.append(tokenizer.decode(shards.tokens(piece.number)))
        progress(done + 1, len(pieces))
    return CopyIndex(list(map(symbols, scores))), [piece.name for piece in pieces]


def _copied(set_name: str, score: Score, index: CopyIndex, names: Sequence[str]) -> dict[str, Any]:
    if set_name in (CONTROL, TRAINING):
        return {COPIED: np.nan, "copied from": ""}
    copy = index.longest(symbols(score))
    return {COPIED: copy.notes, "copied from": names[copy.piece] if copy.notes else ""}


def aligned(lines: Sequence[Sequence[str]]) -> str:
    """Align cells in columns: the first and last column left, the others right."""
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
    texts = []
    for first, *middle, last in lines:
        cells = [f"{cell:>{width}}" for cell, width in zip(middle, widths[1:])]
        texts.append("  ".join([f"{first:<{widths[0]}}", *cells, last]).rstrip())
    return "\n".join(texts)


def number(value: float) -> str:
    """Format a number with about three figures; "-" for nan."""
    return "-" if np.isnan(value) else f"{value:.3f}" if abs(value) < 10 else f"{value:.1f}"


def without_nan(values: Mapping[str, Any]) -> dict[str, Any]:
    """Replace nan by ``None``, for JSON."""
    return {k: None if isinstance(v, float) and np.isnan(v) else v for k, v in values.items()}
