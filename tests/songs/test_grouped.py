"""Networks with a step for each group of ids, against loops. Further laws: test_laws.py."""

import numpy as np
import pytest
import torch

from musictx.model.config import alignment
from musictx.model.features import complete_features
from musictx.tokens.build import build
from tests import untrained
from tests.pieces import score

TOKENS = build("notes", low=40, high=90, controls=True)


def song(bars=12, seed=0):
    """Return random music in bars of 3/4, some of which are repeated."""
    random, notes = np.random.default_rng(seed), []
    for bar in range(bars):
        if bar % 3 and notes:
            notes += [(a + 1.5, b + 1.5, *rest) for a, b, *rest in notes if a >= (bar - 1) * 1.5]
            continue
        for _ in range(6):
            at = bar * 1.5 + random.integers(12) / 8
            pitch, program = random.integers(45, 85), random.choice([0, 33])
            notes.append((at, at + random.integers(1, 5) / 8, pitch, 64, program, False, 0))
    return score([*notes, (1.5, 1.6, 36, 90, 0, True, 1)], meter=(3, 4))


def model(**options):
    shape = {"layers": 2, "width": 32, "feedforward": 48, "context": 400, "group": TOKENS.group}
    features = complete_features([{"name": "bars"}, {"name": "ahead"}, {"name": "harmony"}], TOKENS)
    made = untrained.network(TOKENS.vocabulary.size, features=features, **shape | options)
    return untrained.spread(made, 1.5)


IDS = torch.tensor([[1, *TOKENS.encode(song(seed=seed)).tolist()[:120]] for seed in range(2)])


def test_the_layers_read_sums_of_groups_and_the_cascade_adds_one_id_after_another():
    plain = model()
    plain._features = []
    with torch.inference_mode():
        logits = plain(IDS[:1])[0]
        x = plain.embedding(IDS[:1])[0]
        count = (len(x) + 4) // 5
        sums = [x[0]] + [x[5 * k - 4 : 5 * k + 1].sum(0) for k in range(1, count)]
        shared = plain.new_pass(torch.zeros(1, count, dtype=torch.int64), None, None, None)
        states = plain.norm(plain.run_layers(torch.stack(sums)[None], shared))[0]
        for place in range(len(x)):
            y = states[place // 5]
            for i in range(1, place % 5 + 1):
                y = y + plain.cascade.maps[i - 1](y + x[place - place % 5 + i])
            torch.testing.assert_close(logits[place], plain.embedding.weight @ y)


def test_windows_begin_at_periods_of_groups():
    network = model(position={"name": "huang", "periods": [10]})
    assert alignment(network.config, TOKENS) == 10 * TOKENS.group


def test_forked_and_selected_rows_continue_independently():
    network = model()
    more = torch.tensor([IDS[0, 50:60].tolist(), IDS[0, 60:70].tolist()])
    with torch.inference_mode():
        cache = network.new_cache(rows=1, capacity=130)
        network(IDS[:1, :38], cache=cache)
        both = cache.fork(2)
        got = network(more, cache=both)
        for row in range(2):
            alone = network(torch.cat([IDS[0, :38], more[row]])[None])[:, 38:]
            torch.testing.assert_close(got[row : row + 1], alone, atol=1e-4, rtol=1e-4)
        both.select(torch.tensor([1, 1]))
        again = network(IDS[:1, 70:74].expand(2, -1), cache=both)
        torch.testing.assert_close(again[0], again[1])
        with pytest.raises(ValueError, match="fit a capacity of 27"):
            network(IDS[:, :100], cache=both)
