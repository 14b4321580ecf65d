"""MIDI files are written to the millisecond, whole or not at all; pretty_midi."""

from __future__ import annotations

import io
import subprocess
import sys
import tracemalloc
from dataclasses import replace

import mido
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from musictx import midi
from musictx.errors import UserError
from musictx.notes import KEY, NOTE, TEMPO, Score
from tests.midi.midi_bytes import messages
from tests.pieces import of
from tests.strategies import scores
from tests.tokens.grids import TICKS, gridded, ticks


def _first_in_first_out(score: Score) -> Score:
    """``score`` with the ends of overlapping notes of one pitch in the order of their starts: all
    that MIDI can say. Notes by start, pitch, track, end; pedals by time, track."""
    notes = score.notes.copy()
    for key in {(n["track"], n["pitch"]) for n in notes}:
        same = np.flatnonzero((notes["track"] == key[0]) & (notes["pitch"] == key[1]))
        same = same[np.lexsort((notes["end"][same], notes["start"][same]))]
        notes["end"][same] = np.sort(notes["end"][same])
    order = np.lexsort([notes[k] for k in ("velocity", "end", "track", "pitch", "start")])
    pedals = score.pedals[np.lexsort((score.pedals["track"], score.pedals["time"]))]
    return Score(notes=notes[order], pedals=pedals, meters=score.meters)


@settings(deadline=None, max_examples=150)
@given(scores())
def test_write_then_read_is_the_identity_on_the_millisecond_grid(score: Score) -> None:
    back = midi.read(midi.to_bytes(score))
    expected = _first_in_first_out(score)
    assert _first_in_first_out(back) == expected
    order = np.lexsort([back.notes[k] for k in ("track", "pitch", "start")])
    assert np.array_equal(order, np.arange(len(back)))
    assert np.array_equal(back.pedals, expected.pedals)
    assert back.tempos.tolist() == [(0.0, 120.0)]


@settings(deadline=None, max_examples=80)
@given(
    scores(grid=None, pedals=False), st.sampled_from([0, 1, 7, 480, 32767]), st.floats(20.0, 400.0)
)
def test_written_times_are_off_by_half_a_millisecond_at_most(score, ticks, bpm) -> None:
    back = midi.read(midi.to_bytes(replace(score, ticks_per_quarter=ticks, tempos=[(0.0, bpm)])))
    assert len(back) == len(score)
    for key in ("start", "end"):
        difference = np.sort(back.notes[key]) - np.sort(score.notes[key])
        assert np.all(np.abs(difference) <= 0.0005 + 1e-5)


@settings(deadline=None, max_examples=100)
@given(gridded())
def test_music_on_ticks_comes_back_on_its_ticks(piece: Score) -> None:
    back = midi.read(midi.to_bytes(piece))
    assert back.ticks_per_quarter == TICKS
    for key in ("start", "end"):
        assert sorted(ticks(back, back.notes[key])) == sorted(ticks(piece, piece.notes[key]))
    for mine, its in ((piece.tempos, back.tempos), (piece.meters, back.meters)):
        assert ticks(back, its["time"]) == ticks(piece, mine["time"])
        for name in mine.dtype.names[1:]:
            assert np.allclose(its[name], mine[name], rtol=1e-5)


def test_written_file_has_note_offs_before_note_ons() -> None:
    score = of((0.0, 1.0, 60), (1.0, 2.0, 60), (1.0, 1.0, 61))
    _, rows = messages(midi.to_bytes(score), lambda message: message.type.startswith("note"))
    assert [(at, message.type.removeprefix("note_"), message.note) for at, message in rows] == [
        (0, "on", 60), (1000, "off", 60), (1000, "on", 60), (1000, "on", 61), (1000, "off", 61),
        (2000, "off", 60),
    ]  # fmt: skip


def test_many_notes_and_marks_are_written_lean() -> None:
    """Not all messages may be there at once."""
    count = 6_000
    notes = np.zeros(count, NOTE)
    notes["start"], notes["end"] = np.arange(count) / 1000, 300
    notes["pitch"], notes["velocity"] = 60, 80
    tempos = np.zeros(count, TEMPO)
    tempos["time"], tempos["bpm"] = np.arange(count) / 1000, 120
    keys = np.zeros(count, KEY)
    score = Score(notes=notes, tempos=tempos, keys=keys, ticks_per_quarter=480)
    midi.to_bytes(score.with_notes(notes[:1]))  # the imports
    tracemalloc.start()
    data = midi.to_bytes(score)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 300 * count  # 390 with all of them
    back = midi.read(data)
    assert (len(back), len(back.tempos), len(back.keys)) == (count,) * 3


words = st.text(st.characters(exclude_categories=["Cs"]), max_size=60)
moments = st.integers(0, 5000).map(lambda n: n / 1000)
said = st.lists(st.tuples(moments, words), max_size=5).map(lambda rows: tuple(sorted(rows)))


@settings(deadline=None, max_examples=100)
@given(words, said, said, st.lists(st.tuples(moments, st.integers(-7, 7), st.booleans())))
def test_names_texts_and_keys_are_read_by_mido_as_they_were_given(name, markers, lyrics, keys):
    notes = [(0.0, 1.0, 60, 80, 0, False, 0)]
    score = Score(notes, keys=keys, names={0: name}, markers=markers, lyrics=lyrics)
    file = mido.MidiFile(file=io.BytesIO(midi.to_bytes(score)), charset="utf-8")
    assert file.tracks[1].name == name
    now, seen = 0, {"marker": [], "lyrics": [], "key_signature": []}
    for message in file.tracks[0]:
        now += message.time
        if message.type in seen:
            text = message.key if message.type == "key_signature" else message.text
            seen[message.type].append((now / 1000, text))
    assert seen["marker"] == sorted(markers, key=lambda row: row[0])
    assert seen["lyrics"] == sorted(lyrics, key=lambda row: row[0])
    assert len(seen["key_signature"]) == len(keys)
    assert midi.read(midi.to_bytes(score)).keys.tolist() == score.keys.tolist()


@settings(deadline=None, max_examples=100)
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


def _played(data: bytes) -> list[tuple[int, int, bool]]:
    """(velocity, program, drum) of each note as a synthesiser plays the file, track after track
    at one time, one program a channel."""
    program, played = [0] * 16, []
    for message in mido.merge_tracks(mido.MidiFile(file=io.BytesIO(data)).tracks):
        if message.type == "program_change":
            program[message.channel] = message.program
        elif message.type == "note_on":
            drum = message.channel == 9
            played.append((message.velocity, program[message.channel], drum))
    return sorted(played)


@pytest.mark.parametrize(("tracks", "programs"), [(15, 15), (16, 12), (16, 16), (40, 16), (40, 40)])
def test_any_number_of_parts_sounds_with_its_own_program(tracks: int, programs: int) -> None:
    notes = [
        (0.5 * beat, 0.5 * beat + 0.4, 60, track + 1, track % programs, track % 10 == 9, track)
        for beat in range(3)
        for track in range(tracks)
    ]
    score = Score(notes, pedals=[(0.1, 127, track) for track in range(tracks)])
    data = midi.to_bytes(score)
    assert _played(data) == sorted((row[3], row[4], bool(row[5])) for row in notes)
    assert midi.read(data).notes.tolist() == score.notes.tolist()
    assert midi.read(data).pedals.tolist() == score.pedals.tolist()


def test_a_score_track_of_several_programs_becomes_a_track_for_each() -> None:
    notes = [(0.0, 1.0, 60, 80, 5, 0, 0), (0.0, 1.0, 60, 81, 6, 0, 0), (0.0, 1.0, 36, 82, 0, 1, 0)]
    data = midi.to_bytes(Score(notes))
    assert _played(data) == [(80, 5, False), (81, 6, False), (82, 0, True)]
    assert midi.read(data).content_hash() == Score(notes).content_hash()


def test_what_midi_cannot_hold_is_left_out_or_refused() -> None:
    score = Score(meters=[(0.0, 3, 4), (1.0, 4, 3), (2.0, 0, 4), (3.0, 7, 16)])
    assert midi.read(midi.to_bytes(score)).meters.tolist() == [(0.0, 3, 4), (3.0, 7, 16)]
    with pytest.raises(UserError, match="at most 86400"):
        midi.to_bytes(of((0.0, 1e5, 60)))
    with pytest.raises(UserError, match="32766"):
        midi.to_bytes(Score([(0.0, 1.0, 60, 80, 0, False, track) for track in range(33_000)]))


def test_reading_and_writing_import_no_library_of_midi() -> None:
    code = (
        "import sys, musictx; from musictx import midi; midi.read(bytes.fromhex(sys.argv[1]));"
        "read = set(sys.modules); midi.to_bytes(musictx.Score());"
        "libraries = {'torch', 'pretty_midi', 'mido'};"
        "print(libraries & read, libraries & set(sys.modules))"
    )
    command = [sys.executable, "-c", code, midi.to_bytes(of((0, 1, 60))).hex()]
    out = subprocess.run(command, capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "set() set()"
