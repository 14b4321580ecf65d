"""The parts of a file in another order, or fewer: mido reads all other messages as before."""

from collections import Counter, defaultdict

from hypothesis import given, settings
from hypothesis import strategies as st

from musictx.midi.document import MidiFile
from musictx.midi.parts import select_parts
from tests.midi.midi_bytes import END, NOTE_ON_OFF, file, messages, opened
from tests.midi.test_edit import files

TIMING = ("set_tempo", "time_signature", "key_signature", "smpte_offset")


def by_place(data: bytes) -> dict[int | None, list[str]]:
    """Return place of a part (16 * track + channel) -> its messages; None -> those of no part."""
    rows = defaultdict(list)
    for number, track in enumerate(messages(data)):
        for row in track:
            channel = getattr(row[1], "channel", None)
            rows[None if channel is None else 16 * number + channel].append(str(row))
    return rows


@settings(max_examples=80)
@given(files(), st.data())
def test_parts_in_another_order_and_fewer_of_them(data: bytes, more: st.DataObject) -> None:
    places = MidiFile(data).places
    order = more.draw(st.permutations(places))[: more.draw(st.integers(0, len(places)))]
    result = select_parts(data, order)
    assert opened(result).type == (len(MidiFile(result).chunks) > 1 or data[9])
    # Each part has the messages that it had, in their order.
    new_places = MidiFile(result).places
    before, after = by_place(data), by_place(result)
    assert [after.pop(place) for place in new_places] == [before[place] for place in order]
    # Messages of no part stay, except names of removed tracks.
    old_rows, new_rows = (
        Counter(row for place, rows in parts.items() if place not in known for row in rows)
        for parts, known in ((before, places), (after, new_places))
    )
    assert not new_rows - old_rows
    assert all("track_name" in row for row in old_rows - new_rows)
    # Tempos, meters and keys of the first track are in the first track.
    old_timing, new_timing = (
        Counter(str(row) for row in messages(file)[0] if row[1].type in TIMING)
        for file in (data, result)
    )
    assert not old_timing - new_timing
    if order == places:
        assert result == data


def test_a_part_moves_to_another_channel_with_all_its_messages() -> None:
    data = file(f"00 C0 05 00 E0 01 02 {NOTE_ON_OFF} {END}", f"00 91 40 40 10 40 00 {END}")
    (program, bend, on, off) = messages(select_parts(data, [0, 17], channels={0: 9}))[0]
    assert {row[1].channel for row in (program, bend, on, off)} == {9}
    # A part moved to the channel of another part of its MIDI track gets a new track.
    data = file(f"{NOTE_ON_OFF} 00 99 40 40 10 40 00 {END}", kind=0)
    result = select_parts(data, [0, 9], channels={0: 9})
    assert [[row[1].channel for row in rows] for rows in messages(result)] == [[], [9, 9], [9, 9]]
