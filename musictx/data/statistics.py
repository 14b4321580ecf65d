"""Statistics of the notes of a corpus: polyphony, density, repetition, ranges of parts.

Models that are trained for only a few hours write too many simultaneous notes. Therefore sampling
keeps within these statistics by default (:mod:`musictx.sampling.penalties`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from musictx.data.shards import Shards
from musictx.notes import Score, pitched, until
from musictx.tokens.controls import measure_controls
from musictx.tokens.spelling import program_key
from musictx.tokens.tokenizer import Tokenizer, programs_of_ids

#: A limit is the quantile of this order: the share of notes that do not exceed it.
SHARE_WITHIN = 0.95
#: The length in seconds of the excerpt from the middle of each piece that polyphony is measured in.
MIDDLE_SECONDS = 30.0
#: A note is re-struck if its pitch was struck less than this many seconds before.
RESTRUCK_SECONDS = 0.5
#: Seconds by which rounding may change the difference of two times.
ROUNDING = 1e-6
#: Of larger corpora a sample is measured: at least this many pieces, and fewer than twice as many.
PIECES = 100
#: The length of the windows in which :attr:`Habit.densest` counts notes.
WINDOW_SECONDS = 4.0


class Habit(NamedTuple):
    """What is usual in a part.

    voices   the number of simultaneous notes
    low      the lowest pitch
    high     the highest pitch
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
    """Statistics of the corpus of a model, from its card; None if unknown.

    most_notes       the number of simultaneous notes that is rarely exceeded
    density          notes per second
    repetition_rate  share of notes whose pitch was struck less than half a second before
    instruments      the programs of the corpus, 128 for drums
    polyphony        mean number of simultaneous notes, without silence
    parts            program (128 for drums) -> its habit
    ensembles        (number of pieces, programs) for each frequent set of two or more programs
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
        """From the entry ``note_limits`` of a card (:func:`of_corpus`); None: no such entry."""
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
    """The :func:`note_limits` of the training split, measured on evenly spaced pieces
    (:data:`PIECES`), and the :func:`ensembles` of all its pieces, as the entry ``ensembles``."""
    pieces = shards.pieces("train")
    sample = pieces[:: max(1, len(pieces) // PIECES)]
    limits = note_limits(tokenizer.decode(shards.tokens(piece.number)) for piece in sample)
    program_of = programs_of_ids(tokenizer)
    programs = (np.unique(program_of[shards.tokens(piece.number)]) for piece in pieces)
    frequent = ensembles(p[p >= 0].tolist() for p in programs)
    return {**limits, "ensembles": frequent} if limits and frequent else limits


def ensembles(pieces: Iterable[Sequence[int]]) -> list[list[Any]]:
    """The most frequent sets of two or more programs: [[number of pieces, [program, ...]], ...].

    ``pieces`` has the programs of each piece. The sets cover at least :data:`SHARE_WITHIN` of the
    pieces with two or more programs.
    """
    counts = Counter(tuple(programs) for programs in pieces if len(programs) > 1)
    rows, remaining = list[list[Any]](), SHARE_WITHIN * sum(counts.values())
    for programs, count in sorted(counts.items(), key=lambda pair: (-pair[1], pair[0])):
        if remaining > 0:
            rows.append([count, [*programs]])
            remaining -= count
    return rows


def note_limits(scores: Iterable[Score]) -> dict[str, Any]:
    """The note limits of ``scores``; empty if no note is pitched. Drums only count in
    ``instruments`` and ``parts``.

    most_notes    the :data:`SHARE_WITHIN` quantile of :func:`notes_at_onsets` over all notes
    density       the median over pieces of notes per second; missing if no note has a length
    restruck      the share of notes whose pitch was struck less than half a second before
    polyphony     the median over pieces of the control with this name, measured in the middle
                  :data:`MIDDLE_SECONDS` seconds of each piece
    instruments   the General MIDI programs that occur, 128 for drums
    parts         [[program, voices, lowest pitch, highest pitch, notes per second], ...] for each
                  program, 128 for drums. ``voices`` is like ``most_notes``; 98 % of the notes lie
                  between the two pitches; the rate is the median over pieces with the program
    """
    counts_of_pieces: list[np.ndarray] = []
    densities, polyphony, restruck_notes = [], [], 0.0
    parts: dict[int, list[tuple[np.ndarray, np.ndarray, float]]] = {}
    for score in scores:
        for part, played in parts_of(score.notes).items():
            rate = len(played) / max(float(np.ptp(played["start"])), 1.0)
            parts.setdefault(part, []).append(
                (notes_at_onsets(played), played["pitch"].astype(int), rate)
            )
        notes = score.notes[~score.notes["drum"]]
        if not len(notes):
            continue
        counts_of_pieces.append(notes_at_onsets(notes))
        span = float(notes["end"].max() - notes["start"].min())
        if span > 0:
            densities.append(len(notes) / span)
        restruck_notes += restruck(score) * len(notes)
        middle = excerpt(score, max(0.0, (score.duration - MIDDLE_SECONDS) / 2), MIDDLE_SECONDS)
        values = measure_controls(middle.notes, middle.duration)
        if "polyphony" in values:
            polyphony.append(values["polyphony"])
    if not counts_of_pieces:
        return {}
    counts = np.concatenate(counts_of_pieces)
    limits: dict[str, Any] = {
        "most_notes": max(1, int(np.quantile(counts, SHARE_WITHIN, method="higher"))),
        "restruck": round(restruck_notes / len(counts), 4),
        "instruments": sorted(parts),
        "parts": [[part, *measure_habit(*zip(*rows))[:4]] for part, rows in sorted(parts.items())],
    }
    if np.isfinite(polyphony).any():
        limits["polyphony"] = round(float(np.nanmedian(polyphony)), 3)
    if densities:
        limits["density"] = round(float(np.median(densities)), 3)
    return limits


def parts_of(notes: np.ndarray) -> dict[int, np.ndarray]:
    """Program -> its notes; the program of drums is 128."""
    programs = program_key(notes)
    return {program: notes[programs == program] for program in np.unique(programs).tolist()}


def notes_at_onsets(notes: np.ndarray) -> np.ndarray:
    """The number of simultaneous notes, (n,), when each of the ``notes``, sorted by start, is
    struck, including that note."""
    ended = np.searchsorted(np.sort(notes["end"]), notes["start"], "right")
    return np.arange(1, len(notes) + 1) - ended


def densest(notes: np.ndarray, seconds: float) -> int:
    """The largest number of ``notes``, sorted by start, that begin within ``seconds``."""
    starts = notes["start"]
    counts = np.searchsorted(starts, starts + seconds - ROUNDING) - np.arange(len(starts))
    return int(counts.max(initial=0))


def measure_habit(
    counts: Sequence[np.ndarray], pitches: Sequence[np.ndarray], rates: Sequence[float]
) -> Habit:
    """The habit of a part, without ``densest`` and ``longest``. The arguments have an entry for
    each piece with the part: its :func:`notes_at_onsets`, pitches, and notes per second."""
    pitch = np.concatenate(pitches)
    most = max(1, int(np.quantile(np.concatenate(counts), SHARE_WITHIN, method="higher")))
    low, high = (int(np.quantile(pitch, q, method="nearest")) for q in (0.01, 0.99))
    return Habit(most, low, high, round(float(np.median(rates)), 3))


def usual_length(lengths: np.ndarray) -> float:
    """The length in seconds that :data:`SHARE_WITHIN` of ``lengths`` do not exceed."""
    return round(float(np.quantile(lengths, SHARE_WITHIN, method="higher")), 3)


def excerpt(score: Score, start: float, seconds: float) -> Score:
    """The pitched notes that begin from ``start`` to ``start + seconds`` (exclusive) and are cut
    there, with times counted from ``start``. Pedals, tempo and meter are left out."""
    notes = until(score, start + seconds).notes
    notes = notes[(notes["start"] >= start) & ~notes["drum"]]
    notes["start"] -= start
    notes["end"] -= start
    return Score(notes=notes)


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
