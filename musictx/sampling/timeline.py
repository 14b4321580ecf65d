"""Place new notes on the beats, bars and tracks of the piece that they continue.

The tempo map and meters of the piece stay unchanged.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection
from typing import Any

import numpy as np

from musictx.beats import NEAR
from musictx.chords import chord_markers
from musictx.notes import MARKS, PEDAL, Score, until
from musictx.tokens.tokenizer import Tokenizer

#: {name of a grid: number of its lines per quarter note}
GRIDS = {"16": 4, "8": 2, "8t": 3}
#: A note in a gap begins at least this number of seconds before the end of the gap.
MIN_SECONDS_BEFORE_END = 0.005


def on_grid(score: Score) -> bool:
    """Whether the notes of ``score`` begin on sixteenths or triplet eighths of its tempo
    map. ``False`` without a tempo map or with fewer than four notes."""
    if not len(score.tempos) or len(score) < 4:
        return False
    beats = score.beats
    return any(beats.on_grid(score.notes["start"], lines) for lines in (4, 3))


def quantise(
    notes: np.ndarray, score: Score, grid: str, region: tuple[float, float] | None = None
) -> np.ndarray:
    """``notes`` with starts and ends moved to the nearest lines of ``grid`` (:data:`GRIDS`, or
    ``none``) on the beats of ``score``. With a ``region`` (begin, end) in seconds, starts are
    limited to its lines, if it has any. Each note is at least one grid unit long. Of the notes of a
    track that begin together on one pitch only the loudest remains."""
    if grid == "none":
        return notes
    notes, beats, lines = notes.copy(), score.beats, GRIDS[grid]
    start = np.round(beats.quarters(notes["start"]) * lines)
    if region is not None:
        first, stop = (np.ceil(beats.quarters(time) * lines - 1e-6) for time in region)
        start = np.clip(start, first, max(first, stop - 1))
    end = np.maximum(np.round(beats.quarters(notes["end"]) * lines), start + 1)
    notes["start"], notes["end"] = beats.seconds(start / lines), beats.seconds(end / lines)
    keys = notes[["start", "pitch", "program", "drum", "track"]].tolist()
    loudest = {keys[i]: i for i in np.argsort(notes["velocity"], kind="stable").tolist()}
    return notes[np.array(sorted(loudest.values()), int)]


def move_into(notes: np.ndarray, begin: float, end: float) -> np.ndarray:
    """``notes`` shifted, where necessary, so that begin <= start < end (seconds)."""
    notes = notes.copy()
    latest = max(begin, end - MIN_SECONDS_BEFORE_END)
    shift = np.clip(notes["start"], begin, latest) - notes["start"]
    for name in ("start", "end"):
        notes[name] += shift
    return notes


def cut(score: Score, until: float) -> Score:
    """``score`` with only the notes and pedals that begin before ``until`` seconds, and without
    ``file``, since the file of ``score`` has later events."""
    return dataclasses.replace(
        score,
        file=b"",
        notes=score.notes[score.notes["start"] < until],
        pedals=score.pedals[score.pedals["time"] < until],
    )


def join(score: Score, decoded: np.ndarray, new: np.ndarray, seam: float) -> Score:
    """``score`` with the notes ``new`` added and its pedals cut at ``seam`` seconds.

    ``decoded`` are the notes of ``score`` decoded from the ids. A note that sounds at the seam gets
    the end of its decoded note, which the model has chosen.
    """
    notes = score.notes.copy()
    for i, note in enumerate(notes):
        matches = (decoded["pitch"] == note["pitch"]) & (decoded["drum"] == note["drum"])
        has_program = matches & (decoded["program"] == note["program"])
        # Without programs in the tokens, all decoded notes have program 0.
        candidates = decoded[has_program if has_program.any() else matches]
        if len(candidates):
            end = candidates["end"][np.argmin(np.abs(candidates["start"] - note["start"]))]
            if end > seam + 1e-6 or note["end"] > seam + NEAR:
                notes["end"][i] = max(end, note["start"])
    # A pedal that is down would sustain the new notes, so it is lifted at the seam.
    pedals = score.pedals[score.pedals["time"] < seam]
    lifts = np.array([(seam, 0, track) for track in np.unique(pedals["track"])], PEDAL)
    notes, pedals = np.concatenate([notes, new]), np.concatenate([pedals, lifts])
    return dataclasses.replace(score, notes=notes, pedals=pedals)


def excerpt(score: Score, begin: float, end: float = np.inf) -> Score:
    """``score`` from ``begin`` to ``end`` seconds, with times counted from ``begin``. Notes are cut
    at both ends; the tempo, meter, key, chord and pedals in force at ``begin`` are kept."""
    notes = until(score, end).notes
    notes = notes[(notes["end"] > begin) | (notes["start"] == begin)]
    notes["start"] = np.maximum(notes["start"], begin)
    fields: dict[str, Any] = {name: _between(getattr(score, name), begin, end) for name in MARKS}
    pedals, texts = score.pedals, chord_markers(score)
    by_track = [pedals[pedals["track"] == track] for track in {*pedals["track"]}]
    cut_pedals = [_between(rows, begin, end) for rows in by_track]
    first = begin - 1e-6
    chord = [row for row in score.markers if row[1] in texts and row[0] <= begin + 1e-6][-1:]
    return dataclasses.replace(
        score,
        notes=notes,
        pedals=np.concatenate([pedals[:0], *cut_pedals]),
        fermatas=tuple(time for time in score.fermatas if first <= time < end),
        markers=tuple(row for row in score.markers if first <= row[0] < end or row in chord),
        lyrics=tuple(row for row in score.lyrics if first <= row[0] < end),
        **fields,
    ).shifted(-begin)


def _between(marks: np.ndarray, begin: float, end: float) -> np.ndarray:
    """The mark in force at ``begin``, and the later marks before ``end``."""
    first = max(int(np.searchsorted(marks["time"], begin + 1e-6, side="right")) - 1, 0)
    return marks[first : np.searchsorted(marks["time"], end)]


def assign_tracks(
    new: np.ndarray, score: Score, tokenizer: Tokenizer, allowed: Collection[int] | None = None
) -> np.ndarray:
    """The notes ``new`` on the tracks of ``score``, the piece that they continue, or only on its
    ``allowed`` tracks.

    - If tokens are interleaved voices and there are as many pitched tracks, the highest voice goes
      to the highest track, and so on.
    - Otherwise a note goes to a track with its program at that time, else at any time, else to a
      new track. Without programs in the tokens, any pitched track fits, and for drums any drum
      track. Of several tracks, the one with the nearest mean pitch is chosen.
    - A note on an existing track gets the program that the track has at that time.
    - If tokens have no velocities, notes get the median velocity of the tracks.
    """
    new, voices, notes = new.copy(), new["track"], score.notes
    new["track"] += first_free_track(score)  # unless a track fits
    if allowed is not None:
        notes = notes[np.isin(notes["track"], [*allowed])]
    if not len(notes):
        return new
    has_programs = {"program", "Program"} & set(tokenizer.vocabulary.kinds)
    tracks = np.unique(notes["track"])
    track_notes = [notes[notes["track"] == track] for track in tracks]
    mean_pitch = np.array([group["pitch"].mean() for group in track_notes])
    is_drums = np.array([group["drum"][0] for group in track_notes])
    programs = [set(group["program"].tolist()) for group in track_notes]
    program_at_start = np.array([_programs_at(group, new["start"]) for group in track_notes])
    descending = tracks[~is_drums][np.argsort(-mean_pitch[~is_drums], kind="stable")]
    has_voices = 0 < tokenizer.voices == len(descending)
    for i, note in enumerate(new):
        fits = is_drums == note["drum"]
        if has_programs and not note["drum"]:
            has_now = program_at_start[:, i] == note["program"]
            has_ever = np.array([int(note["program"]) in ever for ever in programs])
            fits &= has_now if (fits & has_now).any() else has_ever
        if has_voices:
            new["track"][i] = descending[voices[i]]
        elif fits.any():
            distance = np.where(fits, np.abs(mean_pitch - note["pitch"]), np.inf)
            new["track"][i] = tracks[np.argmin(distance)]
    if "velocity" not in {kind.lower() for kind in tokenizer.vocabulary.kinds}:
        new["velocity"] = int(np.median(notes["velocity"]))
    return with_track_programs(new, notes)


def first_free_track(score: Score) -> int:
    """The number after the last track of ``score``."""
    return 1 + max([*score.names, *score.notes["track"].tolist()], default=-1)


def with_track_programs(new: np.ndarray, notes: np.ndarray) -> np.ndarray:
    """The notes ``new`` with the programs of their tracks at their starts, taken from the ``notes``
    (sorted by start) of the same track, for drums from its drums or else from all drums; without
    these, unchanged."""
    new, fields = new.copy(), ["track", "drum"]
    for key in np.unique(new[fields]):
        has_key, existing = new[fields] == key, notes[notes[fields] == key]
        if key["drum"] and not len(existing):  # drums share a channel, and so a kit
            existing = notes[notes["drum"]]
        if len(existing):
            new["program"][has_key] = _programs_at(existing, new["start"][has_key])
    return new


def programs_between(notes: np.ndarray, begin: float, end: float) -> set[int]:
    """The programs that the tracks of ``notes`` (sorted by start) have at any time from ``begin``
    to ``end`` (seconds); the first program of tracks that begin later."""
    start, track = notes["start"], notes["track"]
    is_inside = (start >= begin) & (start < end)
    programs = set(notes["program"][is_inside].tolist())
    for number in np.unique(track):
        programs.update(_programs_at(notes[track == number], np.array([begin])).tolist())
    return programs


def _programs_at(notes: np.ndarray, times: np.ndarray) -> np.ndarray:
    """The programs of the track with ``notes`` (sorted by start) at ``times``: that of the latest
    note, or of the first note if none is earlier."""
    latest = np.searchsorted(notes["start"], times + NEAR, "right") - 1
    programs: np.ndarray = notes["program"][np.maximum(latest, 0)]
    return programs
