"""The key of a piece by how long each pitch class sounds, and the scale that holds its notes."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from musictx.chords import ROOTS
from musictx.notes import Score, pitched

#: Fitness of the twelve notes above the tonic: Krumhansl & Kessler 1982, from listeners.
_PROFILES = {
    "major": (6.35, 2.23, 3.48, 2.33, 4.38, 4.09, 2.52, 5.19, 2.39, 3.66, 2.29, 2.88),
    "minor": (6.33, 2.68, 3.52, 5.38, 2.60, 3.53, 2.54, 4.75, 3.98, 2.69, 3.34, 3.17),
}
#: (24, 12): major and minor on each note above the lowest, mean 0, length 1.
_CENTRED = np.array(
    [
        np.roll(np.array(profile) - np.mean(profile), above) / (np.std(profile) * 12**0.5)
        for above in range(12)
        for profile in _PROFILES.values()
    ]
)

#: Semitones above the keynote: major, and harmonic minor (natural minor has the pitch classes of
#: its relative major, so that 24 scales would be 12).
_MAJOR, _MINOR = (0, 2, 4, 5, 7, 9, 11), (0, 2, 3, 5, 7, 8, 11)
_SCALES = np.array(
    [[(p - key) % 12 in mode for p in range(12)] for mode in (_MAJOR, _MINOR) for key in range(12)]
)


class Key(NamedTuple):
    """A pitch class 0..11 (C is 0) and ``major`` or ``minor``."""

    tonic: int
    mode: str

    def __str__(self) -> str:
        return f"{ROOTS[self.tonic]} {self.mode}"


#: What a last note on the tonic adds to a melody's correlation with a key.
_HOME = 0.2


def of_melody(pitches: np.ndarray) -> Key | None:
    """The key of a melody (T,), -1 = silence; ``None`` without a note. As :func:`estimate`, but a
    single line says little, so that its last note counts: most melodies end on the tonic."""
    return estimate(pitches[:, None], home=_HOME)


def estimate(pitches: np.ndarray, *, home: float = 0.0) -> Key | None:
    """The key of a piece (T, voices), -1 = silence; ``None`` if nothing sounds.

    The one whose profile correlates best with the steps for which each pitch class sounds, over
    the whole piece (Krumhansl & Schmuckler; Krumhansl 1990, chapter 4). Equal correlations are
    decided by the distance above the lowest note of the last chord, so that a transposed piece has
    a transposed key. Of chorales about four in five have the root of their last chord for tonic;
    the estimate for most others is a fifth away. ``home`` is added for keys of that tonic.
    """
    sounding = pitches[pitches >= 0]
    if not len(sounding):
        return None
    chord = pitches[(pitches >= 0).any(1)][-1]
    origin = int(chord[chord >= 0].min())
    weights = np.bincount((sounding - origin) % 12, minlength=12).astype(float)
    centred = weights - weights.mean()
    fits = _CENTRED @ centred / max(float(np.linalg.norm(centred)), 1e-9)
    fits[: len(_PROFILES)] += home
    best = int(np.argmax(fits > fits.max() - 1e-9))  # the first of equal ones
    return Key((origin + best // len(_PROFILES)) % 12, list(_PROFILES)[best % len(_PROFILES)])


def _counts(score: Score) -> np.ndarray:
    """(12,) the notes of each pitch class, drums left out."""
    return np.bincount(pitched(score)["pitch"] % 12, minlength=12)


def best_scale(score: Score) -> np.ndarray:
    """(12,) bool: the pitch classes of the scale, of 12 major and 12 harmonic minor ones, that
    holds most notes; of equal ones the first, so C major without a note."""
    return _SCALES[int((_SCALES @ _counts(score)).argmax())]


def key_of(score: Score) -> tuple[int, bool]:
    """Pitch class of the keynote of :func:`best_scale`, and whether it is minor."""
    minor, keynote = divmod(int((_SCALES @ _counts(score)).argmax()), 12)
    return keynote, bool(minor)


def scale_consistency(score: Score) -> float:
    """The share of notes within :func:`best_scale`. Empty: nan; one note: 1; all pitch classes
    equally often: 7/12."""
    counts = _counts(score)
    inside = counts[best_scale(score)].sum()
    return float(inside / counts.sum()) if counts.sum() else np.nan
