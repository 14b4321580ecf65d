"""Writes the changes of a Score into the MIDI file that it was read from.

File and Score are compared in ticks. In tracks that change, all other messages stay as they are,
such as controllers and pitch bends. Tracks without a change are copied byte for byte.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from musictx.midi import encode
from musictx.midi.clock import MAX_BPM, MAX_DELTA, MAX_TICKS_PER_QUARTER, MIN_BPM, TickClock
from musictx.midi.document import NO_LIMITS, OFF, Message, MidiFile, controller, text_of
from musictx.midi.parts import Unwritable, free_channel, select_parts
from musictx.midi.read import read as read_file
from musictx.midi.scan import DRUM_CHANNEL, META_TYPES, NAME
from musictx.notes import MARKS, Score

#: Ticks are halved if a note or pedal is farther than this from the nearest tick of the file.
MAX_ROUNDING_SECONDS = 0.005
#: Ticks are compared in units of 1 / ``TICK_FRACTIONS`` of a tick to decide whether notes moved.
TICK_FRACTIONS = 64


class _Note(NamedTuple):
    """A note in ticks, without its program."""

    begin: int
    end: int
    pitch: int
    velocity: int
    drum: bool
    part: int


def edit_file(score: Score) -> bytes:
    """Return ``score.file``, edited so that it is read as ``score``.

    - Notes and pedals are added and removed, on the nearest ticks. If ticks are too coarse
      (:data:`MAX_ROUNDING_SECONDS`), all ticks of the file are halved, several times if necessary.
    - MIDI pairs note-offs with note-ons first in, first out. So a new note that overlaps an old one
      of its pitch and part may get another end, so that the old one keeps its own.
    - If notes get other programs, program changes are replaced or added. A new drum note sounds
      with the current kit, unless its program is another kit of the part.
    - New tracks of the score are added at the end, with their names, on a channel without parts or,
      if there is none, one whose notes have the same program. A file of format 0 then becomes one
      of format 1.
    - A part that gets a new name gets a MIDI track of its own.
    - Markers and lyrics are added and removed one by one. A new one is put into the track of the
      one that it replaces, else of another one of its type, else into the first new track, else
      into the first track.
    - Tempos, meters or keys are replaced if they differ. If the tempos differ, all messages keep
      either their ticks or their seconds, whichever leaves more notes of the score unmoved.

    Raises :class:`Unwritable` if the file cannot hold the changes.
    """
    return _Edit(score).data()


class _Edit:
    """The edit of one file; ``data`` may be called once."""

    def __init__(self, score: Score) -> None:
        self.score, self.original = score, read_file(score.file, limits=NO_LIMITS)
        self.document = MidiFile(score.file)
        self.file, self.places = self.document.file, self.document.places
        if self.original.ticks_per_quarter != score.ticks_per_quarter:
            raise Unwritable("a quarter note has another number of ticks")
        # The marks of a field are all replaced if one differs; texts are edited one by one.
        self.changed = {
            name
            for name in MARKS
            if not np.array_equal(getattr(self.original, name), getattr(score, name))
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
            if not np.all((bpm >= MIN_BPM) & (bpm <= MAX_BPM)):
                raise Unwritable(f"MIDI has only tempos from {MIN_BPM} to {MAX_BPM:,.0f} bpm")
            self.clock = TickClock.from_tempos(score.tempos, self.file.division)
            same_ticks, same_seconds = map(self._unmoved_notes, (self.clock, self.document.clock))
            self.keeps_ticks = same_ticks >= same_seconds

    def data(self) -> bytes:
        """Return the edited file."""
        score, drums = self.score, self.file.drums
        parts = np.unique(score.notes["track"]).tolist()
        old_parts, old_names = range(len(self.places)), self.original.names
        renamed = {n for n in parts if n in old_parts and old_names.get(n) != score.names.get(n)}
        track_parts = Counter(place // 16 for place in self.places)
        if alone := [self.places[n] for n in renamed if track_parts[self.places[n] // 16] > 1]:
            data = select_parts(score.file, self.places, alone=alone)
            return edit_file(replace(score, file=data))
        times = np.concatenate([score.notes["start"], score.pedals["time"]])
        errors = np.abs(self.clock.seconds(self.clock.ticks(times)) - times)
        if errors.max(initial=0.0) > MAX_ROUNDING_SECONDS:
            return edit_file(self._with_halved_ticks())
        if self.changed:
            self._edit_marks()
        for part in renamed:
            track = self.document.track(self.places[part] // 16)
            track.remove_meta({NAME})
            if part in score.names:
                track.add([encode.text(0, NAME, score.names[part])])
        self._edit_pedals()
        open_notes = self._edit_notes()
        texts = self._edit_texts()
        if texts and max(parts, default=-1) < len(self.places):  # no new track
            self.document.track(0).add(texts)
        self._add_note_offs(open_notes)
        tracks: list[bytes] = []
        places = list(self.places)
        programs: defaultdict[int, set[int]] = defaultdict(set)  # of the pitched notes on a channel
        for part, program in np.unique(score.notes[["track", "program"]]).tolist():
            if part < len(self.places) and self.places[part] % 16 not in drums:
                programs[self.places[part] % 16].add(program)
        for part in (part for part in parts if part >= len(self.places)):
            notes = score.notes[score.notes["track"] == part]
            shared = [c for c in programs if [*programs[c]] == np.unique(notes["program"]).tolist()]
            channel = DRUM_CHANNEL if notes["drum"][0] else free_channel(places, drums, shared)
            places.append(channel)
            first_texts = texts if not tracks else []
            tracks.append(encode.part_track(score, self.clock, notes, channel, first_texts))
        return self.document.edited(tracks)

    def _with_halved_ticks(self) -> Score:
        """Return the score with a file that has twice as many ticks."""
        document, quarter = self.document, self.file.division
        last = max(int(self.file.ends.max()), int(self.clock.ticks(self.score.duration))) + 1
        if quarter & 0x8000 or 2 * quarter > MAX_TICKS_PER_QUARTER or 2 * last > MAX_DELTA:
            raise Unwritable("its ticks are too coarse for the new notes")
        for number in range(len(document.chunks)):
            document.track(number).move(lambda ticks: 2 * ticks)
        data = document.edited()
        data = data[:12] + (2 * quarter).to_bytes(2, "big") + data[14:]
        return replace(self.score, file=data, ticks_per_quarter=2 * quarter)

    def _unmoved_notes(self, clock: TickClock) -> int:
        """Count the notes of the score that equal notes of the file, in ticks of ``clock``."""
        notes, unit = self.score.notes, TICK_FRACTIONS
        ticks = (np.rint(clock.exact_ticks(notes[name]) * unit) for name in ("start", "end"))
        file_notes = _in_ticks(self.document.parts.notes, self.begins * unit, self.ends * unit)
        return sum((Counter(_in_ticks(notes, *ticks)) & Counter(file_notes)).values())

    def _new_ticks(self, ticks: np.ndarray) -> np.ndarray:
        """Convert ticks of the original file to ticks of the edited file."""
        return ticks if self.keeps_ticks else self.clock.ticks(self.document.clock.seconds(ticks))

    def _edit_marks(self) -> None:
        """Replace tempos, meters and keys if they differ in their ticks or values, and move all
        other messages to their new ticks."""
        score, names = self.score, self.changed & {"tempos"}
        for name in ("meters", "keys"):
            rows, old_rows = getattr(score, name), getattr(self.original, name)
            old_ticks = self._new_ticks(self.document.clock.ticks(old_rows["time"]))
            values = list(rows.dtype.names[1:])
            if not (
                np.array_equal(old_ticks, self.clock.ticks(rows["time"]))
                and np.array_equal(rows[values], old_rows[values])
            ):
                names.add(name)
        marks = encode.marks(score, self.clock)
        new = [message for name in MARKS if name in names for message in marks[name]]
        ends = self.clock.ticks(score.duration), self._new_ticks(self.file.ends).max()
        if max(*ends, *(message.tick for message in new)) >= MAX_DELTA:
            raise Unwritable("it would have more ticks than MIDI can count")
        for number in range(len(self.document.chunks)):
            track = self.document.track(number)
            track.remove_meta({META_TYPES[name] for name in names})
            track.move(self._new_ticks)
        self.document.track(0).add(new)

    def _match_notes(self) -> tuple[np.ndarray, np.ndarray, dict[int, list[tuple[_Note, int]]]]:
        """Match the notes of the file with those of the score.

        Returns (n,) bool: which notes of the file remain; (n,) their programs in the score; and
        {part: [(new note, its program)]}.
        """
        score_notes, notes = self.score.notes, self.document.parts.notes
        ticks = (self.clock.ticks(score_notes[name]) for name in ("start", "end"))
        unmatched: defaultdict[_Note, list[int]] = defaultdict(list)  # note -> programs
        for note, program in zip(_in_ticks(score_notes, *ticks), score_notes["program"].tolist()):
            unmatched[note].append(program)
        remains, programs = np.ones(len(notes), bool), notes["program"].copy()
        file_notes = _in_ticks(notes, self._new_ticks(self.begins), self._new_ticks(self.ends))
        differing = []  # numbers of file notes without an equal note in the score
        for number, (note, program) in enumerate(zip(file_notes, programs.tolist())):
            if program in unmatched[note]:
                unmatched[note].remove(program)
            else:
                differing.append(number)
        for number in differing:
            if new_programs := unmatched[file_notes[number]]:  # only the program differs
                programs[number] = new_programs.pop()
            else:
                remains[number] = False
        new_notes: defaultdict[int, list[tuple[_Note, int]]] = defaultdict(list)
        for note in sorted(note for note, rest in unmatched.items() if rest):
            new_notes[note.part] += [(note, program) for program in unmatched[note]]
        return remains, programs, new_notes

    def _edit_notes(self) -> list[int]:
        """Remove notes, add notes and change programs in the parts of the file. Return the numbers
        of remaining notes without a note-off."""
        document, notes = self.document, self.document.parts.notes
        onsets, offsets = document.parts.onsets, document.parts.offsets
        remains, programs, new_notes = self._match_notes()
        for event in (*onsets[~remains].tolist(), *offsets[~remains].tolist()):
            if event >= 0:
                track, key = document.event(event)
                del track.messages[key]
        begins, ends = self._new_ticks(self.begins), self._new_ticks(self.ends)
        has_new_programs = set(notes["track"][programs != notes["program"]].tolist())
        has_new_notes = {part for part in new_notes if part < len(self.places)}
        for part in sorted(has_new_programs | has_new_notes):
            track_number, channel = divmod(self.places[part], 16)
            in_part = remains & (notes["track"] == part)
            drum = channel in self.file.drums
            part_notes = new_notes.get(part, [])
            if any(note.drum != drum for note, _ in part_notes):
                raise Unwritable("drums and other notes are on one track")
            for number in np.flatnonzero(in_part).tolist():
                track, key = document.event(onsets[number])
                message = track.messages[key]
                track.messages[key] = message._replace(program=int(programs[number]))
            if part in self.document.parts.inheriting:  # from now on it has its own program changes
                first = int(programs[notes["track"] == part][0])
                message = Message(0, OFF, bytes([0xC0 | channel, first]))
                document.track(track_number).add([message])
            for note, program in part_notes:
                same_pitch = in_part & (notes["pitch"] == note.pitch)
                ticks = _begin_and_end(note, begins[same_pitch], ends[same_pitch])
                uses_current_kit = drum and program not in programs[in_part]
                sent_program = None if uses_current_kit else program
                document.track(track_number).add(encode.note(channel, *ticks, note, sent_program))
        parts = set(range(len(self.places)))
        with_notes = parts & {*new_notes, *notes["track"][remains].tolist()}
        channels = {self.places[part] % 16 for part in with_notes}
        for part in parts - with_notes:
            number, channel = divmod(self.places[part], 16)
            if channel in channels:  # program changes of empty parts would act on other parts there
                track = document.track(number)
                messages = track.messages.items()
                track.messages = {n: m for n, m in messages if m.body[0] != 0xC0 | channel}
        return np.flatnonzero(remains & (offsets < 0)).tolist()

    def _add_note_offs(self, open_notes: list[int]) -> None:
        """Add the missing note-offs of ``open_notes``, at the old end of each track that becomes
        longer, so that they keep their ends."""
        for number in open_notes:
            event = self.file.events[self.document.parts.onsets[number]]
            track = self.document.track(int(event["track"]))
            if any(message.tick > track.last for message in track.messages.values()):
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
            targets = self.document.parts.parts_controlled_at(track * 16 + status % 16)
            rows = [(tick, value, part) for part in targets]
            if all(missing[row] > 0 for row in rows):
                missing.subtract(rows)
            else:  # it is added again below for each part that still has it
                edited_track, key = self.document.event(event)
                del edited_track.messages[key]
        for tick, value, part in missing.elements():
            if part < len(self.places):
                number, channel = divmod(self.places[part], 16)
                self.document.track(number).add([controller(tick, channel, 64, value)])

    def _edit_texts(self) -> list[Message]:
        """Remove and add markers and lyrics. Return, without adding them, the new ones if the file
        has none of their type."""
        unplaced: list[Message] = []
        for name in ("markers", "lyrics"):
            kind, texts = META_TYPES[name], getattr(self.score, name)
            old_texts = self.file.marks[name]
            ticks = self.clock.ticks(np.array([time for time, _ in texts])).tolist()
            missing = Counter(zip(ticks, (text for _, text in texts)))
            removed: dict[int, int] = {}  # tick -> track
            for number in sorted({track for track, *_ in old_texts}):
                track = self.document.track(number)
                for key, message in list(track.messages.items()):
                    if message.meta != kind or not (text := text_of(message.body)):
                        continue
                    if missing[message.tick, text] > 0:
                        missing[message.tick, text] -= 1
                    else:
                        del track.messages[key]
                        removed.setdefault(message.tick, number)
            for tick, text in sorted(missing.elements()):
                message = encode.text(tick, kind, text)
                if old_texts:
                    self.document.track(removed.get(tick, old_texts[0][0])).add([message])
                else:
                    unplaced.append(message)
        return unplaced


def _in_ticks(notes: np.ndarray, begins: np.ndarray, ends: np.ndarray) -> list[_Note]:
    """Convert ``notes`` of a Score to notes that begin and end at these ticks."""
    columns = (begins, ends, *(notes[name] for name in ("pitch", "velocity", "drum", "track")))
    return list(map(_Note._make, zip(*(column.tolist() for column in columns))))


def _begin_and_end(note: _Note, begins: np.ndarray, ends: np.ndarray) -> tuple[int, int]:
    """Return the ticks of a new ``note``, with an end at which the old notes of its pitch and part,
    from ``begins`` to ``ends``, keep theirs: MIDI pairs first in, first out."""
    end = max(note.end, int(ends[begins <= note.begin].max(initial=note.begin + 1)))
    return note.begin, int(ends[begins > note.begin].min(initial=end))
