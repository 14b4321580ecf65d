"""A new section pays for what earlier ones have at the same place, and for nothing else."""

from dataclasses import replace

import numpy as np
import pytest

from musictx.sampling.unlike import RETURN, ROOT, TONE, Unlike
from musictx.tokens.bar_ids import REPEATS
from musictx.tokens.stream import CHORD, DRUM_PART, STEPS, NoteStream
from tests.model.test_grouped import song
from tests.sampling.test_bar_fill import TABLE, TOKENS

BARS = 2


@pytest.fixture(scope="module")
def piece():
    score = replace(song(bars=2 * BARS), markers=((0.0, "C"), (1.5, "F"), (3.0, "G")))
    return TOKENS.stream(score)[0]


@pytest.mark.parametrize("drums", [False, True])
def test_costs_are_those_of_the_bars_in_the_same_place(piece, drums):
    """Oracle: by loops over the groups of the first section."""
    steps = 3 * STEPS
    mine = piece.in_bars(0, BARS)
    unlike = Unlike(
        TABLE, piece, [0], BARS, BARS,
        steps=steps, drums=drums, lines=BARS,
    )  # fmt: skip
    for bar in range(BARS):
        before = TOKENS.write(
            NoteStream(piece.bars[: BARS + bar + 1], piece.in_bars(0, BARS + bar).notes)
        )
        state = TOKENS.grammar(before)
        for place in (0, STEPS // 2, STEPS):
            for part in (0, DRUM_PART, CHORD):
                kind = {DRUM_PART: "drums", CHORD: "harmony"}.get(part, "program")
                ids = [TABLE.id("place", place), TABLE.id(kind, 0)]
                costs = unlike([state], np.array([[*before, *ids]]))[0]
                expected = np.zeros(TABLE.size)
                names = {DRUM_PART: "drum", CHORD: "root"}
                for at in range(*TABLE.range(names.get(part, "pitch"))):
                    tone = int(TABLE.value_of[at])
                    if part == CHORD:
                        root = -1
                        for one in mine.notes[mine.notes["part"] == CHORD]:
                            if one["start"] <= bar * steps + place:
                                root = one["pitch"]
                        expected[at] = ROOT * (tone == root)
                        continue
                    for one in mine.notes[(mine.notes["part"] != CHORD) & (mine.bar == bar)]:
                        near = one["start"] % steps // 6 == place // 6
                        near &= one["pitch"] % 12 == tone % 12
                        if near and (drums or one["part"] != DRUM_PART):
                            expected[at] = TONE * (drums or part != DRUM_PART)
                np.testing.assert_array_equal(costs, expected)
    assert (piece.notes["part"] == CHORD).any()


def test_other_fields_and_other_bars_cost_nothing(piece):
    unlike = Unlike(TABLE, piece, [0], 1, 1, steps=72, drums=True, lines=1)
    early = TOKENS.write(NoteStream(piece.bars[:1], piece.notes[:0]))
    for ids in ([TABLE.id("place", 0)], [TABLE.id("place", 0), TABLE.id("program", 0)]):
        row = np.array([[*early, *ids]])
        assert not unlike([TOKENS.grammar(early)], row).any()


def test_bar_lines_of_a_new_section_say_only_its_own_bars_again(piece):
    steps = 3 * STEPS
    unlike = Unlike(TABLE, piece, [0], BARS, BARS, steps=steps, drums=True, lines=BARS)
    first, stop = TABLE.range("section")
    for bar in range(BARS):
        ids = TOKENS.write(NoteStream(piece.bars[: BARS + bar + 1], piece.notes[:0]))[:-2]
        costs = unlike([TOKENS.grammar(ids)], ids[None].astype(np.int64))[0]
        own = first + REPEATS + bar
        assert not costs[:own].any()
        assert (costs[own:stop] == RETURN).all()
        assert not costs[stop:].any()
