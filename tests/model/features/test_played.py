"""Waits, intervals and common ends, against plain loops over the notes written so far."""

import math

import numpy as np
import pytest
import torch

from musictx.errors import ConfigError
from musictx.model.features import with_tokens
from musictx.model.features.played import BAR_STEPS, LONGEST_WAIT, NEAR, NOTES, Played
from musictx.model.transformer import MusicTransformer
from musictx.notes import Score
from musictx.tokens.build import build

TOKENS = build("notes", low=40, high=90, velocity_bins=32, chords=False, clock="seconds")
TABLE = TOKENS.vocabulary
SOUNDS, NOW, LATELY = 0, 1, 2


def performance(seconds=20.0, seed=0):
    """Notes that were played: any time, chords, notes of many seconds, notes that end together,
    and a long rest."""
    random = np.random.default_rng(seed)
    notes, at = [], 0.5
    while at < seconds:
        end = at + random.choice([0.1, 0.33, 2.5, 4.5])
        for _ in range(random.integers(1, 4)):
            together = end if random.random() < 0.5 else at + random.choice([0.05, 0.7, 8.0])
            notes.append((at, together, random.integers(40, 91), random.integers(1, 128), 0, False, 0))
            at += random.choice([0.0, 0.03])
        at += random.choice([0.01, 0.12, 0.9, 5.0], p=[0.4, 0.4, 0.15, 0.05])
    return Score(notes=notes)


def feature(width=16):
    torch.manual_seed(0)
    made = Played(TOKENS.size, width, **Played.of_tokens(TOKENS))
    for parameter in made.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    return made.double()


FEATURE = feature()


def notes_before(ids, stop):
    """(step, pitch, end) of the whole groups of notes in ``ids[1:stop]``, and (bar, step) of the
    last group."""
    notes, bar, last = [], 0, (0, 0)
    for begin in range(1, stop - 4, 5):
        group = [TABLE.tokens[i] for i in ids[begin : begin + 5]]
        if group[0][0] == "bar":
            bar += 1
            last = (bar, bar * BAR_STEPS)
        else:
            step = bar * BAR_STEPS + group[0][1]
            notes.append((step, group[2][1], step + group[3][1]))
            last = (bar, step)
    return notes, last


def expected(ids, place, x):
    """What ``score`` adds to the logits after ``ids[place]``, for x (width,)."""
    field, found = place % 5, torch.zeros(TOKENS.size, dtype=torch.float64)
    notes, (bar, now) = notes_before(ids, place - field + 1)
    latest = notes[::-1][:NOTES]
    since = now - latest[0][0] if latest else 0
    if field == 0:
        worth = FEATURE.of_wait @ x
        for p in range(BAR_STEPS):
            wait = bar * BAR_STEPS + p - now
            chosen = LONGEST_WAIT + 1 if wait < 0 else min(wait + since, LONGEST_WAIT)
            found[TABLE.id("place", p)] = worth[chosen]
        beyond = min((bar + 1) * BAR_STEPS - now + since, LONGEST_WAIT)
        found[TABLE.id("bar")] = worth[beyond : LONGEST_WAIT + 1].logsumexp(0)
    kind, value = TABLE.tokens[ids[place - field + 1]] if field else ("", 0)
    if kind != "place" or field not in (2, 3):
        return found
    here = bar * BAR_STEPS + value
    states = [NOW if s == here else SOUNDS if e > here else LATELY for s, _, e in latest]
    if field == 2:
        near = (FEATURE.of_interval @ x).reshape(NEAR, -1)
        asked = FEATURE.wanted @ x
        for pitch in range(40, 91):
            worth = sum(near[n, pitch - p + 50] for n, (_, p, _) in enumerate(latest[:NEAR]))
            for state, p in {(state, p) for state, (_, p, _) in zip(states, latest)}:
                worth = worth + asked @ FEATURE.intervals[state, :, pitch - p + 50]
            found[TABLE.id("pitch", pitch)] = worth
    if field == 3:
        for n, (_, _, end) in enumerate(latest):
            if end > here:
                several = sum(e == end for _, _, e in latest) > 1
                length = min(end - here, TOKENS.longest)
                found[TABLE.id("length", length)] += FEATURE.of_end[n * 2 + several] @ x
    return found


@pytest.mark.parametrize("seed", [0, 1, 2])
@torch.no_grad()
def test_it_scores_what_loops_score(seed):
    ids = [1, *TOKENS.encode(performance(8.0, seed)).tolist()]
    both, places = torch.tensor([ids]), torch.arange(len(ids))[None]
    x = torch.randn(1, len(ids), 16).double()
    logits = torch.randn(1, len(ids), TOKENS.size).double()
    seen = FEATURE.read(both, both[:, :0], places)
    scored = FEATURE.score(logits, x, seen) - logits
    for place in range(len(ids)):
        if place % 5 in (2, 3) and TABLE.tokens[ids[place - place % 5 + 1]][0] == "bar":
            continue  # what is said of pitches there means nothing
        want = expected(ids, place, x[0, place])
        torch.testing.assert_close(scored[0, place], want, rtol=1e-5, atol=1e-5)
    for at in (5, 7, 60, 61, 62, 63, 64):
        part = FEATURE.read(both[:, at : at + 1], both[:, :at], places[:, at : at + 1])
        assert all(torch.equal(whole[:, at : at + 1], one) for whole, one in zip(seen, part))


@torch.no_grad()
def test_a_written_place_tells_the_wait_and_what_sounds():
    ids = [1, *TOKENS.encode(performance(seed=3)).tolist()]
    both, places = torch.tensor([ids]), torch.arange(len(ids))[None]
    x = torch.zeros(1, len(ids), 16).double()
    told = FEATURE.embed(x, FEATURE.read(both, both[:, :0], places))[0]
    for place in range(len(ids)):
        kind, value = TABLE.tokens[ids[place]]
        if place % 5 != 1 or kind != "place":
            assert not told[place].any()
            continue
        notes, (bar, now) = notes_before(ids, place)
        here, latest = bar * BAR_STEPS + value, notes[::-1][:NOTES]
        wait = here - (latest[0][0] if latest else now)
        want = FEATURE.waits[1 + min(wait, LONGEST_WAIT)].clone()
        for step, pitch, end in latest:
            state = NOW if step == here else SOUNDS if end > here else LATELY
            want += FEATURE.sounds[state * 51 + pitch - 40]
        torch.testing.assert_close(told[place], want)


def model(position="huang", **more):
    torch.manual_seed(0)
    shape = {"layers": 2, "width": 32, "heads": 2, "feedforward": 48, "context": 900} | more
    told = with_tokens([{"name": "played"}], TOKENS)
    made = MusicTransformer(
        TOKENS.size, **shape, position={"name": position}, group=TOKENS.group, features=told
    )
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.mul_(1.5).add_(0.1 * torch.randn_like(parameter))
    return made.eval()


def window(seed, length):
    return [1, *TOKENS.encode(performance(60.0, seed)).tolist()][:length]


@torch.no_grad()
def test_the_cache_goes_on_and_a_piece_knows_nothing_of_the_one_before():
    made = model().double()
    one, two = torch.tensor([window(0, 50)]), torch.tensor([window(1, 203)])
    whole = made(two)
    packed = made(torch.cat([one, two], 1), piece_ids=torch.tensor([[0] * 50 + [1] * 203]))
    torch.testing.assert_close(packed[:, 50:], whole)
    for cuts in ([103, 100], [1] * 203, [7, 1, 195]):
        cache, parts = made.new_cache(1, 400), two.split(cuts, 1)
        torch.testing.assert_close(torch.cat([made(p, cache=cache) for p in parts], 1), whole)


def test_gradients_of_scores_are_those_of_sums_that_are_not_in_place():
    made, ids = model().double(), torch.tensor([window(2, 104)])
    x = torch.randn(1, 104, 32, dtype=torch.float64, requires_grad=True)
    logits = torch.randn(1, 104, TOKENS.size, dtype=torch.float64, requires_grad=True)
    seen = made.played.read(ids, ids[:, :0], torch.arange(104)[None])
    weights = torch.randn_like(logits)
    scored = made.played.score(logits, x, seen)
    asked = torch.autograd.grad((scored * weights).sum(), [logits, x])
    assert torch.equal(asked[0], weights)
    step = 1e-3 * torch.randn_like(x)
    with torch.no_grad():
        up, down = (made.played.score(logits, x + d, seen) for d in (step, -step))
        slope = ((up - down) * weights).sum() / 2
    assert math.isclose(float(slope), float((asked[1] * step).sum()), rel_tol=1e-3)


def test_it_wants_notes_that_count_seconds():
    with pytest.raises(ConfigError, match="tokenizer.clock=seconds"):
        with_tokens([{"name": "played"}], build("notes"))
    with pytest.raises(ConfigError, match="tokenizer.clock=seconds"):
        with_tokens([{"name": "played"}], build("performance"))
