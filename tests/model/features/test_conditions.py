"""Conditions against a plain loop over events, and the laws: pieces, the cache, additions."""

from __future__ import annotations

import pytest
import torch

from musictx.model.features.conditions import END_STEPS, INTERVAL_KINDS, START_STEPS, Conditions
from musictx.model.features.pitches import NEVER, TIMES
from musictx.model.transformer import MusicTransformer
from scripts.ship import soften
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


def conditions(width: int = 8, **more) -> Conditions:
    torch.manual_seed(0)
    found = Conditions(VOCAB, width, **GIVEN, **({"chords": 2} | more))
    for p in found.parameters():  # they begin without effect
        torch.nn.init.normal_(p)
    return found.double()


def model(name: str = "huang", **more) -> MusicTransformer:
    torch.manual_seed(1)
    found = MusicTransformer(
        VOCAB, layers=2, width=16, heads=2, feedforward=16, context=64, position={"name": name},
        features=[{"name": "conditions", "chords": 2} | GIVEN | more],
    )  # fmt: skip
    for p in found.conditions.parameters():
        torch.nn.init.normal_(p, std=0.3)
    return found.double().eval()


def events(count: int, draw: torch.Generator) -> list[int]:
    """Random events of few pitches, half of them shifts of time."""
    kind = torch.randint(0, 4, (count,), generator=draw)
    note = torch.randint(0, 4, (count,), generator=draw)
    shift = torch.randint(27, 47, (count,), generator=draw)
    both = torch.where(kind == 0, 11 + note, torch.where(kind == 1, 19 + note, shift))
    return both.tolist()


def window(seed: int, *, known: int = 20, past: int = 10, rest: int = 50) -> list[int]:
    draw = torch.Generator().manual_seed(seed)
    ahead = [KNOWN, *events(known, draw)] if known else []
    there = [STREAM, *events(past, draw)]
    return [OPEN, 7, 10, *ahead, *there, HERE, *events(rest, draw)]


class Loop:
    """What ``Conditions.read`` finds, one event at a time."""

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
        """Start or end -> steps until it is next known to happen."""
        found: dict[int, int] = {}
        for step, event in self.ahead:
            gap = step - self.time
            past = gap < 0 or (gap == 0 and event in self.written)
            if self.part == 3 and not past:
                found.setdefault(event, gap)
        return found


def of_class(gap: int | None, bounds: tuple[int, ...]) -> int:
    return 0 if gap is None else 1 + sum(gap >= bound for bound in bounds)


@pytest.mark.parametrize("known", [0, 1, 40])
def test_it_reads_what_a_loop_over_events_finds(known):
    """``known`` of the ids are given as earlier ones, as a cache does; the second row is two
    pieces."""
    found = conditions()
    two = window(2, known=8, past=3, rest=20)
    rows = [window(1)[:84], [*two, *window(3, known=15, past=0, rest=100)][:84]]
    ids = torch.tensor(rows)
    places = torch.arange(84).repeat(2, 1)
    places[1, len(two) :] -= len(two)
    seen = found.read(ids[:, known:], ids[:, :known], places[:, known:])
    met = 0
    for row in range(2):
        for at in range(84):
            if places[row, at] == 0:
                loop = Loop()
            loop.advance(int(ids[row, at]))
            if at < known:
                continue
            gaps, now = loop.gaps(), at - known
            met += len(gaps)
            gap = min(gaps.values(), default=NEVER)
            assert int(seen.gap[row, now]) == gap
            expected = [
                loop.part,
                4 + loop.levels[0],
                7 + loop.levels[1],
                FIRST_TIME + time_class(gap),
            ]
            assert seen.rows[row, now].tolist() == expected
            starts = [of_class(gaps.get(11 + p), START_STEPS) for p in range(PITCHES)]
            ends = [of_class(gaps.get(19 + p), END_STEPS) for p in range(PITCHES)]
            assert seen.starts[row, now].tolist() == starts
            assert seen.ends[row, now].tolist() == ends
    assert met > 20


def test_both_are_the_sums_written_out():
    found, ids = conditions(), torch.tensor([window(4)])
    count = ids.shape[1]
    seen = found.read(ids, ids[:, :0], torch.arange(count)[None])
    x = torch.randn(1, count, 8, dtype=torch.float64)
    embedded = found.embed(x, seen)[0]
    scored = found.score(torch.zeros(1, count, VOCAB), x, seen)[0]
    for at in range(count):
        expected = x[0, at] + sum(found.context[row] for row in seen.rows[0, at].tolist())
        logits = torch.zeros(VOCAB, dtype=torch.float64)
        gap = int(seen.gap[0, at])
        for pitch in range(PITCHES):
            if start := int(seen.starts[0, at, pitch]):
                expected = expected + found.coming[pitch * (1 + len(START_STEPS)) + start - 1]
                logits[11 + pitch] += x[0, at] @ found.start_scores[start - 1]
                if (kind := INTERVAL_KINDS[start - 1]) >= 0:
                    for to in range(PITCHES):
                        row = found.interval_maps[kind, :, to - pitch + PITCHES - 1]
                        logits[11 + to] += (x[0, at] @ found.interval_scores.T) @ row
            if end := int(seen.ends[0, at, pitch]):
                expected = expected + found.ending[pitch * (1 + len(END_STEPS)) + end - 1]
                logits[19 + pitch] += x[0, at] @ found.end_scores[end - 1]
        for steps in range(1, 21):
            if gap < NEVER and steps == min(gap, 20):
                logits[26 + steps] += x[0, at] @ found.shift_scores[0]
            if gap < steps:
                logits[26 + steps] += x[0, at] @ found.shift_scores[1]
        torch.testing.assert_close(embedded[at], expected)
        torch.testing.assert_close(scored[at].double(), logits, rtol=1e-4, atol=1e-4)


def test_where_nothing_is_known_ahead_looking_for_it_changes_nothing(monkeypatch):
    """On a GPU it is looked for always: to see whether there is anything would wait."""
    feature, ids = conditions(), torch.tensor([window(3, known=0)[3:]])
    places = torch.arange(ids.shape[1])[None]
    short = feature.read(ids, ids[:, :0], places)
    assert (short.gap == NEVER).all()
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)
    for one, other in zip(short, feature.read(ids, ids[:, :0], places)):
        assert torch.equal(one, other)


def test_softened_what_is_known_ahead_moves_embeddings_less_and_nothing_else():
    feature, x = conditions(), torch.zeros(1, 99, 8, dtype=torch.float64)
    nothing, known = (torch.tensor([window(3, known=count)]) for count in (0, 20))

    def embedded(ids):
        return feature.embed(x[:, : ids.shape[1]], feature.read(ids, ids[:, :0], places(ids)))

    def places(ids):
        return torch.arange(ids.shape[1])[None]

    def without_times(ids):  # the same with no time to anything known
        seen = feature.read(ids, ids[:, :0], places(ids))
        rows = seen.rows.clone()
        rows[..., -1] = FIRST_TIME + TIMES - 1
        none = torch.zeros_like(seen.starts)
        return feature.embed(x[:, : ids.shape[1]], seen._replace(rows=rows, starts=none, ends=none))

    plain, before, without = embedded(nothing), embedded(known), without_times(known)
    soften(feature, 0.25)
    assert torch.equal(embedded(nothing), plain)
    assert torch.allclose(embedded(known) - without, 0.25 * (before - without))
    assert not torch.allclose(before, without)
