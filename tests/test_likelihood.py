"""The likelihood of a piece: the windows it is read in, against one token at a time."""

import numpy as np
import pytest
import torch

from musictx.bundle import Bundle
from musictx.errors import UserError
from musictx.evaluate.nll import evaluate
from musictx.likelihood import log_likelihood
from musictx.model.transformer import MusicTransformer
from musictx.notes import Score
from musictx.tokens.vocab import BOS, CUT
from tests.data.helpers import TOKENIZER, make_shards, song


def bundle_of(context, tmp_path):
    torch.manual_seed(0)
    shape = {"layers": 1, "width": 16, "heads": 2, "feedforward": 16}
    model = MusicTransformer(TOKENIZER.size, **shape, context=context, dropout=0.3)
    return Bundle(model.train(), TOKENIZER, {}, tmp_path)


def test_a_piece_that_fits_is_read_whole_as_evaluate_reads_it(tmp_path):
    bundle, score = bundle_of(128, tmp_path), song(1)
    it = log_likelihood(bundle, score)
    assert np.array_equal(it.ids, TOKENIZER.encode(score))
    shards = make_shards(tmp_path / "s", [it.ids], [it.ids])
    assert it.total / len(it.ids) == pytest.approx(
        evaluate(bundle.model, shards).nats_per_token, abs=1e-5
    )
    assert it.total == pytest.approx(it.nats.sum())
    assert bundle.model.training, "the mode comes back"
    with pytest.raises(UserError, match="score: none of its 0 notes"):
        log_likelihood(bundle, Score())


def test_a_longer_piece_has_half_a_context_before_every_token(tmp_path):
    bundle, context = bundle_of(8, tmp_path), 8
    it = log_likelihood(bundle, song(2))
    ids = [int(i) for i in it.ids]
    model = bundle.model.eval()
    for at in range(len(ids)):
        # Windows begin every half a context; a token is scored by the first that reaches it.
        start = max(0, -(-(at + 1 - context) // (context // 2)) * (context // 2))
        read = torch.tensor([[CUT if start else BOS, *ids[start:at]]])
        with torch.no_grad():
            chance = model(read)[0, -1].double().log_softmax(-1)[ids[at]]
        assert it.nats[at] == pytest.approx(-float(chance), abs=1e-5)
