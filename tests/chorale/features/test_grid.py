"""Features on a grid of voices against plain loops; gradients. Their laws: test_laws.py."""

import pytest
import torch
from torch import Tensor

from musictx.chorale.features import note_ages, repeats
from musictx.chorale.features.calibration import Calibration
from musictx.chorale.features.counterpoint import Counterpoint
from musictx.model.transformer import MusicTransformer
from tests.untrained import network

VOICES = 4
#: Ids 0..3 are no notes, 4..15 are pitches 60..71.
VOCAB, FIRST, LOWEST = 16, 4, 60
GRID = {"voices": VOICES}
PITCHES = [[FIRST, VOCAB, LOWEST]]
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


def slow_age(ids: list[int], places: list[int], at: int) -> int:
    age = 1
    while places[at] - VOICES * age >= 1 and ids[at - VOICES * age] == ids[at]:
        age += 1
    return min(age, note_ages.AGES) if places[at] else 0


def slow_match(ids: list[int], places: list[int], at: int, own: bool) -> tuple[int, int]:
    """(id, steps) of the longest match that ends with ``ids[at]``."""
    kind, stride = ("voice", VOICES) if own else ("all", 1)
    end, best, found = at - (VOICES - 1 if own else 0), 0, 0
    for lag in range(VOICES, len(ids), VOICES):
        length = 0
        while length < repeats.MOST_STEPS * VOICES:
            now = end - length
            if now < 0 or places[now] - lag < 1 or ids[now] != ids[now - lag]:
                break
            length += stride
        if length > best:
            best, found = length, lag
    inside = range(end - best + stride, end + 1, stride)
    moved = sum(ids[now] != ids[now - VOICES] for now in inside if now >= VOICES)
    if best < repeats.SHORTEST[kind] * VOICES or moved < repeats.CHANGES[kind]:
        return 0, 0
    return ids[at + 1 - found], best // VOICES


@pytest.mark.parametrize("seed", [0, 1])
def test_ages_and_matches_are_what_loops_find(seed: int) -> None:
    ids = music(2, seed)
    places = torch.arange(ids.shape[1]).expand_as(ids)
    found = note_ages.ages(ids, places, VOICES)
    some = 0
    for row in range(2):
        numbers, where = ids[row].tolist(), places[row].tolist()
        for at in range(len(numbers)):
            assert found[row, at] == slow_age(numbers, where, at)
    for own in (False, True):
        whole = torch.stack(
            repeats.longest_match(ids, places, VOICES, ids.shape[1], one_voice=own), 2
        )
        for row in range(2):
            numbers, where = ids[row].tolist(), places[row].tolist()
            for at in range(len(numbers)):
                assert whole[row, at].tolist() == [*slow_match(numbers, where, at, own)]
        some += int((whole[..., 1] > 0).sum())
        for count in (1, 5):
            last = repeats.longest_match(ids, places, VOICES, count, one_voice=own)
            assert torch.stack(last, 2).equal(whole[:, -count:])
    assert some > 5


def test_counterpoint_scores_notes_and_two_voices_that_move_at_once() -> None:
    ids = music(1)
    places = torch.arange(ids.shape[1]).expand_as(ids)
    pitches = torch.tensor([-1] * FIRST + [*range(LOWEST, LOWEST + VOCAB - FIRST)])
    torch.manual_seed(4)
    counterpoint = Counterpoint(VOCAB, 8, pitches=PITCHES, voices=VOICES)
    for parameter in counterpoint.parameters():
        torch.nn.init.normal_(parameter)
    logits, some = torch.zeros(1, ids.shape[1], VOCAB), 0
    with torch.no_grad():
        seen = counterpoint.read(ids, ids[:, :0], places)
        found = counterpoint.score(logits, logits, seen)
    note = pitches[ids[0]].tolist()
    for at in range(ids.shape[1]):
        step, voice = divmod(int(places[0, at]), VOICES)  # of the next token
        for candidate in range(VOCAB):
            right = float(counterpoint.notes[voice, candidate].detach())
            for n in range(1, voice + 1):
                if step == 0 or candidate < FIRST:
                    continue
                now, then = note[at + 1 - n], note[at + 1 - n - VOICES]
                here, own = int(pitches[candidate]), note[at + 1 - VOICES]
                if now == then or here == own:
                    continue
                similar = (now > then) == (here > own)
                row = (similar * 12 + abs(then - own) % 12) * 12 + abs(now - here) % 12
                right += float(counterpoint.scores[voice, n - 1, row].detach())
                some += 1
            assert found[0, at, candidate] == pytest.approx(right, abs=1e-5)
    assert some > 100


def test_calibration_scales_by_voice_and_sixteenth_and_holds_the_voices_own_note() -> None:
    ids = music(1)
    places = torch.arange(ids.shape[1]).expand_as(ids)
    torch.manual_seed(3)
    calibration = Calibration(VOCAB, 8, voices=VOICES, phases=4)
    for parameter in calibration.parameters():
        torch.nn.init.normal_(parameter)
    logits = torch.randn(1, ids.shape[1], VOCAB)
    with torch.no_grad():
        seen = calibration.read(ids, ids[:, :0], places)
        found = calibration.score(logits, logits, seen)
        for at in range(ids.shape[1]):
            step, voice = divmod(int(places[0, at]), VOICES)  # of the next token
            kind = step % 4 * VOICES + voice
            right = logits[0, at] * calibration.scale[kind]
            if step:
                right[ids[0, at + 1 - VOICES]] += calibration.hold[kind]
            right[2] += calibration.end[0]  # the end of the piece
            torch.testing.assert_close(found[0, at], right)


def model(name: str = "huang", **more: object) -> MusicTransformer:
    shape = {"layers": 2, "width": 16, "context": 96, "gates": True, "first_values": True}
    found = network(VOCAB, seed=1, features=VOICED, position={"name": name}, **shape | more)
    for feature in found.features:
        for parameter in feature.parameters():
            torch.nn.init.normal_(parameter, std=0.3)
    for block in found.blocks:
        torch.nn.init.normal_(block.attention.gates)
    torch.nn.init.normal_(found.blocks[1].attention.first_values)
    return found.double()


def test_every_table_learns() -> None:
    found = model()
    found(music(1, 6)).logsumexp(-1).sum().backward()
    for name, parameter in found.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.abs().sum() > 0, name
