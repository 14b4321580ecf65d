"""Tasks of composing: fill a gap in a piece (:func:`gap_task`), or accompany its melody
(:func:`melody_task`) or chords."""

from __future__ import annotations

from collections import Counter
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
from musictx.sampling.constants import FEWEST_NOTES, NEAR_SECONDS
from musictx.tokens.controls import measure_controls

#: The most seconds from the end of the file to the end of a gap.
MOST_SECONDS_AFTER_END = 30.0


@dataclass(frozen=True)
class Task:
    """A piece and the region for new notes in it.

    score         the music of the file
    given         the notes that stay and that the model reads: for a gap, all that are not
                  replaced; for an accompaniment, the melody or all notes
    begin, end    the region of the new notes, in seconds
    is_gap        whether the region is a gap, so that given notes may follow it
    tracks        the tracks that get new notes; empty: tracks are added
    given_levels  {control: its value in the given notes} (:mod:`musictx.tokens.controls`): for a
                  gap, in its tracks near the gap and in the other tracks inside it; for an
                  accompaniment, only the density
    add           names of the parts to compose; empty: the model's usual accompaniment
    melody        the tracks of the melody to accompany
    is_variation  whether the new notes of a gap are a variation of the notes that they replace
    repeats       for a new piece in bars: the distance in bars from each bar to the earlier bar
                  that it repeats, 0 for none; empty: the model decides
    """

    score: Score
    given: Score
    begin: float
    end: float
    is_gap: bool
    tracks: tuple[int, ...]
    given_levels: Mapping[str, float] = field(default_factory=dict)
    add: tuple[str, ...] = ()
    melody: tuple[int, ...] = ()
    is_variation: bool = False
    repeats: tuple[int, ...] = ()

    def in_time(self) -> Task:
        """Return the task with the beats of its music (:func:`musictx.grid.in_time`)."""
        score = in_time(self.score)
        return replace(self, score=score, given=replace(self.given, pulse=score.pulse))


def task_of(
    request: InfillConfig | AccompanyConfig,
    score: Score,
    options: tuple[str, str] = ("from", "to"),
    repairs: Counter[str] | None = None,
) -> Task:
    """Return the task that ``request`` describes for the music ``score``. Error messages call the
    two ends of a gap by the names ``options``. ``repairs`` counts what is left out or guessed in a
    file of chords. Raises ``UserError`` for chords if their optional component is missing."""
    if isinstance(request, InfillConfig):
        return gap_task(score, request, options)
    if request.chords is None and not is_chart(score):
        return melody_task(score, request)
    if "chords" not in registry.CHARTS:
        raise UserError(f"chords: {registry.CHARTS.missing_message('chords')}")
    task: Task = registry.load(registry.CHARTS["chords"])(score, request, repairs)
    return task


def gap_task(
    score: Score, request: InfillConfig, options: tuple[str, str] = ("from", "to")
) -> Task:
    """Return the task of replacing all notes that begin from ``request.begin`` to ``request.end``
    on ``request.tracks``. Default: the tracks other than drums with notes within
    :data:`NEAR_SECONDS` of the gap; without such tracks, all but drums; if there are only drums,
    all."""
    from_option, to_option = options
    # Bars are counted by the meters of the file, not by detected beats.
    beats = in_time(score, tracking=False).beats
    begin = parse_position(from_option, request.begin, beats, is_begin=True)
    end = parse_position(to_option, request.end, beats, is_begin=False)
    if not 0 <= begin < end:
        raise UserError(
            f"{to_option}={request.end}: expected a position after {from_option}={request.begin}"
        )
    if begin >= score.duration - 1e-6:
        bars = beats.bar_at(score.duration, ends=True) - beats.pickup
        raise UserError(
            f"{from_option}={request.begin}: the file ends before that, after "
            f"{score.duration:.1f} s, in bar {bars}"
        )
    if end > score.duration + MOST_SECONDS_AFTER_END:
        raise UserError(
            f"{to_option}={request.end}: expected at most {MOST_SECONDS_AFTER_END:.0f} s after the "
            "end of the file"
        )
    notes, start = score.notes, score.notes["start"]
    if request.tracks is None:
        pitched = ~notes["drum"]
        is_near = (start >= begin - NEAR_SECONDS) & (start < end + NEAR_SECONDS)
        mask = next(mask for mask in (is_near & pitched, pitched, ~pitched) if mask.any())
        tracks = set(notes["track"][mask].tolist())
    else:
        names = request.tracks.split(",")
        tracks = {track for name in names for track in find_tracks(score, name, "tracks")}
    is_inside = (start >= begin - 1e-6) & (start < end - 1e-6)
    new_tracks = tuple(sorted(tracks))
    on_tracks = np.isin(notes["track"], new_tracks)
    given = score.with_notes(notes[~(is_inside & on_tracks)])
    levels = _levels_around(notes[on_tracks], notes[~on_tracks], begin, end, score.duration)
    return Task(score, given, begin, end, True, new_tracks, levels)


def _levels_around(
    on_tracks: np.ndarray, others: np.ndarray, begin: float, end: float, duration: float
) -> dict[str, float]:
    """Return the values of the controls around a gap in a piece of ``duration`` seconds. They are
    measured in the notes ``on_tracks`` (the tracks to compose) near the gap, and in the ``others``
    inside it. Density and polyphony are added, of loudness and register the mean, weighted by
    density, is taken. Empty if there are too few notes near the gap."""
    first, last = max(begin - NEAR_SECONDS, 0.0), min(end + NEAR_SECONDS, duration)
    near_levels = _levels(on_tracks, first, last)
    inside_levels = _levels(others, begin, min(end, duration)) if near_levels else {}
    levels = {}
    for name in near_levels:
        groups = [group for group in (near_levels, inside_levels) if name in group]
        if name in ("density", "polyphony"):
            levels[name] = sum(group[name] for group in groups)
        else:
            weighted = sum(group[name] * group["density"] for group in groups)
            levels[name] = weighted / sum(group["density"] for group in groups)
    return levels


def _levels(notes: np.ndarray, begin: float, end: float) -> dict[str, float]:
    """Return the values of the controls in the ``notes`` that begin from ``begin`` to ``end``
    seconds; empty for fewer than :data:`FEWEST_NOTES` notes."""
    notes = notes[(notes["start"] >= begin) & (notes["start"] < end)].copy()
    for name in ("start", "end"):
        notes[name] -= begin
    return measure_controls(notes, end - begin) if len(notes) >= FEWEST_NOTES else {}


def melody_task(score: Score, request: AccompanyConfig) -> Task:
    """Return the task of accompanying ``score``, whose chords are ignored. The usual accompaniment
    follows only the melody; parts that ``request`` names follow all tracks."""
    refuse_beats(request)
    add, melody = requested_parts(request), score.notes
    if request.melody_track is not None:
        tracks = find_tracks(score, request.melody_track, "melody_track")
        melody = melody[np.isin(melody["track"], tracks)]
        if melody["drum"].all() and not add:
            raise UserError(f"melody_track={request.melody_track}: this track holds only drums")
    elif len(set(melody["track"].tolist())) > 1:
        tracks = tracks_by_name(score, "melody")
        on_tracks = np.isin(melody["track"], tracks)
        melody = melody[on_tracks] if on_tracks.any() or add else melody[skyline(score)]
    melody_tracks = tuple(np.unique(melody["track"]).tolist())
    notes = score.notes if add else melody
    if not len(notes) or (notes["drum"].all() and not add):
        raise UserError("melody: this file holds no notes, or only drums; give one with a melody")
    given = score.with_notes(notes)
    given = replace(given, pedals=given.pedals[np.isin(given.pedals["track"], notes["track"])])
    begin, end = float(notes["start"].min()), float(notes["end"].max())
    levels = {"density": len(notes) / max(end - begin, 1.0)}
    return Task(score, given, begin, end, False, (), levels, add, melody=melody_tracks)


def refuse_beats(request: AccompanyConfig) -> None:
    """Raise ``UserError`` if ``request`` has a tempo or a meter although the music comes from a
    file."""
    for option in ("tempo", "meter"):
        value = getattr(request, option)
        require(value is None, option, value, "none with a file, which has its own")


def requested_parts(request: AccompanyConfig) -> tuple[str, ...]:
    """Return the names of the parts in the option ``add``, in lower case."""
    add = tuple(name.strip().lower() for name in (request.add or "").split(",") if name.strip())
    require(request.add is None or bool(add), "add", request.add, "names of parts, such as bass")
    return add


def parse_position(option: str, value: str | None, beats: Beats, *, is_begin: bool) -> float:
    """Convert ``value``, seconds such as ``12.5s`` or the number of a bar, to seconds. A bar means
    its beginning if ``is_begin``, else its end; a pick-up is bar 0. Raises ``UserError`` naming
    ``option``."""
    text = (value or "").strip()
    if text.endswith("s"):
        return float(text[:-1])
    if not text or int(text) < 1 - beats.pickup:
        reason = ": missing; give" if value is None else f"={shown(value)}: expected"
        raise UserError(f"{option}{reason} a bar, {option}=5, or seconds, {option}=12.5s")
    bars = int(text) + beats.pickup - is_begin
    return max(beats.seconds(beats.bar_line(0.0, bars)), 0.0)  # a bar may begin before 0 s


def tracks_by_name(score: Score, name: str) -> list[int]:
    """Return the numbers of the tracks called ``name``, ignoring case."""
    name = name.strip().lower()
    return [track for track, text in score.names.items() if name and text.strip().lower() == name]


def find_tracks(score: Score, name: str, option: str) -> list[int]:
    """Return the tracks called ``name``, or else the track with this number, counted from 1 over
    the tracks with notes. Raises ``UserError`` naming ``option``."""
    tracks = sorted(set(score.notes["track"].tolist()))
    if matches := sorted({*tracks_by_name(score, name)} & {*tracks}):
        return matches
    by_number = {str(number): track for number, track in enumerate(tracks, 1)}
    if name.strip() in by_number:
        return [by_number[name.strip()]]
    names = ", ".join(f"{n} {score.names.get(t, '')}".strip() for n, t in enumerate(tracks, 1))
    raise UserError(f"{option}={name}: expected a track by name or number: {names}")
