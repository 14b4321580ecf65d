"""MIDI files are read to the last note, at the right time, in the right part; other programs read
what was written."""

from __future__ import annotations

import io
from collections import Counter, defaultdict, deque
from collections.abc import Iterable

import mido
import numpy as np
import pretty_midi
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from musictx import midi
from musictx.notes import NOTE, Score
from tests.midi.midi_bytes import END, file, raw, saved, table, tick
from tests.strategies import scores


def test_parts_are_the_channels_of_a_track_in_order_of_appearance() -> None:
    score = midi.read(
        file(
            f"""
            00 FF 03 01 78  # a name of several parts is the name of none
            00 C5 10        # channel 5: program 16
            00 C0 07        # channel 0: program 7
            00 95 30 40  00 85 30 00
            10 90 31 40  00 80 31 00
            10 C0 08        # channel 0: program 8
            00 90 32 40
            10 C0 07        # program 7 again while the note of program 8 sounds
            00 80 32 00
            10 99 33 40  00 89 33 00  # channel 9: drums
            {END}""",
            f"00 FF 03 01 79 00 90 35 40 00 80 35 00 {END}",  # another track: its own program
        )
    )
    rows = score.notes[["pitch", "track", "program", "drum"]].tolist()
    assert rows == [(0x30, 0, 16, False), (0x35, 3, 0, False), (0x31, 1, 7, False),
                    (0x32, 1, 8, False), (0x33, 2, 0, True)]  # fmt: skip
    assert table(score)[3][:2] == (tick(32), tick(48))
    assert score.names == {3: "y"}


@pytest.mark.parametrize(
    ("message", "channel"),
    [
        ("41 10 42 12 40 1B 15 01 0F F7", 11),  # GS: part 12 for rhythm
        ("41 10 42 12 40 1B 15 00 10 F7", None),  # not for rhythm
        ("41 10 42 12 40", None),
        ("43 10 4C 08 0B 07 02 F7", 11),  # XG: part mode
        ("43 10 4C 08 7F 07 02 F7", None),  # no channel has this part
    ],
)
def test_drums_are_where_messages_of_gs_and_xg_put_them(message: str, channel: int | None) -> None:
    notes = "".join(f"00 9{c:X} 30 40  10 8{c:X} 30 00 " for c in range(16))
    score = midi.read(file(f"00 F0 {(len(message) + 1) // 3:02X} {message} {notes} {END}"))
    drums = {note["track"] for note in score.notes if note["drum"]}
    assert drums == {9} | ({channel} - {None})
    # More drums stay in the part, and a new part is on no channel of drums.
    more = [(9.0, 9.5, 60, 80, 0, track in drums, track) for track in range(17)]
    back = midi.read(
        midi.to_bytes(score.with_notes(np.array([*score.notes.tolist(), *more], NOTE)))
    )
    assert {note["track"] for note in back.notes if note["drum"]} == drums
    assert back.notes["pitch"].tolist().count(60) == 17


def test_a_pedal_moves_the_part_on_its_channel_or_without_notes_that_of_every_track() -> None:
    first = f"""
        00 B0 40 7F  # pedal of channel 0, before any program
        00 C0 05 00 90 3C 40 60 80 3C 00
        00 91 40 40 00 81 40 00  # channel 1
        00 B0 40 00
        {END}"""
    note = f"00 90 41 40 60 80 41 00 {END}"  # channel 0 of another track
    assert midi.read(file(first, note)).pedals.tolist() == [(0.0, 127, 0), (tick(96), 0, 0)]
    alone = midi.read(file(f"00 B0 40 7F 00 B1 40 50 {END}", note, note))
    assert alone.pedals.tolist() == [(0.0, 127, 0), (0.0, 127, 1)]


def _read_by_mido(data: bytes) -> list[tuple]:
    """(start tick, end tick, pitch, velocity) by mido's parser and a queue for each pitch."""
    rows = []
    for track in mido.MidiFile(file=io.BytesIO(data)).tracks:
        now, waiting = 0, defaultdict(deque)
        for message in track:
            now += message.time
            if message.type not in ("note_on", "note_off"):
                continue
            key = (message.channel, message.note)
            if message.type == "note_on" and message.velocity:
                waiting[key].append((now, message.velocity))
            elif waiting[key]:
                start, velocity = waiting[key].popleft()
                rows.append((start, now, message.note, velocity))
    return sorted(rows)


@st.composite
def _event_files(draw: st.DrawFn) -> bytes:
    """Files of notes as they come: overlapping, with offs in vain, but none left open."""
    tracks = []
    for _ in range(draw(st.integers(1, 3))):
        body = b""
        sounding: list[tuple[int, int]] = []
        pitches, channels = st.integers(60, 63), st.sampled_from([0, 1, 9])
        for delta, pitch, channel, velocity in draw(
            st.lists(st.tuples(st.integers(0, 127), pitches, channels, st.integers(0, 127)))
        ):
            body += bytes([delta, 0x90 | channel, pitch, velocity])
            sounding += [(channel, pitch)] if velocity else []
        for channel, pitch in draw(st.permutations(sounding)):
            body += bytes([draw(st.integers(0, 3)), 0x80 | channel, pitch, 0])
        tracks.append(body + raw(END))
    return file(*tracks, division=500)


@settings(deadline=None, max_examples=100)
@given(_event_files())
def test_notes_agree_with_mido(data: bytes) -> None:
    ours = sorted(
        (round(start * 1000), round(end * 1000), pitch, velocity)
        for start, end, pitch, velocity in table(midi.read(data))
    )
    assert ours == _read_by_mido(data)


def test_markers_are_read_from_any_track_and_written_again() -> None:
    note = [(960, mido.Message("note_on", note=60)), (1920, mido.Message("note_off", note=60))]
    marks = [
        [(480 * n, mido.MetaMessage("marker", text=text)) for n, text in enumerate(texts, 1)]
        for texts in (["B:maj", "N"], ["Coda"])
    ]
    score = midi.read(saved(*([*rows, *note] for rows in marks)))
    assert score.markers == ((0.5, "B:maj"), (0.5, "Coda"), (1.0, "N"))
    assert midi.read(midi.to_bytes(score)).markers == score.markers


def _note_table(rows: Iterable[tuple]) -> list[tuple]:
    """(start, end, pitch, velocity, program, drum) in whole milliseconds; drums have no program."""
    return sorted(
        (round(start * 1000), round(end * 1000), pitch, velocity, 0 if drum else program, drum)
        for start, end, pitch, velocity, program, drum in rows
    )


@settings(deadline=None, max_examples=60)
@given(scores(overlaps=False, zero_lengths=False, meters=False))
def test_pretty_midi_reads_what_was_given(score: Score) -> None:
    columns = ["start", "end", "pitch", "velocity", "program", "drum"]
    pretty = pretty_midi.PrettyMIDI(io.BytesIO(midi.to_bytes(score)))
    assert _note_table(score.notes[columns].tolist()) == _note_table(
        (note.start, note.end, note.pitch, note.velocity, instrument.program, instrument.is_drum)
        for instrument in pretty.instruments
        for note in instrument.notes
    )
    moved = Counter(
        (round(message.time * 1000), message.number, message.value)
        for instrument in pretty.instruments
        for message in instrument.control_changes
    )
    assert moved == Counter((round(t * 1000), 64, value) for t, value, _ in score.pedals.tolist())
