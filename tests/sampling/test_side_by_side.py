"""Several primers in one batch: each row what it would be alone, where rows can be alike."""

import numpy as np
import pytest
import torch

from musictx.chorale.tokenizer import ChoraleTokenizer
from musictx.config import SamplingConfig
from musictx.model.transformer import MusicTransformer
from musictx.notes import Score
from musictx.sampling.music import Primer, continue_music, encode_primer
from musictx.sampling.side_by_side import NOTHING, continue_each, prompts
from musictx.tokens.build import build
from musictx.tokens.vocab import BOS, CUT

torch.set_num_threads(1)


@pytest.fixture(scope="module")
def piano():
    return build(name="performance", low=48, high=84, max_shift_ms=500, velocity_bins=4)


@pytest.fixture(scope="module")
def model(piano):
    torch.manual_seed(0)
    return MusicTransformer(
        piano.size, layers=1, width=8, heads=2, feedforward=16, context=64
    ).eval()


def tune(first, count, step=0.25):
    return Score(
        notes=[(i * step, i * step + 0.2, first + i % 7, 64, 0, False, 0) for i in range(count)]
    )


def test_rows_read_the_end_of_longer_primers():
    pasts = [np.array([10, 11, 12]), np.array([20, 21, 22, 23, 24])]
    assert prompts(pasts, 99).tolist() == [[BOS, 10, 11, 12], [CUT, 22, 23, 24]]
    assert prompts(pasts, 3).tolist() == [[CUT, 11, 12], [CUT, 23, 24]]
    assert prompts([np.array([], int)] * 2, 9).tolist() == [[BOS], [BOS]]


def test_pasts_of_whole_groups_are_cut_between_groups():
    pasts = [np.arange(10, 18), np.arange(20, 32)]
    assert prompts(pasts, 99, 4)[1].tolist() == [CUT, *range(24, 32)]
    assert prompts(pasts, 8, 4).tolist() == [[CUT, *range(14, 18)], [CUT, *range(28, 32)]]
    assert prompts(pasts[:1], 9, 4).tolist() == [[BOS, *range(10, 18)]]


def test_a_batch_of_one_primer_equals_continue_music(model, piano):
    """The same seeds, the same rows, whether the prompt is shared or not."""
    primer = encode_primer(piano, tune(60, 8))
    habits = {"longest_note": 0.5, "most_notes": 3}
    told = {"seconds": 1.5, "habits": habits}
    wanted = continue_music(model, piano, primer, samples=3, seed=5, **told)
    seeds = [(5, i) for i in range(3)]
    found = continue_each(model, piano, [primer] * 3, seeds=seeds, **told)
    for a, b in zip(wanted, found):
        assert a.ids.tolist() == b.ids.tolist()
        assert a.score == b.score
        assert (a.seam, a.notes, a.seconds, a.ended) == (b.seam, b.notes, b.seconds, b.ended)


def test_the_model_may_end_a_piece():
    """Only if told so; then as continue_music, one after a new note at least. Of chorales of two
    pitches, whose end may be drawn after every step."""
    tokenizer = ChoraleTokenizer(low=60, high=61)
    torch.manual_seed(0)
    model = MusicTransformer(
        tokenizer.size, layers=1, width=8, heads=2, feedforward=16, context=128
    ).eval()
    sampling = SamplingConfig(rules=0.0)  # by which two pitches cannot close
    told = {"seconds": 3.0, "may_end": True, "sampling": sampling}
    wanted = continue_music(model, tokenizer, samples=6, seed=1, **told)
    seeds = [(1, i) for i in range(6)]
    found = continue_each(model, tokenizer, [NOTHING] * 6, seeds=seeds, **told)
    assert [a.ids.tolist() for a in found] == [b.ids.tolist() for b in wanted]
    early = [sample for sample in found if sample.ended == "model"]
    assert early
    assert all(sample.notes and len(sample.ids) % 4 == 0 for sample in early)
    never = continue_each(model, tokenizer, [NOTHING] * 6, seeds=seeds, seconds=3.0)
    assert {(sample.ended, len(sample.ids)) for sample in never} == {("seconds", 80)}


def test_each_row_goes_on_from_its_own_primer(model, piano):
    primers = [encode_primer(piano, tune(50, 6)), encode_primer(piano, tune(70, 9)), NOTHING]
    samples = continue_each(
        model, piano, primers[:2], seconds=2.0, seeds=[(0, 0), (0, 1)], habits=None
    )
    for primer, sample in zip(primers, samples):
        old = piano.decode(primer.ids).notes
        assert sample.seam == primer.seconds
        head = sample.score.notes[: len(old)]
        assert head["pitch"].tolist() == old["pitch"].tolist()
        assert head["start"].tolist() == old["start"].tolist()
        assert sample.ended == "seconds"
        assert sample.score.duration <= primer.seconds + 2.0 + 1e-9
        # What was drawn is grammatical after this primer and no other's open notes.
        state = piano.grammar(primer.ids)
        for token_id in sample.ids.tolist():
            assert state.allowed()[token_id]
            state.advance(token_id)


def test_a_row_of_the_shortest_primer_does_not_depend_on_the_others(model, piano):
    short = encode_primer(piano, tune(60, 4))
    long = encode_primer(piano, tune(55, 9))
    alone = continue_each(model, piano, [short], seconds=1.0, seeds=[(3, 1)])
    beside = continue_each(model, piano, [long, short], seconds=1.0, seeds=[(3, 0), (3, 1)])
    assert alone[0].ids.tolist() == beside[1].ids.tolist()


def test_free_pieces_and_what_cannot_be(model, piano):
    one, two = continue_each(model, piano, [NOTHING] * 2, seconds=1.0, seeds=[(0, 0), (0, 1)])
    assert one.seam == two.seam == 0
    assert one.ids.tolist() != two.ids.tolist()
    with pytest.raises(ValueError, match="one for each of 2 primers"):
        continue_each(model, piano, [NOTHING] * 2, seconds=1.0, seeds=[(0, 0)])
    with pytest.raises(ValueError, match="at least one"):
        continue_each(model, piano, [], seconds=1.0, seeds=[])
    assert isinstance(NOTHING, Primer)
