"""A new section pays for what earlier ones have at the same place, and for nothing else."""

from dataclasses import replace

import numpy as np
import pytest

from musictx.sampling.unlike import RETURN, ROOT, TONE, Unlike
from musictx.tokens.bars import STEPS
from musictx.tokens.group_ids import CHORD, DRUM_PART, RETURNS, write
from tests.model.test_grouped import song
from tests.sampling.test_bar_infill import TABLE, TOKENS

BARS = 2


@pytest.fixture(scope="module")
def grid():
    score = replace(song(bars=2 * BARS), markers=((0.0, "C"), (1.5, "F"), (3.0, "G")))
    return TOKENS.grid(score)


@pytest.mark.parametrize("drums", [False, True])
def test_costs_are_those_of_the_bars_in_the_same_place(grid, drums):
    """Oracle: by loops over the groups of the first section."""
    steps = 3 * STEPS
    mine = grid.placed[grid.placed["line"] < BARS]
    unlike = Unlike(
        TABLE, grid.placed, [0], BARS, BARS,
        steps=steps, drums=drums, lines=BARS,
    )  # fmt: skip
    for bar in range(BARS):
        lines = grid.bars[: BARS + bar + 1]
        before = write(lines, grid.placed[grid.placed["line"] < BARS + bar], TABLE)
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
                        for one in mine[mine["part"] == CHORD]:
                            if (one["line"], one["place"]) <= (bar, place):
                                root = one["tone"]
                        expected[at] = ROOT * (tone == root)
                        continue
                    for one in mine[(mine["part"] != CHORD) & (mine["line"] == bar)]:
                        near = one["place"] // 6 == place // 6 and one["tone"] % 12 == tone % 12
                        if near and (drums or one["part"] != DRUM_PART):
                            expected[at] = TONE * (drums or part != DRUM_PART)
                np.testing.assert_array_equal(costs, expected)
    assert (grid.placed["part"] == CHORD).any()


def test_other_fields_and_other_bars_cost_nothing(grid):
    unlike = Unlike(TABLE, grid.placed, [0], 1, 1, steps=72, drums=True, lines=1)
    early = write(grid.bars[:1], grid.placed[:0], TABLE)
    for ids in ([TABLE.id("place", 0)], [TABLE.id("place", 0), TABLE.id("program", 0)]):
        row = np.array([[*early, *ids]])
        assert not unlike([TOKENS.grammar(early)], row).any()


def test_bar_lines_of_a_new_section_say_only_its_own_bars_again(grid):
    steps = 3 * STEPS
    unlike = Unlike(TABLE, grid.placed, [0], BARS, BARS, steps=steps, drums=True, lines=BARS)
    first, stop = TABLE.range("section")
    for bar in range(BARS):
        ids = write(grid.bars[: BARS + bar + 1], grid.placed[:0], TABLE)[:-2]
        costs = unlike([TOKENS.grammar(ids)], ids[None].astype(np.int64))[0]
        own = first + RETURNS + bar
        assert not costs[:own].any()
        assert (costs[own:stop] == RETURN).all()
        assert not costs[stop:].any()
