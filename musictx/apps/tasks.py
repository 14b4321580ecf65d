"""Tasks of composing: fill a gap in a piece, or accompany its melody or chords."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from musictx import registry
from musictx.beats import Beats
from musictx.chords import is_chart
from musictx.config import AccompanyConfig, InfillConfig
from musictx.config.checks import require
from musictx.errors import UserError, shown
from musictx.grid import in_time
from musictx.notes import Score, skyline
from musictx.sampling.strengths import FEWEST_NOTES
from musictx.tokens.controls import measured

#: New notes in a gap are as dense as the music within this many seconds before and after it.
AROUND_SECONDS = 10.0
#: A gap may end at most this many seconds after the end of the file.
AFTER_SECONDS = 30.0


@dataclass(frozen=True)
class Task:
    """Notes to be composed for a piece.

    score    the music of the file
    given    the notes that stay and that the model reads: all notes outside a gap, or the melody to
             accompany
    begin    seconds at which the region of new notes begins
    end      seconds at which the region ends
    is_gap   whether the region is a gap, so that given notes may follow after ``end``
    tracks   the tracks that get new notes; empty: tracks are added
    around   control (:mod:`musictx.tokens.controls`) -> its value: for a gap, measured in its
             tracks just outside and in the other tracks inside it; for an accompaniment, the
             density of the given notes
    add      names of the parts to compose; empty: the model's usual accompaniment
    melody   the tracks of the melody to accompany
    varied   whether the new notes of a gap are a variation of the notes that they replace
    """

    score: Score
    given: Score
    begin: float
    end: float
    is_gap: bool
    tracks: tuple[int, ...]
    around: Mapping[str, float] = field(default_factory=dict)
    add: tuple[str, ...] = ()
    melody: tuple[int, ...] = ()
    varied: bool = False

    def in_time(self) -> Task:
        """The task with the beats of its music (:func:`musictx.grid.in_time`)."""
        score = in_time(self.score)
        return replace(self, score=score, given=replace(self.given, pulse=score.pulse))


def task_of(
    request: InfillConfig | AccompanyConfig,
    score: Score,
    names: tuple[str, str] = ("from", "to"),
) -> Task:
    """The task that ``request`` describes for the music ``score``. ``names`` are the options for
    the two ends of a gap, for error messages."""
    if isinstance(request, AccompanyConfig):
        return under(score, request)
    return gap(score, request, names)


def gap(score: Score, request: InfillConfig, names: tuple[str, str] = ("from", "to")) -> Task:
    """The task of replacing all notes that begin from ``request.begin`` to ``request.end`` on
    ``request.tracks``, by default on all tracks but drums, or on all if there are only drums."""
    first, last = names
    # Bars are counted by the meters of the file, not by detected beats.
    clock = in_time(score, tracking=False).beats
    start = moment(first, request.begin, clock, begins=True)
    stop = moment(last, request.end, clock, begins=False)
    if not 0 <= start < stop:
        raise UserError(f"{last}={request.end}: expected a place after {first}={request.begin}")
    if start >= score.duration - 1e-6:
        bars = clock.bar(float(clock.quarters(score.duration)) - 1e-3)[0]
        raise UserError(
            f"{first}={request.begin}: the file ends before that, after {score.duration:.1f} s, in "
            f"bar {bars}"
        )
    if stop > score.duration + AFTER_SECONDS:
        raise UserError(
            f"{last}={request.end}: that is {stop - score.duration:.0f} s after the end of the "
            f"file, expected at most {AFTER_SECONDS:.0f}"
        )
    notes = score.notes
    if request.tracks is None:
        tracks = set(notes["track"][~notes["drum"]].tolist() or notes["track"].tolist())
    else:
        tracks = {t for n in request.tracks.split(",") for t in find_tracks(score, n, "tracks")}
    inside = (notes["start"] >= start - 1e-6) & (notes["start"] < stop - 1e-6)
    on_tracks = np.isin(notes["track"], [*tracks])
    kept = score.with_notes(notes[~(inside & on_tracks)])
    around = _around(notes[on_tracks], notes[~on_tracks], start, stop, score.duration)
    return Task(score, kept, start, stop, True, tuple(sorted(tracks)), around)


def _around(
    on_tracks: np.ndarray, others: np.ndarray, start: float, stop: float, end: float
) -> dict[str, float]:
    """The values of the controls around a gap, from the notes ``on_tracks``, the tracks to compose,
    near the gap, and from the notes of the ``others`` inside the gap. Density and polyphony are the
    sums of both groups, loudness and register the means weighted by density. Empty if there are too
    few notes near the gap to measure."""
    near = _measured(on_tracks, max(start - AROUND_SECONDS, 0.0), min(stop + AROUND_SECONDS, end))
    inside = _measured(others, start, min(stop, end)) if near else {}
    around = {}
    for name in near:
        groups = [group for group in (near, inside) if name in group]
        if name in ("density", "polyphony"):
            around[name] = sum(group[name] for group in groups)
        else:
            weighted = sum(group[name] * group["density"] for group in groups)
            around[name] = weighted / sum(group["density"] for group in groups)
    return around


def _measured(notes: np.ndarray, first: float, last: float) -> dict[str, float]:
    """The values of the controls from ``first`` to ``last`` seconds; empty for fewer than
    :data:`FEWEST_NOTES` notes."""
    notes = notes[(notes["start"] >= first) & (notes["start"] < last)].copy()
    for name in ("start", "end"):
        notes[name] -= first
    return measured(notes, last - first) if len(notes) >= FEWEST_NOTES else {}


def under(score: Score, request: AccompanyConfig) -> Task:
    """The task of composing an accompaniment, which is added to the tracks of ``score``. The usual
    accompaniment follows one track, the melody; parts requested by name follow all tracks. An
    accompaniment to chords needs the optional component musictx/songs."""
    if request.chords is not None or is_chart(score):
        if "chords" not in registry.CHARTS:
            raise UserError("chords: expected the folder musictx/songs, which is missing")
        task: Task = registry.load(registry.CHARTS["chords"])(score, request)
        return task
    return under_melody(score, request)


def under_melody(score: Score, request: AccompanyConfig) -> Task:
    """The task of composing an accompaniment to the melody of ``score``; chords are ignored."""
    add, notes = added(request), score.notes
    if request.melody_track is not None:
        melody = find_tracks(score, request.melody_track, "melody_track")
        notes = notes[np.isin(notes["track"], melody)]
    elif len(set(notes["track"].tolist())) > 1:
        named = [track for track, name in score.names.items() if name.strip().lower() == "melody"]
        on_tracks = np.isin(notes["track"], named)
        notes = notes[on_tracks] if on_tracks.any() or add else notes[skyline(score)]
    tune = tuple(np.unique(notes["track"]).tolist())
    notes = score.notes if add else notes
    if not len(notes) or (notes["drum"].all() and not add):
        raise UserError("melody: this file holds no notes, or only drums; give one with a melody")
    kept = score.with_notes(notes)
    kept = replace(kept, pedals=kept.pedals[np.isin(kept.pedals["track"], notes["track"])])
    begin, end = float(notes["start"].min()), float(notes["end"].max())
    density = len(notes) / max(end - begin, 1.0)
    return Task(score, kept, begin, end, False, (), {"density": density}, add, tune)


def added(request: AccompanyConfig) -> tuple[str, ...]:
    """The names of the parts that the request names in its option ``add``."""
    add = tuple(name.strip().lower() for name in (request.add or "").split(",") if name.strip())
    require(request.add is None or bool(add), "add", request.add, "names of parts, such as bass")
    return add


def moment(option: str, place: str | None, clock: Beats, *, begins: bool) -> float:
    """The position ``place`` in seconds: a bar number, for the beginning of the bar if ``begins``
    and otherwise for its end, or seconds such as ``12.5s``. Raises ``UserError`` naming
    ``option``."""
    text = (place or "").strip()
    if seconds := re.fullmatch(r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+)\s*s", text):
        return float(seconds[1])
    if not re.fullmatch(r"[1-9][0-9]{0,5}", text):
        reason = ": missing; give" if place is None else f"={shown(place)}: expected"
        raise UserError(f"{option}{reason} a bar, {option}=5, or seconds, {option}=12.5s")
    bars = int(text) - begins
    return max(float(clock.seconds(clock.bar_line(0.0, bars))), 0.0)  # a bar may begin before 0 s


def find_tracks(score: Score, wanted: str, option: str) -> list[int]:
    """The tracks with the name ``wanted``, ignoring case, or else the track with this number,
    counted from 1 among the tracks that have notes. Raises ``UserError`` naming ``option``."""
    tracks = sorted(set(score.notes["track"].tolist()))
    name = wanted.strip().lower()
    if named := [t for t in tracks if name and score.names.get(t, "").strip().lower() == name]:
        return named
    if re.fullmatch(r"[0-9]{1,5}", name) and 1 <= int(name) <= len(tracks):
        return [tracks[int(name) - 1]]
    names = ", ".join(f"{n} {score.names.get(t, '')}".strip() for n, t in enumerate(tracks, 1))
    raise UserError(f"{option}={wanted}: expected a track by name or number: {names}")
