"""``Sounding`` equals a plain loop over events. With a cache: test_laws.py."""

import math
from itertools import pairwise

import pytest
import torch

from musictx.model.features.pitches import NEVER, TIMES
from musictx.model.features.sounding import SILENT_STEPS, SOUNDING_STEPS, Sounding

#: 0..3 nothing; 4..11 start pitches 60..67, 12..19 end them; 20..59 take 1..40 steps; 60..63: loud
VOCAB, PITCHES, LEVELS = 64, 8, 5
EVENTS = {
    "starts": [[4, 12, 60]],
    "ends": [[12, 20, 60]],
    "steps": [[20, 60, 1]],
    "loudness": [[60, 64, 1]],
}
RECENT = 3


def music(rows: int, count: int, seed: int = 2) -> torch.Tensor:
    """Random events of few pitches, so that notes sound, end and start again."""
    draw = torch.Generator().manual_seed(seed)
    ids = torch.randint(0, VOCAB, (rows, count), generator=draw)
    some = torch.randint(4, 7, (rows, count), generator=draw)
    kind = torch.randint(0, 4, (rows, count), generator=draw)
    return torch.where(kind == 0, some, torch.where(kind == 1, some + 8, ids))


class Loop:
    """Computes the result of ``Sounding.read``, one event at a time."""

    def __init__(self) -> None:
        self.time, self.level = 0, 0
        self.struck: dict[int, int] = {}
        self.down: set[int] = set()
        self.notes: list[tuple[int, int, int]] = []

    def advance(self, event: int) -> None:
        if 4 <= event < 12:
            self.struck[event - 4] = self.time
            self.down.add(event - 4)
            self.notes.append((event - 4, self.level, self.time))
        elif 12 <= event < 20:
            self.down.discard(event - 12)
        elif 20 <= event < 60:
            self.time += event - 19
        elif event >= 60:
            self.level = event - 59

    def pitches(self) -> list[int]:
        found = [0] * PITCHES
        for pitch, at in self.struck.items():
            age = self.time - at
            if pitch in self.down:
                found[pitch] = 1 + sum(age >= bound for bound in SOUNDING_STEPS)
            elif age < SILENT_STEPS[-1]:
                found[pitch] = 2 + len(SOUNDING_STEPS) + sum(age >= bound for bound in SILENT_STEPS)
        return found

    def rows(self) -> list[int]:
        latest = self.notes[::-1][:RECENT]
        times = [self.time, *(note[2] for note in latest)]
        gaps = [a - b for a, b in pairwise(times)] + [NEVER] * (RECENT - len(latest))
        found, first = [self.level, LEVELS + time_class(gaps[0])], LEVELS + TIMES
        for n in range(RECENT):
            pitch, level = (latest[n][0] + 1, latest[n][1]) if n < len(latest) else (0, 0)
            parts = ((PITCHES + 1, pitch), (LEVELS, level), (TIMES, time_class(gaps[n])))
            for size, row in parts:
                found.append(first + row)
                first += size
        return found


def time_class(steps: int) -> int:
    return steps if steps < 16 else min(TIMES - 1, int(16 + 6 * (math.log2(steps) - 4)))


@pytest.mark.parametrize("resets", [[], [[3, 4, 0]]], ids=str)
def test_read_equals_a_loop_over_events(resets):
    """A piece begins at 25. Events before a reset do not count."""
    feature, ids = Sounding(VOCAB, 8, **EVENTS, recent=RECENT, resets=resets), music(2, 120)
    ids[:, [17, 60]] = 3
    positions = torch.arange(120).repeat(2, 1)
    positions[1, 25:] -= 25
    state = feature.read(ids, ids[:, :0], positions)
    for row in range(2):
        for at in range(120):
            if positions[row, at] == 0 or (resets and ids[row, at] == 3):
                loop = Loop()
            loop.advance(int(ids[row, at]))
            assert state.pitch_states[row, at].tolist() == loop.pitches()
            assert state.rows[row, at].tolist() == loop.rows()
