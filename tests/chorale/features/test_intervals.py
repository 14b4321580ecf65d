"""Intervals between notes against plain loops, and their laws; noise in training."""

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from musictx.chorale.features.intervals import Intervals
from musictx.chorale.features.noise import TokenNoise

#: Ids 0..3 are no notes, 4..15 are pitches 60..71.
VOCAB, FIRST, LOWEST = 16, 4, 60
RANGES = [[FIRST, VOCAB, LOWEST]]
PITCHES = torch.tensor([-1] * FIRST + list(range(LOWEST, LOWEST + VOCAB - FIRST)))
INPUTS, OUTPUTS = [1, 4, 6], [1, 2, 7]
GIVEN = {"inputs": INPUTS, "outputs": OUTPUTS, "pitches": RANGES}


def intervals(**more) -> Intervals:
    torch.manual_seed(0)
    found = Intervals(VOCAB, 8, **GIVEN | more).double()
    for table in found.outputs:  # they begin at zero
        torch.nn.init.normal_(table)
    return found


def row(found: Intervals, later: int, earlier: int) -> int | None:
    """The row of an interval between two ids, None where there is none."""
    a, b = int(PITCHES[later]), int(PITCHES[earlier])
    return None if min(a, b) < 0 else 1 + found.span + a - b


@settings(max_examples=30)
@given(st.lists(st.integers(0, VOCAB - 1), min_size=1, max_size=12), st.integers(0, 12))
def test_both_are_the_sums_written_out(ids, known):
    """``known`` of the ids are given as earlier ones, as a cache does."""
    found = intervals()
    known = min(known, len(ids) - 1)
    whole = torch.tensor([ids])
    places = torch.arange(known, len(ids))[None]
    before = found.read(whole[:, known:], whole[:, :known], places)
    x = torch.randn(1, len(ids) - known, 8, dtype=torch.float64)
    embedded, scored = (
        found.embed(x, before)[0],
        found.score(torch.zeros(1, len(ids) - known, VOCAB), x, before)[0],
    )
    for n, t in enumerate(range(known, len(ids))):
        expected = x[0, n].clone()
        judged = torch.zeros(VOCAB, dtype=torch.float64)
        for lag, table in zip(INPUTS, found.inputs):
            r = row(found, ids[t], ids[t - lag]) if t >= lag else None
            expected += table[0 if r is None else r]
        for lag, table in zip(OUTPUTS, found.outputs):
            for candidate in range(VOCAB if t + 1 >= lag else 0):
                r = row(found, candidate, ids[t + 1 - lag])
                judged[candidate] += 0 if r is None else x[0, n] @ table[r]
        torch.testing.assert_close(embedded[n], expected)
        torch.testing.assert_close(scored[n].double(), judged, rtol=1e-5, atol=1e-5)


def test_dropout_withholds_whole_vectors_in_training_only():
    found = intervals(inputs=[2], outputs=[], dropout=0.25)
    ids = torch.randint(FIRST, VOCAB, (4, 500), generator=torch.Generator().manual_seed(5))
    before = found.read(ids, ids[:, :0], torch.arange(500).expand(4, -1))
    nothing = torch.zeros(4, 500, 8, dtype=torch.float64)
    whole = found.eval().embed(nothing, before)
    torch.manual_seed(6)
    some = found.train().embed(nothing, before)
    share = some / whole
    torch.testing.assert_close(share, share[..., :1].expand_as(share))
    kept = share[..., 0].round(decimals=6)
    assert set(kept.unique().tolist()) == {0.0, round(1 / 0.75, 6)}
    assert 0.7 < (kept > 0).double().mean() < 0.8


def test_noise_moves_or_hides_a_share_of_the_notes_and_in_training_only() -> None:
    torch.manual_seed(0)
    notes, others = torch.full((400, 200), 9), torch.arange(4).repeat(50, 1)
    moves = TokenNoise(16, 8, pitches=RANGES, share=0.25).train()
    off = moves.disturb(notes) - notes
    assert set(off.unique().tolist()) == {-2, -1, 0, 1, 2}
    for by in (-2, -1, 1, 2):
        assert abs(float((off == by).float().mean()) - 0.0625) < 0.01
    assert PITCHES[moves.disturb(torch.tensor([4, 15]).repeat(500, 1))].min() >= 60
    hides = TokenNoise(16, 8, pitches=RANGES, hidden=0.4).train()
    hidden = hides.disturb(notes)
    assert set(hidden.unique().tolist()) == {0, 9}
    share = (hidden == 0).float().mean(1)  # each row's is another
    assert 0 <= share.min() < 0.03 < 0.37 < share.max() < 0.55
    assert abs(float(share.mean()) - 0.2) < 0.02
    for noise in (moves, hides):
        assert noise.disturb(others).equal(others)
        assert noise.eval().disturb(notes).equal(notes)
