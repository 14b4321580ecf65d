"""A piece that began with a MIDI file, written into it: what was changed is in there, and every
message of what was not is where it was, as mido reads it."""

import io
from collections import defaultdict

import mido
import numpy as np
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from musictx import midi
from musictx.midi.document import Document as MidiDocument
from musictx.studio import exchange, original
from musictx.studio.change import Change, Track
from musictx.studio.config import StudioLimits
from musictx.studio.document import Document
from tests.midi.midi_bytes import messages
from tests.midi.test_edit import files, is_within

#: What a page does to tracks and texts, and to notes and the rest.
KINDS = ["track", "order", "delete", "lyrics", "meter", "key", "marks", "notes", "new", "undo"]
LIMITS = StudioLimits()


@st.composite
def changes(draw, document, kinds):
    """One of those that a page sends."""
    notes, tracks = document.notes, list(document.tracks)
    what = draw(st.sampled_from(kinds))
    if what == "track" and tracks:
        at = draw(st.integers(0, len(tracks) - 1))
        name, program = draw(st.sampled_from(["", "Flute"])), draw(st.integers(0, 127))
        tracks[at] = tracks[at]._replace(name=name, program=program, volume=program)
        return Change(tracks=tuple(tracks))
    if what == "order":
        return Change(tracks=tuple(draw(st.permutations(tracks))))
    if what == "delete" and len(tracks) > 1:
        gone = tracks.pop(draw(st.integers(0, len(tracks) - 1))).id
        return Change(
            tracks=tuple(tracks), remove=tuple(n for n, row in notes.items() if row[4] == gone)
        )
    if what == "new":
        free = next(n for n in range(300) if all(n != track.id for track in tracks))
        tracks.insert(draw(st.integers(0, len(tracks))), Track(free, "new", 30, False))
        return Change(tracks=tuple(tracks), add=((document.next_id, 0.25, 0.75, 50, 50, free),))
    if what == "tempo":
        return Change(tempos=((0.0, draw(st.floats(20, 300))),))
    if what == "beats":  # another tempo, and all keeps its beats
        by = draw(st.floats(0.5, 2))
        return Change(
            remove=tuple(notes),
            add=tuple((i, n[0] * by, n[1] * by, *n[2:]) for i, n in notes.items()),
            tempos=tuple((time * by, bpm / by) for time, bpm in document.tempos),
            meters=tuple((time * by, *meter) for time, *meter in document.meters),
        )
    if what == "meter":
        return Change(meters=((0.0, draw(st.integers(1, 9)), 4),))
    if what == "key":
        return Change(keys=((0.0, draw(st.integers(-7, 7)), False),))
    if what == "marks":
        return Change(markers=((0.0, "A"), (0.5, "B")))
    if what == "lyrics":
        kept = tuple(row for row in document.lyrics if draw(st.booleans()))
        return Change(lyrics=tuple(sorted((*kept, (draw(st.sampled_from([0.0, 0.7])), "la-")))))
    if not tracks:
        return Change()
    return Change(
        remove=tuple(notes)[: draw(st.integers(0, 2))],
        add=((document.next_id, 0.5, 1.0, 60, 80, tracks[0].id),),
    )


def parts_of(notes):
    """What counts of notes, by pitch and program, in the order of their beginnings."""
    program = np.where(notes["drum"], 0, notes["program"])
    return sorted(zip(notes["pitch"].tolist(), program.tolist(), notes["drum"].tolist()))


def sounds(tracks):
    """Programs and drums; a new note of drums sounds with the kit in force."""
    return {(0 if track.drum else track.program, track.drum) for track in tracks}


@settings(deadline=None, max_examples=80)
@given(files(), st.data())
def test_what_is_changed_is_in_the_file(data, more):
    score = midi.read(data)
    assume(score.file)
    document = exchange.document_of(score)
    for _ in range(more.draw(st.integers(1, 3))):
        document.apply(more.draw(changes(document, [*KINDS, "tempo", "beats"])))
    made = original.written(document, data)
    wanted, back = exchange.score_of(document), midi.read(made.data)
    assert parts_of(back.notes) == parts_of(wanted.notes)
    kept, expected = np.sort(back.notes["start"]), np.sort(wanted.notes["start"])
    np.testing.assert_allclose(kept, expected, atol=0.006)
    assert [text for _, text in back.markers] == [text for _, text in wanted.markers]
    assert sorted(text for _, text in back.lyrics) == sorted(text for _, text in wanted.lyrics)
    if not made.losses and len(back):
        used = {values[4] for values in document.notes.values()}
        there = exchange.document_of(back).tracks
        names = sorted(track.name for track in document.tracks if track.id in used)
        assert sounds(track for track in document.tracks if track.id in used) == sounds(there)
        if len(there) == len(names):  # two of a part may have come to one program
            assert sorted(track.name for track in there) == names
    original.controllers_of(document, data)


class Kept:
    """Of a file the messages of what has not been changed in a document, by mido."""

    def __init__(self, data: bytes, document: Document) -> None:
        score, file = midi.read(data), MidiDocument(data)
        self.places, clock = file.places, file.clock
        self.first, self.document = exchange.document_of(score), document
        # A note by its tick, pitch and place -> its number: none sounds with another of its pitch.
        starts = clock.ticks(score.notes["start"]).tolist()
        keys = zip(starts, score.notes["pitch"].tolist(), score.notes["track"].tolist())
        self.numbers = {(t, p, self.places[of]): n for n, (t, p, of) in enumerate(keys)}
        self.texts = {
            kind: [(clock.ticks(np.array(t)), text) for t, text in getattr(document, kind)]
            for kind in ("lyrics", "markers")
        }
        there = {track.id: track for track in document.tracks if not track.added}
        self.present: set[int] = set()
        self.redressed: defaultdict[int, set[str]] = defaultdict(set)
        for (part, *_), track in zip(kinds(score), self.first.tracks):
            now = there.get(track.id)
            if now is None:
                continue
            place = self.places[part]
            self.present.add(place)
            self.redressed[place] |= {
                n for n in ("name", "program", "volume") if getattr(now, n) != getattr(track, n)
            }

    def rows(self, rows: list[tuple], track: int) -> list[tuple]:
        """Those of the messages of a MIDI track that stay."""
        open_notes: dict[tuple[int, int], bool] = {}
        kept = []
        for tick, message in rows:
            place = track * 16 + getattr(message, "channel", 0)
            if message.type in ("note_on", "note_off"):
                if message.type == "note_on" and message.velocity:
                    number = self.numbers[tick, message.note, place]
                    same = self.document.notes.get(number) == self.first.notes[number]
                    open_notes[place, message.note] = same
                stays = open_notes[place, message.note]
            elif message.is_meta:
                stays = self.meta(tick, message, track)
            elif message.type == "sysex" or place not in self.places:
                stays = True
            else:
                other, control = self.redressed[place], getattr(message, "control", -1)
                stays = place in self.present
                stays &= not ("program" in other and message.type == "program_change")
                stays &= not ("volume" in other and control == 7)
            if stays:
                kept.append((tick, message))
        return kept

    def meta(self, tick: int, message: mido.MetaMessage, track: int) -> bool:
        parts = [place for place in self.places if place // 16 == track]
        if message.type == "track_name":
            named = any("name" in self.redressed[place] for place in parts)
            return not named and self.present.issuperset(parts)
        texts = {"marker": "markers", "lyrics": "lyrics"}
        if message.type in texts:
            return (tick, message.text) in self.texts[texts[message.type]]
        marks = {"set_tempo": "tempos", "time_signature": "meters", "key_signature": "keys"}
        column = marks.get(message.type, "notes")
        if column == "notes" or getattr(self.document, column) == getattr(self.first, column):
            return message.type not in marks  # these may come to the first track
        return False


def kinds(score):
    """(part, drum, program) of each track of the document of a score."""
    return np.unique(score.notes[["track", "drum", "program"]]).tolist()


@settings(deadline=None, max_examples=120)
@given(files(), st.data())
def test_messages_of_what_is_not_changed_stay_where_they_are(data, more):
    """Through any row of changes, with some undone."""
    score = midi.read(data)
    assume(len(score))
    document = exchange.document_of(score)
    done: list[Change] = []
    for _ in range(more.draw(st.integers(1, 5))):
        change = more.draw(changes(document, KINDS))
        if change == Change() and done:
            document.apply(done.pop())
        else:
            done.append(document.apply(document.check(change, LIMITS)))
    made = original.written(document, data)
    kept, after = Kept(data, document), messages(made.data)
    whole = [t.id for t in document.tracks if not t.added] == [t.id for t in kept.first.tracks]
    whole &= not any(track.added for track in document.tracks)
    whole &= not any("name" in other for other in kept.redressed.values())
    for number, rows in enumerate(messages(data)):
        rows = kept.rows(rows, number)
        if whole:
            assert is_within(rows, after[number])
            continue
        channels = {getattr(message, "channel", -1) for _, message in rows}
        for channel in channels:  # such as a track of a type 0 file that two parts part from
            rows_of_channel = [row for row in rows if getattr(row[1], "channel", -1) == channel]
            assert any(is_within(rows_of_channel, track) for track in after)
    while done:
        document.apply(done.pop())
    assert original.written(document, data)[0::2] == (data, [])


@settings(deadline=None, max_examples=30)
@given(files())
def test_tracks_stand_in_the_order_of_the_document(data):
    score = midi.read(data)
    parts = [part for part, *_ in kinds(score)]
    assume(parts and len(set(parts)) == len(parts))
    document = exchange.document_of(score)
    there = [(track.program, track.drum) for track in document.tracks]
    for order in (there[::-1], there):  # turned round, and back
        document.apply(Change(tracks=document.tracks[::-1]))
        made = original.written(document, data)
        assert made.losses == []
        back = exchange.document_of(midi.read(made.data))
        assert [(track.program, track.drum) for track in back.tracks] == order[: len(parts)]
    assert made.data == data


def test_a_new_track_of_the_number_of_one_that_went_has_nothing_of_it():
    bend = mido.Message("pitchwheel", pitch=77)
    note = [mido.Message("note_on", note=60), mido.Message("note_off", note=60, time=96)]
    out = io.BytesIO()
    tracks = [mido.MidiTrack([*note]), mido.MidiTrack([bend, *note])]
    mido.MidiFile(tracks=tracks).save(file=out)
    document = exchange.document_of(midi.read(out.getvalue()))
    first, second = document.tracks
    for change in (
        Change(tracks=(first,), remove=(1,)),
        Change(tracks=(first, Track(second.id, "new", 9, False)), add=((2, 0, 1, 62, 80, 1),)),
    ):
        document.apply(document.check(change, LIMITS))
    made = messages(original.written(document, out.getvalue()).data)
    assert "pitchwheel" not in {message.type for track in made for _, message in track}
    assert [message.note for _, message in made[1] if message.type == "note_on"] == [62]


def test_a_track_that_goes_leaves_the_others_byte_for_byte():
    """With controllers, bends, pressure, SysEx, release velocities; and the texts of the song."""
    song = [
        mido.MetaMessage("track_name", name="My song"),
        mido.MetaMessage("copyright", text="(c) me"),
        mido.MetaMessage("set_tempo", tempo=400_000),
    ]
    parts = [
        [
            mido.MetaMessage("track_name", name=f"part {channel}"),
            mido.Message("program_change", channel=channel, program=40 + channel),
            mido.Message("control_change", channel=channel, control=1, value=50),
            mido.Message("pitchwheel", channel=channel, pitch=77),
            mido.Message("note_on", channel=channel, note=60 + channel),
            mido.Message("aftertouch", channel=channel, value=9, time=40),
            mido.Message("note_off", channel=channel, note=60 + channel, velocity=33, time=50),
        ]
        for channel in range(3)
    ]
    for part in parts[1:]:
        part.append(mido.Message("sysex", data=(0x43, 0x10, 0x4C)))
    out = io.BytesIO()
    mido.MidiFile(tracks=[mido.MidiTrack(track) for track in (song, *parts)]).save(file=out)
    for number, kept in enumerate([(0, 2, 3), (0, 1, 3), (0, 1, 2)]):
        document = exchange.document_of(midi.read(out.getvalue()))
        left = tuple(track for track in document.tracks if track.id != number)
        change = Change(tracks=left, remove=(number,))
        document.apply(document.check(change, LIMITS))
        made = original.written(document, out.getvalue())
        chunks, after = MidiDocument(out.getvalue()).chunks, MidiDocument(made.data).chunks
        assert made.losses == []
        assert [chunk for chunk in after if chunk in chunks] == [chunks[at] for at in kept]
