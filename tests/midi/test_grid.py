"""A file comes back on the grid it had: tempo map, meters, keys, names, programs, every tick."""

from __future__ import annotations

import io
from dataclasses import replace

import mido
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from musictx import midi
from musictx.beats import Beats
from tests.midi.midi_bytes import END, file, messages, saved

MAJOR = "Cb Gb Db Ab Eb Bb F C G D A E B F# C#"
MINOR = "Abm Ebm Bbm Fm Cm Gm Dm Am Em Bm F#m C#m G#m D#m A#m"
KEYS = f"{MAJOR} {MINOR}".split()


@st.composite
def files(draw: st.DrawFn) -> bytes:
    """Files of one channel a track, marks in the first, notes of a pitch after each other."""
    quarter = draw(st.sampled_from([1, 24, 96, 480, 960, 32767]))
    tempos = draw(
        st.dictionaries(st.integers(0, 5000), st.integers(60_000, 16_000_000), max_size=5)
    )
    meters = draw(
        st.dictionaries(st.integers(0, 5000), st.sampled_from([(3, 4), (6, 8)]), max_size=3)
    )
    keys = draw(st.dictionaries(st.integers(0, 5000), st.sampled_from(KEYS), max_size=3))
    marks = [(t, mido.MetaMessage("set_tempo", tempo=v)) for t, v in tempos.items()]
    marks += [
        (t, mido.MetaMessage("time_signature", numerator=n, denominator=d))
        for t, (n, d) in meters.items()
    ]
    marks += [(t, mido.MetaMessage("key_signature", key=k)) for t, k in keys.items()]
    tracks = [marks]
    for channel in range(draw(st.integers(1, 3))):
        name = draw(st.sampled_from(["Flute Lead", "Klavier \u00e4", "x"]))
        events = [(0, mido.MetaMessage("track_name", name=name))]
        program = draw(st.integers(0, 127))
        events.append((0, mido.Message("program_change", channel=channel, program=program)))
        now = 0
        for rest, length in draw(
            st.lists(st.tuples(st.integers(0, 700), st.integers(1, 700)), min_size=1, max_size=6)
        ):
            note = {"channel": channel, "note": 60}
            events.append((now + rest, mido.Message("note_on", velocity=70, **note)))
            now += rest + length
            events.append((now, mido.Message("note_off", velocity=0, **note)))
        tracks.append(events)
    return saved(*tracks, quarter=quarter)


def _events(data: bytes) -> tuple[int, list[list[tuple]]]:
    """Ticks a quarter and, track by track, what happens when; channels are the writer's choice."""
    left_out = ("time", "channel", "clocks_per_click", "notated_32nd_notes_per_beat")
    tracks = []
    for rows in messages(data):
        fields = ((tick, {**message.dict()}) for tick, message in rows)
        tracks.append(
            sorted(
                (tick, *sorted((k, str(v)) for k, v in more.items() if k not in left_out))
                for tick, more in fields
            )
        )
    return mido.MidiFile(file=io.BytesIO(data)).ticks_per_beat, tracks


@settings(deadline=None, max_examples=100)
@given(files())
def test_what_is_read_and_written_again_is_the_same_file(data: bytes) -> None:
    read = midi.read(data)
    assert midi.to_bytes(read) == read.file == data
    ours = midi.to_bytes(replace(read, file=b""))
    quarter, (marks, *tracks) = _events(data)
    back, (back_marks, *back_tracks) = _events(ours)
    assert back == quarter
    assert back_tracks == tracks
    # A file that begins without a tempo says 120 bpm when it comes back.
    plain = (0, ("tempo", "500000"), ("type", "set_tempo"))
    begins = any(row[0] == 0 and ("type", "set_tempo") in row for row in marks)
    assert back_marks == sorted(marks if begins else [*marks, plain])


@settings(deadline=None, max_examples=40)
@given(files())
def test_beats_count_the_ticks_of_the_file(data: bytes) -> None:
    """Before the first tempo mark, and where there is none, MIDI has 120 bpm."""
    quarter, (_, *tracks) = _events(data)
    struck = [row[0] for track in tracks for row in track if ("type", "note_on") in row]
    score = midi.read(data)
    found = Beats(score, bpm=100.0).quarters(score.notes["start"]) * quarter
    assert sorted(found.tolist()) == pytest.approx(sorted(struck), abs=1e-3)


def test_a_continuation_takes_over_the_grid_of_its_primer() -> None:
    primer = midi.read(
        file(f"00 FF 51 03 09 27 C0 00 FF 58 04 03 02 18 08 00 90 3C 40 60 80 3C 00 {END}")
    )
    beat = 60 / 100
    notes = [(3 * beat, 4 * beat, 62, 80, 0, False, 0), (4.111, 4.2, 64, 80, 0, False, 0)]
    back = midi.read(midi.to_bytes(replace(primer, notes=notes, file=b"")))
    assert (
        back.ticks_per_quarter == 960
    )  # halved, so that 4.111 s is off by half a millisecond at most
    assert back.tempos["bpm"].tolist() == [100.0]
    assert back.meters.tolist() == [(0.0, 3, 4)]
    assert back.notes["start"].tolist() == pytest.approx([3 * beat, 4.111], abs=0.0005)
    assert back.notes["start"][0] == pytest.approx(3 * beat, abs=1e-9)


def test_key_signatures_and_names_are_read() -> None:
    score = midi.read(
        file(
            f"00 FF 59 02 FF 01 {END}",  # one flat, minor
            f"00 FF 03 05 46 6C 75 74 65 00 90 3C 40 60 80 3C 00 {END}",  # Flute
            f"00 FF 03 01 78 00 90 3C 40 60 80 3C 00 00 91 3C 40 60 81 3C 00 {END}",
        )
    )
    assert score.keys.tolist() == [(0.0, -1, True)]
    assert score.names == {0: "Flute"}  # a name for two channels is the name of neither
