"""The parts of a file in another order, or fewer: every other message stays, as mido reads."""

from collections import Counter, defaultdict

from hypothesis import given, settings
from hypothesis import strategies as st

from musictx.midi.document import Document
from musictx.midi.parts import with_parts
from tests.midi.midi_bytes import END, NOTE_ON_OFF, file, messages, opened
from tests.midi.test_edit import files

TIMING = ("set_tempo", "time_signature", "key_signature", "smpte_offset")


def by_place(data: bytes) -> dict[int | None, list[str]]:
    """Place of a part, 16 * track + channel -> its messages; those of no part are at None."""
    rows = defaultdict(list)
    for number, track in enumerate(messages(data)):
        for row in track:
            channel = getattr(row[1], "channel", None)
            rows[None if channel is None else 16 * number + channel].append(str(row))
    return rows


@settings(max_examples=150)
@given(files(), st.data())
def test_parts_in_another_order_and_fewer_of_them(data: bytes, more: st.DataObject) -> None:
    there = Document(data).places
    order = more.draw(st.permutations(there))[: more.draw(st.integers(0, len(there)))]
    made = with_parts(data, order)
    assert opened(made).type == (len(Document(made).chunks) > 1 or data[9])
    # Each part has the messages that it had, in their order.
    now = Document(made).places
    before, after = by_place(data), by_place(made)
    assert [after.pop(place) for place in now] == [before[place] for place in order]
    # So has everything that is of no part, but for the names of tracks that went.
    left, still = (
        Counter(row for place, rows in parts.items() if place not in places for row in rows)
        for parts, places in ((before, there), (after, now))
    )
    assert not still - left
    assert all("track_name" in row for row in left - still)
    # Tempos, meters and keys of the first track are in the first track.
    timing, kept = (
        Counter(str(row) for row in messages(file)[0] if row[1].type in TIMING)
        for file in (data, made)
    )
    assert not timing - kept
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
