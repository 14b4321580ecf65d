"""What sounds against a plain loop over events, and the laws: pieces, the cache, additions."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
import torch

from musictx.model.features.pitches import NEVER, TIMES
from musictx.model.features.sounding import AFTER_STEPS, AGE_STEPS, INTERVAL_KINDS, STATES, Sounding
from musictx.model.transformer import MusicTransformer

#: 0..3 nothing; 4..11 start pitches 60..67, 12..19 end them; 20..59 take 1..40 steps; 60..63: loud
VOCAB, PITCHES, LEVELS = 64, 8, 5
EVENTS = {
    "starts": [[4, 12, 60]],
    "ends": [[12, 20, 60]],
    "steps": [[20, 60, 1]],
    "loudness": [[60, 64, 1]],
}
RECENT, CHORDS = 3, 2


def sounding(width: int = 8, **more) -> Sounding:
    torch.manual_seed(0)
    found = Sounding(VOCAB, width, **EVENTS, **({"recent": RECENT, "chords": CHORDS} | more))
    for p in found.parameters():  # they begin without effect
        torch.nn.init.normal_(p)
    return found.double()


def model(name: str = "huang", **more) -> MusicTransformer:
    torch.manual_seed(1)
    found = MusicTransformer(
        VOCAB, layers=2, width=16, heads=2, feedforward=16, context=64, position={"name": name},
        features=[{"name": "sounding", "recent": RECENT, "chords": CHORDS} | EVENTS | more],
    )  # fmt: skip
    for p in found.sounding.parameters():
        torch.nn.init.normal_(p, std=0.3)
    return found.double().eval()


def music(rows: int, count: int, seed: int = 2) -> torch.Tensor:
    """Random events of few pitches, so that notes end, sound and are struck again."""
    draw = torch.Generator().manual_seed(seed)
    ids = torch.randint(0, VOCAB, (rows, count), generator=draw)
    some = torch.randint(4, 7, (rows, count), generator=draw)
    kind = torch.randint(0, 4, (rows, count), generator=draw)
    return torch.where(kind == 0, some, torch.where(kind == 1, some + 8, ids))


class Loop:
    """What ``Sounding.read`` finds, one event at a time."""

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
                found[pitch] = 1 + sum(age >= bound for bound in AGE_STEPS)
            elif age < AFTER_STEPS[-1]:
                found[pitch] = 2 + len(AGE_STEPS) + sum(age >= bound for bound in AFTER_STEPS)
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


@pytest.mark.parametrize("known", [0, 1, 40])
def test_it_reads_what_a_loop_over_events_finds(known):
    """``known`` of the ids are given as earlier ones, as a cache does; a piece begins at 25."""
    found, ids = sounding(), music(2, 120)
    places = torch.arange(120).repeat(2, 1)
    places[1, 25:] -= 25
    seen = found.read(ids[:, known:], ids[:, :known], places[:, known:])
    for row in range(2):
        for at in range(120):
            if places[row, at] == 0:
                loop = Loop()
            loop.advance(int(ids[row, at]))
            if at >= known:
                assert seen.pitches[row, at - known].tolist() == loop.pitches()
                assert seen.rows[row, at - known].tolist() == loop.rows()


def test_both_are_the_sums_written_out():
    found, ids = sounding(), music(1, 60)
    seen = found.read(ids, ids[:, :0], torch.arange(60)[None])
    x = torch.randn(1, 60, 8, dtype=torch.float64)
    embedded, scored = found.embed(x, seen)[0], found.score(torch.zeros(1, 60, VOCAB), x, seen)[0]
    for at in range(60):
        states = seen.pitches[0, at].tolist()
        expected = x[0, at] + sum(found.context[row] for row in seen.rows[0, at].tolist())
        logits = torch.zeros(VOCAB, dtype=torch.float64)
        for pitch, state in enumerate(states):
            if state:
                expected = expected + found.states[pitch * STATES + state - 1]
                logits[4 + pitch] += x[0, at] @ found.state_scores[state - 1]
                logits[12 + pitch] += x[0, at] @ found.state_scores[STATES + state - 1]
            for other, its in enumerate(states):
                if its:
                    row = found.interval_maps[
                        INTERVAL_KINDS[its - 1], :, pitch - other + PITCHES - 1
                    ]
                    logits[4 + pitch] += (x[0, at] @ found.interval_scores.T) @ row
        torch.testing.assert_close(embedded[at], expected)
        torch.testing.assert_close(scored[at].double(), logits, rtol=1e-4, atol=1e-4)


def test_after_the_window_slid_only_what_it_holds_is_known():
    found, ids = model(), music(2, 51)
    cache = found.new_cache(2, 64)
    with torch.no_grad():
        found(ids[:, :50], cache=cache)
    cache.slide(30)
    last = torch.full((2, 1), 50)
    slid = found.sounding.read(ids[:, 50:], cache.earlier(64), last)
    alone = found.sounding.read(ids[:, 30:], ids[:, :0], torch.arange(21).expand(2, -1))
    assert slid.pitches.equal(alone.pitches[:, -1:])
    assert slid.rows.equal(alone.rows[:, -1:])


def test_after_a_reset_nothing_is_known_of_what_was_before_it():
    reset = 3
    feature = sounding(resets=[[reset, reset + 1, 0]])
    ids = music(2, 40)
    ids[:, 17] = reset
    places = torch.arange(40).expand(2, 40)
    seen = feature.read(ids, ids[:, :0], places)
    alone = feature.read(ids[:, 17:], ids[:, :0], places[:, :23])
    for both, part in zip(seen, alone):
        assert torch.equal(both[:, 17:], part)
    for at in (16, 17, 18, 30):  # one by one, as while decoding
        one = feature.read(ids[:, at : at + 1], ids[:, :at], places[:, at : at + 1])
        for both, part in zip(seen, one):
            assert torch.equal(both[:, at : at + 1], part)
    plain = sounding().read(ids[:, :17], ids[:, :0], places[:, :17])
    assert all(torch.equal(a[:, :17], b) for a, b in zip(seen, plain))
