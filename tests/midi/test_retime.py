"""Other tempos, meters and keys in a file: all else keeps its beats, or its seconds. Its parts in
another order, or fewer: every message of the others stays, as mido reads."""

from __future__ import annotations

import io
from collections import Counter
from dataclasses import replace

import mido
import numpy as np
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from musictx import midi
from musictx.midi.document import Document
from musictx.midi.parts import with_parts
from tests.midi.midi_bytes import END, NOTE_ON_OFF, file, messages, saved
from tests.midi.test_edit import QUARTER, files, seconds_of

MARKS = ("set_tempo", "time_signature", "key_signature")
TIMED = ("notes", "pedals", "tempos", "meters", "keys")


def placed(data: bytes) -> list[list[tuple[int, str]]]:
    """Of each track its messages but its marks and its end, with their ticks."""
    tracks = messages(data, lambda message: message.type not in MARKS)
    return [[(tick, str(message)) for tick, message in rows] for rows in tracks]


def marked(data: bytes, new: list[tuple[int, mido.MetaMessage]]) -> bytes:
    """By mido: a file whose marks are ``new``, in its first track."""
    first, *others = messages(data, lambda message: message.type not in MARKS)
    return saved([*new, *first], *others, kind=data[9], quarter=QUARTER)


@st.composite
def new_marks(draw: st.DrawFn) -> list[tuple[int, mido.MetaMessage]]:
    rows = [(0, mido.MetaMessage("set_tempo", tempo=draw(st.integers(200_000, 1_500_000))))]
    for tick in draw(st.lists(st.integers(1, 3000), unique=True, max_size=2)):
        rows.append((tick, mido.MetaMessage("set_tempo", tempo=draw(st.integers(2**17, 2**20)))))
    for tick in draw(st.lists(st.integers(0, 3000), unique=True, max_size=2)):
        meter = {"numerator": draw(st.integers(1, 9)), "denominator": draw(st.sampled_from([4, 8]))}
        rows.append((tick, mido.MetaMessage("time_signature", **meter)))
    return rows


@settings(deadline=None, max_examples=100)
@given(files(), new_marks(), st.randoms(use_true_random=False))
def test_where_notes_keep_their_beats_nothing_but_the_marks_is_another(data, new, random) -> None:
    score = midi.read(data)
    assume(score.file)
    wanted = midi.read(marked(data, new))
    jitter = 1 + 1e-7 * random.random()  # as seconds that a page has counted itself

    def counted(rows: np.ndarray) -> np.ndarray:
        rows = rows.copy()
        for name in {"time", "start", "end"} & set(rows.dtype.names):
            rows[name] *= jitter
        return rows

    columns = {name: counted(getattr(wanted, name)) for name in TIMED}
    texts = {
        name: tuple((time * jitter, text) for time, text in getattr(wanted, name))
        for name in ("markers", "lyrics")
    }
    made = midi.to_bytes(replace(score, **columns, **texts))
    assert placed(made) == placed(data)
    again = midi.read(made)
    for name in ("notes", "pedals"):
        assert np.array_equal(getattr(again, name), getattr(wanted, name))
    assert (again.markers, again.lyrics) == (wanted.markers, wanted.lyrics)
    for name in ("tempos", "meters", "keys"):
        for column in getattr(wanted, name).dtype.names:
            np.testing.assert_allclose(
                getattr(again, name)[column], getattr(wanted, name)[column], rtol=1e-5
            )


@settings(deadline=None, max_examples=100)
@given(files(), st.floats(30.0, 300.0))
def test_where_notes_keep_their_seconds_every_message_does(data: bytes, bpm: float) -> None:
    score = midi.read(data)
    assume(score.file and len(score))
    made = midi.to_bytes(replace(score, tempos=[(0.0, bpm)], meters=[(0.0, 3, 4)]))
    for before, after in zip(placed(data), placed(made), strict=True):
        assert sorted(text for _, text in before) == sorted(text for _, text in after)
        then, now = (np.array([tick for tick, _ in rows]) for rows in (before, after))
        old, new = seconds_of(data, then), seconds_of(made, now)
        assert np.abs(old - new).max(initial=0.0) <= 31 / bpm / QUARTER + 1e-6
    again = midi.read(made)
    assert again.meters.tolist()[0][1:] == (3, 4)
    assert abs(again.tempos["bpm"][0] - bpm) < 1e-3 * bpm


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


@settings(deadline=None, max_examples=150)
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
