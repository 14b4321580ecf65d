"""A document is written into the MIDI file that was opened: the file has all changes, and every
message that was not changed, as mido reads it."""

from collections import Counter

import mido
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from musictx import midi
from musictx.midi.document import MidiFile
from musictx.studio import exchange, original
from musictx.studio.change import Change, Track
from musictx.studio.document import Document
from tests.midi.midi_bytes import messages, saved
from tests.midi.test_edit import files, sounding
from tests.studio.changes import IN_FILES, LIMITS, changes


def sounds(tracks):
    """Return (program, drum) of each track; new drum notes have the kit in force."""
    return {(0 if track.drum else track.program, track.drum) for track in tracks}


def unchanged_messages(data: bytes, document: Document) -> Counter:
    """Count the (tick, message) rows of a file that must stay: all of its present tracks, except
    changed notes, programs, volumes, and meta messages other than texts."""
    score, file = midi.read(data), MidiFile(data)
    first = exchange.document_of(score)
    present = {track.id for track in document.tracks if not track.added}
    parts = np.unique(score.notes[["track", "drum", "program"]])["track"].tolist()
    places = [file.places[part] for part in parts]  # MIDI track * 16 + channel
    deleted = {*places} - {p for p, track in zip(places, first.tracks) if track.id in present}
    # No two notes of a pitch sound together on a place, so tick, pitch and place identify a note.
    ticks = file.clock.ticks(score.notes["start"]).tolist()
    keys = zip(ticks, score.notes["pitch"].tolist(), score.notes["track"].tolist())
    numbers = {(tick, pitch, file.places[part]): n for n, (tick, pitch, part) in enumerate(keys)}
    kept: Counter = Counter()
    for number, rows in enumerate(messages(data)):
        is_same: dict[tuple[int, int], bool] = {}  # for the open note of each place and pitch
        for tick, message in rows:
            place = number * 16 + getattr(message, "channel", 0)
            if message.type in ("note_on", "note_off"):
                if message.type == "note_on" and message.velocity:
                    note = numbers[tick, message.note, place]
                    is_same[place, message.note] = document.notes.get(note) == first.notes[note]
                kept[tick, str(message)] += is_same[place, message.note]
            elif message.is_meta:
                kept[tick, str(message)] += message.type in ("text", "copyright")
            elif place not in deleted or message.type == "sysex":
                changed = message.type == "program_change" or getattr(message, "control", 0) == 7
                kept[tick, str(message)] += not changed
    return kept


@pytest.mark.slow
@settings(max_examples=120)
@given(files(), st.data())
def test_all_changes_are_in_the_file_and_all_other_messages_stay(data, more):
    """Some of the changes are undone."""
    score = midi.read(data)
    assume(score.file)
    document, inverses = exchange.document_of(score), list[Change]()
    has_new_tempo = False
    for _ in range(more.draw(st.integers(1, 4))):
        change = more.draw(changes(document, IN_FILES))
        if change == Change() and inverses:
            document.apply(inverses.pop())
            continue
        has_new_tempo |= change.tempos is not None
        inverses.append(document.apply(change))
    written = original.write(document, data)
    wanted, back = exchange.score_of(document), midi.read(written.data)
    assert sounding(back.notes) == sounding(wanted.notes)
    starts, expected = np.sort(back.notes["start"]), np.sort(wanted.notes["start"])
    np.testing.assert_allclose(starts, expected, atol=0.006)
    assert [text for _, text in back.markers] == [text for _, text in wanted.markers]
    assert sorted(text for _, text in back.lyrics) == sorted(text for _, text in wanted.lyrics)
    used = document.tracks_of(document.notes)
    tracks = [track for track in document.tracks if track.id in used]
    written_tracks = exchange.document_of(back).tracks
    if not written.omissions and len(back):
        assert sounds(tracks) == sounds(written_tracks)
        if len(written_tracks) == len(tracks):  # two tracks of a part may get the same program
            names, wanted_names = ([t.name for t in each] for each in (written_tracks, tracks))
            assert sorted(names) == sorted(wanted_names)
    original.controllers_of(document, data)
    if len(score) and not has_new_tempo:  # another tempo has other ticks
        rows = [row for track in messages(written.data) for row in track]
        after = Counter((tick, str(message)) for tick, message in rows)
        assert unchanged_messages(data, document) <= after
    while inverses:
        document.apply(inverses.pop())
    assert original.write(document, data)[0::2] == (data, [])


NOTE = [(0, mido.Message("note_on", note=60)), (96, mido.Message("note_off", note=60, velocity=3))]


def test_a_new_track_with_the_id_of_a_deleted_track_has_none_of_its_messages():
    data = saved(NOTE, [(0, mido.Message("pitchwheel", pitch=77)), *NOTE])
    document = exchange.document_of(midi.read(data))
    first, second = document.tracks
    for change in (
        Change(tracks=(first,), remove=(1,)),
        Change(tracks=(first, Track(second.id, "new", 9, False)), add=((2, 0, 1, 62, 80, 1),)),
    ):
        document.apply(document.check(change, LIMITS))
    written = messages(original.write(document, data).data)
    assert "pitchwheel" not in {message.type for track in written for _, message in track}
    assert [message.note for _, message in written[1] if message.type == "note_on"] == [62]


def test_without_a_deleted_track_the_others_stay_byte_for_byte():
    tracks = [[(0, mido.MetaMessage("copyright", text="(c) A. Person"))]]
    for channel in range(3):
        rows = [(0, mido.Message("program_change", program=40))]
        rows += [(0, mido.Message("pitchwheel", pitch=77)), *NOTE]
        rows = [(tick, message.copy(channel=channel)) for tick, message in rows]
        tracks.append([*rows, (96, mido.Message("sysex", data=(0x43, 0x10)))])
    data = saved(*tracks)
    chunks = MidiFile(data).chunks
    for number in range(3):
        document = exchange.document_of(midi.read(data))
        kept = tuple(track for track in document.tracks if track.id != number)
        document.apply(document.check(Change(tracks=kept, remove=(number,)), LIMITS))
        written = original.write(document, data)
        others = [chunk for n, chunk in enumerate(chunks) if n != number + 1]
        assert written.omissions == []
        assert [c for c in MidiFile(written.data).chunks if c in chunks] == others


def test_a_part_of_a_file_whose_channels_are_all_for_drums_becomes_pitched_in_a_new_file():
    xg = [mido.Message("sysex", data=(67, 16, 76, 8, channel, 7, 2)) for channel in range(16)]
    data = saved([*((0, message) for message in xg), *NOTE])
    document = exchange.document_of(midi.read(data))
    document.apply(Change(tracks=(document.tracks[0]._replace(drum=False),)))
    written = original.write(document, data)
    assert "all its channels are in use" in written.omissions[0]
    assert not midi.read(written.data).notes["drum"].any()


def test_markers_and_lyrics_are_written_into_a_file_without_notes():
    data = saved([])
    document = exchange.document_of(midi.read(data))
    document.apply(Change(markers=((0.0, "A"),), lyrics=((0.5, "la-"),)))
    score = midi.read(original.write(document, data).data)
    assert (score.markers, score.lyrics) == (((0.0, "A"),), ((0.5, "la-"),))
