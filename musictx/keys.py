"""Estimate the key of a piece from how long its pitch classes sound, and the scale of its notes."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from operator import itemgetter
from typing import NamedTuple

import numpy as np

from musictx.chords import NONE, ROOTS, Chord, parse_name
from musictx.notes import Score, pitched

#: How well each of the twelve pitch classes from the tonic up fits a key, as rated by listeners
#: (Krumhansl & Kessler 1982).
_PROFILES = {
    "major": (6.35, 2.23, 3.48, 2.33, 4.38, 4.09, 2.52, 5.19, 2.39, 3.66, 2.29, 2.88),
    "minor": (6.33, 2.68, 3.52, 5.38, 2.60, 3.53, 2.54, 4.75, 3.98, 2.69, 3.34, 3.17),
}
#: (24, 12): the major and minor profile on each pitch class, with mean 0 and length 1.
_CENTRED = np.array(
    [
        np.roll(np.array(profile) - np.mean(profile), above) / (np.std(profile) * 12**0.5)
        for above in range(12)
        for profile in _PROFILES.values()
    ]
)

#: Semitones above the tonic: major, and harmonic minor (natural minor scales are those of their
#: relative majors).
_MAJOR, _MINOR = (0, 2, 4, 5, 7, 9, 11), (0, 2, 3, 5, 7, 8, 11)
#: (24, 12) bool: the pitch classes of the twelve major scales, then of the minor ones.
_SCALES = np.array(
    [[(p - key) % 12 in mode for p in range(12)] for mode in (_MAJOR, _MINOR) for key in range(12)]
)


class Key(NamedTuple):
    """A pitch class 0..11 (C is 0) and ``major`` or ``minor``."""

    tonic: int
    mode: str

    def __str__(self) -> str:
        name = f"{ROOTS[self.tonic]} {self.mode}"
        return {"C# major": "Db major", "Ab minor": "G# minor"}.get(name, name)  # fewer signs


#: Added to the correlation of a melody with a key if its last note is the tonic.
_LAST_NOTE_BONUS = 0.2


def of_melody(pitches: np.ndarray) -> Key | None:
    """Return the key of a melody (T,), -1 = silence; ``None`` if there is no note. It is that of
    :func:`estimate`, but the last note is preferred as the tonic, since a single line gives little
    evidence."""
    return estimate(pitches[:, None], last_note_bonus=_LAST_NOTE_BONUS)


def estimate(pitches: np.ndarray, *, last_note_bonus: float = 0.0) -> Key | None:
    """Return the key of a piece (T, voices), -1 = silence; ``None`` if nothing sounds.

    It is the key whose profile correlates best with the number of steps of each pitch class in the
    whole piece (Krumhansl & Schmuckler; Krumhansl 1990, chapter 4). Ties go to the key with the
    smallest distance above the lowest note of the last chord, so that a transposed piece has the
    transposed key. For about four in five chorales the tonic is the root of the last chord; for
    most others it is a fifth away. ``last_note_bonus`` is added to the correlation of keys on the
    lowest note of the last chord.
    """
    sounding = pitches[pitches >= 0]
    if not len(sounding):
        return None
    chord = pitches[(pitches >= 0).any(1)][-1]
    origin = int(chord[chord >= 0].min())
    weights = np.bincount((sounding - origin) % 12, minlength=12).astype(float)
    centred = weights - weights.mean()
    fits = _CENTRED @ centred / max(float(np.linalg.norm(centred)), 1e-9)
    fits[: len(_PROFILES)] += last_note_bonus
    best = int(np.argmax(fits > fits.max() - 1e-9))  # the first of equal correlations
    return Key((origin + best // len(_PROFILES)) % 12, list(_PROFILES)[best % len(_PROFILES)])


def _counts(score: Score) -> np.ndarray:
    """Return (12,) the number of notes of each pitch class, without drums."""
    return np.bincount(pitched(score)["pitch"] % 12, minlength=12)


def best_scale(score: Score) -> np.ndarray:
    """Return (12,) bool: the pitch classes of the scale with the most notes of ``score``, among 12
    major and 12 harmonic minor scales. Ties go to the first: C major if there are no notes."""
    return _SCALES[int((_SCALES @ _counts(score)).argmax())]


def key_of(score: Score) -> tuple[int, bool]:
    """Return (pitch class of the tonic, whether it is minor) of :func:`best_scale`."""
    number = int((_SCALES @ _counts(score)).argmax())
    return number % 12, number >= 12


def key_signatures(score: Score) -> list[tuple[float, int, bool]]:
    """Return (seconds, sharps, whether it is minor) of the keys of ``score``, or else of the key of
    :func:`key_of`. Flats are negative sharps. Empty if it has neither keys nor pitched notes."""
    if len(score.keys) or not _counts(score).any():
        return score.keys.tolist()
    tonic, minor = key_of(score)
    return [(0.0, sharps_of(tonic + 3 * minor), minor)]


def sharps_of(tonic: int) -> int:
    """Return the sharps of the major key on a pitch class, from -5 (D flat) to 6 (F sharp)."""
    return (7 * tonic + 5) % 12 - 5


def name_chords(score: Score, chords: Iterable[tuple[float, Chord | str]]) -> tuple:
    """Return (seconds, name) of ``chords`` or their names, with roots spelt by the key in force
    (:func:`key_signatures`): from A flat to C sharp in C major, from B flat to D sharp in A minor,
    without double sharps and flats."""
    signatures, names = key_signatures(score) or [(0.0, 0, False)], []
    for time, name in chords:
        in_force = bisect_right(signatures[1:], time + 1e-6, key=itemgetter(0))
        _, sharps, minor = signatures[in_force]
        lowest = sharps - (2 if minor else 4)
        chord = parse_name(str(name)) or NONE
        names.append((time, chord.name(min(max(lowest, -8), 1))))
    return tuple(names)


def scale_consistency(score: Score) -> float:
    """Return the share of notes in :func:`best_scale`: nan if there are none, 1 for one note, 7/12
    if all pitch classes are equally frequent."""
    counts = _counts(score)
    return float((_SCALES @ counts).max() / counts.sum()) if counts.any() else np.nan
