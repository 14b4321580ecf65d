"""MIDI files are read with all notes, at the right time, in the right part, and written to the
millisecond."""

import itertools
from collections import defaultdict, deque
from dataclasses import replace

import mido
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from musictx import midi
from musictx.errors import UserError
from musictx.notes import Score
from tests.midi.midi_bytes import END, file, messages, opened, raw, saved, tick
from tests.pieces import of
from tests.strategies import scores
from tests.tokens.grids import TICKS, gridded, ticks


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
    back = midi.read(midi.to_bytes(score.with_notes([*score.notes.tolist(), *more])))
    assert {note["track"] for note in back.notes if note["drum"]} == drums
    assert back.notes["pitch"].tolist().count(60) == 17


def test_a_pedal_applies_to_its_channel_in_its_track_or_without_notes_there_in_all() -> None:
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


def test_programs_of_a_track_without_notes_hold_until_a_part_has_its_own() -> None:
    setup = (f"60 C0 06 {END}", f"00 C0 05 00 C1 09 {END}")  # the later change comes first
    note = "00 90 41 40 60 80 41 00"
    data = file(*setup, f"{note} {note} {END}", f"{note} 00 C0 07 {note} {END}")
    score = midi.read(data)
    programs = {part: score.notes["program"][score.notes["track"] == part] for part in (0, 1)}
    assert {part: values.tolist() for part, values in programs.items()} == {0: [5, 6], 1: [5, 7]}
    notes = score.notes.copy()
    notes["program"][notes["track"] == 0] = 0
    back = midi.read(midi.to_bytes(score.with_notes(notes)))
    assert back.notes.tolist() == notes.tolist()


def _read_by_mido(data: bytes) -> tuple[list[tuple], dict[int, str]]:
    """Return notes in ticks, from mido and a queue for each pitch, and the names of parts. Parts
    are the channels of a track in order of appearance. Only one that is alone there has a name."""
    rows, parts, names = [], {}, {}
    for number, track in enumerate(messages(data)):
        waiting, program, before = defaultdict(deque), defaultdict(int), len(parts)
        (_, name), *played = track
        for now, message in played:
            channel = message.channel
            if message.type == "program_change":
                program[channel] = message.program
                continue
            queue = waiting[channel, message.note]
            if message.type == "note_on" and message.velocity:
                part = parts.setdefault((number, channel), len(parts))
                queue.append((now, message.velocity, program[channel], channel == 9, part))
            elif queue:
                start, *rest = queue.popleft()
                rows.append((start, now, message.note, *rest))
        if len(parts) == before + 1:
            names[before] = name.name
    return sorted(rows), names


@st.composite
def _event_files(draw: st.DrawFn) -> bytes:
    """Draw a file of notes that may overlap and note-offs without a note; each note has an end."""
    tracks = []
    for number in range(draw(st.integers(1, 3))):
        body = raw(f"00 FF 03 01 {0x61 + number:X}")
        sounding: list[tuple[int, int]] = []
        pitches, channels = st.integers(60, 63), st.sampled_from([0, 1, 9])
        for delta, pitch, channel, velocity in draw(
            st.lists(st.tuples(st.integers(0, 127), pitches, channels, st.integers(0, 127)))
        ):
            if velocity > 120:
                body += bytes([0, 0xC0 | channel, pitch])
            body += bytes([delta, 0x90 | channel, pitch, velocity])
            sounding += [(channel, pitch)] if velocity else []
        for channel, pitch in draw(st.permutations(sounding)):
            body += bytes([draw(st.integers(0, 3)), 0x80 | channel, pitch, 0])
        tracks.append(body + raw(END))
    return file(*tracks, division=500)


@given(_event_files())
def test_notes_agree_with_mido(data: bytes) -> None:
    score = midi.read(data)
    rows = [(round(s * 1000), round(e * 1000), *rest) for s, e, *rest in score.notes.tolist()]
    assert (sorted(rows), score.names) == _read_by_mido(data)


def test_markers_are_read_from_any_track_and_written_again() -> None:
    note = [(960, mido.Message("note_on", note=60)), (1920, mido.Message("note_off", note=60))]
    marks = [
        [(480 * n, mido.MetaMessage("marker", text=text)) for n, text in enumerate(texts, 1)]
        for texts in (["B:maj", "N"], ["Coda"])
    ]
    score = midi.read(saved(*([*rows, *note] for rows in marks)))
    assert score.markers == ((0.5, "B:maj"), (0.5, "Coda"), (1.0, "N"))
    assert midi.read(midi.to_bytes(score)).markers == score.markers


def _first_in_first_out(score: Score) -> Score:
    """Sort the ends of overlapping notes of one pitch in the order of their starts, as MIDI has
    them. Notes are in order of start, pitch, track, end; pedals of time, track."""
    notes = score.notes.copy()
    for key in np.unique(notes[["track", "pitch"]]):
        same = np.flatnonzero(notes[["track", "pitch"]] == key)
        same = same[np.lexsort((notes["end"][same], notes["start"][same]))]
        notes["end"][same] = np.sort(notes["end"][same])
    order = np.lexsort([notes[k] for k in ("velocity", "end", "track", "pitch", "start")])
    pedals = score.pedals[np.lexsort((score.pedals["track"], score.pedals["time"]))]
    return Score(notes=notes[order], pedals=pedals, meters=score.meters)


quick = settings(max_examples=50)


@quick
@given(scores())
def test_write_then_read_is_the_identity_on_the_millisecond_grid(score: Score) -> None:
    back = midi.read(midi.to_bytes(score))
    expected = _first_in_first_out(score)
    assert _first_in_first_out(back) == expected
    order = np.lexsort([back.notes[k] for k in ("track", "pitch", "start")])
    assert np.array_equal(order, np.arange(len(back)))
    assert np.array_equal(back.pedals, expected.pedals)
    assert back.tempos.tolist() == [(0.0, 120.0)]


@quick
@given(
    scores(grid=None, pedals=False), st.sampled_from([0, 1, 7, 480, 32767]), st.floats(20.0, 400.0)
)
def test_written_times_are_off_by_half_a_millisecond_at_most(score, ticks, bpm) -> None:
    back = midi.read(midi.to_bytes(replace(score, ticks_per_quarter=ticks, tempos=[(0.0, bpm)])))
    assert len(back) == len(score)
    for key in ("start", "end"):
        difference = np.sort(back.notes[key]) - np.sort(score.notes[key])
        assert np.all(np.abs(difference) <= 0.0005 + 1e-5)


@quick
@given(gridded())
def test_music_on_ticks_comes_back_on_its_ticks(piece: Score) -> None:
    back = midi.read(midi.to_bytes(piece))
    assert back.ticks_per_quarter == TICKS
    for key in ("start", "end"):
        assert sorted(ticks(back, back.notes[key])) == sorted(ticks(piece, piece.notes[key]))
    for marks, of_back in ((piece.tempos, back.tempos), (piece.meters, back.meters)):
        assert ticks(back, of_back["time"]) == ticks(piece, marks["time"])
        for name in marks.dtype.names[1:]:
            assert np.allclose(of_back[name], marks[name], rtol=1e-5)


def test_a_written_file_has_note_offs_before_note_ons() -> None:
    score = of((0.0, 1.0, 60), (1.0, 2.0, 60), (1.0, 1.0, 61))
    _, rows = messages(midi.to_bytes(score), without=("program_change", "track_name"))
    assert [(tick, row.type.removeprefix("note_"), row.note) for tick, row in rows] == [
        (0, "on", 60), (1000, "off", 60), (1000, "on", 60), (1000, "on", 61), (1000, "off", 61),
        (2000, "off", 60),
    ]  # fmt: skip


words = st.text(st.characters(exclude_categories=["Cs"]), max_size=60)
moments = st.integers(0, 5000).map(lambda n: n / 1000)
text_rows = st.lists(st.tuples(moments, words), max_size=5).map(lambda rows: tuple(sorted(rows)))


@given(words, text_rows, text_rows, st.lists(st.tuples(moments, st.integers(-7, 7), st.booleans())))
def test_mido_reads_the_names_texts_and_keys_that_are_written(name, markers, lyrics, keys):
    notes = [(0.0, 1.0, 60, 80, 0, False, 0)]
    score = Score(notes, keys=keys, names={0: name}, markers=markers, lyrics=lyrics)
    data = midi.to_bytes(score)
    assert opened(data).tracks[1].name == name
    first = messages(data)[0]
    for kind, rows in (("marker", markers), ("lyrics", lyrics)):
        texts = [(tick / 1000, row.text) for tick, row in first if row.type == kind]
        assert texts == sorted(rows, key=lambda row: row[0])
    assert sum(row.type == "key_signature" for _, row in first) == len(keys)
    assert midi.read(data).keys.tolist() == score.keys.tolist()


@quick
@given(
    scores(grid=None, max_seconds=3000.0),
    st.sampled_from([1, 7, 480, 32767]),
    st.lists(st.tuples(st.floats(0, 3000), st.floats(3.6, 1e6)), max_size=6),
)
def test_any_tempos_are_written_in_order_of_time(score, ticks, tempos):
    """mido refuses a message before the last one; notes come to their ticks or to milliseconds."""
    score = replace(score, ticks_per_quarter=ticks, tempos=tempos)
    back = midi.read(midi.to_bytes(score))
    assert len(back) == len(score)
    assert back.meters["numerator"].tolist() == score.meters["numerator"].tolist()
    assert sorted(back.pedals["value"].tolist()) == sorted(score.pedals["value"].tolist())


@pytest.mark.parametrize(("tracks", "programs"), [(15, 15), (16, 12), (16, 16), (40, 16), (40, 40)])
def test_each_of_many_parts_sounds_with_its_program(tracks: int, programs: int) -> None:
    """As a synthesiser plays it: all tracks at once, with a program for each channel."""
    notes = [
        (start, start + 0.4, 60, track + 1, track % programs, track % 10 == 9, track)
        for start, track in itertools.product((0.0, 0.5, 1.0), range(tracks))
    ]
    score = Score(notes, pedals=[(0.1, 127, track) for track in range(tracks)])
    mixed = Score([(0.0, 1.0, 60, 80, program, False, 0) for program in range(tracks % 16 + 2)])
    assert midi.read(midi.to_bytes(mixed)).content_hash() == mixed.content_hash()
    data = midi.to_bytes(score)
    program, played = [0] * 16, []
    for message in mido.merge_tracks(opened(data).tracks):
        if message.type == "program_change":
            program[message.channel] = message.program
        elif message.type == "note_on":
            played.append((message.velocity, program[message.channel], message.channel == 9))
    assert sorted(played) == sorted(row[3:6] for row in notes)
    assert midi.read(data).notes.tolist() == score.notes.tolist()
    assert midi.read(data).pedals.tolist() == score.pedals.tolist()


def test_marks_that_midi_cannot_hold_are_left_out_and_notes_are_refused() -> None:
    score = Score(meters=[(0.0, 3, 4), (1.0, 4, 3), (3.0, 7, 16)])
    assert midi.read(midi.to_bytes(score)).meters.tolist() == [(0.0, 3, 4), (3.0, 7, 16)]
    with pytest.raises(UserError, match="at most 86400"):
        midi.to_bytes(of((0.0, 1e5, 60)))
    with pytest.raises(UserError, match="32766"):
        midi.to_bytes(Score([(0.0, 1.0, 60, 80, 0, False, track) for track in range(33_000)]))
