"""Estimates the key of a piece from its pitch classes, and the scale that holds most notes."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from musictx.chords import ROOTS
from musictx.notes import Score, pitched

#: How well each of the twelve notes from the tonic up fits the key, rated by listeners (Krumhansl
#: & Kessler 1982).
_PROFILES = {
    "major": (6.35, 2.23, 3.48, 2.33, 4.38, 4.09, 2.52, 5.19, 2.39, 3.66, 2.29, 2.88),
    "minor": (6.33, 2.68, 3.52, 5.38, 2.60, 3.53, 2.54, 4.75, 3.98, 2.69, 3.34, 3.17),
}
#: (24, 12): the profile of each key (tonic 0 major, tonic 0 minor, tonic 1 major, ...), normalised
#: to mean 0 and length 1.
_CENTRED = np.array(
    [
        np.roll(np.array(profile) - np.mean(profile), tonic) / (np.std(profile) * 12**0.5)
        for tonic in range(12)
        for profile in _PROFILES.values()
    ]
)

#: Semitones above the tonic in major and in harmonic minor. (Natural minor has the pitch classes of
#: its relative major, so it could not be told from it.)
_MAJOR, _MINOR = (0, 2, 4, 5, 7, 9, 11), (0, 2, 3, 5, 7, 8, 11)
#: (24, 12) bool: the pitch classes of the 12 major scales, then of the 12 minor scales.
_SCALES = np.array(
    [[(p - key) % 12 in mode for p in range(12)] for mode in (_MAJOR, _MINOR) for key in range(12)]
)


class Key(NamedTuple):
    """A pitch class 0..11 (C is 0) and ``major`` or ``minor``."""

    tonic: int
    mode: str

    def __str__(self) -> str:
        return f"{ROOTS[self.tonic]} {self.mode}"


#: Bonus for the keys whose tonic is the last note of a melody, added to their correlation.
_TONIC_BONUS = 0.2


def of_melody(pitches: np.ndarray) -> Key | None:
    """Estimate the key of a melody, (T,) pitches with -1 for silence; ``None`` without a note.

    It is estimated as by :func:`estimate`, with a bonus for keys whose tonic is the last note,
    because a melody has few notes and most melodies end on the tonic.
    """
    return estimate(pitches[:, None], tonic_bonus=_TONIC_BONUS)


def estimate(pitches: np.ndarray, *, tonic_bonus: float = 0.0) -> Key | None:
    """Estimate the key of a piece, (T, voices) pitches with -1 for silence; ``None`` if all is
    silent.

    The algorithm of Krumhansl & Schmuckler (Krumhansl 1990, chapter 4): the key whose profile
    correlates best with the duration of each pitch class in the whole piece. ``tonic_bonus`` is
    added to the correlation if the tonic is the lowest note of the last chord. Of equal keys the
    one with the tonic nearest above that note wins, so that a transposed piece gets the transposed
    key. In about four of five chorales the estimated tonic is the root of the last chord; in most
    others it is a fifth away.
    """
    sounding = pitches[pitches >= 0]
    if not len(sounding):
        return None
    chord = pitches[(pitches >= 0).any(1)][-1]
    bass = int(chord[chord >= 0].min())
    durations = np.bincount((sounding - bass) % 12, minlength=12).astype(float)
    centred = durations - durations.mean()
    correlations = _CENTRED @ centred / max(float(np.linalg.norm(centred)), 1e-9)
    correlations[: len(_PROFILES)] += tonic_bonus
    best = int(np.argmax(correlations > correlations.max() - 1e-9))  # the first of equal keys
    return Key((bass + best // len(_PROFILES)) % 12, list(_PROFILES)[best % len(_PROFILES)])


def _counts(score: Score) -> np.ndarray:
    """Return (12,) the number of notes of each pitch class, without drums."""
    return np.bincount(pitched(score)["pitch"] % 12, minlength=12)


def best_scale(score: Score) -> np.ndarray:
    """Return (12,) bool: the pitch classes of the major or harmonic minor scale that contains the
    most notes. Without notes this is C major."""
    return _SCALES[int((_SCALES @ _counts(score)).argmax())]


def key_of(score: Score) -> tuple[int, bool]:
    """Return the tonic of :func:`best_scale` as a pitch class, and whether the scale is minor."""
    is_minor, tonic = divmod(int((_SCALES @ _counts(score)).argmax()), 12)
    return tonic, bool(is_minor)


def scale_consistency(score: Score) -> float:
    """Return the share of notes that are in :func:`best_scale`; nan without notes.

    It is between 7/12, if all pitch classes are equally frequent, and 1.
    """
    counts = _counts(score)
    inside = counts[best_scale(score)].sum()
    return float(inside / counts.sum()) if counts.sum() else np.nan
