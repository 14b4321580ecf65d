"""What has changed in a Score, put into the MIDI file that it was read from.

All is compared in ticks. Only the tracks in which something changes are made anew, and in these all
other events stay where and what they are: controllers, bends, channels. Everything else is copied
byte for byte.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import replace

import numpy as np

from musictx.midi import encode
from musictx.midi.clock import FASTEST, LAST_TICK, MOST_TICKS, SLOWEST, TickClock
from musictx.midi.document import ANY, OFF, Document, Message, controller, text_of
from musictx.midi.encode import LYRIC, MARKER, NAME
from musictx.midi.parts import free_channel, with_parts
from musictx.midi.read import read as read_file
from musictx.midi.scan import DRUM_CHANNEL
from musictx.notes import Score

#: A note that would come to lie further than this from its time, in seconds, on the ticks of the
#: file, asks for a file with finer ones.
COARSEST_SECONDS = 0.005
#: Parts of a tick within which notes that keep their beats, or their seconds, are where they were.
FINE = 64
#: Columns of a Score -> the meta events that say them.
KINDS = {"tempos": 0x51, "meters": 0x58, "keys": 0x59}
#: A note but for its program: its ticks, pitch, velocity, whether it is a drum, its part.
_Note = tuple[int, int, int, int, bool, int]


class Unwritable(Exception):
    """A score says what its file cannot; the message is a clause that says what."""


def edited(score: Score) -> bytes:
    """``score.file`` with what ``score`` says.

    Notes and pedals that are not in the file come, those of the file that are not in the score go,
    all on the nearest ticks; where these are coarser than :data:`COARSEST_SECONDS`, they are halved
    for all messages alike, as often as it takes. A new note that sounds together with another of
    its pitch in its part ends when MIDI's first in, first out leaves the other its end. Where notes
    are to sound with other programs, program changes become others or come before them; a new note
    of drums sounds with the kit in force, unless another one of the part is asked for. Tracks of
    the score that the file does not have are added at its end, each with its name and on a channel
    that no note of the file is on, if there is one; a file of format 0 becomes one of format 1
    then.

    A part that gets a name gets a MIDI track to itself. Markers and lyrics come and go one by one:
    a new one on the track of one that it takes the place of, else of others of its kind, else on
    the first new track, or on the first of all. Tempos, meters and keys of a kind that differ come
    in place of the file's: where most notes keep their beats then, all messages keep their ticks;
    else they keep their seconds, on the nearest ticks.

    Raises :class:`Unwritable` for what the file cannot say.
    """
    return _Edit(score).data()


class _Edit:
    """The changes that make the file of a score say what the score says."""

    def __init__(self, score: Score) -> None:
        self.score, self.before = score, read_file(score.file, limits=ANY)
        self.document = Document(score.file)
        self.file, self.places = self.document.file, self.document.places
        if self.before.ticks_per_quarter != score.ticks_per_quarter:
            raise Unwritable("a quarter note has another number of ticks")
        self.changed = {
            name
            for name in KINDS
            if not np.array_equal(getattr(self.before, name), getattr(score, name))
        }
        if self.changed and self.file.division & 0x8000:
            raise Unwritable("it counts frames of film, so it has no tempos and bars")
        parts, events = self.document.parts, self.file.events
        onsets, offsets = events[parts.onsets], events[parts.offsets]
        ends = np.where(parts.offsets < 0, self.file.ends[onsets["track"]], offsets["tick"])
        #: The ticks of the notes of the file.
        self.begins, self.ends = onsets["tick"], ends
        #: Seconds of the score <-> ticks of the result.
        self.clock, self.keeps_beats = self.document.clock, True
        if "tempos" in self.changed:
            bpm = score.tempos["bpm"]
            if not np.all((bpm >= SLOWEST) & (bpm <= FASTEST)):
                raise Unwritable(f"a tempo is beyond what MIDI can say, {SLOWEST:g} to {FASTEST:g}")
            self.clock = TickClock.along(score.tempos, self.file.division)
            self.keeps_beats = self._on_ticks(self.clock) >= self._on_ticks(self.document.clock)

    def data(self) -> bytes:
        """The file with the changes."""
        score, drums = self.score, self.file.drums
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
        if self.changed:
            self._marks()
        for part in named:
            track = self.document.track(self.places[part] // 16)
            track.remove_meta({NAME})
            if part in score.names:
                track.new.append(encode.text(0, NAME, score.names[part]))
        self._pedals()
        left_open = self._notes()
        texts = self._texts()
        if texts and max(parts, default=-1) < len(self.places):  # no new track
            self.document.track(0).new += texts
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

    def _finer(self) -> Score:
        """The score with its file on ticks that are half as long."""
        document, quarter = self.document, self.file.division
        last = max(int(self.file.ends.max()), int(self.clock.ticks(self.score.duration))) + 1
        if quarter & 0x8000 or 2 * quarter > MOST_TICKS or 2 * last > LAST_TICK:
            raise Unwritable("its ticks are too coarse for the new notes")
        for number in range(len(document.chunks)):
            document.track(number).move(lambda ticks: 2 * ticks)
        data = document.edited()
        data = data[:12] + (2 * quarter).to_bytes(2, "big") + data[14:]
        return replace(self.score, file=data, ticks_per_quarter=2 * quarter)

    def _on_ticks(self, clock: TickClock) -> int:
        """How many notes of the score are on the ticks that they have in the file, by ``clock``."""
        notes = self.score.notes
        places = (np.rint(clock.places(notes[name]) * FINE) for name in ("start", "end"))
        there = _rows(self.document.parts.notes, self.begins * FINE, self.ends * FINE)
        return sum((Counter(_rows(notes, *places)) & Counter(there)).values())

    def _moved(self, ticks: np.ndarray) -> np.ndarray:
        """Where ticks of the file are in the result."""
        return ticks if self.keeps_beats else self.clock.ticks(self.document.clock.seconds(ticks))

    def _marks(self) -> None:
        """Put the tempos, meters and keys of the score in place of the file's, of each kind that
        differs, and all other messages where they are to be."""
        score, names = self.score, self.changed & {"tempos"}
        for name in ("meters", "keys"):
            rows, there = getattr(score, name), getattr(self.before, name)
            ticks = self._moved(self.document.clock.ticks(there["time"]))
            what = list(rows.dtype.names[1:])
            if not (
                np.array_equal(ticks, self.clock.ticks(rows["time"]))
                and np.array_equal(rows[what], there[what])
            ):
                names.add(name)
        marks = encode.marks(score, self.clock)
        new = [row for name in KINDS if name in names for row in marks[name]]
        ends = self.clock.ticks(score.duration), self._moved(self.file.ends).max()
        if max(*ends, *(row.tick for row in new)) >= LAST_TICK:
            raise Unwritable("it would have more ticks than MIDI can count")
        for number in range(len(self.document.chunks)):
            track = self.document.track(number)
            track.remove_meta({KINDS[name] for name in names})
            track.move(self._moved)
        self.document.track(0).new += new

    def _notes(self) -> list[int]:
        """Remove and add notes of the parts that there are, and let others sound with other
        programs; returns the numbers of the others that no note-off ends."""
        document, asked, notes = self.document, self.score.notes, self.document.parts.notes
        begins, ends = self._moved(self.begins), self._moved(self.ends)
        waiting: defaultdict[_Note, list[int]] = defaultdict(list)  # the programs of each note
        ticks = (self.clock.ticks(asked[name]) for name in ("start", "end"))
        for row, program in zip(_rows(asked, *ticks), asked["program"].tolist()):
            waiting[row].append(program)
        stay, programs = np.ones(len(notes), bool), notes["program"].copy()
        rows, left = _rows(notes, begins, ends), []
        for number, (row, program) in enumerate(zip(rows, programs.tolist())):
            if program in waiting[row]:
                waiting[row].remove(program)
            else:
                left.append(number)
        for number in left:
            if same := waiting[rows[number]]:
                programs[number] = same.pop()
                continue
            stay[number] = False
            for event in (document.parts.onsets[number], document.parts.offsets[number]):
                if event >= 0:  # a note left open has no end
                    track, row_number = document.event(event)
                    del track.rows[row_number]
        added: defaultdict[int, list[tuple[_Note, int]]] = defaultdict(list)
        for row in sorted(waiting):
            added[row[5]] += [(row, program) for program in waiting[row]]
        changed = set(notes["track"][programs != notes["program"]].tolist())
        for part in sorted(changed | {n for n in added if added[n] and n < len(self.places)}):
            place, channel = divmod(self.places[part], 16)
            in_part = stay & (notes["track"] == part)
            drum = channel in self.file.drums
            if any(row[4] != drum for row, _ in added[part]):
                raise Unwritable("drums and other notes are on one track")
            for number in np.flatnonzero(in_part).tolist():
                track, row_number = document.event(document.parts.onsets[number])
                program = int(programs[number])
                track.rows[row_number] = track.rows[row_number]._replace(program=program)
            kits = set(programs[in_part].tolist()) if drum else set(range(128))
            for row, program in added[part]:
                same = in_part & (notes["pitch"] == row[2])
                begin, end = _fitted(row, begins[same], ends[same])
                kit = program if program in kits else None
                document.track(place).new += encode.note(channel, begin, end, row, kit)
        left_open: list[int] = np.flatnonzero(stay & (document.parts.offsets < 0)).tolist()
        return left_open

    def _close(self, left_open: list[int]) -> None:
        """End notes that no note-off ends in tracks that become longer where these ended before."""
        for number in left_open:
            event = self.file.events[self.document.parts.onsets[number]]
            track = self.document.track(int(event["track"]))
            if any(message.tick > track.last for message in track.new):
                body = bytes([0x80 | event["status"] % 16, event["a"], 0])
                track.new.append(Message(track.last, OFF, body))

    def _pedals(self) -> None:
        """Remove and add pedals of the parts that there are."""
        pedals = self.score.pedals
        columns = (self.clock.ticks(pedals["time"]), pedals["value"], pedals["track"])
        waiting = Counter(zip(*(column.tolist() for column in columns)))
        numbers = np.flatnonzero(self.file.events["status"] >> 4 == 0xB)
        events = self.file.events[numbers]
        ticks = self._moved(events["tick"]).tolist()
        for event, tick, row in zip(numbers.tolist(), ticks, events.tolist()):
            _, track, status, _, value = row
            moved = self.document.parts.moved_by(track * 16 + status % 16)
            rows = [(tick, value, part) for part in moved]
            if all(waiting[row] > 0 for row in rows):
                waiting.subtract(rows)
            else:  # what it did in the parts where it stays comes again
                opened, number = self.document.event(event)
                del opened.rows[number]
        for tick, value, part in waiting.elements():
            if part < len(self.places):
                number, channel = divmod(self.places[part], 16)
                self.document.track(number).new.append(controller(tick, channel, 64, value))

    def _texts(self) -> list[Message]:
        """Remove and add markers and lyrics. Returns the new ones of a kind that the file has
        none of."""
        unplaced: list[Message] = []
        for kind, name in ((MARKER, "markers"), (LYRIC, "lyrics")):
            texts, there = getattr(self.score, name), getattr(self.file, name)
            ticks = self.clock.ticks(np.array([time for time, _ in texts])).tolist()
            waiting = Counter(zip(ticks, (words for _, words in texts)))
            places: dict[int, int] = {}
            for number in sorted({track for track, *_ in there}):
                track = self.document.track(number)
                for n, row in list(track.rows.items()):
                    if row.meta != kind or not (words := text_of(row.body)):
                        continue
                    if waiting[row.tick, words] > 0:
                        waiting[row.tick, words] -= 1
                    else:
                        del track.rows[n]
                        places.setdefault(row.tick, number)
            for tick, words in sorted(waiting.elements()):
                new = unplaced
                if there:
                    new = self.document.track(places.get(tick, there[0][0])).new
                new.append(encode.text(tick, kind, words))
        return unplaced


def _rows(notes: np.ndarray, begins: np.ndarray, ends: np.ndarray) -> list[_Note]:
    """Notes of a Score from one tick to another, but for their programs."""
    columns = (begins, ends, *(notes[name] for name in ("pitch", "velocity", "drum", "track")))
    return list(zip(*(column.tolist() for column in columns)))


def _fitted(row: _Note, begins: np.ndarray, ends: np.ndarray) -> tuple[int, int]:
    """The ticks at which a new note begins and ends, such that the others of its pitch in its part,
    from ``begins`` to ``ends``, keep these: MIDI pairs first in, first out."""
    begin = row[0]
    end = max(row[1], int(ends[begins <= begin].max(initial=begin + 1)))
    return begin, int(ends[begins > begin].min(initial=end))
