"""Notes come and go in a file; every other event stays where and what it was."""

from __future__ import annotations

import io
from collections import Counter
from dataclasses import replace

import mido
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from musictx import midi
from musictx.midi.scan import track_chunks
from musictx.notes import NOTE, Score
from tests.midi.midi_bytes import END, NOTE_ON_OFF, file

QUARTER = 480


def chunks(data: bytes) -> list[bytes]:
    return [data[begin:end] for begin, end in track_chunks(data, Counter())]


def others(data: bytes) -> list[list[tuple]]:
    """Of each track its messages but notes and the end, with their ticks, in their order."""
    found = []
    for track in mido.MidiFile(file=io.BytesIO(data)).tracks:
        now, rows = 0, []
        for message in track:
            now += message.time
            if message.type not in ("note_on", "note_off", "end_of_track"):
                rows.append((now, str(message.copy(time=0))))
        found.append(rows)
    return found


def channel_events(draw: st.DrawFn, channel: int) -> list[mido.Message]:
    value = st.integers(0, 127)
    kind = draw(st.sampled_from(["bend", "cc", "touch", "poly", "program", "pedal"]))
    if kind == "bend":
        return mido.Message("pitchwheel", channel=channel, pitch=draw(st.integers(-8192, 8191)))
    if kind == "touch":
        return mido.Message("aftertouch", channel=channel, value=draw(value))
    if kind == "poly":
        return mido.Message("polytouch", channel=channel, note=draw(value), value=draw(value))
    if kind == "program":
        return mido.Message("program_change", channel=channel, program=draw(value))
    control = 64 if kind == "pedal" else draw(st.sampled_from([1, 7, 10, 67, 121, 123]))
    return mido.Message("control_change", channel=channel, control=control, value=draw(value))


OTHERS = [
    mido.MetaMessage("lyrics", text="la"),
    mido.MetaMessage("marker", text="Verse"),
    mido.MetaMessage("text", text="by hand"),
    mido.MetaMessage("copyright", text="mine"),
    mido.MetaMessage("sequencer_specific", data=(1, 2, 3)),
    mido.MetaMessage("set_tempo", tempo=434_782),
    mido.MetaMessage("time_signature", numerator=7, denominator=8),
    mido.MetaMessage("key_signature", key="Eb"),
    mido.Message("sysex", data=(67, 16, 76)),
]


@st.composite
def files(draw: st.DrawFn) -> bytes:
    """Files of all kinds of events; notes of one pitch and channel follow each other."""
    kind = draw(st.integers(0, 1))
    made = mido.MidiFile(type=kind, ticks_per_beat=QUARTER)
    for _ in range(1 if kind == 0 else draw(st.integers(1, 3))):
        events = [(0, mido.MetaMessage("track_name", name="a track"))] * draw(st.booleans())
        for channel in draw(st.lists(st.sampled_from([0, 1, 9, 15]), unique=True, max_size=2)):
            for pitch in draw(st.lists(st.integers(59, 62), unique=True, min_size=1, max_size=3)):
                now = 0
                for _ in range(draw(st.integers(1, 4))):
                    on, off = (now + draw(st.integers(0, 900)) for _ in range(2))
                    on, now = min(on, off), max(on, off) + 1
                    note = {"channel": channel, "note": pitch}
                    events.append((on, mido.Message("note_on", velocity=draw(VELOCITY), **note)))
                    release = {"velocity": draw(st.integers(0, 127))}
                    events.append((now, mido.Message("note_off", **note, **release)))
            for _ in range(draw(st.integers(0, 6))):
                events.append((draw(st.integers(0, 3000)), channel_events(draw, channel)))
        for message in draw(st.lists(st.sampled_from(OTHERS), max_size=5)):
            events.append((draw(st.integers(0, 3000)), message))
        track, now = mido.MidiTrack(), 0
        for at, message in sorted(events, key=lambda event: event[0]):
            track.append(message.copy(time=at - now))
            now = at
        made.tracks.append(track)
    out = io.BytesIO()
    made.save(file=out)
    return out.getvalue()


VELOCITY = st.integers(1, 127)


@st.composite
def changes(draw: st.DrawFn, score: Score) -> tuple[np.ndarray, np.ndarray]:
    """Which notes stay, and new ones on ticks, on known parts and on new ones."""
    stay = np.array([draw(st.booleans()) for _ in range(len(score))], bool)
    parts = np.unique(score.notes["track"]).tolist()
    new = []
    for _ in range(draw(st.integers(0, 4))):
        part = draw(st.integers(0, len(parts)))
        begin, length = draw(st.integers(0, 3000)), draw(st.integers(1, 900))
        known = score.notes[score.notes["track"] == part]
        program = int(known["program"][0]) if len(known) else draw(st.integers(0, 127))
        drum = bool(known["drum"][0]) if len(known) else False
        pitch, velocity = draw(st.integers(59, 62)), draw(VELOCITY)
        new.append((begin, begin + length, pitch, velocity, program, drum, part))
    return stay, np.array(new, NOTE)


def seconds_of(data: bytes, ticks: np.ndarray) -> np.ndarray:
    """Seconds by mido's own count of the tempo marks."""
    tempos, marks = mido.merge_tracks(mido.MidiFile(file=io.BytesIO(data)).tracks), {}
    now = 0
    for message in tempos:
        now += message.time
        if message.type == "set_tempo":
            marks[now] = message.tempo
    found = []
    for tick in ticks.tolist():
        passed, at, tempo = 0.0, 0, 500_000
        for mark, value in marks.items():
            if mark > tick:
                break
            passed, at, tempo = passed + (mark - at) * tempo, mark, value
        found.append((passed + (tick - at) * tempo) / QUARTER / 1e6)
    return np.array(found)


@settings(deadline=None, max_examples=200)
@given(files(), st.data())
def test_only_notes_change_and_only_in_their_tracks(data: bytes, more: st.DataObject) -> None:
    score = midi.read(data)
    assert midi.to_bytes(score) == data
    stay, new = more.draw(changes(score))
    for name in ("start", "end"):
        new[name] = seconds_of(data, new[name])
    asked = np.concatenate([score.notes[stay], new])
    made = midi.to_bytes(score.with_notes(asked))
    back = midi.read(made)
    assert others(made)[: len(chunks(data))] == others(data)
    # Notes that stay are the same; new ones begin where, and sound as, they were to.
    columns = ["start", "end", "pitch", "velocity", "program", "drum"]
    kept = Counter(score.notes[stay][columns].tolist())
    assert not kept - Counter(back.notes[columns].tolist())
    columns = ["pitch", "velocity", "drum"]
    assert Counter(back.notes[columns].tolist()) == Counter(asked[columns].tolist())
    assert np.allclose(np.sort(back.notes["start"]), np.sort(asked["start"]), atol=1e-9)
    # Tracks without a change are the same bytes.
    last_part = np.cumsum(parts_by_track(data))
    changed = np.concatenate([score.notes["track"][~stay], new["track"]])
    touched = set(np.searchsorted(last_part, changed, "right").tolist())
    for number, (was, now) in enumerate(zip(chunks(data), chunks(made))):
        assert number in touched or now == was
    assert midi.to_bytes(back) == made


def parts_by_track(data: bytes) -> list[int]:
    """Of each track on how many channels it has notes."""
    tracks = mido.MidiFile(file=io.BytesIO(data)).tracks
    return [len({m.channel for m in track if m.type == "note_on"}) for track in tracks]


BODY = f"""
    00 FF 03 01 78        # name: x
    00 C3 05              # channel 3, program 5
    00 E3 00 50           # bend
    00 93 3C 40           # C4 on
    10 40 41              # E4 on, status left out
    10 F0 02 43 F7        # system exclusive
    10 3C 00              # C4 off by velocity 0
    10 83 40 7F           # E4 off, released fast
    10 B3 07 64           # volume
    10 93 3E 40 20 83 3E 11
    {END}"""


def test_a_note_goes_byte_by_byte() -> None:
    data = file(f"00 FF 51 03 07 A1 20 {END}", BODY, f"{NOTE_ON_OFF} {END}")
    score = midi.read(data)
    made = midi.to_bytes(score.with_notes(score.notes[score.notes["pitch"] != 64]))
    assert made == file(
        f"00 FF 51 03 07 A1 20 {END}",
        f"""
        00 FF 03 01 78 00 C3 05 00 E3 00 50 00 93 3C 40
        20 F0 02 43 F7 10 93 3C 00 20 B3 07 64 10 93 3E 40 20 83 3E 11
        {END}""",
        f"{NOTE_ON_OFF} {END}",
    )


def test_a_new_part_is_a_track_at_the_end_on_a_channel_of_its_own() -> None:
    score = midi.read(file(BODY, kind=0))
    new = np.array([(0.5, 1.0, 70, 90, 33, False, 1), (0.5, 1.0, 36, 91, 0, True, 2)], NOTE)
    score = replace(score, notes=np.concatenate([score.notes, new]), names={0: "x", 1: "bass"})
    made = midi.to_bytes(score)
    assert made[8:12] == bytes([0, 1, 0, 3])
    assert chunks(made)[:1] == chunks(score.file)
    tracks = mido.MidiFile(file=io.BytesIO(made)).tracks
    assert tracks[1].name == "bass"
    assert {m.channel for m in tracks[1] if not m.is_meta} == {0}
    assert {m.channel for m in tracks[2] if not m.is_meta} == {9}
    assert sorted(midi.read(made).notes.tolist()) == sorted(score.notes.tolist())


def test_bytes_around_the_tracks_stay() -> None:
    data = file(BODY) + b"XFIH\0\0\0\2hi" + b"end"
    inside = b"RIFF\0\0\0\0RMIDdata" + len(data).to_bytes(4, "little") + data
    for given_file in (data, inside):
        score = midi.read(given_file)
        assert midi.to_bytes(score) == data
        made = midi.to_bytes(score.with_notes(score.notes[:1]))
        assert made.endswith(b"XFIH\0\0\0\2hiend")
        assert len(midi.read(made)) == 1


@pytest.mark.parametrize("what", ["slowest", "names", "programs", "pedals", "grid", "time"])
def test_what_a_file_cannot_say_is_written_anew(what: str) -> None:
    data = file(BODY, f"00 B0 40 7F {NOTE_ON_OFF} {END}")
    score = midi.read(data)
    notes = score.notes.copy()
    if what == "programs":
        notes["program"] = 9
    changed = {
        "slowest": replace(score, tempos=[(0.0, 3.0)]),
        "names": replace(score, names={0: "y"}),
        "programs": score.with_notes(notes),
        "pedals": replace(score, pedals=score.pedals[:0]),
        "grid": replace(score, ticks_per_quarter=960),
        "time": score.shifted(1.0),
    }[what]
    made = midi.to_bytes(changed)
    assert made == midi.to_bytes(replace(changed, file=b""))
    assert len(midi.read(made)) == len(score)


def test_a_damaged_file_is_no_file_to_write_into() -> None:
    assert not midi.read(file(f"00 90 3C 40 {END}")).file  # a note left open
    assert not midi.read(file(BODY)[:-6]).file


@pytest.mark.parametrize("kind", [0, 1])
def test_new_markers_come_on_the_first_track_or_the_first_new_one(kind: int) -> None:
    """All other events stay where and what they are, and all other tracks byte for byte."""
    score = midi.read(file(*[f"00 E0 40 7F {NOTE_ON_OFF} {END}", BODY][: kind + 1], kind=kind))
    marked = replace(score, markers=tuple(sorted([*score.markers, (0.5, "C:maj"), (0.0, "A")])))
    made = midi.to_bytes(marked)
    assert chunks(made)[1:] == chunks(score.file)[1:]
    assert midi.read(made).markers == marked.markers
    assert np.array_equal(midi.read(made).notes, score.notes)
    before, after = (Counter(others(data)[0]) for data in (score.file, made))
    assert not before - after
    assert sum((after - before).values()) == 2
    new = np.array([(0.5, 1.0, 70, 90, 33, False, 7)], NOTE)
    notes = np.concatenate([score.notes, new])
    beside = midi.to_bytes(replace(marked, notes=notes, names={**score.names, 7: "bass"}))
    assert chunks(beside)[:-1] == chunks(score.file)
    assert midi.read(beside).markers == marked.markers


def test_markers_come_and_go_and_all_else_stays():
    track = [
        mido.Message("control_change", control=1, value=70),
        mido.MetaMessage("marker", text="Verse"),
        mido.MetaMessage("lyrics", text="la"),
        mido.Message("note_on", note=60, velocity=64),
        mido.Message("note_off", note=60, velocity=0, time=480),
    ]
    file, out = mido.MidiFile(tracks=[mido.MidiTrack(track)]), io.BytesIO()
    file.save(file=out)
    score = midi.read(out.getvalue())
    marks = ((0.0, "A:min7"), (0.5, "Refrain"))
    again = midi.to_bytes(replace(score, markers=marks))
    assert midi.read(again).markers == marks
    told = [m for m in mido.MidiFile(file=io.BytesIO(again)).tracks[0] if m.type != "marker"]
    assert [m.type for m in told[:4]] == ["control_change", "lyrics", "note_on", "note_off"]
    assert midi.read(again) == score
