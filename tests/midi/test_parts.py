"""The parts of a file in another order, or fewer: every other message stays, as mido reads."""

import io
from collections import Counter

import mido
from hypothesis import given, settings
from hypothesis import strategies as st

from musictx.midi.document import Document
from musictx.midi.parts import with_parts
from tests.midi.midi_bytes import END, NOTE_ON_OFF, file, messages
from tests.midi.test_edit import files

TIMING = ("set_tempo", "time_signature", "key_signature", "smpte_offset")


def part(rows: list[tuple], channel: int) -> list[str]:
    return [
        str(row) for row in rows if not row[1].is_meta and getattr(row[1], "channel", -1) == channel
    ]


def rest(data: bytes, places: list[int]) -> Counter:
    """All messages but those of the parts at ``places``."""
    return Counter(
        str(row)
        for track, rows in enumerate(messages(data))
        for row in rows
        if track * 16 + getattr(row[1], "channel", -track * 16 - 1) not in places
    )


@settings(max_examples=150)
@given(files(), st.data())
def test_parts_in_another_order_and_fewer_of_them(data: bytes, more: st.DataObject) -> None:
    there = Document(data).places
    order = more.draw(st.permutations(there))[: more.draw(st.integers(0, len(there)))]
    made = with_parts(data, order)
    assert mido.MidiFile(file=io.BytesIO(made)).type == (len(Document(made).chunks) > 1 or data[9])
    # Each part has the messages that it had, in their order.
    now = Document(made).places
    before, after = messages(data), messages(made)
    assert [part(after[place // 16], place % 16) for place in now] == [
        part(before[place // 16], place % 16) for place in order
    ]
    # So has everything that is of no part, but for the names of tracks that went.
    left, still = rest(data, there), rest(made, now)
    assert not still - left
    assert all("track_name" in row for row in left - still)
    # Tempos, meters and keys of the first track are in the first track.
    first, its = (
        Counter(str(row) for row in track if row[1].type in TIMING)
        for track in (before[0], after[0])
    )
    assert not first - its
    if order == there:
        assert made == data


def test_a_part_comes_to_another_channel_with_all_its_messages() -> None:
    data = file(f"00 C0 05 00 E0 01 02 {NOTE_ON_OFF} {END}", f"00 91 40 40 10 40 00 {END}")
    (program, bend, on, off) = messages(with_parts(data, [0, 17], channels={0: 9}))[0]
    assert {row[1].channel for row in (program, bend, on, off)} == {9}
    # One that comes to the channel of another in its MIDI track gets a track.
    data = file(f"{NOTE_ON_OFF} 00 99 40 40 10 40 00 {END}", kind=0)
    made = with_parts(data, [0, 9], channels={0: 9})
    assert [[row[1].channel for row in rows] for rows in messages(made)] == [[], [9, 9], [9, 9]]
