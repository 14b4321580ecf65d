"""Token noise: how many notes it moves, by how much, and that it leaves all else alone."""

from __future__ import annotations

import torch

from musictx.chorale.features.noise import TokenNoise

#: Ids 0..3 are no notes, 4..15 are pitches 60..71.
PITCHES = torch.tensor([-1] * 4 + list(range(60, 72)))


def test_the_share_of_notes_moves_by_one_or_two_semitones() -> None:
    torch.manual_seed(0)
    noise = TokenNoise(16, 8, pitches=[[4, 16, 60]], share=0.25).train()
    ids = torch.full((100, 100), 9)
    off = noise.disturb(ids) - ids
    assert set(off.unique().tolist()) == {-2, -1, 0, 1, 2}
    for by in (-2, -1, 1, 2):
        assert abs(float((off == by).float().mean()) - 0.0625) < 0.01


def test_what_is_no_note_and_what_would_leave_the_vocabulary_stays() -> None:
    torch.manual_seed(0)
    noise = TokenNoise(16, 8, pitches=[[4, 16, 60]], share=0.9).train()
    assert noise.disturb(torch.arange(4).repeat(50, 1)).equal(torch.arange(4).repeat(50, 1))
    edges = noise.disturb(torch.tensor([4, 15]).repeat(500, 1))
    assert PITCHES[edges].min() >= 60


def test_evaluation_is_without_noise() -> None:
    ids = torch.arange(16).repeat(20, 1)
    assert TokenNoise(16, 8, pitches=[[4, 16, 60]], share=0.9).eval().disturb(ids).equal(ids)


def test_each_row_hides_a_share_of_its_own_and_notes_only() -> None:
    torch.manual_seed(0)
    noise = TokenNoise(16, 8, pitches=[[4, 16, 60]], hidden=0.4).train()
    hidden = noise.disturb(torch.full((400, 200), 9))
    assert set(hidden.unique().tolist()) == {0, 9}
    share = (hidden == 0).float().mean(1)
    assert 0 <= share.min() < 0.03 < 0.37 < share.max() < 0.55
    assert abs(float(share.mean()) - 0.2) < 0.02
    silent = torch.full((50, 50), 3)
    assert noise.disturb(silent).equal(silent)
