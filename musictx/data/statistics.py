"""Statistics of the notes of a corpus: lengths, notes at once, density, repetition.

A model after a few hours of training holds notes too long and strikes too many at once. Sampling
keeps to these limits by default (:mod:`musictx.sampling.penalties`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from musictx.data.shards import Shards
from musictx.notes import DRUMS, Score, pitched
from musictx.tokens.controls import measured
from musictx.tokens.tokenizer import Tokenizer

#: The share of notes that lie within a limit; the rest count as exceptions.
SHARE_WITHIN = 0.95
#: Seconds of the excerpt from the middle of each piece in which its polyphony is measured.
MIDDLE = 30.0
#: A note is re-struck if its pitch was struck less than this many seconds before.
RESTRUCK_SECONDS = 0.5
#: Seconds by which rounding may change the difference of two times.
ROUNDING = 1e-6
#: A larger corpus is measured in a sample of this many pieces, or up to twice as many.
PIECES = 100


def of_corpus(shards: Shards, tokenizer: Tokenizer) -> dict[str, Any]:
    """:func:`note_limits` of the training split of a corpus; of a large one, those of about
    :data:`PIECES` pieces that are spread evenly over it; and the :func:`ensembles` of all."""
    pieces = shards.pieces("train")
    some = pieces[:: max(1, len(pieces) // PIECES)]
    limits = note_limits(tokenizer.decode(shards.tokens(piece.number)) for piece in some)
    sets = (np.unique(tokenizer.program_of[shards.tokens(piece.number)]) for piece in pieces)
    together = ensembles(one[one >= 0].tolist() for one in sets)
    return {**limits, "ensembles": together} if limits and together else limits


def ensembles(pieces: Iterable[Sequence[int]]) -> list[list[Any]]:
    """[[number of pieces, [program, ...]], ...]: of ``pieces``, the programs that each has, those
    sets of several that occur most, so many that :data:`SHARE_WITHIN` of these pieces have one."""
    sets = Counter(tuple(one) for one in pieces if len(one) > 1)
    rows, left = list[list[Any]](), SHARE_WITHIN * sum(sets.values())
    for some, count in sorted(sets.items(), key=lambda one: (-one[1], one[0])):
        if left <= 0:
            break
        rows.append([count, [*some]])
        left -= count
    return rows


def note_limits(scores: Iterable[Score]) -> dict[str, Any]:
    """The note limits of ``scores``; empty without a pitched note. Drums count only in
    ``instruments`` and ``parts``.

    most_notes    the number of notes that sound when a note is struck, including that note, which
                  is not exceeded at a share of :data:`SHARE_WITHIN` of the notes
    density       notes a second, the median of the pieces; left out where nothing has a length
    restruck      the share of notes whose pitch was struck less than half a second before
    polyphony     the value that the control of this name measures in 30 seconds from the middle of
                  each piece, the median of the pieces
    instruments   the General MIDI programs that occur, 128 for drums
    parts         [[program, notes at once, lowest pitch, highest pitch, notes a second], ...] for
                  each program, 128 for drums: notes at once as in ``most_notes``; all but one in
                  fifty notes lie between the two pitches; notes a second are the median of the
                  pieces in which the program occurs
    """
    together: list[np.ndarray] = []
    densities, polyphony, again = [], [], 0.0
    parts: dict[int, list[tuple[np.ndarray, np.ndarray, float]]] = {}
    for score in scores:
        for part, played in parts_of(score.notes).items():
            rate = len(played) / max(float(np.ptp(played["start"])), 1.0)
            parts.setdefault(part, []).append((at_once(played), played["pitch"].astype(int), rate))
        notes = score.notes[~score.notes["drum"]]
        if not len(notes):
            continue
        together.append(at_once(notes))
        span = float(notes["end"].max() - notes["start"].min())
        if span > 0:
            densities.append(len(notes) / span)
        again += restruck(score) * len(notes)
        middle = excerpt(score, max(0.0, (score.duration - MIDDLE) / 2), MIDDLE)
        levels = measured(middle.notes, middle.duration)
        polyphony += [levels["polyphony"]] if "polyphony" in levels else []
    if not together:
        return {}
    struck = np.concatenate(together)
    limits: dict[str, Any] = {
        "most_notes": max(1, int(np.quantile(struck, SHARE_WITHIN, method="higher"))),
        "restruck": round(again / len(struck), 4),
        "instruments": sorted(parts),
        "parts": [[part, *habit(*zip(*rows))] for part, rows in sorted(parts.items())],
    }
    if np.isfinite(polyphony).any():
        limits["polyphony"] = round(float(np.nanmedian(polyphony)), 3)
    if densities:
        limits["density"] = round(float(np.median(densities)), 3)
    return limits


def parts_of(notes: np.ndarray) -> dict[int, np.ndarray]:
    """The notes of each program, by its number; drums are 128."""
    part = np.where(notes["drum"], DRUMS, notes["program"].astype(int))
    return {one: notes[part == one] for one in np.unique(part).tolist()}


def at_once(notes: np.ndarray) -> np.ndarray:
    """(n,) the number of notes that sound when each note is struck, including that note."""
    ended = np.searchsorted(np.sort(notes["end"]), notes["start"], "right")
    counts: np.ndarray = np.arange(1, len(notes) + 1) - ended
    return counts


def densest(notes: np.ndarray, seconds: float) -> int:
    """The largest number of ``notes``, sorted by start, that begin within ``seconds``."""
    starts = notes["start"]
    within = np.searchsorted(starts, starts + seconds - 1e-6) - np.arange(len(starts))
    return int(within.max(initial=0))


def habit(
    together: Sequence[np.ndarray], pitches: Sequence[np.ndarray], rates: Sequence[float]
) -> list[float]:
    """A row of ``parts`` in :func:`note_limits`, from the notes at once (:func:`at_once`), the
    pitches and the notes a second of each piece in which the part occurs."""
    pitch = np.concatenate(pitches)
    most = max(1, int(np.quantile(np.concatenate(together), SHARE_WITHIN, method="higher")))
    low, high = (int(np.quantile(pitch, q, method="nearest")) for q in (0.01, 0.99))
    return [most, low, high, round(float(np.median(rates)), 3)]


def usual_length(lengths: np.ndarray) -> float:
    """Seconds that :data:`SHARE_WITHIN` of ``lengths`` do not exceed."""
    return round(float(np.quantile(lengths, SHARE_WITHIN, method="higher")), 3)


def excerpt(score: Score, start: float, seconds: float) -> Score:
    """The pitched notes struck from ``start`` to before ``start + seconds``, with times counted
    from ``start``.

    Notes are cut at the end of the excerpt. A note that was struck before its beginning is left
    out, and so are pedals, tempo and meter.
    """
    notes = score.notes
    inside = (notes["start"] >= start) & (notes["start"] < start + seconds) & ~notes["drum"]
    chosen = notes[inside].copy()
    chosen["end"] = np.minimum(chosen["end"], start + seconds) - start
    chosen["start"] -= start
    return Score(notes=chosen)


def restruck(score: Score) -> float:
    """The share of notes whose pitch was struck less than :data:`RESTRUCK_SECONDS` before; nan for
    a score without pitched notes."""
    notes = pitched(score)
    if not len(notes):
        return np.nan
    order = np.lexsort((notes["start"], notes["pitch"]))
    pitch, start = notes["pitch"][order], notes["start"][order]
    again = (pitch[1:] == pitch[:-1]) & (np.diff(start) < RESTRUCK_SECONDS - ROUNDING)
    return float(again.sum() / len(notes))
