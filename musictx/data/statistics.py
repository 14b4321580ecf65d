"""Statistics of the notes of a corpus: lengths, notes at once, density, repetition.

A model after a few hours of training holds notes too long, and strikes too many.
Sampling keeps to these limits by default (:mod:`musictx.sampling.note_limits`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from musictx.data.shards import Shards
from musictx.keys import scale_consistency
from musictx.notes import DRUMS, Score, pitched
from musictx.tokens.controls import CONTROLS, measured
from musictx.tokens.tokenizer import Tokenizer

#: The share of notes (of strikes) that lie within a limit; the rest are taken for exceptions.
SHARE_WITHIN = 0.95
#: A register is an octave, from C, extended into the next until it has so many notes.
NOTES_OF_A_REGISTER = 100
#: Scale and self-similarity are those of so many seconds from the middle of each piece.
MIDDLE = 30.0
#: A note is re-struck if its pitch was struck less than so many seconds before.
RESTRUCK_SECONDS = 0.5
#: Differences of times that ought to be equal differ by less, so that it does not matter when a
#: piece begins.
ROUNDING = 1e-6
#: From so many pieces, or up to twice as many, the note limits of a corpus are read.
PIECES = 100


def of_corpus(shards: Shards, tokenizer: Tokenizer) -> dict[str, Any]:
    """:func:`note_limits` of the training split of a corpus: of all its pieces, or of
    some :data:`PIECES` that are spread evenly over it."""
    pieces = shards.pieces("train")
    some = pieces[:: max(1, len(pieces) // PIECES)]
    return note_limits(tokenizer.decode(shards.tokens(piece.number)) for piece in some)


def note_limits(scores: Iterable[Score]) -> dict[str, Any]:
    """The note limits of ``scores``; empty without a pitched note. Drums do not count, but for the
    last line.

    longest_note  [[lowest pitch, seconds], ...] by register: the first from pitch 0, each up to the
                  next; seconds that :data:`SHARE_WITHIN` of its notes do not exceed
    most_notes    notes that sound at once, the one just struck included, at that share of strikes
    density       notes a second, the median of the pieces; left out where nothing has a length
    restruck      the share of notes whose pitch was struck less than half a second before
    in_scale      the median of 30 seconds from the middle of each piece
    loudness, register, polyphony  the same of what the controls of these names measure
    instruments   the General MIDI programs that occur, 128 for drums
    parts         [[program, notes at once, lowest and highest pitch, notes a second], ...] of each
                  of them, 128 for drums: notes at once as ``most_notes``; pitches between which all
                  but one in fifty notes lie; the median of the pieces in which it occurs
    """
    pitches, lengths, together = [np.empty(0, int)], [np.empty(0)], [np.empty(0, int)]
    densities, again = [], 0.0
    in_scale: list[float] = []
    like: dict[str, list[float]] = {name: [] for name in CONTROLS if name != "density"}
    parts: dict[int, list[tuple[np.ndarray, np.ndarray, float]]] = {}
    for score in scores:
        for part, played in parts_of(score.notes).items():
            rate = len(played) / max(float(np.ptp(played["start"])), 1.0)
            parts.setdefault(part, []).append((at_once(played), played["pitch"].astype(int), rate))
        notes = score.notes[~score.notes["drum"]]
        if not len(notes):
            continue
        pitches.append(notes["pitch"].astype(int))
        lengths.append(notes["end"] - notes["start"])
        together.append(at_once(notes))
        span = float(notes["end"].max() - notes["start"].min())
        if span > 0:
            densities.append(len(notes) / span)
        again += restruck(score) * len(notes)
        middle = excerpt(score, max(0.0, (score.duration - MIDDLE) / 2), MIDDLE)
        in_scale.append(scale_consistency(middle))
        levels = measured(middle.notes, middle.duration)
        for name, values in like.items():
            values += [levels[name]] if name in levels else []
    pitch, length, struck = map(np.concatenate, (pitches, lengths, together))
    if not len(pitch):
        return {}
    limits: dict[str, Any] = {
        "longest_note": [
            [low, usual_length(length[(pitch >= low) & (pitch < high)])]
            for low, high in registers(np.bincount(pitch, minlength=128))
        ],
        "most_notes": max(1, int(np.quantile(struck, SHARE_WITHIN, method="higher"))),
        "restruck": round(again / len(pitch), 4),
        "instruments": sorted(parts),
        "parts": [[part, *habit(*zip(*rows))] for part, rows in sorted(parts.items())],
    }
    for name, values in {"in_scale": in_scale, **like}.items():
        if np.isfinite(values).any():
            limits[name] = round(float(np.nanmedian(values)), 3)
    if densities:
        limits["density"] = round(float(np.median(densities)), 3)
    return limits


def parts_of(notes: np.ndarray) -> dict[int, np.ndarray]:
    """Program, 128 for drums -> its notes."""
    part = np.where(notes["drum"], DRUMS, notes["program"].astype(int))
    return {one: notes[part == one] for one in np.unique(part).tolist()}


def at_once(notes: np.ndarray) -> np.ndarray:
    """(n,) at each strike: struck so far, itself included, less those that have ended by then."""
    ended = np.searchsorted(np.sort(notes["end"]), notes["start"], "right")
    counts: np.ndarray = np.arange(1, len(notes) + 1) - ended
    return counts


def densest(notes: np.ndarray, seconds: float) -> int:
    """How many of ``notes``, sorted, begin within the ``seconds`` in which most do."""
    starts = notes["start"]
    within = np.searchsorted(starts, starts + seconds - 1e-6) - np.arange(len(starts))
    return int(within.max(initial=0))


def habit(
    together: Sequence[np.ndarray], pitches: Sequence[np.ndarray], rates: Sequence[float]
) -> list[float]:
    """The numbers of one of ``parts``: :func:`at_once` and pitches of each piece, notes a
    second."""
    pitch = np.concatenate(pitches)
    most = max(1, int(np.quantile(np.concatenate(together), SHARE_WITHIN, method="higher")))
    low, high = (int(np.quantile(pitch, q, method="nearest")) for q in (0.01, 0.99))
    return [most, low, high, round(float(np.median(rates)), 3)]


def registers(counts: np.ndarray) -> list[tuple[int, int]]:
    """(lowest pitch, the first above) of each register, all pitches in one; ``counts`` (128,) are
    the notes of each pitch. What is left at the top goes to the last register."""
    lows, notes = [0], 0
    for octave in range(12, 128, 12):
        notes += int(counts[octave - 12 : octave].sum())
        if notes >= NOTES_OF_A_REGISTER and counts[octave:].sum() >= NOTES_OF_A_REGISTER:
            lows.append(octave)
            notes = 0
    return list(zip(lows, [*lows[1:], 128]))


def usual_length(lengths: np.ndarray) -> float:
    """Seconds that :data:`SHARE_WITHIN` of ``lengths`` do not exceed."""
    return round(float(np.quantile(lengths, SHARE_WITHIN, method="higher")), 3)


def excerpt(score: Score, start: float, seconds: float) -> Score:
    """The notes struck from ``start`` to before ``start + seconds``, counted from ``start``.

    Their ends are cut at the end of the excerpt; a note struck before it is not in it, nor are
    drums, pedals and marks.
    """
    notes = score.notes
    inside = (notes["start"] >= start) & (notes["start"] < start + seconds) & ~notes["drum"]
    chosen = notes[inside].copy()
    chosen["end"] = np.minimum(chosen["end"], start + seconds) - start
    chosen["start"] -= start
    return Score(notes=chosen)


def restruck(score: Score) -> float:
    """The share of notes whose pitch was struck less than :data:`RESTRUCK_SECONDS` before.
    Empty: nan; one note: 0."""
    notes = pitched(score)
    if not len(notes):
        return np.nan
    order = np.lexsort((notes["start"], notes["pitch"]))
    pitch, start = notes["pitch"][order], notes["start"][order]
    again = (pitch[1:] == pitch[:-1]) & (np.diff(start) < RESTRUCK_SECONDS - ROUNDING)
    return float(again.sum() / len(notes))
