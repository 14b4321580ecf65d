"""The likelihood of a piece, which is read in windows, against one token at a time."""

import numpy as np
import pytest
import torch

from musictx.bundle import Bundle
from musictx.errors import UserError
from musictx.evaluate.nll import evaluate
from musictx.likelihood import log_likelihood
from musictx.notes import Score
from musictx.tokens.vocab import BOS, CUT
from tests.data.helpers import TOKENIZER, make_shards, song
from tests.untrained import network


def bundle_of(context, tmp_path):
    model = network(TOKENIZER.size, width=16, context=context, dropout=0.3)
    return Bundle(model.train(), TOKENIZER, {}, tmp_path)


def test_a_piece_that_fits_is_read_whole_as_evaluate_reads_it(tmp_path):
    bundle, score = bundle_of(128, tmp_path), song(1)
    likelihood = log_likelihood(bundle, score)
    assert np.array_equal(likelihood.ids, TOKENIZER.encode(score))
    shards = make_shards(tmp_path / "s", [likelihood.ids], [likelihood.ids])
    assert likelihood.total / len(likelihood.ids) == pytest.approx(
        evaluate(bundle.model, shards).nats_per_token, abs=1e-5
    )
    assert likelihood.total == pytest.approx(likelihood.nats.sum())
    assert bundle.model.training, "the mode is restored"
    with pytest.raises(UserError, match="score: none of its 0 notes"):
        log_likelihood(bundle, Score())


def test_a_longer_piece_has_half_a_context_before_every_token(tmp_path):
    bundle, context = bundle_of(8, tmp_path), 8
    likelihood = log_likelihood(bundle, song(2))
    ids = [int(i) for i in likelihood.ids]
    model = bundle.model.eval()
    for place in range(len(ids)):
        # Windows begin every half a context; a token is scored by the first that reaches it.
        start = max(0, -(-(place + 1 - context) // (context // 2)) * (context // 2))
        window = torch.tensor([[CUT if start else BOS, *ids[start:place]]])
        with torch.no_grad():
            chance = model(window)[0, -1].double().log_softmax(-1)[ids[place]]
        assert likelihood.nats[place] == pytest.approx(-float(chance), abs=1e-5)
