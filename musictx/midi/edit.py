"""What has changed in a Score, put into the MIDI file that it was read from.

Only the tracks in which something changes are made anew, and in these all other events stay where
and what they are: controllers, bends, channels. Everything else is copied byte for byte.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from musictx.midi.clock import LAST_TICK, MOST_TICKS, TickClock
from musictx.midi.document import ANY, OFF, ON, Document, Message, controller, text_of, written
from musictx.midi.encode import LYRIC, MARKER, NAME, text
from musictx.midi.parts import free_channel, with_parts
from musictx.midi.read import read as read_file
from musictx.midi.retime import KINDS, Unwritable, retimed
from musictx.midi.scan import DRUM_CHANNEL
from musictx.notes import Score

#: A note that would come to lie further than this from its time, in seconds, on the ticks of the
#: file, asks for a file with finer ones.
COARSEST_SECONDS = 0.005
#: A note or a pedal: a row of ``Score.notes`` or ``Score.pedals``.
_Row = tuple[Any, ...]


def edited(score: Score) -> bytes:
    """``score.file`` with what ``score`` says.

    Notes and pedals that are not in the file come, those of the file that are not in the score go,
    all on the nearest ticks; where these are coarser than :data:`COARSEST_SECONDS`, each is divided
    for all messages alike. A new note that sounds together with another of its pitch in its part
    ends when MIDI's first in, first out leaves the other its end. Where notes are to sound with
    other programs, program changes become others or come before them; a new note of drums sounds
    with the kit in force, unless another one of the part is asked for. Tracks of the score that the
    file does not have are added at its end, each with its name and on a channel that no note of the
    file is on, if there is one; a file of format 0 becomes one of format 1 then.

    A part that gets a name gets a MIDI track to itself. Markers and lyrics come and go one by one:
    a new one on the track of one that it takes the place of, else of others of its kind, else on
    the first new track, or on the first of all. Other tempos, meters and keys come in place of the
    file's (:mod:`musictx.midi.retime`).

    Raises :class:`Unwritable` for what the file cannot say.
    """
    before = read_file(score.file, limits=ANY)
    if before.ticks_per_quarter != score.ticks_per_quarter:
        raise Unwritable("a quarter note has another number of ticks")
    if not all(np.array_equal(getattr(before, c), getattr(score, c)) for c in KINDS):
        score = retimed(score, before)
        before = read_file(score.file, limits=ANY)
    return _Edit(score, before).data()


class _Edit:
    """The changes that make the file of ``before`` one of ``score``, whose marks are equal."""

    def __init__(self, score: Score, before: Score) -> None:
        self.score, self.before = score, before
        self.document = Document(score.file)
        self.clock, self.places = self.document.clock, self.document.places

    def data(self) -> bytes:
        """The file with the changes."""
        score = self.score
        named = set(np.unique(score.notes["track"]).tolist()) & set(range(len(self.places)))
        named = {n for n in named if self.before.names.get(n) != score.names.get(n)}
        in_track = Counter(place // 16 for place in self.places)
        if alone := [self.places[n] for n in named if in_track[self.places[n] // 16] > 1]:
            data = with_parts(score.file, self.places, alone=alone)
            return edited(replace(score, file=data))
        notes = _difference(self.before.notes, score.notes)
        pedals = _difference(self.before.pedals, score.pedals)
        times = np.array([row[0] for row in (*notes[1], *pedals[1])])
        if np.any(np.abs(self.clock.seconds(self._ticks(times)) - times) > COARSEST_SECONDS):
            return edited(self._finer())
        for part in named:
            track = self.document.track(self.places[part] // 16)
            track.remove_meta({NAME})
            if part in score.names:
                track.new.append(_text(0, NAME, score.names[part]))
        new_pedals = self._pedals(*pedals)
        new_notes = self._notes(*notes)
        texts = self._texts(new_track=bool(new_notes))
        free = list(self.places)
        tracks: list[bytes] = []
        for part, rows in sorted(new_notes.items()):
            channel = (
                DRUM_CHANNEL if rows[0][2][5] else free_channel(free, self.document.file.drums)
            )
            free.append(channel)
            name = score.names.get(part, "")
            more = new_pedals.get(part, []), texts * (not tracks)
            tracks.append(_new_track(rows, name, channel, *more))
        self._close()
        return self.document.edited(tracks)

    def _ticks(self, seconds: Any) -> np.ndarray:
        return self.clock.ticks(np.asarray(seconds, float))

    def _finer(self) -> Score:
        """The score with its file on finer ticks."""
        document, clock = self.document, self.clock
        quarter = document.file.division
        by = max(2, int(np.ceil(clock.rates.max() / clock.unit / (2 * COARSEST_SECONDS))))
        last = int(max(document.file.ends.max(), *self._ticks([self.score.duration]))) + 1
        if quarter & 0x8000 or quarter * by > MOST_TICKS or last * by > LAST_TICK:
            raise Unwritable("its ticks are too coarse for the new notes")
        for number in range(len(document.chunks)):
            document.track(number).move(lambda tick: tick * by)
        data = document.edited()
        data = data[:12] + (quarter * by).to_bytes(2, "big") + data[14:]
        return replace(self.score, file=data, ticks_per_quarter=quarter * by)

    def _notes(self, removed: list[_Row], inserted: list[_Row]) -> dict[int, list[Any]]:
        """Remove and add notes, and let others sound with other programs; those of new parts by
        part, each as (first tick, last tick, row)."""
        parts, notes = self.document.parts, self.document.parts.notes
        others, removed, inserted = _other_programs(removed, inserted)
        stay = np.ones(len(notes), bool)
        for note in _matches(notes, removed):
            stay[note] = False
            for event in (parts.onsets[note], parts.offsets[note]):
                if event >= 0:  # a note left open has no end
                    track, number = self.document.event(event)
                    del track.rows[number]
        programs = notes["program"].copy()
        for note in _matches(notes, [row for row, rows in others.items() for _ in rows]):
            programs[note] = others[tuple(notes[note].tolist())].pop()
        self.open = np.flatnonzero(stay & (parts.offsets < 0))
        changed = set(np.unique(notes["track"][programs != notes["program"]]).tolist())
        added: defaultdict[int, list[Any]] = defaultdict(list)
        ticks = self._ticks([row[:2] for row in inserted]).reshape(-1, 2)
        for row, (begin, end) in zip(inserted, ticks.tolist()):
            added[row[6]].append((begin, max(end, begin + 1), row))
        for part in sorted(changed | {n for n in added if n < len(self.places)}):
            rows = added.pop(part, [])
            place, channel = divmod(self.places[part], 16)
            in_part = stay & (notes["track"] == part)
            drum = channel in self.document.file.drums
            if any(row[5] != drum for *_, row in rows):
                raise Unwritable("drums and other notes are on one track")
            kits = set(programs[in_part].tolist()) if drum else set(range(128))
            for note in np.flatnonzero(in_part).tolist():
                track, number = self.document.event(parts.onsets[note])
                track.rows[number] = track.rows[number]._replace(program=int(programs[note]))
            fitted = _fitted(rows, notes[in_part], self.clock)
            self.document.track(place).new += _messages(channel, fitted, kits)
        return added

    def _pedals(
        self, removed: list[_Row], inserted: list[_Row]
    ) -> dict[int, list[tuple[int, int]]]:
        """Remove and add pedals; (tick, value) of those of new parts, by part."""
        waiting, new = Counter(removed), list(inserted)
        events = self.document.file.events
        for event in np.flatnonzero(events["status"] >> 4 == 0xB).tolist() if removed else ():
            tick, track, status, _, value = events[event].tolist()
            time = float(self.clock.seconds(tick))
            moved = self.document.moved_by(track * 16 + status % 16)
            rows = [(time, value, part) for part in moved]
            if any(waiting[row] > 0 for row in rows):
                opened, number = self.document.event(event)
                del opened.rows[number]
                new += [row for row in rows if waiting[row] <= 0]
                waiting.subtract(rows)
        added: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)
        for time, value, part in new:
            tick = int(self._ticks(time))
            if part >= len(self.places):
                added[part].append((tick, value))
                continue
            track, channel = divmod(self.places[part], 16)
            self.document.track(track).new.append(controller(tick, channel, 64, value))
        return added

    def _texts(self, *, new_track: bool) -> list[Message]:
        """Remove and add markers and lyrics; where a ``new_track`` comes, those that are to stand
        on it."""
        left: list[Message] = []
        for kind, name in ((MARKER, "markers"), (LYRIC, "lyrics")):
            old, new = Counter(getattr(self.before, name)), Counter(getattr(self.score, name))
            removed, inserted = old - new, new - old
            there: list[tuple[int, int, str]] = getattr(self.document.file, name)
            places: dict[int, int] = {}
            for number in sorted({track for track, *_ in there}) if removed else ():
                track = self.document.track(number)
                for n, row in list(track.rows.items()):
                    if row.body[:2] != bytes([0xFF, kind]):
                        continue
                    at = float(self.clock.seconds(row.tick)), text_of(row.body)
                    if removed[at] > 0:
                        removed[at] -= 1
                        del track.rows[n]
                        places.setdefault(row.tick, number)
            for time, words in sorted(inserted.elements()):
                message = _text(int(self._ticks(time)), kind, words)
                place = places.get(message.tick, there[0][0] if there else None)
                if place is None and new_track:
                    left.append(message)
                else:
                    self.document.track(place or 0).new.append(message)
        return left

    def _close(self) -> None:
        """End notes that are left open in tracks that become longer where these ended before."""
        for note in self.open.tolist():
            onset = self.document.parts.onsets[note]
            number, status = self.document.file.events[["track", "status"]][onset].tolist()
            track = self.document.track(number)
            if any(message.tick > track.last for message in track.new):
                body = bytes([0x80 | status % 16, self.document.parts.notes["pitch"][note], 0])
                track.new.append(Message(track.last, OFF, body))


def _text(tick: int, kind: int, words: str) -> Message:
    """A name, a lyric or a marker."""
    return Message(tick, OFF, text(kind, words))


def _difference(before: np.ndarray, after: np.ndarray) -> tuple[list[_Row], list[_Row]]:
    """The rows that are only ``before`` and those that are only ``after``, in their order."""
    old, new = Counter(before.tolist()), Counter(after.tolist())
    return list((old - new).elements()), sorted((new - old).elements())


def _other_programs(
    removed: list[_Row], inserted: list[_Row]
) -> tuple[dict[_Row, list[int]], list[_Row], list[_Row]]:
    """Removed notes that come again with another program, row -> new programs; the other removed
    and inserted ones."""

    def but_program(row: _Row) -> _Row:
        return (*row[:4], *row[5:])

    alike: defaultdict[_Row, list[_Row]] = defaultdict(list)
    for row in removed:
        alike[but_program(row)].append(row)
    programs: defaultdict[_Row, list[int]] = defaultdict(list)
    new = []
    for row in inserted:
        if alike[but_program(row)]:
            programs[alike[but_program(row)].pop()].append(row[4])
        else:
            new.append(row)
    return programs, [row for rows in alike.values() for row in rows], new


def _matches(notes: np.ndarray, rows: list[_Row]) -> Iterator[int]:
    """Where ``rows`` stand in ``notes``, each in a different place."""
    missing = Counter(rows)
    for index, row in enumerate(notes.tolist() if rows else ()):
        if missing[row] > 0:
            missing[row] -= 1
            yield index


def _fitted(rows: list[Any], there: np.ndarray, clock: TickClock) -> list[Any]:
    """New notes of a part with ends that leave those of the notes ``there`` as they are, which MIDI
    pairs first in, first out."""
    begins, ends = clock.ticks(there["start"]), clock.ticks(there["end"])
    fitted = []
    for begin, end, row in rows:
        same = there["pitch"] == row[2]
        earliest = ends[same & (begins <= begin)].max(initial=0)
        latest = ends[same & (begins > begin)].min(initial=np.iinfo(np.int64).max)
        fitted.append((begin, int(min(max(end, earliest), latest)), row))
    return fitted


def _messages(channel: int, rows: Iterable[Any], programs: set[int]) -> list[Message]:
    """Those of notes, which sound with their program where it is one of ``programs``."""
    made = []
    for begin, end, row in rows:
        program = row[4] if row[4] in programs else None
        made.append(Message(begin, ON, bytes([0x90 | channel, row[2], row[3]]), program))
        made.append(Message(end, OFF, bytes([0x80 | channel, row[2], 0])))
    return made


def _new_track(
    rows: list[Any], name: str, channel: int, pedals: list[tuple[int, int]], texts: list[Message]
) -> bytes:
    """The contents of a track for a part that the file does not have."""
    new = [_text(0, NAME, name)] if name else []
    first = min(rows, key=lambda row: row[0])[2][4]
    new.append(Message(0, ON, bytes([0xC0 | channel, first])))
    new += [controller(tick, channel, 64, value) for tick, value in pedals]
    return written([*new, *_messages(channel, rows, set(range(128))), *texts])
