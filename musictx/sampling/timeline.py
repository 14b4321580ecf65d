"""Place new notes in the piece that they continue: on its beats, bars and tracks.

The file of the piece has a tempo map, meters and tracks, which stay unchanged. New notes are placed
on them, where a sequencer expects notes to be.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection

import numpy as np

from musictx.beats import NEAR, Beats
from musictx.errors import UserError
from musictx.notes import PEDAL, Score
from musictx.tokens.tokenizer import Tokenizer

#: Name of a grid -> number of its lines per quarter note.
GRIDS = {"16": 4, "8": 2, "8t": 3}
#: The minimum time in seconds from the beginning of a note in a gap to the end of the gap.
LEAST_SECONDS = 0.005


def beginning(score: Score, seconds: float) -> float:
    """The time at which to cut ``score`` for an excerpt from ``seconds`` on: the last bar line at
    or before ``seconds`` if the piece keeps to its beats, else ``seconds``."""
    if not on_grid(score):
        return seconds
    quarters = score.beats.quarters(seconds)
    return score.beats.seconds(quarters - score.beats.bar(quarters)[1])


def on_grid(score: Score) -> bool:
    """Whether the notes of ``score`` keep to the sixteenths, or the eighth triplets, of its tempo
    marks."""
    if not len(score.tempos) or len(score) < 4:
        return False
    clock = score.beats
    return any(clock.on_grid(score.notes["start"], lines) for lines in (4, 3))


def quantised(notes: np.ndarray, score: Score, grid: str) -> np.ndarray:
    """``notes`` with beginnings and ends moved to the nearest lines of ``grid`` (:data:`GRIDS`, or
    ``none``) on the beats of ``score``. Each note lasts from one line to the next at least. Of the
    notes of a part that begin together on one pitch only the loudest stays."""
    if grid == "none":
        return notes
    if grid not in GRIDS:
        raise UserError(f"quantise={grid}: expected one of none, {', '.join(GRIDS)}")
    notes = _on_lines(notes, score.beats, GRIDS[grid])
    places = notes[["start", "pitch", "program", "drum", "track"]].tolist()
    loudest = {places[i]: i for i in np.argsort(notes["velocity"], kind="stable").tolist()}
    return notes[np.array(sorted(loudest.values()), int)]


def _on_lines(
    notes: np.ndarray, clock: Beats, lines: int, first: float = -np.inf, last: float = np.inf
) -> np.ndarray:
    """``notes`` with beginnings and ends moved to the nearest of ``lines`` per quarter note. Notes
    begin on the lines numbered ``first`` to ``last`` and are at least one line long."""
    notes = notes.copy()
    start = np.clip(np.round(clock.quarters(notes["start"]) * lines), first, last)
    end = np.maximum(np.round(clock.quarters(notes["end"]) * lines), start + 1)
    notes["start"], notes["end"] = clock.seconds(start / lines), clock.seconds(end / lines)
    return notes


def within(notes: np.ndarray, score: Score, grid: str, begin: float, end: float) -> np.ndarray:
    """``notes`` moved so that each begins from ``begin`` to before ``end`` (seconds), in case
    rounding has moved it out. Notes begin on lines of ``grid`` if any lie in between."""
    first, last = begin, max(begin, end - LEAST_SECONDS)
    if grid != "none":
        lines, clock = GRIDS[grid], score.beats
        low, high = (clock.quarters(at) * lines for at in (begin, end))
        from_line, to_line = np.ceil(low - 1e-6), np.ceil(high - 1e-6) - 1
        if from_line <= to_line:
            first = max(clock.seconds(from_line / lines), begin)
            last = clock.seconds(to_line / lines)
    notes = notes.copy()
    moved = np.clip(notes["start"], first, last) - notes["start"]
    for name in ("start", "end"):
        notes[name] += moved
    return notes


def on_ticks(notes: np.ndarray, score: Score, begin: float, end: float) -> np.ndarray:
    """``notes`` moved to the ticks of ``score``, if it has any. Each note begins from ``begin`` to
    before ``end`` (seconds) and is at least a tick long."""
    lines = score.ticks_per_quarter
    if not lines:
        return notes
    clock = dataclasses.replace(score, pulse=None).beats
    first, last = (np.ceil(clock.quarters(np.array([begin, end])) * lines - 1e-6)).tolist()
    return _on_lines(notes, clock, lines, first, max(first, last - 1))


def cut(score: Score, until: float) -> Score:
    """``score`` with only the notes and pedals that begin before ``until`` seconds. The result has
    no ``file``, since the file of ``score`` has events after ``until``."""
    return dataclasses.replace(
        score,
        file=b"",
        notes=score.notes[score.notes["start"] < until],
        pedals=score.pedals[score.pedals["time"] < until],
    )


def joined(score: Score, old: np.ndarray, new: np.ndarray, seam: float) -> Score:
    """The notes of ``score`` followed by the notes ``new``, with the pedals up to ``seam`` seconds.

    old  the notes of ``score`` decoded from the tokens: a note that sounds at the seam gets the end
         of its decoded note, since the model has chosen that end
    """
    notes = score.notes.copy()
    for i, note in enumerate(notes):
        same = old[old["pitch"] == note["pitch"]]
        if len(same):
            end = same["end"][np.argmin(np.abs(same["start"] - note["start"]))]
            if end > seam + 1e-6 or note["end"] > seam + NEAR:
                notes["end"][i] = max(end, note["start"])
    # A pedal that is down would sustain the new notes, so it is lifted at the seam.
    pedals = score.pedals[score.pedals["time"] < seam]
    lifted = [(seam, 0, track) for track in np.unique(pedals["track"])]
    return dataclasses.replace(
        score,
        notes=np.concatenate([notes, new]),
        pedals=np.concatenate([pedals, np.array(lifted, PEDAL)]),
    )


def alone(score: Score, notes: np.ndarray, seam: float) -> Score:
    """``score`` with ``notes`` in place of its notes; time counts from ``seam`` (seconds)."""
    notes = notes.copy()
    notes["start"] = np.maximum(notes["start"], seam)
    return dataclasses.replace(score, notes=notes, pedals=score.pedals[:0]).shifted(-seam)


def on_tracks(
    new: np.ndarray, score: Score, tokenizer: Tokenizer, among: Collection[int] | None = None
) -> np.ndarray:
    """The notes ``new`` on the tracks of ``score``, the piece that they continue, or on the tracks
    ``among`` only.

    If the tokens are voices that take turns, the highest voice goes to the highest track, and so
    on. Any other note goes to the track with the nearest mean pitch among the tracks that have its
    program at that time, or else at any time (among all pitched tracks if tokens have no programs),
    or to a new track if there is none. A note on an existing track gets the program that the track
    has at that time.
    """
    new = new.copy()
    notes = score.notes
    next_track = first_free(score)
    if among is not None:
        notes = notes[np.isin(notes["track"], [*among])]
    if not len(notes) or not len(new):
        return new
    has_programs = {"program", "Program"} & set(tokenizer.vocabulary.kinds)
    tracks = np.unique(notes["track"])
    notes_of = [notes[notes["track"] == track] for track in tracks]
    mean = np.array([on_track["pitch"].mean() for on_track in notes_of])
    drums = np.array([on_track["drum"][0] for on_track in notes_of])
    programs = [set(on_track["program"].tolist()) for on_track in notes_of]
    current = np.array([_programs_at(on_track, new["start"]) for on_track in notes_of])
    voices = np.unique(new["track"])
    by_height = tracks[~drums][np.argsort(-mean[~drums], kind="stable")]
    in_turn = 0 < tokenizer.voices == len(by_height)
    for i, note in enumerate(new):
        fits = drums == note["drum"]
        if has_programs and not note["drum"]:
            now = current[:, i] == note["program"]
            ever = np.array([int(note["program"]) in of_track for of_track in programs])
            fits &= now if (fits & now).any() else ever
        if in_turn:
            new["track"][i] = by_height[note["track"]]
        elif fits.any():
            distance = np.where(fits, np.abs(mean - note["pitch"]), np.inf)
            new["track"][i] = tracks[np.argmin(distance)]
        else:
            new["track"][i] = next_track + int(np.searchsorted(voices, note["track"]))
    if "velocity" not in {kind.lower() for kind in tokenizer.vocabulary.kinds}:
        new["velocity"] = int(np.median(notes["velocity"]))
    return sounding(new, notes)


def first_free(score: Score) -> int:
    """The number after the last track of ``score``."""
    return 1 + max([*score.names, *score.notes["track"].tolist()], default=-1)


def sounding(new: np.ndarray, notes: np.ndarray) -> np.ndarray:
    """The notes ``new`` with the programs that their tracks have when they begin, by ``notes``
    (sorted by start). Notes on tracks without ``notes`` stay unchanged."""
    new = new.copy()
    for track in np.unique(new["track"]).tolist():
        on_track, existing = new["track"] == track, notes[notes["track"] == track]
        if len(existing):
            new["program"][on_track] = _programs_at(existing, new["start"][on_track])
    return new


def programs_between(notes: np.ndarray, begin: float, end: float) -> set[int]:
    """The programs that the tracks of ``notes`` (sorted by start) have at ``begin`` or get before
    ``end`` seconds; of a track that begins later, its first one."""
    start, track = notes["start"], notes["track"]
    inside = (start >= begin) & (start < end)
    programs = {int(program) for program in notes["program"][inside]}
    for number in np.unique(track):
        programs.add(int(_programs_at(notes[track == number], np.array([begin]))[0]))
    return programs


def _programs_at(notes: np.ndarray, times: np.ndarray) -> np.ndarray:
    """The programs that the track with ``notes`` (sorted by start) has at ``times``: that of the
    latest note, or of the first one if none is earlier."""
    latest = np.searchsorted(notes["start"], times + NEAR, "right") - 1
    programs: np.ndarray = notes["program"][np.maximum(latest, 0)]
    return programs
