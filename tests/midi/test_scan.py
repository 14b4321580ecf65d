"""Time bases and tempo maps give exact seconds; damage is repaired and counted, or refused with a
reason; many events at once are read as one by one."""

from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from musictx import midi
from musictx.config import Limits
from musictx.errors import MidiError
from musictx.midi import scan as module
from musictx.midi.clock import TickClock
from musictx.midi.document import quantity
from tests.midi.midi_bytes import END, NOTE_ON_OFF, file, raw, tick


@settings(max_examples=200)
@given(
    st.integers(1, 32767),
    st.lists(st.tuples(st.integers(0, 10**5), st.integers(1, 2**24 - 1)), max_size=6),
    st.integers(0, 10**5),
)
def test_clock_gives_the_double_nearest_to_the_true_time(
    division: int, tempos: list[tuple[int, int]], moment: int
) -> None:
    true, rate, at = Fraction(0), Fraction(500_000, 10**6 * division), 0
    for start, microseconds in sorted(tempos, key=lambda mark: mark[0]):
        if start > moment:
            break
        true += (start - at) * rate
        at, rate = start, Fraction(microseconds, 10**6 * division)
    true += (moment - at) * rate
    marks = module.ScannedFile(1, division, marks={"tempos": [(0, *tempo) for tempo in tempos]})
    seconds = TickClock.from_file(marks).seconds(np.array([moment]))[0]
    if true < 24 * 3600:
        assert seconds == float(true)


@pytest.mark.parametrize(
    ("division", "seconds"),
    [
        (0xE728, 1.0),  # -25 frames a second, 40 ticks a frame: milliseconds
        (0xE350, 1001 / 2400),  # -29 means 30000/1001, 80
    ],
)
def test_smpte_time_ignores_tempo(division: int, seconds: float) -> None:
    slow = "00 FF 51 03 0F 42 40"  # 60 bpm; the note ends after 1000 ticks
    score = midi.read(file(f"{slow} 00 90 3C 40 87 68 80 3C 00 {END}", division=division))
    assert score.notes["end"].tolist() == [seconds]


SECOND = f"00 91 3E 40 60 81 3E 00 {END}"
ONE, TWO = file(f"{NOTE_ON_OFF} {END}"), file(f"{NOTE_ON_OFF} {END}", SECOND)
#: The length of the first track is stated some bytes too short, or too long.
SHORT, LONG, LONGER = (TWO[:21] + bytes([TWO[21] + more]) + TWO[22:] for more in (-3, 1, 200))
ALIEN = b"XFIH" + (5).to_bytes(4, "big") + b"MTrkX"
C4, D4 = (0.0, tick(96), 60, 64), (0.0, tick(96), 62, 64)
#: Title -> file, (start, end, pitch, velocity) of its notes, counted repairs.
FILES = {
    "status runs on after meta and system events": (
        file(f"""
        00 90 3C 40        # C4 on
        10 FF 01 02 68 69  # text
        10 F0 02 43 F7     # system exclusive
        10 FE              # active sensing
        10 F2 01 02        # song position
        10 3C 00           # C4 off, status left out
        {END}"""), [(0.0, tick(80), 60, 64)], {}),
    "notes left open end with their track": (
        file("00 90 3C 40 10 90 3C 41 10 90 3E 42 40 80 3E 00 60 FF 2F 00",
             f"00 91 40 40 00 81 40 00 {END}"),
        [(0.0, tick(192), 60, 64), (0.0, 0.0, 64, 64), (tick(16), tick(192), 60, 65),
         (tick(32), tick(96), 62, 66)], {"notes left open": 2}),
    "a tempo of zero is left out, the last of two at one tick counts": (
        file(f"00 FF 51 03 00 00 00 00 FF 51 03 07 A1 20 00 FF 51 03 0F 42 40 {NOTE_ON_OFF} {END}"),
        [(0.0, tick(192), 60, 64)], {"tempo of zero": 1}),
    "more tracks than stated": (file(f"{NOTE_ON_OFF} {END}", SECOND, count=1), [C4, D4], {}),
    "fewer tracks than stated": (
        file(f"{NOTE_ON_OFF} {END}", count=3), [C4], {"missing track": 2}),
    "other chunks": (TWO[:14] + ALIEN + TWO[14:] + ALIEN + b"\0\0\0", [C4, D4], {}),
    "a longer header": (ONE[:4] + raw("00 00 00 08") + ONE[8:14] + b"xx" + ONE[14:], [C4], {}),
    "events after the end mark": (
        file(f"{NOTE_ON_OFF} {END} \n 00 90 40 40 60 80 40 00"), [C4], {}),
    "a data byte above 127": (
        file(f"00 90 3C FF 60 80 3C 00 {END}"), [(0.0, tick(96), 60, 127)],
        {"bytes out of range": 1}),
    "damaged tracks keep what came before": (
        file(f"{NOTE_ON_OFF} FF FF FF FF 7F 90 40 40 {END}",  # a delta time of five bytes
             f"00 40 40 {NOTE_ON_OFF} {END}",  # data bytes without a status
             SECOND), [C4, D4], {"damaged track": 2}),
    "times beyond all limits": (  # 300 times the longest delta time: 2**36 ticks and more
        file(f"{NOTE_ON_OFF} {'FF FF FF 7F FE ' * 300} 00 90 3E 40 {END}"), [C4],
        {"damaged track": 1}),
    "a file that is cut off": (
        file(f"{NOTE_ON_OFF} 00 90 3E 41 60 80 3E 00")[:-2],
        [C4, (tick(96), tick(96), 62, 65)], {"truncated track": 2, "notes left open": 1}),
    "a wrong length does not hide the next track": (
        SHORT, [C4, D4], {"damaged track": 1, "truncated track": 1}),
    "nor does a length that is too long": (LONG, [C4, D4], {"truncated track": 1}),
    "even one beyond the file": (LONGER, [C4, D4], {"truncated track": 1}),
}  # fmt: skip


@pytest.mark.parametrize("title", FILES)
def test_odd_and_damaged_files_are_read_and_repairs_counted(title: str) -> None:
    data, notes, counted = FILES[title]
    repairs: Counter = Counter()
    score = midi.read(data, repairs=repairs)
    assert [row[:4] for row in score.notes.tolist()] == notes
    assert not len(score.pedals)
    assert repairs == counted


@pytest.mark.parametrize(
    ("data", "reason", "words"),
    [
        (b"", "empty file", "is empty"),
        (b"RIFF\4\0\0\0RMID", "not a MIDI file", "not a MIDI file"),
        (b"MThd\0\0\0\6\0\1", "truncated", "inside its header"),
        (file(), "no tracks", "no track"),
        (file(END, END, kind=2), "", "2 pieces in one file"),
        (file(NOTE_ON_OFF)[:-7], "truncated", "no note"),
        (file("00 00 00 00"), "damaged", "no note"),
        (file(f"{NOTE_ON_OFF} {END}", division=0), "unknown time base", "ticks"),
        (file(f"{NOTE_ON_OFF} {END}", division=0xE700), "unknown time base", "SMPTE"),
        (file(f"FF FF FF 7F 90 3C 40 00 80 3C 00 {END}", division=1), "absurd times", "hours"),
    ],
)
def test_unreadable_files_are_refused_with_a_reason(data: bytes, reason: str, words: str) -> None:
    with pytest.raises(MidiError, match=words) as caught:
        midi.read(data)
    assert reason in ("", caught.value.reason)


@pytest.mark.parametrize("mark", ["51 03 07 A1 20", "58 02 04 02", "59 02 01 00", "06 01 61"])
def test_a_mark_counts_as_ten_events(mark: str) -> None:
    few, many = (file(f"01 FF {mark} " * count + END) for count in (30, 31))
    limits = Limits(events=300)
    module.scan(few, limits)
    with pytest.raises(MidiError, match=r"more than limits\.events=300") as caught:
        module.scan(many, limits)
    assert caught.value.reason == "too large"


data = st.integers(0, 127)
events = st.one_of(
    st.tuples(st.sampled_from([0x80, 0x91, 0xB0, 0xB3, 0xE0, 0xA5]), data, data).map(bytes),
    st.tuples(st.just(0xB0), st.just(64), data).map(bytes),
    st.tuples(data, data).map(bytes),
    st.tuples(st.sampled_from([0xC0, 0xD3]), data).map(bytes),
    st.sampled_from([raw("FF 51 03 07 A1 20"), raw("FF 58 04 03 02 18 08"), raw("F0 01 07")]),
    st.binary(max_size=3),
)
regular = st.lists(st.tuples(st.integers(0, 300), data, data), min_size=40, max_size=200).map(
    lambda rows: b"".join(quantity(t) + bytes([a, b]) for t, a, b in rows)
)
pieces = regular | st.tuples(
    st.sampled_from([0, 5, 127, 128, 2**14, 2**28 - 1]).map(quantity), events
).map(b"".join)
tracks = st.lists(pieces, max_size=40).map(lambda parts: b"\x00\x90\x3c\x40" + b"".join(parts))


def scanned(data: bytes) -> object:
    try:
        file = module.scan(data, Limits())
    except MidiError as error:
        return str(error)
    return vars(file) | {"events": file.events.tobytes(), "ends": file.ends.tolist()}


@settings(max_examples=40)
@given(tracks)
def test_many_events_at_once_are_read_as_one_by_one(track):
    whole = file(track, kind=0)
    at_once = scanned(whole)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_fast_reader", lambda: None)
        assert at_once == scanned(whole)
