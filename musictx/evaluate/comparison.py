"""Compare a set of samples with real music: a table of measures of excerpts of equal length.

Real music is the reference. A control set of altered real music (:func:`.sets.control_set`) shows
the values of chance. If there is a training set, it is measured too: no samples can be expected to
differ less from real music than another set of real music does. The training set is also searched
for spans that samples copy.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from musictx.evaluate import measures
from musictx.evaluate.copies import CopyIndex, symbols
from musictx.evaluate.measures import Distribution
from musictx.evaluate.sets import CONTROL, REAL, SAMPLES, TRAINING, Excerpt, control_set
from musictx.grid import grid_of

COPIED = "longest copied span"


class TableRow(NamedTuple):
    """A row of the table: for each set the mean of a measure, the share of pieces that reach its
    threshold, or the overlap of a distribution with that of real music (nan for real music)."""

    name: str
    unit: str
    values: dict[str, float]


@dataclass(frozen=True)
class Comparison:
    """The measures of all sets: samples, real music and others.

    pieces  a dict for each piece: its set, its name, every measure, and its longest copied span
    rows    the table: first the measures, then the distributions
    """

    pieces: list[dict[str, Any]]
    rows: list[TableRow]

    @property
    def sets(self) -> list[str]:
        return list(dict.fromkeys(piece["set"] for piece in self.pieces))

    def __str__(self) -> str:
        """Return the table for the terminal."""
        lines = [["", *self.sets, "unit"]]
        for row in self.rows:
            cells = [format_number(row.values[name]) for name in self.sets]
            lines.append([row.name, *cells, row.unit])
        return align_columns(lines)

    def to_dict(self) -> dict[str, Any]:
        """Return the table and the pieces for JSON; nan becomes ``None``."""
        rows = [row._asdict() | {"values": nan_to_none(row.values)} for row in self.rows]
        return {"table": rows, "pieces": [nan_to_none(piece) for piece in self.pieces]}


def compare(
    sets: Mapping[str, Sequence[Excerpt]],
    copies: tuple[CopyIndex, list[str]] | None = None,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Comparison:
    """Measure every excerpt of every set.

    The set :data:`REAL` is the reference: the control set is derived from it, and the distributions
    of the other sets are compared with its distributions. If the notes of most of its pieces lie on
    the beats of their files, measures in bars are added for all sets. A measure that has no value
    in any set is left out of the table.

    copies    an index of the training split and the names of its pieces, to search samples and
              real music for copies; ``None``: no search
    progress  called after each piece with the numbers of finished pieces and of all pieces
    """
    if control := control_set(sets[REAL]):
        sets = {**sets, CONTROL: control}
    sets = {name: sets[name] for name in (SAMPLES, REAL, CONTROL, TRAINING) if name in sets}
    all_measures, distributions = dict(measures.MEASURES), dict(measures.DISTRIBUTIONS)
    on_grid = [grid_of(excerpt.score_in_piece).kind == "grid" for excerpt in sets[REAL]]
    if sum(on_grid) > len(on_grid) / 2:
        bar_measures, bar_distributions = measures.in_bars()
        all_measures, distributions = all_measures | bar_measures, distributions | bar_distributions
    pieces: list[dict[str, Any]] = []
    for set_name, excerpts in sets.items():
        for excerpt in excerpts:
            piece = {"set": set_name, "name": excerpt.name, "notes": len(excerpt.score)}
            piece |= {name: measure.compute(excerpt) for name, measure in all_measures.items()}
            if copies:
                index, names = copies
                notes, source = np.nan, -1
                if set_name in (SAMPLES, REAL):
                    notes, source = index.longest(symbols(excerpt.score))
                piece |= {COPIED: notes, "copied from": names[source] if notes > 0 else ""}
            pieces.append(piece)
            progress(len(pieces), sum(map(len, sets.values())))
    rows = [_measure_row(name, m.unit, pieces, m.threshold) for name, m in all_measures.items()]
    if copies:
        rows.append(_measure_row(COPIED, "notes", pieces))
    rows = [row for row in rows if np.isfinite(list(row.values.values())).any()]
    rows += [_overlap_row(name, sets, distribution) for name, distribution in distributions.items()]
    return Comparison(pieces, rows)


def _measure_row(
    name: str, unit: str, pieces: Sequence[dict[str, Any]], threshold: float | None = None
) -> TableRow:
    """Return the row of a measure: for each set the mean of the values of its pieces or, with
    ``threshold``, the share of values that reach it. Values of nan are ignored; a set without other
    values has nan."""
    columns: dict[str, list[float]] = {}
    for piece in pieces:
        column = columns.setdefault(piece["set"], [])
        if np.isfinite(value := piece[name]):
            column.append(float(value) if threshold is None else float(value >= threshold))
    values = {s: float(np.mean(column)) if column else np.nan for s, column in columns.items()}
    return TableRow(name, unit, values)


def _overlap_row(
    name: str, sets: Mapping[str, Sequence[Excerpt]], distribution: Distribution
) -> TableRow:
    """Return the row of a distribution: the overlap of each set with real music."""
    counts = {s: measures.histogram(excerpts, distribution) for s, excerpts in sets.items()}
    overlaps = {s: measures.overlap(count, counts[REAL]) for s, count in counts.items()}
    return TableRow(name, "overlap with real", overlaps | {REAL: np.nan})


def align_columns(lines: Sequence[Sequence[str]]) -> str:
    """Join lines of cells, padded so that columns align: the first and last left, others right."""
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
    texts = []
    for first, *middle, last in lines:
        cells = [f"{cell:>{width}}" for cell, width in zip(middle, widths[1:])]
        texts.append("  ".join([f"{first:<{widths[0]}}", *cells, last]).rstrip())
    return "\n".join(texts)


def format_number(value: float) -> str:
    """Format a number: three decimals below 10, else one; "-" for nan."""
    if np.isnan(value):
        return "-"
    return f"{value:.3f}" if abs(value) < 10 else f"{value:.1f}"


def nan_to_none(values: Mapping[str, Any]) -> dict[str, Any]:
    """Replace nan by ``None``, for JSON."""
    return {k: None if isinstance(v, float) and np.isnan(v) else v for k, v in values.items()}
