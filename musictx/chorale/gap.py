"""A span of a chorale that is to be written anew, in some of its voices."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from musictx.chorale import grid as four
from musictx.chorale.grid import SILENCE, VOICES, Grid
from musictx.chorale.tune import Tune
from musictx.errors import UserError
from musictx.evaluate import keys
from musictx.notes import Score


class Gap(Tune):
    """What begins in a span of a file of four tracks is to be written anew; all else stays."""

    @classmethod
    def between(cls, score: Score, begin: float, end: float, tracks: Sequence[int]) -> Gap:
        """What begins from ``begin`` to ``end`` seconds on ``tracks``.

        Raises ``UserError`` for other than four tracks and where nothing is to be written, or all.
        """
        of_voices = _tracks(score)
        if len(of_voices) != len(VOICES):
            raise UserError(
                f"file: {len(of_voices)} tracks, expected four, one for each voice, for a model of "
                "chorales"
            )
        wanted = [voice for voice, track in enumerate(of_voices) if track in tracks]
        given, first = four.read(score)[0], four.first_step(score)
        edges = four.steps(score, np.array([begin, end])) - first
        step = np.arange(len(given))[:, None]
        began = np.maximum.accumulate(np.where(given.tied, 0, step))  # where each note begins
        free = (began >= edges[0]) & (began < edges[1])
        free[:, [v for v in range(len(VOICES)) if v not in wanted]] = False
        if not free.any() or free.all():
            what = "nothing begins there" if not free.any() else "nothing would stay"
            raise UserError(f"from, to: {what}; expected some bars of the file, not all")
        stay = tuple(v for v in range(len(VOICES)) if v not in wanted) or (0,)
        clock, key = four.beats(score), keys.of_melody(given.pitches[:, 0])
        return cls(given, stay, ~free, 0, first, clock, key, 0, score)

    def harmonised(self, grid: Grid) -> Score:
        """The file with the free notes of ``grid`` in the place of those that were there."""
        free, notes = ~self.fixed, self.score.notes
        tied = grid.tied & free
        tied[1:] &= free[:-1]
        fresh = four.notes(
            Grid(np.where(free, grid.pitches, SILENCE), tied), self.clock, self.first
        )
        steps = four.steps(self.score, notes["start"]) - self.first
        keep = np.ones(len(notes), bool)
        for voice, track in enumerate(_tracks(self.score)):
            old, new = (notes["track"] == track) & ~notes["drum"], fresh["track"] == voice
            at = np.clip(steps, 0, len(free) - 1)
            keep &= ~(old & free[at, voice])
            fresh["velocity"][new] = int(np.median(notes["velocity"][old]))
            fresh["program"][new] = notes["program"][old][0]
        by_voice = np.array(_tracks(self.score), fresh["track"].dtype)
        fresh["track"] = by_voice[fresh["track"]]
        return self.score.with_notes(np.concatenate([notes[keep], fresh]))


def _tracks(score: Score) -> list[int]:
    """The tracks with pitched notes, from high to low, as :func:`musictx.chorale.grid.read` has
    them."""
    notes = score.notes[~score.notes["drum"]]
    mean = {
        t: notes["pitch"][notes["track"] == t].mean() for t in np.unique(notes["track"]).tolist()
    }
    return sorted(mean, key=lambda track: (-mean[track], track))
