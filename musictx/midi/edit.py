"""Writes the changes of a Score into the MIDI file that it was read from.

File and Score are compared in ticks. In tracks that change, all other events stay as they are, such
as controllers and pitch bends. Tracks without a change are copied byte for byte.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from musictx.midi import encode
from musictx.midi.clock import FASTEST, LAST_TICK, MOST_TICKS, SLOWEST, TickClock
from musictx.midi.document import ANY, OFF, Message, MidiFile, controller, text_of
from musictx.midi.parts import free_channel, with_parts
from musictx.midi.read import read as read_file
from musictx.midi.scan import DRUM_CHANNEL, META_TYPES, NAME
from musictx.notes import MARKS, Score

#: If a note would be moved by more than this to the nearest tick of the file, ticks are halved.
COARSEST_SECONDS = 0.005
#: A note has kept its ticks if they are equal when rounded to this fraction of a tick.
FINE = 64


class _Note(NamedTuple):
    """A note in ticks, without its program."""

    begin: int
    end: int
    pitch: int
    velocity: int
    drum: bool
    part: int


class Unwritable(Exception):
    """The MIDI file cannot hold the changed Score; the message is a clause that tells why."""


def edited(score: Score) -> bytes:
    """Return ``score.file``, changed such that reading it gives ``score``.

    - Notes and pedals are added and removed, on the nearest ticks. If ticks are too coarse
      (:data:`COARSEST_SECONDS`), all ticks of the file are halved, several times if necessary.
    - MIDI pairs note-offs with note-ons first in, first out. So a new note that overlaps another
      one of its pitch and part may end earlier or later, such that the other one keeps its end.
    - If notes get other programs, program changes are replaced or added. A new drum note sounds
      with the current kit, unless its program is another kit of the part.
    - New tracks of the score are added at the end, with their names, and on a channel without notes
      if there is one. A file of format 0 then becomes one of format 1.
    - A part that gets a new name gets a MIDI track of its own.
    - Markers and lyrics are added and removed one by one. A new one is put into the track of the
      one that it replaces, else of others of its type, else into the first new track, else into the
      first track.
    - Tempos, meters or keys that differ are replaced. If the tempos differ, all messages keep
      either their ticks or their seconds: whichever fits more notes of the score.

    Raises :class:`Unwritable` if the file cannot hold the changes.
    """
    return _Edit(score).data()


class _Edit:
    """The edit of one file; ``data`` may be called once."""

    def __init__(self, score: Score) -> None:
        self.score, self.before = score, read_file(score.file, limits=ANY)
        self.document = MidiFile(score.file)
        self.file, self.places = self.document.file, self.document.places
        if self.before.ticks_per_quarter != score.ticks_per_quarter:
            raise Unwritable("a quarter note has another number of ticks")
        # Marks are replaced as a whole if one differs; texts are edited one by one.
        self.changed = {
            name
            for name in MARKS
            if not np.array_equal(getattr(self.before, name), getattr(score, name))
        }
        if self.changed and self.file.division & 0x8000:
            raise Unwritable("it counts frames of film, so it has no tempos and bars")
        parts, events = self.document.parts, self.file.events
        onsets, offsets = events[parts.onsets], events[parts.offsets]
        ends = np.where(parts.offsets < 0, self.file.ends[onsets["track"]], offsets["tick"])
        #: Ticks at which the notes of the file begin and end.
        self.begins, self.ends = onsets["tick"], ends
        #: The clock of the result, and whether messages keep their ticks, else their seconds.
        self.clock, self.keeps_ticks = self.document.clock, True
        if "tempos" in self.changed:
            bpm = score.tempos["bpm"]
            if not np.all((bpm >= SLOWEST) & (bpm <= FASTEST)):
                raise Unwritable(f"a tempo is beyond what MIDI can say, {SLOWEST:g} to {FASTEST:g}")
            self.clock = TickClock.along(score.tempos, self.file.division)
            kept_ticks, kept_seconds = map(self._unmoved_notes, (self.clock, self.document.clock))
            self.keeps_ticks = kept_ticks >= kept_seconds

    def data(self) -> bytes:
        """Return the changed file."""
        score, drums = self.score, self.file.drums
        parts = np.unique(score.notes["track"]).tolist()
        named = {part for part in parts if part < len(self.places)}
        named = {part for part in named if self.before.names.get(part) != score.names.get(part)}
        in_track = Counter(place // 16 for place in self.places)
        if alone := [self.places[n] for n in named if in_track[self.places[n] // 16] > 1]:
            data = with_parts(score.file, self.places, alone=alone)
            return edited(replace(score, file=data))
        times = np.concatenate([score.notes["start"], score.pedals["time"]])
        errors = np.abs(self.clock.seconds(self.clock.ticks(times)) - times)
        if errors.max(initial=0.0) > COARSEST_SECONDS:
            return edited(self._with_halved_ticks())
        if self.changed:
            self._edit_marks()
        for part in named:
            track = self.document.track(self.places[part] // 16)
            track.remove_meta({NAME})
            if part in score.names:
                track.add([encode.text(0, NAME, score.names[part])])
        self._edit_pedals()
        left_open = self._edit_notes()
        texts = self._edit_texts()
        if texts and max(parts, default=-1) < len(self.places):  # no new track
            self.document.track(0).add(texts)
        self._close(left_open)
        tracks: list[bytes] = []
        places = list(self.places)
        for part in parts:
            if part >= len(self.places):
                notes = score.notes[score.notes["track"] == part]
                channel = DRUM_CHANNEL if notes["drum"][0] else free_channel(places, drums)
                places.append(channel)
                tracks.append(encode.part(score, self.clock, notes, channel, texts * (not tracks)))
        return self.document.edited(tracks)

    def _with_halved_ticks(self) -> Score:
        """Return the score with a file whose ticks are half as long."""
        document, quarter = self.document, self.file.division
        last = max(int(self.file.ends.max()), int(self.clock.ticks(self.score.duration))) + 1
        if quarter & 0x8000 or 2 * quarter > MOST_TICKS or 2 * last > LAST_TICK:
            raise Unwritable("its ticks are too coarse for the new notes")
        for number in range(len(document.chunks)):
            document.track(number).move(lambda ticks: 2 * ticks)
        data = document.edited()
        data = data[:12] + (2 * quarter).to_bytes(2, "big") + data[14:]
        return replace(self.score, file=data, ticks_per_quarter=2 * quarter)

    def _unmoved_notes(self, clock: TickClock) -> int:
        """Count the notes of the score whose ticks, by ``clock``, are those of the file."""
        notes = self.score.notes
        ticks = (np.rint(clock.exact_ticks(notes[name]) * FINE) for name in ("start", "end"))
        in_file = _in_ticks(self.document.parts.notes, self.begins * FINE, self.ends * FINE)
        return sum((Counter(_in_ticks(notes, *ticks)) & Counter(in_file)).values())

    def _new_ticks(self, ticks: np.ndarray) -> np.ndarray:
        """Convert ticks of the original file to ticks of the result."""
        return ticks if self.keeps_ticks else self.clock.ticks(self.document.clock.seconds(ticks))

    def _edit_marks(self) -> None:
        """Replace tempos, meters and keys if they differ, and move all other messages to their new
        ticks."""
        score, names = self.score, self.changed & {"tempos"}
        for name in ("meters", "keys"):
            rows, old_rows = getattr(score, name), getattr(self.before, name)
            old_ticks = self._new_ticks(self.document.clock.ticks(old_rows["time"]))
            values = list(rows.dtype.names[1:])
            if not (
                np.array_equal(old_ticks, self.clock.ticks(rows["time"]))
                and np.array_equal(rows[values], old_rows[values])
            ):
                names.add(name)
        marks = encode.marks(score, self.clock)
        new = [row for name in MARKS if name in names for row in marks[name]]
        ends = self.clock.ticks(score.duration), self._new_ticks(self.file.ends).max()
        if max(*ends, *(row.tick for row in new)) >= LAST_TICK:
            raise Unwritable("it would have more ticks than MIDI can count")
        for number in range(len(self.document.chunks)):
            track = self.document.track(number)
            track.remove_meta({META_TYPES[name] for name in names})
            track.move(self._new_ticks)
        self.document.track(0).add(new)

    def _match_notes(self) -> tuple[np.ndarray, np.ndarray, dict[int, list[tuple[_Note, int]]]]:
        """Match the notes of the file with those of the score.

        Returns (n,) bool: which notes of the file stay; (n,) their new programs; and part -> new
        notes, each with its program.
        """
        wanted, notes = self.score.notes, self.document.parts.notes
        ticks = (self.clock.ticks(wanted[name]) for name in ("start", "end"))
        missing: defaultdict[_Note, list[int]] = defaultdict(list)  # note -> programs
        for note, program in zip(_in_ticks(wanted, *ticks), wanted["program"].tolist()):
            missing[note].append(program)
        stay, programs = np.ones(len(notes), bool), notes["program"].copy()
        file_notes = _in_ticks(notes, self._new_ticks(self.begins), self._new_ticks(self.ends))
        unmatched = []
        for number, (note, program) in enumerate(zip(file_notes, programs.tolist())):
            if program in missing[note]:
                missing[note].remove(program)
            else:
                unmatched.append(number)
        for number in unmatched:
            if others := missing[file_notes[number]]:  # equal notes with other programs
                programs[number] = others.pop()
            else:
                stay[number] = False
        new: defaultdict[int, list[tuple[_Note, int]]] = defaultdict(list)
        for note in sorted(note for note, rest in missing.items() if rest):
            new[note.part] += [(note, program) for program in missing[note]]
        return stay, programs, new

    def _edit_notes(self) -> list[int]:
        """Remove notes, add notes and change programs in the parts of the file. Return the numbers
        of remaining notes without a note-off."""
        document, notes = self.document, self.document.parts.notes
        onsets, offsets = document.parts.onsets, document.parts.offsets
        stay, programs, new = self._match_notes()
        for event in (*onsets[~stay].tolist(), *offsets[~stay].tolist()):
            if event >= 0:
                track, row = document.event(event)
                del track.rows[row]
        begins, ends = self._new_ticks(self.begins), self._new_ticks(self.ends)
        has_new_programs = set(notes["track"][programs != notes["program"]].tolist())
        for part in sorted(has_new_programs | {part for part in new if part < len(self.places)}):
            track_number, channel = divmod(self.places[part], 16)
            in_part = stay & (notes["track"] == part)
            drum = channel in self.file.drums
            added = new.get(part, [])
            if any(note.drum != drum for note, _ in added):
                raise Unwritable("drums and other notes are on one track")
            for number in np.flatnonzero(in_part).tolist():
                track, row = document.event(onsets[number])
                track.rows[row] = track.rows[row]._replace(program=int(programs[number]))
            allowed = set(programs[in_part].tolist()) if drum else set(range(128))
            if part in self.document.parts.inheriting:  # from now on it has its own program changes
                first = int(programs[notes["track"] == part][0])
                message = Message(0, OFF, bytes([0xC0 | channel, first]))
                document.track(track_number).add([message])
            for note, program in added:
                same_pitch = in_part & (notes["pitch"] == note.pitch)
                ticks = _fitted(note, begins[same_pitch], ends[same_pitch])
                kit = program if program in allowed else None
                document.track(track_number).add(encode.note(channel, *ticks, note, kit))
        parts = set(range(len(self.places)))
        with_notes = parts & {*new, *notes["track"][stay].tolist()}
        channels = {self.places[part] % 16 for part in with_notes}
        for part in parts - with_notes:
            number, channel = divmod(self.places[part], 16)
            if channel in channels:  # its program changes must not act on the parts there
                track = document.track(number)
                rows = track.rows.items()
                track.rows = {n: row for n, row in rows if row.body[0] != 0xC0 | channel}
        return np.flatnonzero(stay & (offsets < 0)).tolist()

    def _close(self, left_open: list[int]) -> None:
        """Add note-offs for notes without one at the old end of tracks that become longer."""
        for number in left_open:
            event = self.file.events[self.document.parts.onsets[number]]
            track = self.document.track(int(event["track"]))
            if any(message.tick > track.last for message in track.rows.values()):
                body = bytes([0x80 | event["status"] % 16, event["a"], 0])
                track.add([Message(track.last, OFF, body)])

    def _edit_pedals(self) -> None:
        """Remove and add pedals in the parts of the file."""
        pedals = self.score.pedals
        columns = (self.clock.ticks(pedals["time"]), pedals["value"], pedals["track"])
        missing = Counter(zip(*(column.tolist() for column in columns)))
        numbers = np.flatnonzero(self.file.events["status"] >> 4 == 0xB)
        events = self.file.events[numbers]
        ticks = self._new_ticks(events["tick"]).tolist()
        for event, tick, (_, track, status, _, value) in zip(
            numbers.tolist(), ticks, events.tolist()
        ):
            targets = self.document.parts.controlled(track * 16 + status % 16)
            rows = [(tick, value, part) for part in targets]
            if all(missing[row] > 0 for row in rows):
                missing.subtract(rows)
            else:  # it is added below for each part of the file that keeps it
                edited_track, number = self.document.event(event)
                del edited_track.rows[number]
        for tick, value, part in missing.elements():
            if part < len(self.places):
                number, channel = divmod(self.places[part], 16)
                self.document.track(number).add([controller(tick, channel, 64, value)])

    def _edit_texts(self) -> list[Message]:
        """Remove and add markers and lyrics. Return new ones of a type that the file has none of,
        which are not added yet."""
        unplaced: list[Message] = []
        for name in ("markers", "lyrics"):
            kind, texts = META_TYPES[name], getattr(self.score, name)
            old_texts = self.file.marks[name]
            ticks = self.clock.ticks(np.array([time for time, _ in texts])).tolist()
            missing = Counter(zip(ticks, (text for _, text in texts)))
            removed: dict[int, int] = {}  # tick -> track
            for number in sorted({track for track, *_ in old_texts}):
                track = self.document.track(number)
                for n, row in list(track.rows.items()):
                    if row.meta != kind or not (text := text_of(row.body)):
                        continue
                    if missing[row.tick, text] > 0:
                        missing[row.tick, text] -= 1
                    else:
                        del track.rows[n]
                        removed.setdefault(row.tick, number)
            for tick, text in sorted(missing.elements()):
                message = encode.text(tick, kind, text)
                if old_texts:
                    self.document.track(removed.get(tick, old_texts[0][0])).add([message])
                else:
                    unplaced.append(message)
        return unplaced


def _in_ticks(notes: np.ndarray, begins: np.ndarray, ends: np.ndarray) -> list[_Note]:
    """Convert ``notes`` of a Score, which begin and end at these ticks."""
    columns = (begins, ends, *(notes[name] for name in ("pitch", "velocity", "drum", "track")))
    return list(map(_Note._make, zip(*(column.tolist() for column in columns))))


def _fitted(note: _Note, begins: np.ndarray, ends: np.ndarray) -> tuple[int, int]:
    """Return ticks of a new note such that the other notes of its pitch and part, from ``begins``
    to ``ends``, keep their ends: MIDI pairs first in, first out."""
    end = max(note.end, int(ends[begins <= note.begin].max(initial=note.begin + 1)))
    return note.begin, int(ends[begins > note.begin].min(initial=end))
