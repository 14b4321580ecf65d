"""Takes: of several samples those that come nearest to a primer, or to what is usual in a corpus.

Three measures of :mod:`musictx.evaluate.musical` are compared: notes a second, self-similarity
2 to 4 seconds apart, and the share of notes within one scale: the primer's, or of a new piece its
own. What cannot be measured, such as the self-similarity of two seconds, does not count.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from musictx.evaluate import musical
from musictx.notes import Score
from musictx.sampling.music import Sample
from musictx.sampling.primer import Primer

#: Differences that count one: a doubled density, and so much of the other two measures.
UNITS = {"density": np.log(2.0), "similarity": 0.2, "in_scale": 0.2}
LAG = 2.0
WORDS = {"density": "notes a second", "similarity": "self-similarity", "in_scale": "in scale"}


@dataclass(frozen=True)
class Likeness:
    """What takes are compared with: the measures by name (nan = not known), the scale that counts
    (``None``: of each take its own), and whose they are, "primer" or "corpus"."""

    measures: Mapping[str, float]
    scale: np.ndarray | None
    of: str

    @classmethod
    def to(cls, primer: Primer, note_limits: Mapping[str, Any] | None) -> Likeness:
        """To the primer, or for a new piece to the corpus by the note limits of a model's card."""
        if primer.score is not None and len(primer.score):
            scale = musical.best_scale(primer.score)
            seconds = primer.score.duration - float(primer.score.notes["start"][0])
            return cls(measured(primer.score, seconds, scale), scale, "primer")
        card = note_limits or {}
        names = {"density": "density", "similarity": "self_similarity", "in_scale": "in_scale"}
        return cls({ours: float(card.get(n, np.nan)) for ours, n in names.items()}, None, "corpus")

    def distance(self, sample: Sample) -> float:
        """The sum of the differences, each in its unit; infinite without new notes."""
        if sample.notes == 0:
            return np.inf
        theirs = measured(new_part(sample), sample.seconds, self.scale)
        return sum(_difference(name, theirs[name], self.measures[name]) for name in UNITS)

    def why(self, sample: Sample) -> str:
        """The measures of a take beside those it was compared with, in one line."""
        theirs = measured(new_part(sample), sample.seconds, self.scale)
        known = [name for name in UNITS if np.isfinite(theirs[name])]
        return ", ".join(
            f"{WORDS[name]} {theirs[name]:.2f}"
            + (f" ({self.of} {self.measures[name]:.2f})" if self.measures[name] >= 0 else "")
            for name in known
        )


def measured(score: Score, seconds: float, scale: np.ndarray | None) -> dict[str, float]:
    """The three measures of music of ``seconds``; ``scale`` (12,) bool, ``None`` = its own."""
    return {
        "density": musical.density(score, max(seconds, 1e-3)),
        "similarity": musical.self_similarity(score, LAG),
        "in_scale": musical.scale_consistency(score, scale),
    }


def new_part(sample: Sample) -> Score:
    """The new music of a sample without its primer."""
    return musical.excerpt(sample.score, max(sample.seam - 1e-6, 0.0), sample.seconds + 1e-6)


def nearest(
    takes: Iterable[tuple[int, Sample]], keep: int | None, likeness: Likeness
) -> Iterator[tuple[int, Sample, str | None]]:
    """(number, sample, why) of the ``keep`` nearest takes, the nearest first, of equals the first;
    all of them as they come, without a reason, if ``keep`` is ``None``.

    After an interrupt (Ctrl-C) the nearest of those that there are come, then the interrupt.
    """
    if keep is None:
        yield from ((number, sample, None) for number, sample in takes)
        return
    found, interrupt = [], None
    try:
        for take in takes:
            found.append(take)
    except KeyboardInterrupt as stop:
        interrupt = stop
    found.sort(key=lambda take: (likeness.distance(take[1]), take[0]))
    for number, sample in found[:keep]:
        yield number, sample, likeness.why(sample)
    if interrupt is not None:
        raise interrupt


def _difference(name: str, one: float, other: float) -> float:
    if name == "density" and one > 0 and other > 0:
        one, other = float(np.log(one)), float(np.log(other))
    found = abs(one - other) / UNITS[name]
    return float(found) if np.isfinite(found) else 0.0
