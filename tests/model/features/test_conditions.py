"""``Conditions`` equals a plain loop over events. With a cache: test_laws.py."""

import pytest
import torch

from musictx.model.features.conditions import END_STEPS, START_STEPS, Conditions
from musictx.model.features.pitches import NEVER
from tests.model.features.test_sounding import time_class

#: 1 opens; 3, 4, 5 are the marks; 6..8 and 9..10 two controls; 11..18 start pitches 60..67,
#: 19..26 end them; 27..46 take 1..20 steps.
VOCAB, PITCHES, OPEN, KNOWN, STREAM, HERE = 47, 8, 1, 3, 4, 5
GIVEN = {
    "starts": [[11, 19, 60]],
    "ends": [[19, 27, 60]],
    "steps": [[27, 47, 1]],
    "controls": [[6, 9], [9, 11]],
    "marks": [KNOWN, STREAM, HERE],
}
FIRST_TIME = 4 + 3 + 2


def events(count: int, draw: torch.Generator) -> list[int]:
    kind = torch.randint(0, 4, (count,), generator=draw)
    note = torch.randint(0, 4, (count,), generator=draw)
    shift = torch.randint(27, 47, (count,), generator=draw)
    return torch.where(kind == 0, 11 + note, torch.where(kind == 1, 19 + note, shift)).tolist()


def window(seed: int, *, known: int = 20, past: int = 10, rest: int = 50) -> list[int]:
    draw = torch.Generator().manual_seed(seed)
    ahead = [KNOWN, *events(known, draw)] if known else []
    there = [STREAM, *events(past, draw)]
    return [OPEN, 7, 10, *ahead, *there, HERE, *events(rest, draw)]


class Loop:
    """Computes the result of ``Conditions.read``, one event at a time."""

    def __init__(self) -> None:
        self.part, self.levels, self.time = 0, [0, 0], 0
        self.ahead: list[tuple[int, int]] = []  # (step, start or end) of known events
        self.written: set[int] = set()  # of this step

    def advance(self, event: int) -> None:
        if KNOWN <= event <= HERE:
            self.part, self.time = event - KNOWN + 1, 0
            self.written.clear()
        elif 6 <= event < 9:
            self.levels[0] = event - 6
        elif 9 <= event < 11:
            self.levels[1] = event - 9
        elif event >= 27:
            self.time += event - 26
            self.written.clear()
        elif event >= 11:
            self.written.add(event)
            if self.part == 1:
                self.ahead.append((self.time, event))

    def gaps(self) -> dict[int, int]:
        """{start or end: steps until it is next given}."""
        found: dict[int, int] = {}
        for step, event in self.ahead:
            gap = step - self.time
            past = gap < 0 or (gap == 0 and event in self.written)
            if self.part == 3 and not past:
                found.setdefault(event, gap)
        return found


def of_class(gap: int | None, bounds: tuple[int, ...]) -> int:
    return 0 if gap is None else 1 + sum(gap >= bound for bound in bounds)


@pytest.mark.parametrize("ahead", [20, 0])
def test_read_equals_a_loop_over_events(ahead):
    """The second row is two pieces."""
    two = window(2, known=min(ahead, 8), past=3, rest=20)
    rows = [window(1, known=ahead, rest=100)[:84]]
    rows += [[*two, *window(3, known=ahead, past=0, rest=100)][:84]]
    ids = torch.tensor(rows)
    positions = torch.arange(84).repeat(2, 1)
    positions[1, len(two) :] -= len(two)
    state = Conditions(VOCAB, 8, **GIVEN).read(ids, ids[:, :0], positions)
    met = 0
    for row in range(2):
        for at in range(84):
            if positions[row, at] == 0:
                loop = Loop()
            loop.advance(int(ids[row, at]))
            gaps = loop.gaps()
            met += len(gaps)
            gap = min(gaps.values(), default=NEVER)
            assert int(state.gap[row, at]) == gap
            levels = 4 + loop.levels[0], 7 + loop.levels[1]
            expected = [loop.part, *levels, FIRST_TIME + time_class(gap)]
            assert state.rows[row, at].tolist() == expected
            starts = [of_class(gaps.get(11 + p), START_STEPS) for p in range(PITCHES)]
            ends = [of_class(gaps.get(19 + p), END_STEPS) for p in range(PITCHES)]
            assert state.starts[row, at].tolist() == starts
            assert state.ends[row, at].tolist() == ends
    assert (met > 20) == (ahead > 0)
