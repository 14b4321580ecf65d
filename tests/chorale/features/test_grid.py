"""Features on a grid of voices against plain loops; noise. Their laws: test_laws.py."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from musictx.chorale.features import note_ages, repeats
from musictx.chorale.features.calibration import Calibration
from musictx.chorale.features.counterpoint import Counterpoint
from musictx.chorale.features.intervals import Intervals
from musictx.chorale.features.noise import TokenNoise
from musictx.model.transformer import MusicTransformer
from tests.untrained import at_random, network

VOICES = 4
#: Ids 0..3 are no notes, 4..15 are pitches 60..71.
VOCAB, FIRST, LOWEST = 16, 4, 60
GRID = {"voices": VOICES}
PITCHES = [[FIRST, VOCAB, LOWEST]]
PITCH_OF = torch.tensor([-1] * FIRST + [*range(LOWEST, LOWEST + VOCAB - FIRST)])
INPUTS, OUTPUTS = [1, 4, 6], [1, 2, 7]
GIVEN = {"inputs": INPUTS, "outputs": OUTPUTS, "pitches": PITCHES}
VOICED = [
    {"name": "ages", **GRID},
    {"name": "repeats", **GRID, "pitches": PITCHES},
    {"name": "counterpoint", **GRID, "pitches": PITCHES},
    {"name": "calibration", **GRID, "phases": 4},
]


def music(rows: int, seed: int = 0) -> Tensor:
    """Pieces (rows, 89) of two alternating pitches a voice, whose first bars come again twice."""
    draw = torch.Generator().manual_seed(seed)
    bars = torch.randint(5, 7, (rows, 9, VOICES), generator=draw)
    steps = torch.cat([bars, bars, bars], 1)[:, :22]
    return torch.cat([torch.ones(rows, 1, dtype=torch.int64), steps.flatten(1)], 1)


def slow_match(ids: list[int], positions: list[int], at: int, one_voice: bool) -> tuple[int, int]:
    """(id, steps) of the longest match that ends with ``ids[at]``."""
    stride = VOICES if one_voice else 1
    end, best, best_lag = at - (VOICES - 1 if one_voice else 0), 0, 0
    for lag in range(VOICES, len(ids), VOICES):
        length = 0
        while length < repeats.MOST_STEPS * VOICES:
            now = end - length
            if now < 0 or positions[now] - lag < 1 or ids[now] != ids[now - lag]:
                break
            length += stride
        if length > best:
            best, best_lag = length, lag
    inside = range(end - best + stride, end + 1, stride)
    moved = sum(ids[now] != ids[now - VOICES] for now in inside if now >= VOICES)
    if best < repeats.SHORTEST[one_voice] * VOICES or moved < repeats.CHANGES[one_voice]:
        return 0, 0
    return ids[at + 1 - best_lag], best // VOICES


@pytest.mark.parametrize("seed", [0, 1])
def test_ages_and_matches_are_what_loops_find(seed: int) -> None:
    ids = music(2, seed)
    positions = torch.arange(ids.shape[1]).expand_as(ids)
    actual = note_ages.ages(ids, positions, VOICES)
    matches = [
        torch.stack(repeats.longest_match(ids, positions, VOICES, ids.shape[1], one_voice=one), 2)
        for one in (False, True)
    ]
    for row in range(2):
        numbers, where = ids[row].tolist(), positions[row].tolist()
        for at in range(len(numbers)):
            age = 1
            while where[at] - VOICES * age >= 1 and numbers[at - VOICES * age] == numbers[at]:
                age += 1
            assert actual[row, at] == (min(age, note_ages.AGES) if where[at] else 0)
            for one_voice, match in enumerate(matches):
                assert match[row, at].tolist() == [*slow_match(numbers, where, at, bool(one_voice))]
    assert sum(int((match[..., 1] > 0).sum()) for match in matches) > 5


def test_counterpoint_scores_notes_and_two_voices_that_move_at_once() -> None:
    ids = music(1)
    positions = torch.arange(ids.shape[1]).expand_as(ids)
    counterpoint = at_random(Counterpoint(VOCAB, 8, pitches=PITCHES, voices=VOICES))
    logits, some = torch.zeros(1, ids.shape[1], VOCAB), 0
    with torch.no_grad():
        state = counterpoint.read(ids, ids[:, :0], positions)
        actual = counterpoint.score(logits, logits, state)
    note = PITCH_OF[ids[0]].tolist()
    for at in range(ids.shape[1]):
        step, voice = divmod(int(positions[0, at]), VOICES)  # of the next token
        for candidate in range(VOCAB):
            right = float(counterpoint.notes[voice, candidate].detach())
            for n in range(1, voice + 1):
                if step == 0 or candidate < FIRST:
                    continue
                now, then = note[at + 1 - n], note[at + 1 - n - VOICES]
                here, own = int(PITCH_OF[candidate]), note[at + 1 - VOICES]
                if now == then or here == own:
                    continue
                similar = (now > then) == (here > own)
                row = (similar * 12 + abs(then - own) % 12) * 12 + abs(now - here) % 12
                right += float(counterpoint.scores[voice, n - 1, row].detach())
                some += 1
            assert actual[0, at, candidate] == pytest.approx(right, abs=1e-5)
    assert some > 100


def test_calibration_scales_by_voice_and_sixteenth_and_holds_the_voices_own_note() -> None:
    ids = music(1)
    positions = torch.arange(ids.shape[1]).expand_as(ids)
    calibration = at_random(Calibration(VOCAB, 8, voices=VOICES, phases=4))
    logits = torch.randn(1, ids.shape[1], VOCAB)
    with torch.no_grad():
        state = calibration.read(ids, ids[:, :0], positions)
        actual = calibration.score(logits, logits, state)
        for at in range(ids.shape[1]):
            step, voice = divmod(int(positions[0, at]), VOICES)  # of the next token
            kind = step % 4 * VOICES + voice
            right = logits[0, at] * calibration.scale[kind]
            if step:
                right[ids[0, at + 1 - VOICES]] += calibration.hold[kind]
            right[2] += calibration.end[0]  # the end of the piece
            torch.testing.assert_close(actual[0, at], right)


def model(name: str = "huang", **more: object) -> MusicTransformer:
    shape = {"layers": 2, "width": 16, "context": 96, "gates": True, "first_values": True}
    model = network(VOCAB, seed=1, features=VOICED, position={"name": name}, **shape | more)
    for feature in model.features:
        at_random(feature, std=0.3)
    for block in model.blocks:
        torch.nn.init.normal_(block.attention.gates)
    torch.nn.init.normal_(model.blocks[1].attention.first_values)
    return model.double()


def intervals(**more) -> Intervals:
    torch.manual_seed(0)
    feature = Intervals(VOCAB, 8, **GIVEN | more).double()
    for table in feature.outputs:  # they begin at zero
        torch.nn.init.normal_(table)
    return feature


def row(feature: Intervals, later: int, earlier: int) -> int | None:
    """The row of an interval between two ids, None where there is none."""
    a, b = int(PITCH_OF[later]), int(PITCH_OF[earlier])
    return None if min(a, b) < 0 else 1 + feature.span + a - b


@settings(max_examples=30)
@given(st.lists(st.integers(0, VOCAB - 1), min_size=1, max_size=12))
def test_both_are_the_sums_written_out(ids):
    feature, whole = intervals(), torch.tensor([ids])
    state = feature.read(whole, whole[:, :0], torch.arange(len(ids))[None])
    x = torch.randn(1, len(ids), 8, dtype=torch.float64)
    embedded = feature.embed(x, state)[0]
    scored = feature.score(torch.zeros(1, len(ids), VOCAB), x, state)[0]
    for t in range(len(ids)):
        expected, judged = x[0, t].clone(), torch.zeros(VOCAB, dtype=torch.float64)
        for lag, table in zip(INPUTS, feature.inputs):
            r = row(feature, ids[t], ids[t - lag]) if t >= lag else None
            expected += table[0 if r is None else r]
        for lag, table in zip(OUTPUTS, feature.outputs):
            for candidate in range(VOCAB if t + 1 >= lag else 0):
                r = row(feature, candidate, ids[t + 1 - lag])
                judged[candidate] += 0 if r is None else x[0, t] @ table[r]
        torch.testing.assert_close(embedded[t], expected)
        torch.testing.assert_close(scored[t].double(), judged, rtol=1e-5, atol=1e-5)


def test_dropout_withholds_whole_vectors_in_training_only():
    feature = intervals(inputs=[2], outputs=[], dropout=0.25)
    ids = torch.randint(FIRST, VOCAB, (4, 500), generator=torch.Generator().manual_seed(5))
    before = feature.read(ids, ids[:, :0], torch.arange(500).expand(4, -1))
    nothing = torch.zeros(4, 500, 8, dtype=torch.float64)
    whole = feature.eval().embed(nothing, before)
    torch.manual_seed(6)
    share = feature.train().embed(nothing, before) / whole
    torch.testing.assert_close(share, share[..., :1].expand_as(share))
    kept = share[..., 0].round(decimals=6)
    assert set(kept.unique().tolist()) == {0.0, round(1 / 0.75, 6)}
    assert 0.7 < (kept > 0).double().mean() < 0.8


def test_noise_moves_or_hides_a_share_of_the_notes_and_in_training_only() -> None:
    torch.manual_seed(0)
    notes, others = torch.full((400, 200), 9), torch.arange(4).repeat(50, 1)
    moves = TokenNoise(16, 8, pitches=PITCHES, share=0.25).train()
    off = moves.disturb(notes) - notes
    assert set(off.unique().tolist()) == {-2, -1, 0, 1, 2}
    for by in (-2, -1, 1, 2):
        assert abs(float((off == by).float().mean()) - 0.0625) < 0.01
    assert PITCH_OF[moves.disturb(torch.tensor([4, 15]).repeat(500, 1))].min() >= 60
    hides = TokenNoise(16, 8, pitches=PITCHES, hidden=0.4).train()
    hidden = hides.disturb(notes)
    assert set(hidden.unique().tolist()) == {0, 9}
    share = (hidden == 0).float().mean(1)  # each row's is another
    assert 0 <= share.min() < 0.03 < 0.37 < share.max() < 0.55
    assert abs(float(share.mean()) - 0.2) < 0.02
    for noise in (moves, hides):
        assert noise.disturb(others).equal(others)
        assert noise.eval().disturb(notes).equal(notes)
