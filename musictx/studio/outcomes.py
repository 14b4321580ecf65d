"""Results of a take -> what a proposal changes in the document: notes, new tracks, what leaves."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

from musictx.notes import DRUMS, Score
from musictx.studio.change import Track
from musictx.studio.inputs import Input, Key, keys


class Tracks:
    """Which track of the document each track of a result is: one that is there, or a new one.

    new  track of the result -> number of the new track in the document
    """

    def __init__(self, source: Input) -> None:
        self._source, self._model = source, source.model
        self._places = {} if source.request.task == "harmonise" else dict(source.tracks)
        self._next = max((track.id for track in source.document.tracks), default=-1) + 1
        self.new: dict[int, int] = {}

    def of(self, key: int) -> int:
        """The number in the document of the track ``key`` of an event (see :meth:`key`)."""
        if key not in self._places:
            number = self._existing(key) if self._source.request.task == "new" else None
            if number is None:
                number, self._next = self._next, self._next + 1
                self.new[key] = number
            self._places[key] = number
        return self._places[key]

    def key(self, note: tuple[Any, ...]) -> int:
        """What events call the track of a finished note: its program in a new piece by a model that
        keeps programs apart, else the track of the file."""
        *_, program, drum, track = note
        if self._source.request.task == "new" and self._model.programs:
            return DRUMS if drum else int(program)
        return int(track)

    def _existing(self, key: int) -> int | None:
        """A track of the document for the same instrument, in a new piece."""
        if self._model.four_voices:
            return None
        drum, program = key == DRUMS, 0 if key == DRUMS else key
        for track in self._source.document.tracks:
            same = track.drum == drum and (drum or track.program == program)
            if same and track.id not in self._places.values():
                return track.id
        return None


@dataclass(frozen=True)
class Outcome:
    """A finished proposal: rows (start, end, pitch, velocity, track), new tracks, and the numbers
    of the notes that it replaces, in terms of the document."""

    notes: list[tuple[float, float, int, int, int]]
    tracks: list[dict[str, Any]]
    removes: list[int]


def outcome(source: Input, score: Score, until: float, tracks: Tracks) -> Outcome:
    """What ``score``, a result, changes in the document: its notes come and those of the file
    leave, but for what every result keeps. Equal notes come and leave, too: another proposal may
    have taken them away.

    until  seconds up to which the new music of a continuation reaches
    """
    kept, leaving = Counter[Key](), Counter[Key]()
    if source.score is not None and source.kept is not None:
        kept.update(keys(source.kept.notes))
        leaving = Counter(keys(source.score.notes)) - kept
    rows: list[tuple[float, float, int, int, int]] = []
    sounds: dict[int, tuple[int, bool, int]] = {}  # key -> program, drums and track
    for note in score.notes.tolist():
        start, end, pitch, velocity, program, drum, track = note
        place = (start, end, pitch, velocity, track)
        if kept[place] > 0:
            kept[place] -= 1
            continue
        key = tracks.key(note)
        sounds[key] = program, drum, track
        start, end = round(source.placed(start), 6), round(source.placed(end), 6)
        rows.append((start, end, pitch, velocity, tracks.of(key)))
    rows += source.shortened
    removes = [*source.replaced]
    removes += [number for start, number in source.following if start < until - 1e-6]
    for place, count in (leaving + kept).items():
        removes += source.numbers.get(place, [])[::-1][:count]
    new = [
        Track(number, score.names.get(sounds[key][2], ""), *sounds[key][:2])._asdict()
        for key, number in tracks.new.items()
        if key in sounds
    ]
    return Outcome(rows, new, sorted(removes))
