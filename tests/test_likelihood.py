"""The likelihood of a piece, which is read in windows, against one token at a time."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from musictx.bundle import Bundle
from musictx.errors import UserError
from musictx.evaluate import nll
from musictx.likelihood import _nats, log_likelihood, pointwise_mutual_information
from musictx.notes import Score
from musictx.tokens.build import build
from musictx.tokens.vocab import BOS, CUT
from tests.data.helpers import TOKENIZER, make_shards, song
from tests.pieces import of
from tests.untrained import network


@pytest.mark.parametrize("context", [8, 128])
def test_a_token_has_half_a_context_before_it_or_the_whole_piece(context, tmp_path):
    model = network(TOKENIZER.vocabulary.size, width=16, context=context, dropout=0.3).train()
    bundle, score = Bundle(model, TOKENIZER, {}, tmp_path), song(2)
    likelihood, ids = log_likelihood(bundle, score), TOKENIZER.encode(score).tolist()
    assert (likelihood.ids.tolist(), likelihood.ids.dtype) == (ids, np.int64)
    assert likelihood.total == pytest.approx(likelihood.nats.sum())
    assert model.training, "the mode is restored"
    with pytest.raises(UserError, match="music: none of its 0 notes"):
        log_likelihood(bundle, Score())
    five = of(*((0, 1, 60 + i) for i in range(5)))
    with pytest.raises(UserError, match=r"^music: 5 notes sound at once"):
        log_likelihood(replace(bundle, tokenizer=build("chorale")), five)
    model.eval()
    for place in range(len(ids)):
        # Windows begin every half a context; a token is scored by the first that reaches it.
        start = max(0, -(-(place + 1 - context) // (context // 2)) * (context // 2))
        window = torch.tensor([[CUT if start else BOS, *ids[start:place]]])
        with torch.no_grad():
            log_p = model(window)[0, -1].double().log_softmax(-1)[ids[place]]
        assert likelihood.nats[place] == pytest.approx(-float(log_p), abs=1e-5)


@pytest.mark.parametrize(
    ("name", "position"),
    [("notes", {}), ("chorale", {}), ("performance", {"name": "none", "periods": [10]})],
)
def test_windows_begin_where_they_begin_in_training(name, position, tmp_path):
    """With a note, with the first voice, at ``position.periods``: of 61 tokens, 60 are read."""
    tokens = build(name)
    ids = np.arange(4, 304, dtype=np.uint16) % (tokens.vocabulary.size - 4) + 4
    shards, nats = make_shards(tmp_path / "s", [], [ids], tokenizer=tokens), []
    for context in (60, 61):
        shape = {"group": tokens.group, "context": context, "position": position, "std": 0.2}
        bundle = Bundle(network(tokens.vocabulary.size, **shape), tokens, {}, tmp_path)
        loss = nll.evaluate(bundle.model, shards, window=60).nats_per_token
        nats.append([_nats(bundle, ids).sum(), loss])
    assert nats[0] == nats[1]


def test_mutual_information_is_what_the_past_adds_to_the_likelihood(tmp_path):
    model = network(TOKENIZER.vocabulary.size, width=16, context=64).eval()
    bundle, ids = Bundle(model, TOKENIZER, {}, tmp_path), TOKENIZER.encode(song(2))
    past, new = ids[:20], ids[20:28]

    def nats(*first):
        row = torch.tensor([[*first, *new.tolist()]])
        with torch.no_grad():
            log_p = model(row).double().log_softmax(-1)[0, len(first) - 1 : -1]
        return -float(log_p.gather(1, row[0, len(first) :, None]).sum())

    expected = nats(CUT) - nats(BOS, *past.tolist())
    assert pointwise_mutual_information(bundle, past, new) == pytest.approx(expected, abs=1e-4)
    # Of a long past the last ids are read, as many as the context has.
    long = np.tile(ids, 40)
    expected = pointwise_mutual_information(bundle, long[1000:2000], new)
    assert pointwise_mutual_information(bundle, long[:2000], new) == expected
