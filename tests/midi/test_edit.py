"""Edits of a file leave other events as they are; with new tempos these keep beats or seconds."""

import warnings
from collections import Counter
from dataclasses import replace

import mido
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from musictx import midi
from musictx.beats import Beats
from musictx.midi.document import MidiFile, chunks, parse_track, shorten
from musictx.notes import NOTE, PEDAL, Score
from tests.midi.midi_bytes import END, NOTE_ON_OFF, file, messages, opened, saved

QUARTER = 480
velocities = st.integers(1, 127)


def texts(data: bytes, without: tuple[str, ...] = ("note_on", "note_off")) -> list[list[tuple]]:
    """Return for each track (tick, message as text), but the types ``without``."""
    return [[(tick, str(row)) for tick, row in rows] for rows in messages(data, without=without)]


CHANNEL = [
    mido.Message("pitchwheel", pitch=-77),
    mido.Message("aftertouch", value=5),
    mido.Message("polytouch", note=60, value=7),
    *(mido.Message("program_change", program=program) for program in (0, 9, 80)),
    *(mido.Message("control_change", control=64, value=value) for value in (0, 63, 64, 127)),
    *(mido.Message("control_change", control=control, value=3) for control in (1, 10, 121, 123)),
]
OTHERS = [
    *(mido.MetaMessage(kind, text="la") for kind in ("lyrics", "marker", "text", "copyright")),
    mido.MetaMessage("sequencer_specific", data=(1, 2, 3)),
    mido.MetaMessage("set_tempo", tempo=434_782),
    mido.MetaMessage("time_signature", numerator=7, denominator=8),
    mido.MetaMessage("key_signature", key="Eb"),
    mido.Message("sysex", data=(67, 16, 76)),
]


@st.composite
def files(draw: st.DrawFn) -> bytes:
    """Draw a file of all kinds of events, in which notes of one pitch and channel never overlap."""
    kind = draw(st.integers(0, 1))
    tracks = []
    for _ in range(1 if kind == 0 else draw(st.integers(1, 3))):
        events = [(0, mido.MetaMessage("track_name", name="a track"))] * draw(st.booleans())
        for channel in draw(st.lists(st.sampled_from([0, 1, 9, 15]), unique=True, max_size=2)):
            for pitch in draw(st.lists(st.integers(59, 62), unique=True, max_size=3)):
                now = 0
                for _ in range(draw(st.integers(1, 4))):
                    note = {"channel": channel, "note": pitch, "velocity": draw(velocities)}
                    now += draw(st.integers(0, 600))
                    events.append((now, mido.Message("note_on", **note)))
                    now += draw(st.integers(1, 600))
                    events.append((now, mido.Message("note_off", **note)))
            for _ in range(draw(st.integers(0, 6))):
                event = draw(st.sampled_from(CHANNEL)).copy(channel=channel)
                events.append((draw(st.integers(0, 3000)), event))
        for message in draw(st.lists(st.sampled_from(OTHERS), max_size=5)):
            events.append((draw(st.integers(0, 3000)), message))
        tracks.append(events)
    return saved(*tracks, kind=kind, quarter=QUARTER)


@st.composite
def changes(draw: st.DrawFn, score: Score) -> tuple[np.ndarray, np.ndarray]:
    """Draw which notes remain, and new notes on ticks in parts of the score and in a new part."""
    remains = np.array([draw(st.booleans()) for _ in range(len(score))], bool)
    parts = np.unique(score.notes["track"]).tolist()
    new, new_drum = [], draw(st.booleans())
    for _ in range(draw(st.integers(0, 4))):
        part = draw(st.integers(0, len(parts)))
        begin, length = draw(st.integers(0, 3000)), draw(st.integers(1, 900))
        old = score.notes[score.notes["track"] == part]
        program = draw(st.sampled_from([*old["program"].tolist(), 7]))
        drum = bool(old["drum"][0]) if len(old) else new_drum
        pitch, velocity = draw(st.integers(59, 62)), draw(velocities)
        new.append((begin, begin + length, pitch, velocity, program, drum, part))
    return remains, np.array(new, NOTE)


def seconds_of(data: bytes, ticks: np.ndarray) -> np.ndarray:
    return Beats(midi.read(data)).seconds(ticks / QUARTER)


@settings(max_examples=100)
@given(files(), st.data())
def test_only_notes_change_and_only_in_their_tracks(data: bytes, more: st.DataObject) -> None:
    score = midi.read(data)
    assert midi.to_bytes(score) == data
    remains, new = more.draw(changes(score))
    for name in ("start", "end"):
        new[name] = seconds_of(data, new[name])
    notes = np.concatenate([score.notes[remains], new])
    part = len(places := MidiFile(data).places)
    names = {**score.names, part: "bass"}
    result = midi.to_bytes(replace(score.with_notes(notes), names=names))
    back = midi.read(result)
    # A new part is the last track, on an unused channel.
    last = MidiFile(result).places[-1:] if part in new["track"] else []
    assert {place % 16 for place in last} - {9} <= {*range(16)} - {place % 16 for place in places}
    assert [*back.names.values()].count("bass") == len(last)
    # The only other new messages are program changes.
    without = ("note_on", "note_off", "program_change")
    assert texts(result, without)[: len(texts(data))] == texts(data, without)
    for old_rows, new_rows in zip(texts(data), texts(result)):
        rows = iter(new_rows)  # in the same order; a part without notes may lose its programs
        empty = [c for c in range(16) if f"on channel={c} " not in str(new_rows)]
        lost = tuple(f"program_change channel={c} " for c in empty)
        assert all(row in rows for row in old_rows if not row[1].startswith(lost))
    # Notes that remain are unchanged, and new notes are those that were added.
    columns = ["start", "end", "pitch", "velocity", "program", "drum"]
    remaining = Counter(score.notes[remains][columns].tolist())
    assert not remaining - Counter(back.notes[columns].tolist())
    assert sounding(back.notes) == sounding(notes)
    assert np.allclose(np.sort(back.notes["start"]), np.sort(notes["start"]), atol=1e-9)
    # Tracks without a change are the same bytes.
    channels = ({m.channel for m in t if m.type == "note_on"} for t in opened(data).tracks)
    last_part = np.cumsum([len(some) for some in channels])
    changed = np.concatenate([score.notes["track"][~remains], new["track"]])
    touched = set(np.searchsorted(last_part, changed, "right").tolist())
    for number, (old_chunk, new_chunk) in enumerate(zip(chunks(data), chunks(result))):
        assert number in touched or new_chunk == old_chunk
    assert midi.to_bytes(back) == result


def sounding(notes: np.ndarray) -> Counter:
    """Count notes by pitch, velocity and program. Drums have the kit that is set, so no program."""
    program = np.where(notes["drum"], 0, notes["program"]).tolist()
    return Counter(zip(notes[["pitch", "velocity", "drum"]].tolist(), program))


def with_more(score: Score, *rows: tuple) -> Score:
    return score.with_notes([*score.notes.tolist(), *rows])


BODY = f"""
    00 FF 03 01 78        # name: x
    00 C3 05 00 E3 00 50  # channel 3, program 5, bend
    00 93 3C 40 10 40 41  # C4 on; E4 on, status left out
    10 F0 02 43 F7        # system exclusive
    10 3C 00              # C4 off by velocity 0
    10 83 40 7F           # E4 off, released fast
    10 B3 07 64           # volume
    10 93 3E 40 20 83 3E 11
    {END}"""


def test_chords_of_a_new_part_are_in_its_track_and_other_tracks_are_unchanged() -> None:
    data = file(NOTE_ON_OFF + END)
    score = midi.read(data)
    two_parts = with_more(score, *((*row[:6], 1) for row in score.notes.tolist()))
    chords = ((0.0, "C:maj"), (0.5, "F:maj"))
    result = midi.to_bytes(replace(two_parts, markers=chords))
    assert chunks(result)[:-1] == chunks(data)
    assert midi.read(result).markers == chords
    # There is no other track.
    assert midi.read(midi.to_bytes(replace(score, markers=chords))).markers == chords


def test_a_new_part_shares_a_channel_only_with_a_part_of_its_program() -> None:
    data = midi.to_bytes(Score([(0.0, 1.0, 60, 64, n, False, n) for n in range(15)]))
    for program in (3, 33):
        result = midi.to_bytes(with_more(midi.read(data), (1.0, 2.0, 60, 64, program, False, 15)))
        assert (chunks(result)[:-1] == chunks(data)) == (program == 3)
        assert midi.read(result).notes["program"].tolist() == [*range(15), program]


def test_bytes_around_the_tracks_stay() -> None:
    data = file(BODY) + b"XFIH\0\0\0\2hi" + b"end"
    inside = b"RIFF\0\0\0\0RMIDLIST\3\0\0\0abc\0data" + len(data).to_bytes(4, "little") + data
    for whole in (data, inside):
        score = midi.read(whole)
        assert midi.to_bytes(score) == data
        result = midi.to_bytes(score.with_notes(score.notes[:1]))
        assert result.endswith(b"XFIH\0\0\0\2hiend")
        assert len(midi.read(result)) == 1


BENT = file(f"00 FF 51 03 07 A1 20 {END}", f"00 E0 01 02 {NOTE_ON_OFF} {END}")
FILM = BENT[:12] + bytes([0xE7, 40]) + BENT[14:]  # 25 frames of film a second, 40 ticks each
REST = f"00 B0 40 7F {NOTE_ON_OFF} {END}"
ALL_DRUMS = "".join(f"00 F0 08 43 10 4C 08 {channel:02X} 07 02 F7 " for channel in range(16))  # XG
#: (file, changed fields that force a new file, words of the warning about losses)
ANEW = [
    (file(f"{ALL_DRUMS} {NOTE_ON_OFF} {END}"), {"notes": [(0.0, 1.0, 60, 64, 0, False, 1)]},
     "without its SysEx messages"),
    (file(BODY, REST), {"tempos": [(0.0, 3.0)]},
     "without its bends, SysEx messages, release velocities, controllers"),
    (FILM, {"tempos": [(0.0, 90.0)]}, "without its bends"),
    (file(f"{NOTE_ON_OFF} {END}"), {"ticks_per_quarter": 960}, ""),
]  # fmt: skip


@pytest.mark.parametrize(("data", "change", "lost"), ANEW)
def test_what_a_file_cannot_hold_makes_a_new_file_and_warns_of_losses(data, change, lost) -> None:
    score = midi.read(data)
    assert score.file
    changed = replace(score, **change)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = midi.to_bytes(changed)
    assert result == midi.to_bytes(replace(changed, file=b""))
    assert len(midi.read(result)) == len(changed)
    assert [str(warning.message).partition("), ")[2] for warning in caught] == [lost] * bool(lost)


#: What changes -> words of the messages that change.
CHANGED = {
    "part": ("program_change", "track_name"),
    "pedals": ("control=64",),
    "texts": ("'lyrics'", "'marker'"),
}


@settings(max_examples=100)
@given(files(), st.sets(st.sampled_from([*CHANGED]), min_size=1), st.data())
def test_parts_pedals_and_texts_can_change_and_other_messages_stay(data, kinds, more) -> None:
    score = midi.read(data)
    assume(len(score))
    fields = {name: getattr(score, name) for name in ("notes", "pedals", "lyrics", "markers")}
    part, names = int(score.notes["track"][0]), dict(score.names)
    if "part" in kinds:
        notes = fields["notes"] = score.notes.copy()
        notes["program"][notes["track"] == part] = more.draw(st.integers(0, 127))
        names[part] = more.draw(st.sampled_from(["", "Flute"]))
    if "pedals" in kinds:
        stay = [more.draw(st.booleans()) for _ in score.pedals]
        parts = st.sampled_from(sorted(set(score.notes["track"].tolist())))
        rows = st.tuples(st.sampled_from(score.notes["start"].tolist()), st.just(77), parts)
        new = np.array(more.draw(st.lists(rows)), PEDAL)
        fields["pedals"] = np.concatenate([score.pedals[stay], new])
    for name in ("lyrics", "markers") if "texts" in kinds else ():
        word = st.tuples(st.sampled_from([0.0, 0.5, 1.25]), st.sampled_from(["a", "la", "Verse"]))
        kept = [row for row in getattr(score, name) if more.draw(st.booleans())]
        fields[name] = tuple(sorted([*kept, *more.draw(st.lists(word, max_size=3))]))
    given_names = {number: name for number, name in names.items() if name}
    result = midi.to_bytes(replace(score, names=given_names, **fields))
    back = midi.read(result)
    assert back.notes.tolist() == fields["notes"].tolist()
    assert back.names.get(part, "") == names.get(part, "")
    assert sorted(back.pedals.tolist()) == sorted(fields["pedals"].tolist())
    for name in ("lyrics", "markers"):
        rows, read = fields[name], getattr(back, name)
        times = ([time for time, _ in column] for column in (read, rows))
        np.testing.assert_allclose(*times, atol=0.005)
        assert sorted(word for _, word in read) == sorted(word for _, word in rows)
    words = [word for kind in kinds for word in CHANGED[kind]]
    old_rows, new_rows = (
        [[row for row in rows if not any(word in row[1] for word in words)] for rows in texts(file)]
        for file in (data, result)
    )
    if "part" in kinds:  # other messages of a channel may move within their tick
        assert Counter(sum(new_rows, [])) == Counter(sum(old_rows, []))  # noqa: RUF017 - a few tracks
    else:
        assert new_rows[: len(old_rows)] == old_rows


@settings(max_examples=60)
@given(files(), st.floats(0, 8))
def test_shortening_moves_only_the_ends_of_tracks_and_drops_no_message(data, seconds):
    result = shorten(data, seconds)
    assert messages(result) == messages(data)
    latest = MidiFile(data).clock.ticks(np.array([seconds]))[0]
    for before, after in zip(chunks(data), chunks(result), strict=True):
        (old_rows, old_end), (new_rows, new_end) = parse_track(before), parse_track(after)
        assert new_end == min(old_end, max([latest, *(row.tick for row in old_rows)]))
        assert new_rows == old_rows


def test_coarse_ticks_are_divided_for_all_messages_alike() -> None:
    bend = mido.Message("pitchwheel", pitch=77)
    on, off = (mido.Message(f"note_{kind}", note=60) for kind in ("on", "off"))
    score = midi.read(saved([(3, bend), (3, on), (15, off)], quarter=12))
    result = midi.to_bytes(with_more(score, (0.51, 0.93, 70, 90, 0, False, 0)))
    back = midi.read(result)
    factor = back.ticks_per_quarter // 12
    assert texts(result) == [[(3 * factor, str(bend))]]
    assert back.notes[:1].tolist() == score.notes.tolist()
    assert abs(back.notes["start"][1] - 0.51) < 0.005


def test_a_note_without_an_end_stays_unchanged() -> None:
    data = file(f"00 E0 01 02 00 90 3C 40 {NOTE_ON_OFF.replace('3C', '40')} 30 FF 2F 00")
    score = midi.read(data)
    assert midi.to_bytes(score) == data
    more = with_more(score, (5.0, 6.0, 70, 90, 0, False, 0))
    fewer = score.with_notes(score.notes[score.notes["pitch"] != 60])
    for changed in (more, fewer):
        result = midi.to_bytes(changed)
        assert texts(result) == texts(data)
        assert midi.read(result).notes.tolist() == changed.notes.tolist()


MARKS = ("set_tempo", "time_signature", "key_signature")
TIMED = ("notes", "pedals", "tempos", "meters", "keys")


@st.composite
def new_marks(draw: st.DrawFn) -> list[tuple[int, mido.MetaMessage]]:
    rows = [(0, mido.MetaMessage("set_tempo", tempo=draw(st.integers(200_000, 1_500_000))))]
    for tick in draw(st.lists(st.integers(1, 3000), unique=True, max_size=2)):
        rows.append((tick, mido.MetaMessage("set_tempo", tempo=draw(st.integers(2**17, 2**20)))))
    for tick in draw(st.lists(st.integers(0, 3000), unique=True, max_size=2)):
        meter = {"numerator": draw(st.integers(1, 9)), "denominator": draw(st.sampled_from([4, 8]))}
        rows.append((tick, mido.MetaMessage("time_signature", **meter)))
    return rows


@given(files(), new_marks(), st.randoms(use_true_random=False))
def test_where_notes_keep_their_beats_only_the_marks_change(data, new, random) -> None:
    score = midi.read(data)
    assume(score.file)
    first, *others = messages(data, without=MARKS)
    wanted = midi.read(saved([*new, *first], *others, kind=data[9], quarter=QUARTER))
    jitter = 1 + 1e-7 * random.random()  # since the studio's page rounds seconds in its own way

    def rounded(rows: np.ndarray) -> np.ndarray:
        rows = rows.copy()
        for name in {"time", "start", "end"} & set(rows.dtype.names):
            rows[name] *= jitter
        return rows

    columns = {name: rounded(getattr(wanted, name)) for name in TIMED}
    for name in ("markers", "lyrics"):
        columns[name] = tuple((time * jitter, text) for time, text in getattr(wanted, name))
    result = midi.to_bytes(replace(score, **columns))
    assert texts(result, MARKS) == texts(data, MARKS)
    again = midi.read(result)
    for name in ("notes", "pedals"):
        assert np.array_equal(getattr(again, name), getattr(wanted, name))
    assert (again.markers, again.lyrics) == (wanted.markers, wanted.lyrics)
    for name in ("tempos", "meters", "keys"):
        rows, expected = ([*map(list, getattr(score, name).tolist())] for score in (again, wanted))
        np.testing.assert_allclose(np.array(rows, float), np.array(expected, float), rtol=1e-5)


@given(files(), st.floats(30.0, 300.0))
def test_where_notes_keep_their_seconds_every_message_does(data: bytes, bpm: float) -> None:
    score = midi.read(data)
    assume(score.file and len(score))
    result = midi.to_bytes(replace(score, tempos=[(0.0, bpm)], meters=[(0.0, 3, 4)]))
    for before, after in zip(texts(data, MARKS), texts(result, MARKS), strict=True):
        assert sorted(text for _, text in before) == sorted(text for _, text in after)
        then, now = (np.array([tick for tick, _ in rows]) for rows in (before, after))
        old, new = seconds_of(data, then), seconds_of(result, now)
        assert np.abs(old - new).max(initial=0.0) <= 31 / bpm / QUARTER + 1e-6
    again = midi.read(result)
    assert again.meters.tolist()[0][1:] == (3, 4)
    assert abs(again.tempos["bpm"][0] - bpm) < 1e-3 * bpm
