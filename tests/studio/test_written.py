"""A piece that began with a MIDI file, written into it: what was changed is in there, and every
message of what was not is where it was, as mido reads it."""

import io
from collections import Counter

import mido
import numpy as np
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from musictx import midi
from musictx.midi.document import Document as MidiDocument
from musictx.studio import exchange, original
from musictx.studio.change import Change, Track
from musictx.studio.document import Document
from tests.midi.midi_bytes import messages
from tests.midi.test_edit import files
from tests.studio.changes import IN_FILES, LIMITS, changes


def parts_of(notes):
    """What counts of notes, by pitch and program, in the order of their beginnings."""
    program = np.where(notes["drum"], 0, notes["program"])
    return sorted(zip(notes["pitch"].tolist(), program.tolist(), notes["drum"].tolist()))


def sounds(tracks):
    """Programs and drums; a new note of drums sounds with the kit in force."""
    return {(0 if track.drum else track.program, track.drum) for track in tracks}


def stays(data: bytes, document: Document) -> list[Counter]:
    """Of each MIDI track of a file the messages, with their ticks, of what is unchanged in a
    document: all but texts and marks, of the tracks that are still there."""
    score, file = midi.read(data), MidiDocument(data)
    first = exchange.document_of(score)
    there = {track.id: track for track in document.tracks if not track.added}
    parts = np.unique(score.notes[["track", "drum", "program"]])["track"].tolist()
    gone = {file.places[p] for p in parts} - {
        file.places[part] for part, track in zip(parts, first.tracks) if track.id in there
    }
    # A note by its tick, pitch and place -> its number: none sounds with another of its pitch.
    starts = file.clock.ticks(score.notes["start"]).tolist()
    keys = zip(starts, score.notes["pitch"].tolist(), score.notes["track"].tolist())
    numbers = {(t, p, file.places[of]): n for n, (t, p, of) in enumerate(keys)}
    tracks = []
    for number, rows in enumerate(messages(data)):
        kept: Counter = Counter()
        same: dict[tuple[int, int], bool] = {}  # of the notes that are open
        for tick, message in rows:
            place = number * 16 + getattr(message, "channel", 0)
            if message.type in ("note_on", "note_off"):
                if message.type == "note_on" and message.velocity:
                    note = numbers[tick, message.note, place]
                    same[place, message.note] = document.notes.get(note) == first.notes[note]
                kept[tick, str(message)] += same[place, message.note]
            elif message.is_meta:
                kept[tick, str(message)] += message.type in ("text", "copyright")
            elif place not in gone or message.type == "sysex":
                changed = message.type == "program_change" or getattr(message, "control", 0) == 7
                kept[tick, str(message)] += not changed
        tracks.append(kept)
    return tracks


@settings(deadline=None, max_examples=120)
@given(files(), st.data())
def test_what_is_changed_is_in_the_file_and_the_messages_of_all_else_stay(data, more):
    """Through any row of changes, with some undone."""
    score = midi.read(data)
    assume(score.file)
    document, done = exchange.document_of(score), list[Change]()
    retimed = False
    for _ in range(more.draw(st.integers(1, 4))):
        change = more.draw(changes(document, IN_FILES))
        if change == Change() and done:
            document.apply(done.pop())
            continue
        retimed |= change.tempos is not None
        done.append(document.apply(change))
    made = original.write(document, data)
    wanted, back = exchange.score_of(document), midi.read(made.data)
    assert parts_of(back.notes) == parts_of(wanted.notes)
    kept, expected = np.sort(back.notes["start"]), np.sort(wanted.notes["start"])
    np.testing.assert_allclose(kept, expected, atol=0.006)
    assert [text for _, text in back.markers] == [text for _, text in wanted.markers]
    assert sorted(text for _, text in back.lyrics) == sorted(text for _, text in wanted.lyrics)
    used = {values[4] for values in document.notes.values()}
    tracks = [track for track in document.tracks if track.id in used]
    there = exchange.document_of(back).tracks
    if not made.losses and len(back):
        assert sounds(tracks) == sounds(there)
        if len(there) == len(tracks):  # two of a part may have come to one program
            assert [track.name for track in there] == [track.name for track in tracks]
    original.controllers_of(document, data)
    if len(score) and not retimed:  # in another tempo ticks are others
        after = messages(made.data)
        here = Counter((tick, str(message)) for rows in after for tick, message in rows)
        assert sum(stays(data, document), Counter()) <= here
    while done:
        document.apply(done.pop())
    assert original.write(document, data)[0::2] == (data, [])


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
    made = messages(original.write(document, out.getvalue()).data)
    assert "pitchwheel" not in {message.type for track in made for _, message in track}
    assert [message.note for _, message in made[1] if message.type == "note_on"] == [62]


def test_a_track_that_goes_leaves_the_others_byte_for_byte():
    tracks = [mido.MidiTrack([mido.MetaMessage("copyright", text="(c) me")])]
    for channel in range(3):
        kinds = [("program_change", {"program": 40}), ("pitchwheel", {"pitch": 77})]
        kinds += [("note_on", {"note": 60}), ("note_off", {"note": 60, "velocity": 3, "time": 9})]
        rows = [mido.Message(kind, channel=channel, **more) for kind, more in kinds]
        tracks.append(mido.MidiTrack([*rows, mido.Message("sysex", data=(0x43, 0x10))]))
    out = io.BytesIO()
    mido.MidiFile(tracks=tracks).save(file=out)
    chunks = MidiDocument(out.getvalue()).chunks
    for number in range(3):
        document = exchange.document_of(midi.read(out.getvalue()))
        left = tuple(track for track in document.tracks if track.id != number)
        document.apply(document.check(Change(tracks=left, remove=(number,)), LIMITS))
        made = original.write(document, out.getvalue())
        others = [chunk for at, chunk in enumerate(chunks) if at != number + 1]
        assert made.losses == []
        assert [c for c in MidiDocument(made.data).chunks if c in chunks] == others


def test_markers_and_lyrics_are_written_into_a_file_without_notes():
    out = io.BytesIO()
    mido.MidiFile(tracks=[mido.MidiTrack()]).save(file=out)
    document = exchange.document_of(midi.read(out.getvalue()))
    document.apply(Change(markers=((0.0, "A"),), lyrics=((0.5, "la-"),)))
    score = midi.read(original.write(document, out.getvalue()).data)
    assert (score.markers, score.lyrics) == (((0.0, "A"),), ((0.5, "la-"),))
