"""Compare sets of chorales with Bach's: voice leading, final cadences, and copied bars.

The checks are defined in :mod:`musictx.chorale.voice_leading`. As many pieces of the training split
are measured, too, to show how much two sets of Bach's chorales differ.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from musictx.bundle import Bundle
from musictx.chorale import grid as grids
from musictx.chorale import voice_leading
from musictx.chorale.grid import STEP_SECONDS, Grid
from musictx.chorale.harmonise import compose_voices
from musictx.chorale.tokenizer import ChoraleTokenizer
from musictx.chorale.tune import melody_of
from musictx.errors import UserError
from musictx.evaluate.compare import GeneralMeasures, PieceProgress
from musictx.evaluate.comparison import Comparison, TableRow
from musictx.evaluate.config import CompareConfig
from musictx.evaluate.copies import CopyIndex
from musictx.evaluate.sets import TRAINING, NumberedSamples, find_files, read_files, read_seams

#: Bootstrap resamples for the standard error of the rate of faults.
RESAMPLES = 1000


class Chorale(NamedTuple):
    """A piece in four voices. Its steps before ``seam`` were given, so they are not measured."""

    name: str
    grid: Grid
    seam: int = 0


class ChoraleMeasures(GeneralMeasures):
    """Measures of chorales."""

    tokens = ChoraleTokenizer.name
    corpora = ("jsb", "bach")
    ending = "model"

    def read_samples(self, folder: str | Path, option: str = "samples") -> list[Chorale]:
        """Read every music file in ``folder`` as four voices. Raises ``UserError`` for a file with
        more voices; its message begins with ``option``."""
        seams = read_seams(folder)
        chorales = []
        for name, score in read_files(find_files(folder, option), option):
            try:
                grid, _ = grids.read(score)
            except UserError as error:
                raise UserError(f"{option}: {name}: {error}") from None
            seam = round(seams.get(name, 0.0) / STEP_SECONDS)
            chorales.append(Chorale(name, grid, min(seam, len(grid))))
        return chorales

    def draw_real(self, count: int) -> list[Chorale]:
        """Return all pieces of real music; for harmonisations only the first ``count``, since there
        is a sample for each piece."""
        folder, split = self.config.against, self.config.split
        pieces = self._chorales(split) if folder is None else self.read_samples(folder, "against")
        return pieces[:count] if self.config.task == "harmonise" else pieces

    def draw_from_split(self, count: int, split: str) -> list[Chorale]:
        return self._chorales(split)[:count]

    def _chorales(self, split: str) -> list[Chorale]:
        """Decode the pieces of a split, whichever tokenizer encoded them."""
        assert self.corpus is not None
        shards, tokenizer = self.corpus

        def decode(ids: np.ndarray) -> Grid:
            if isinstance(tokenizer, ChoraleTokenizer):
                return tokenizer.decode_grid(ids)
            return grids.read(tokenizer.decode(ids))[0]

        return [Chorale(p.name, decode(shards.tokens(p.number))) for p in shards.pieces(split)]

    def copy_index(self, update: PieceProgress) -> Copies:
        return Copies([chorale.grid.pitches for chorale in self._chorales("train")])

    def compare(
        self,
        compared: Mapping[str, Sequence[Chorale]],
        copies: Copies | None,
        update: PieceProgress,
    ) -> Comparison:
        """Measure each piece (bars, key, ending, faults, copied bars) and each set (rates of
        faults, standard error of the rate of all faults)."""
        sets = {s: [c for c in pieces if len(c.grid) > c.seam] for s, pieces in compared.items()}
        if empty := [name for name, chorales in sets.items() if not chorales]:
            raise UserError(f"{empty[0]}: there is no piece with music in it to measure")
        pieces: list[dict[str, Any]] = []
        columns: dict[str, dict[str, float]] = {}
        for set_name, chorales in sets.items():
            assessments, copied_bars = [], []
            for name, whole, seam in chorales:
                grid = whole.starting_at(seam)
                assessment, copied = voice_leading.assess(grid), np.nan
                fault_texts = [str(f._replace(step=f.step + seam)) for f in assessment.faults]
                if copies and set_name != TRAINING:  # which would be found in itself
                    copied = copies.longest(grid.pitches) / voice_leading.STEPS_PER_BAR
                pieces.append(
                    {
                        "set": set_name,
                        "name": name,
                        "bars": assessment.bars,
                        "key": str(assessment.key),
                        "triad at the end": assessment.final_triad,
                        "cadence": assessment.cadence,
                        **assessment.counts,
                        "faults": fault_texts,
                        "copied bars": copied,
                    }
                )
                assessments.append(assessment)
                copied_bars.append(copied)
                update(len(pieces), sum(map(len, sets.values())))
            faults = np.array([len(a.faults) for a in assessments])
            bars = np.array([a.bars for a in assessments])
            columns[set_name] = {
                "bars": float(bars.sum()),
                **voice_leading.rates(assessments),
                "standard error of all faults": standard_error(faults, bars, self.config.seed),
                "copied bars, median": float(np.median(copied_bars)),
                "copied bars, longest": float(np.max(copied_bars)),
            }
        labels = next(iter(columns.values()))
        rows = [TableRow(label, "", {s: columns[s][label] for s in sets}) for label in labels]
        return Comparison(pieces, rows)


def harmonised(bundle: Bundle, pieces: Sequence[Chorale], config: CompareConfig) -> NumberedSamples:
    """Harmonise the soprano of each chorale once; a task of ``registry.TASKS``."""
    tokenizer = bundle.tokenizer
    assert isinstance(tokenizer, ChoraleTokenizer), "musictx compare checks this"
    for i, piece in enumerate(pieces):
        melody, _ = melody_of(piece.grid)
        harmony = compose_voices(
            bundle.model,
            tokenizer,
            melody,
            particles=config.particles,
            sampling=config.sampling,
            seed=(config.seed, i),
        )
        facts = {"source": piece.name, "seam": 0.0, "ended": "melody"}
        yield i, grids.write(harmony.grid), facts | {"nats_per_note": harmony.nats_per_token}


def standard_error(counts: np.ndarray, bars: np.ndarray, seed: int) -> float:
    """Bootstrap standard error of 100 sum(counts) / sum(bars); nan for fewer than two pieces."""
    if len(counts) < 2:
        return float("nan")
    pieces = np.random.default_rng(seed).integers(0, len(counts), (RESAMPLES, len(counts)))
    return float((100 * counts[pieces].sum(1) / bars[pieces].sum(1)).std(ddof=1))


class Copies:
    """An index of the ``corpus``, pitches (T, 4) of chorales, in which passages are found that are
    copied in all four voices (:mod:`musictx.evaluate.copies`). Held and repeated notes are equal.
    """

    def __init__(self, corpus: Sequence[np.ndarray]) -> None:
        self._numbers: dict[tuple[int, ...], int] = {}
        self._index = CopyIndex([self._successions(piece) for piece in corpus])

    def longest(self, piece: np.ndarray) -> int:
        """The length in steps of the longest passage of ``piece`` that also occurs in the corpus,
        in any transposition (a new one after each rest of all voices); 0 if it is shorter than
        :data:`musictx.evaluate.copies.SHORTEST_COPY`."""
        return self._index.longest(self._successions(piece))[0]

    def _successions(self, pitches: np.ndarray) -> np.ndarray:
        """(T - 1,) int32: a number for each pair of successive chords, equal for transposed pairs.

        A chord is described by the intervals of its voices from its first sounding voice, the
        soprano if possible. A pair is described by its chords and the motion of that voice.
        """
        sounds = pitches.max(axis=1) >= 0
        reference = pitches[np.arange(len(pitches)), np.argmax(pitches >= 0, axis=1)]
        chords = np.where(pitches >= 0, pitches - reference[:, None], -1000)  # -1000: silent
        motion = np.where(sounds[1:] & sounds[:-1], np.diff(reference), 0)
        rows = np.hstack([chords[:-1], chords[1:], motion[:, None]]).tolist()
        numbers = self._numbers
        return np.array([numbers.setdefault(tuple(row), len(numbers)) for row in rows], np.int32)
