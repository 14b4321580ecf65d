"""Statistics of the notes of a corpus: notes at once, density, repetition, ranges of parts.

After a few hours of training, models write too many notes at once. Sampling keeps to these
statistics by default (:mod:`musictx.sampling.penalties`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from musictx.data.shards import Shards
from musictx.notes import Score, pitched, until
from musictx.tokens.controls import measured
from musictx.tokens.spelling import program_key
from musictx.tokens.tokenizer import Tokenizer, programs_of_ids

#: The share of notes within a limit; the rest are exceptions.
SHARE_WITHIN = 0.95
#: Polyphony is measured in so many seconds from the middle of each piece.
MIDDLE = 30.0
#: A note is re-struck if its pitch was struck less than this many seconds before.
RESTRUCK_SECONDS = 0.5
#: Seconds by which rounding may change the difference of two times.
ROUNDING = 1e-6
#: Of a larger corpus only this many pieces, or up to twice as many, are measured.
PIECES = 100
#: The length of the windows in which :attr:`Habit.densest` counts notes.
WINDOW_SECONDS = 4.0


class Habit(NamedTuple):
    """What is usual in a part.

    voices   the number of notes at once
    low      the lowest pitch;  high  the highest pitch
    density  notes per second
    densest  the most notes in :data:`WINDOW_SECONDS`
    longest  the length of the longest note in seconds
    """

    voices: int
    low: int
    high: int
    density: float = 0.0
    densest: float = np.inf
    longest: float = np.inf


@dataclass(frozen=True)
class CorpusStats:
    """Statistics of the corpus of a model from its card; None if unknown.

    most_notes       the number of sounding notes that is rarely exceeded
    density          notes per second
    repetition_rate  share of notes whose pitch was struck less than half a second before
    instruments      the programs of the corpus, 128 for drums
    polyphony        mean number of sounding notes, without silence
    parts            program (128 for drums) -> its habit
    ensembles        (number of pieces, programs) of frequent sets of several programs
    """

    most_notes: int | None = None
    density: float | None = None
    repetition_rate: float = 0.25
    instruments: frozenset[int] | None = None
    polyphony: float | None = None
    parts: Mapping[int, Habit] = field(default_factory=dict)
    ensembles: Sequence[tuple[float, Sequence[int]]] = ()

    @classmethod
    def of(cls, limits: Mapping[str, Any] | None) -> CorpusStats:
        """Read the entry ``note_limits`` of a card: :func:`note_limits`, checked."""
        limits = limits or {}
        programs = limits.get("instruments")
        return cls(
            most_notes=limits.get("most_notes"),
            density=limits.get("density"),
            repetition_rate=limits.get("restruck", cls.repetition_rate),
            instruments=None if programs is None else frozenset(programs),
            polyphony=limits.get("polyphony"),
            parts={
                int(part): Habit(int(voices), int(low), int(high), rate)
                for part, voices, low, high, rate in limits.get("parts") or []
            },
            ensembles=[(count, p) for count, p in limits.get("ensembles") or [] if count],
        )


def of_corpus(shards: Shards, tokenizer: Tokenizer) -> dict[str, Any]:
    """The :func:`note_limits` of the training split, from about :data:`PIECES` pieces that are
    spread evenly over it, and the :func:`ensembles` of all its pieces."""
    pieces = shards.pieces("train")
    sample = pieces[:: max(1, len(pieces) // PIECES)]
    limits = note_limits(tokenizer.decode(shards.tokens(piece.number)) for piece in sample)
    program_of = programs_of_ids(tokenizer)
    programs = (np.unique(program_of[shards.tokens(piece.number)]) for piece in pieces)
    frequent = ensembles(p[p >= 0].tolist() for p in programs)
    return {**limits, "ensembles": frequent} if limits and frequent else limits


def ensembles(pieces: Iterable[Sequence[int]]) -> list[list[Any]]:
    """The most frequent sets of several programs in ``pieces``, which are the programs of each
    piece: [[number of pieces, [program, ...]], ...].

    Includes as many sets as necessary for :data:`SHARE_WITHIN` of the pieces with several programs.
    """
    counts = Counter(tuple(programs) for programs in pieces if len(programs) > 1)
    rows, remaining = list[list[Any]](), SHARE_WITHIN * sum(counts.values())
    for programs, count in sorted(counts.items(), key=lambda pair: (-pair[1], pair[0])):
        if remaining <= 0:
            break
        rows.append([count, [*programs]])
        remaining -= count
    return rows


def note_limits(scores: Iterable[Score]) -> dict[str, Any]:
    """The note limits of ``scores``; empty without pitched notes. Drums are only in ``instruments``
    and ``parts``.

    most_notes    the number of sounding notes when a note is struck, including that note, that
                  :data:`SHARE_WITHIN` of the notes do not exceed
    density       the median over pieces of their notes per second; left out if no note has a length
    restruck      the share of notes whose pitch was struck less than half a second before
    polyphony     the median over pieces of the control with this name, in 30 seconds from the
                  middle of each piece
    instruments   the General MIDI programs that occur, 128 for drums
    parts         [[program, notes at once, lowest pitch, highest pitch, notes a second], ...] for
                  each program, 128 for drums: notes at once as in ``most_notes``; 98 % of the notes
                  are between the two pitches; notes a second are the median of the pieces with the
                  program
    """
    at_once_of_pieces: list[np.ndarray] = []
    densities, polyphony, restruck_notes = [], [], 0.0
    parts: dict[int, list[tuple[np.ndarray, np.ndarray, float]]] = {}
    for score in scores:
        for part, played in parts_of(score.notes).items():
            rate = len(played) / max(float(np.ptp(played["start"])), 1.0)
            parts.setdefault(part, []).append((at_once(played), played["pitch"].astype(int), rate))
        notes = score.notes[~score.notes["drum"]]
        if not len(notes):
            continue
        at_once_of_pieces.append(at_once(notes))
        span = float(notes["end"].max() - notes["start"].min())
        if span > 0:
            densities.append(len(notes) / span)
        restruck_notes += restruck(score) * len(notes)
        middle = excerpt(score, max(0.0, (score.duration - MIDDLE) / 2), MIDDLE)
        levels = measured(middle.notes, middle.duration)
        polyphony += [levels["polyphony"]] if "polyphony" in levels else []
    if not at_once_of_pieces:
        return {}
    counts = np.concatenate(at_once_of_pieces)
    limits: dict[str, Any] = {
        "most_notes": max(1, int(np.quantile(counts, SHARE_WITHIN, method="higher"))),
        "restruck": round(restruck_notes / len(counts), 4),
        "instruments": sorted(parts),
        "parts": [[part, *habit(*zip(*rows))[:4]] for part, rows in sorted(parts.items())],
    }
    if np.isfinite(polyphony).any():
        limits["polyphony"] = round(float(np.nanmedian(polyphony)), 3)
    if densities:
        limits["density"] = round(float(np.median(densities)), 3)
    return limits


def parts_of(notes: np.ndarray) -> dict[int, np.ndarray]:
    """Program -> its notes; drums are 128."""
    programs = program_key(notes)
    return {program: notes[programs == program] for program in np.unique(programs).tolist()}


def at_once(notes: np.ndarray) -> np.ndarray:
    """(n,) the number of notes that sound when each note is struck, including that note."""
    ended = np.searchsorted(np.sort(notes["end"]), notes["start"], "right")
    return np.arange(1, len(notes) + 1) - ended


def densest(notes: np.ndarray, seconds: float) -> int:
    """The largest number of ``notes``, sorted by start, that begin within ``seconds``."""
    starts = notes["start"]
    within = np.searchsorted(starts, starts + seconds - 1e-6) - np.arange(len(starts))
    return int(within.max(initial=0))


def habit(
    together: Sequence[np.ndarray], pitches: Sequence[np.ndarray], rates: Sequence[float]
) -> Habit:
    """The habit of a part, without ``densest`` and ``longest``, from the notes at once
    (:func:`at_once`), pitches and notes per second of each piece with the part."""
    pitch = np.concatenate(pitches)
    most = max(1, int(np.quantile(np.concatenate(together), SHARE_WITHIN, method="higher")))
    low, high = (int(np.quantile(pitch, q, method="nearest")) for q in (0.01, 0.99))
    return Habit(most, low, high, round(float(np.median(rates)), 3))


def usual_length(lengths: np.ndarray) -> float:
    """The length in seconds that :data:`SHARE_WITHIN` of ``lengths`` do not exceed."""
    return round(float(np.quantile(lengths, SHARE_WITHIN, method="higher")), 3)


def excerpt(score: Score, start: float, seconds: float) -> Score:
    """The pitched notes that begin from ``start`` to ``start + seconds`` (exclusive), with times
    from ``start``.

    Notes end at the latest with the excerpt. Notes that begin before the excerpt are left out, and
    so are pedals, tempo and meter.
    """
    notes = until(score, start + seconds).notes
    chosen = notes[(notes["start"] >= start) & ~notes["drum"]]
    chosen["start"] -= start
    chosen["end"] -= start
    return Score(notes=chosen)


def restruck(score: Score) -> float:
    """The share of notes whose pitch was struck less than :data:`RESTRUCK_SECONDS` before; nan for
    a score without pitched notes."""
    notes = pitched(score)
    if not len(notes):
        return np.nan
    order = np.lexsort((notes["start"], notes["pitch"]))
    pitch, start = notes["pitch"][order], notes["start"][order]
    is_restruck = (pitch[1:] == pitch[:-1]) & (np.diff(start) < RESTRUCK_SECONDS - ROUNDING)
    return float(is_restruck.sum() / len(notes))
