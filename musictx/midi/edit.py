"""What has changed in a Score, put into the MIDI file that it was read from.

Only the tracks in which something changes are made anew, and in these all other events stay where
and what they are: controllers, bends, channels. Everything else is copied byte for byte.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import replace
from typing import Any

import numpy as np

from musictx.midi import encode
from musictx.midi.clock import LAST_TICK, MOST_TICKS
from musictx.midi.document import ANY, OFF, Document, Message, controller, text_of
from musictx.midi.encode import LYRIC, MARKER, NAME
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
    the first. Other tempos, meters and keys come in place of the file's
    (:mod:`musictx.midi.retime`).

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
        score, drums = self.score, self.document.file.drums
        parts = np.unique(score.notes["track"]).tolist()
        named = {part for part in parts if part < len(self.places)}
        named = {part for part in named if self.before.names.get(part) != score.names.get(part)}
        in_track = Counter(place // 16 for place in self.places)
        if alone := [self.places[n] for n in named if in_track[self.places[n] // 16] > 1]:
            data = with_parts(score.file, self.places, alone=alone)
            return edited(replace(score, file=data))
        times = np.concatenate([score.notes["start"], score.pedals["time"]])
        away = np.abs(self.clock.seconds(self.clock.ticks(times)) - times)
        if away.max(initial=0.0) > COARSEST_SECONDS:
            return edited(self._finer())
        for part in named:
            track = self.document.track(self.places[part] // 16)
            track.remove_meta({NAME})
            if part in score.names:
                track.new.append(encode.text(0, NAME, score.names[part]))
        self._pedals()
        left_open = self._notes()
        self._texts()
        self._close(left_open)
        tracks: list[bytes] = []
        places = list(self.places)
        for part in parts:
            if part >= len(self.places):
                notes = score.notes[score.notes["track"] == part]
                channel = DRUM_CHANNEL if notes["drum"][0] else free_channel(places, drums)
                places.append(channel)
                tracks.append(encode.part(score, self.clock, notes, channel))
        return self.document.edited(tracks)

    def _finer(self) -> Score:
        """The score with its file on finer ticks."""
        document, clock = self.document, self.clock
        quarter = document.file.division
        by = max(2, int(np.ceil(clock.rates.max() / clock.unit / (2 * COARSEST_SECONDS))))
        last = max(int(document.file.ends.max()), int(clock.ticks(self.score.duration))) + 1
        if quarter & 0x8000 or quarter * by > MOST_TICKS or last * by > LAST_TICK:
            raise Unwritable("its ticks are too coarse for the new notes")
        for number in range(len(document.chunks)):
            document.track(number).move(lambda tick: tick * by)
        data = document.edited()
        data = data[:12] + (quarter * by).to_bytes(2, "big") + data[14:]
        return replace(self.score, file=data, ticks_per_quarter=quarter * by)

    def _notes(self) -> list[int]:
        """Remove and add notes of the parts that there are, and let others sound with other
        programs; returns the numbers of the others that no note-off ends."""
        document, notes = self.document, self.document.parts.notes
        removed, inserted = _difference(notes, self.score.notes)
        new: defaultdict[_Row, list[_Row]] = defaultdict(list)
        for row in inserted:
            new[_but_program(row)].append(row)
        stay, programs = np.ones(len(notes), bool), notes["program"].copy()
        for number in removed:
            if same := new[_but_program(notes[number].item())]:
                programs[number] = same.pop()[4]
                continue
            stay[number] = False
            for event in (document.parts.onsets[number], document.parts.offsets[number]):
                if event >= 0:  # a note left open has no end
                    track, row_number = document.event(event)
                    del track.rows[row_number]
        added: defaultdict[int, list[_Row]] = defaultdict(list)
        for row in sorted(row for same in new.values() for row in same):
            added[row[6]].append(row)
        changed = set(notes["track"][programs != notes["program"]].tolist())
        for part in sorted(changed | {part for part in added if part < len(self.places)}):
            place, channel = divmod(self.places[part], 16)
            in_part = stay & (notes["track"] == part)
            drum = channel in document.file.drums
            if any(row[5] != drum for row in added[part]):
                raise Unwritable("drums and other notes are on one track")
            for number in np.flatnonzero(in_part).tolist():
                track, row_number = document.event(document.parts.onsets[number])
                program = int(programs[number])
                track.rows[row_number] = track.rows[row_number]._replace(program=program)
            kits = set(programs[in_part].tolist()) if drum else set(range(128))
            for row in added[part]:
                begin, end = self._fitted(row, notes[in_part])
                program = row[4] if row[4] in kits else None
                document.track(place).new += encode.note(channel, begin, end, row, program)
        left_open: list[int] = np.flatnonzero(stay & (document.parts.offsets < 0)).tolist()
        return left_open

    def _fitted(self, row: _Row, there: np.ndarray) -> tuple[int, int]:
        """The ticks at which a new note begins and ends, such that the notes ``there`` keep their
        ends, which MIDI pairs first in, first out."""
        begin, end = self.clock.ticks(np.array(row[:2])).tolist()
        same = there[there["pitch"] == row[2]]
        begins, ends = self.clock.ticks(same["start"]), self.clock.ticks(same["end"])
        end = max(end, int(ends[begins <= begin].max(initial=begin + 1)))
        return begin, int(ends[begins > begin].min(initial=end))

    def _close(self, left_open: list[int]) -> None:
        """End notes that no note-off ends in tracks that become longer where these ended before."""
        for number in left_open:
            event = self.document.file.events[self.document.parts.onsets[number]]
            track = self.document.track(int(event["track"]))
            if any(message.tick > track.last for message in track.new):
                body = bytes([0x80 | event["status"] % 16, event["a"], 0])
                track.new.append(Message(track.last, OFF, body))

    def _pedals(self) -> None:
        """Remove and add pedals of the parts that there are."""
        if np.array_equal(self.before.pedals, self.score.pedals):
            return
        waiting, events = Counter(self.score.pedals.tolist()), self.document.file.events
        for event in np.flatnonzero(events["status"] >> 4 == 0xB).tolist():
            tick, track, status, _, value = events[event].item()
            time = float(self.clock.seconds(tick))
            moved = self.document.parts.moved_by(track * 16 + status % 16)
            rows = [(time, value, part) for part in moved]
            if all(waiting[row] > 0 for row in rows):
                waiting.subtract(rows)
            else:  # what it did in the parts where it stays comes again
                opened, number = self.document.event(event)
                del opened.rows[number]
        for time, value, part in waiting.elements():
            if part < len(self.places):
                track, channel = divmod(self.places[part], 16)
                tick = int(self.clock.ticks(np.array(time)))
                self.document.track(track).new.append(controller(tick, channel, 64, value))

    def _texts(self) -> None:
        """Remove and add markers and lyrics."""
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
                message = encode.text(int(self.clock.ticks(np.array(time))), kind, words)
                place = places.get(message.tick, there[0][0] if there else 0)
                self.document.track(place).new.append(message)


def _difference(before: np.ndarray, after: np.ndarray) -> tuple[list[int], list[_Row]]:
    """The numbers of the rows that are only ``before``, and the rows that are only ``after``."""
    waiting, removed = Counter(after.tolist()), []
    for number, row in enumerate(before.tolist()):
        if waiting[row] > 0:
            waiting[row] -= 1
        else:
            removed.append(number)
    return removed, list(waiting.elements())


def _but_program(row: _Row) -> _Row:
    return (*row[:4], *row[5:])
