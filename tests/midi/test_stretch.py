"""Reading many events at once gives what reading one by one gives, whatever the bytes."""

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from musictx.errors import MidiError
from musictx.midi import scan as module
from musictx.midi.scan import Stretches


def deltas(ticks: int) -> bytes:
    out = [ticks & 127]
    while ticks := ticks >> 7:
        out.append(ticks & 127 | 128)
    return bytes(reversed(out))


byte, data = st.integers(0, 255), st.integers(0, 127)
events = st.one_of(
    st.tuples(st.sampled_from([0x80, 0x91, 0xB0, 0xB3, 0xE0, 0xA5]), data, data).map(bytes),
    st.tuples(st.just(0xB0), st.just(64), data).map(bytes),
    st.tuples(data, data).map(bytes),
    st.tuples(st.sampled_from([0xC0, 0xD3]), data).map(bytes),
    st.sampled_from(
        [b"\xff\x51\x03\x07\xa1\x20", b"\xff\x58\x04\x03\x02\x18\x08", b"\xf0\x01\x07"]
    ),
    st.lists(byte, max_size=3).map(bytes),
)
regular = st.lists(st.tuples(st.integers(0, 300), data, data), min_size=40, max_size=200).map(
    lambda rows: b"".join(deltas(t) + bytes([a, b]) for t, a, b in rows)
)
pieces = st.one_of(
    regular,
    st.tuples(st.sampled_from([0, 5, 127, 128, 2**14, 2**28 - 1]), events).map(
        lambda pair: deltas(pair[0]) + pair[1]
    ),
)
tracks = st.lists(pieces, max_size=40).map(lambda parts: b"\x00\x90\x3c\x40" + b"".join(parts))


def scanned(data: bytes) -> object:
    repairs: Counter = Counter()
    try:
        file = module.scan(data, repairs=repairs)
    except MidiError as error:
        return str(error), repairs
    marks = (file.tempos, file.meters, file.keys, file.names)
    return file.format, file.division, file.events.tobytes(), file.ends.tolist(), marks, repairs


class Never(Stretches):
    def __init__(self, chunk: bytes) -> None:
        super().__init__(chunk)
        self.due = len(chunk)


@settings(deadline=None, max_examples=80)
@given(tracks)
def test_a_stretch_is_its_events_one_by_one(track):
    file = b"MThd\0\0\0\6\0\0\0\1\1\0MTrk" + len(track).to_bytes(4, "big") + track
    at_once = scanned(file)
    module.Stretches = Never
    try:
        assert at_once == scanned(file)
    finally:
        module.Stretches = Stretches
