"""A set of samples beside real music: excerpts of equal length, a table of what they measure.

Real music is the reference. Where there is a training set it stands beside both: two sets of real
pieces are not alike either, and their distance is what samples can reach; and spans that samples
copy are looked for in it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from musictx import formats
from musictx.config.checks import DAY
from musictx.data.shards import SPLITS, Piece, Shards
from musictx.errors import UserError
from musictx.evaluate.copies import CopyIndex, symbols
from musictx.evaluate.distance import Row, table
from musictx.evaluate.musical import excerpt, measure
from musictx.files import write_table, write_text
from musictx.notes import Score
from musictx.pedal import fold_sustain
from musictx.tokens.vocab import Tokenizer

#: Names of the sets.
SAMPLES, REAL, TRAINING = "samples", "real", "training"
COPIED = "longest copied span"
#: A file in a folder of generated samples: the settings, and where each sample's new music begins.
LIST = "samples.json"


class Named(NamedTuple):
    """A piece and its name."""

    name: str
    score: Score


def files_in(folder: str | Path, option: str) -> list[Path]:
    """Every file of music in ``folder`` at any depth, in order of its name; ``UserError`` naming
    ``option`` if there is no folder or no file."""
    found = formats.find(folder) if Path(folder).is_dir() else []
    if not found:
        raise UserError(f"{option}={folder}: expected a folder with MIDI files in it")
    return found


def read(file: Path, folder: str | Path) -> Named:
    """A file by its name within ``folder``, the pedal folded into lengths of notes."""
    name = file.relative_to(folder).with_suffix("").as_posix()
    return Named(name, fold_sustain(formats.read(file)))


def read_list(folder: str | Path) -> dict[str, dict[str, Any]]:
    """What :data:`LIST` tells: the "settings", and of "samples" by name their "seam" and more; both
    empty where there is no such file. Raises ``UserError`` for a damaged one."""
    path = Path(folder) / LIST
    if not path.is_file():
        return {"settings": {}, "samples": {}}
    try:
        told = json.loads(path.read_text(encoding="utf-8"))
        settings, samples = dict(told.get("settings", {})), told["samples"]
        if all(0 <= sample.get("seam", 0) <= DAY for sample in samples.values()):
            return {"settings": settings, "samples": samples}
    except (
        OSError,
        ValueError,
        KeyError,
        TypeError,
        AttributeError,
        ArithmeticError,
        RecursionError,
    ):
        pass
    raise UserError(f"{path}: damaged; delete it to measure the files as they are")


def read_samples(folder: str | Path, start: float, seconds: float) -> list[Named]:
    """The excerpts to measure of generated or other files: ``seconds`` from ``start``, or from
    where the new music begins if :data:`LIST` tells it."""
    told = read_list(folder)["samples"]
    found = (read(file, folder) for file in files_in(folder, "samples"))
    return [
        Named(name, excerpt(score, told.get(name, {}).get("seam", start), seconds))
        for name, score in found
    ]


def drawn(pieces: Sequence[Piece], split: str, count: int, length: float, seed: int) -> list[Piece]:
    """``count`` pieces that last ``length`` seconds, drawn by ``seed``, none twice; fewer if there
    are fewer. Raises ``UserError`` if there is none."""
    long = [piece for piece in pieces if piece.begins and piece.seconds >= length]
    if not long:
        raise UserError(
            f"seconds: no {split} piece of the corpus lasts {length:g} s, beginning included; ask "
            "for less"
        )
    order = np.random.default_rng([seed, SPLITS.index(split)]).permutation(len(long))[:count]
    return [long[i] for i in order.tolist()]


def real_files(folder: str, count: int, length: float, seed: int) -> list[Named]:
    """At most ``count`` files of ``folder`` that last ``length`` seconds, drawn by ``seed``."""
    files = files_in(folder, "against")
    found: list[Named] = []
    for i in np.random.default_rng([seed, 0]).permutation(len(files)).tolist():
        one = read(files[i], folder)
        if one.score.duration >= length:
            found.append(one)
        if len(found) == count:
            return found
    if not found:
        raise UserError(
            f"against={folder}: no piece there lasts {length:g} s; ask for less seconds"
        )
    return found


def as_tokens_hold_them(pieces: Iterable[Named], tokenizer: Tokenizer) -> list[Named]:
    """Real music on the samples' own grid of time and loudness, so that like is compared with like:
    exact repeats are more frequent there, and chords are struck at once."""
    return [Named(name, tokenizer.decode(tokenizer.encode(score))) for name, score in pieces]


def real_pieces(shards: Shards, tokenizer: Tokenizer, pieces: Iterable[Piece]) -> list[Named]:
    """Pieces as tokens hold them, so that samples are compared with their like."""
    return [Named(p.name, tokenizer.decode(shards.tokens(p.number))) for p in pieces]


def copy_index(
    shards: Shards, tokenizer: Tokenizer, progress: Callable[[int, int], None]
) -> tuple[CopyIndex, list[str]]:
    """All of the training split, to find copied spans in, and the names of its pieces."""
    pieces = shards.pieces("train")
    scores = []
    for done, piece in enumerate(pieces):
        scores.append(tokenizer.decode(shards.tokens(piece.number)))
        progress(done + 1, len(pieces))
    return CopyIndex(list(map(symbols, scores))), [piece.name for piece in pieces]


@dataclass(frozen=True)
class Comparison:
    """pieces  one dict an excerpt: set, name, notes, every metric, what is copied and from where
    rows    the table of :func:`musictx.evaluate.distance.table`, real music its reference"""

    pieces: list[dict[str, Any]]
    rows: list[Row]

    @property
    def sets(self) -> list[str]:
        return list(dict.fromkeys(piece["set"] for piece in self.pieces))

    def __str__(self) -> str:
        """The table for the terminal."""
        others = [name for name in self.sets if name != REAL]
        heads = ["", *self.sets, *(f"overlap, {o}" for o in others), *(f"KL, {o}" for o in others)]
        lines = [[*heads, "unit"]]
        for row in self.rows:
            apart = [row.distances.get(name) for name in others]
            cells = [number(row.means[name]) for name in self.sets]
            cells += [number(d.overlap) if d else "-" for d in apart]
            cells += [number(d.kl) if d else "-" for d in apart]
            lines.append([row.name, *cells, row.unit])
        return aligned(lines)

    def to_dict(self) -> dict[str, Any]:
        """Everything, as JSON can hold it: nan is null."""
        rows = [
            {"name": r.name, "unit": r.unit, "means": without_nan(r.means)}
            | {"distances": {name: without_nan(d._asdict()) for name, d in r.distances.items()}}
            for r in self.rows
        ]
        return {"table": rows, "pieces": [without_nan(piece) for piece in self.pieces]}


def compare(
    sets: Mapping[str, Sequence[Named]],
    seconds: float,
    copies: tuple[CopyIndex, list[str]] | None = None,
) -> Comparison:
    """Measure every excerpt of ``seconds`` of every set, and the distances from :data:`REAL`.

    copies  of :func:`copy_index`; training excerpts, which would find themselves, are left out
    """
    pieces = [
        {"set": which, "name": name, "notes": len(score)}
        | measure(score, seconds)
        | (_copied(which, score, *copies) if copies else {})
        for which, some in sets.items()
        for name, score in some
    ]
    columns = [key for key in pieces[0] if key not in ("set", "name", "notes", "copied from")]
    values: dict[str, dict[str, Any]] = {
        which: {key: [p[key] for p in pieces if p["set"] == which] for key in columns}
        for which in sets
    }
    scores = {which: [one.score for one in some] for which, some in sets.items()}
    return Comparison(pieces, table(REAL, scores, values))


def _copied(which: str, score: Score, index: CopyIndex, names: Sequence[str]) -> dict[str, Any]:
    if which == TRAINING:
        return {COPIED: np.nan, "copied from": ""}
    found = index.longest(symbols(score))
    return {COPIED: found.notes, "copied from": names[found.piece] if found.notes else ""}


def write_result(path: Path, whole: Mapping[str, Any], lines: Sequence[Mapping[str, Any]]) -> None:
    """``whole`` as JSON, or ``lines`` as a table if ``path`` ends with .csv."""
    if path.suffix == ".csv":
        columns = list(dict.fromkeys(key for line in lines for key in line))
        write_table(path, lines, columns)
    else:
        write_text(path, json.dumps(whole, indent=1) + "\n")


def aligned(lines: Sequence[Sequence[str]]) -> str:
    """Cells in columns: the first and last to the left, the others to the right."""
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
    told = []
    for first, *middle, last in lines:
        cells = [f"{cell:>{width}}" for cell, width in zip(middle, widths[1:])]
        told.append("  ".join([f"{first:<{widths[0]}}", *cells, last]).rstrip())
    return "\n".join(told)


def number(value: float) -> str:
    """Three figures, or "-" for nan."""
    return "-" if np.isnan(value) else f"{value:.3f}" if abs(value) < 10 else f"{value:.1f}"


def without_nan(values: Mapping[str, Any]) -> dict[str, Any]:
    """The same as JSON can hold it: nan is null."""
    return {k: None if isinstance(v, float) and np.isnan(v) else v for k, v in values.items()}
