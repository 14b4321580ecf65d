"""Likelihoods with and without what is known: the same events count both times."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from musictx.data.shards import Shards
from musictx.data.tasks import Tasks
from musictx.errors import UserError
from musictx.evaluate import conditional as module
from musictx.evaluate.conditional import conditional
from musictx.model.transformer import MusicTransformer
from musictx.tokens.performance import PerformanceTokenizer
from tests.data.helpers import TOKENIZER, song, write_shards

STEERED = PerformanceTokenizer(controls=True)


@pytest.fixture
def shards(tmp_path):
    pieces = [TOKENIZER.encode(song(i, 150)) for i in range(5)]
    return Shards(write_shards(tmp_path / "s", pieces, pieces))


def model(context=512) -> MusicTransformer:
    torch.manual_seed(0)
    return MusicTransformer(
        STEERED.size, layers=1, width=8, heads=2, feedforward=8, context=context
    )


@pytest.mark.parametrize("task", ["infill", "accompany"])
def test_a_model_that_knows_nothing_finds_both_equally_likely(task, shards):
    net = model()
    torch.nn.init.zeros_(net.norm.weight)
    torch.nn.init.zeros_(net.norm.bias)  # every id has the same probability
    found = conditional(net, STEERED, shards, "validation", task, windows=8)
    assert found.given == pytest.approx(found.plain)
    tokens = found.given * found.notes / np.log(STEERED.size)
    assert tokens == pytest.approx(round(tokens), abs=1e-3)
    assert found.notes < round(tokens) < 8 * found.notes
    assert f"{found.given:.4f} nats a note" in str(found)


def test_what_counts_are_the_notes_that_would_be_composed(shards):
    tasks = Tasks(STEERED, {}, spans=module.SPANS, locked=0.0)
    for number in range(5):
        ids = shards.tokens(number)
        random = np.random.default_rng(number)
        pair = module._pair(tasks, "accompany", ids, 512, True, random)
        if pair is None:
            continue
        described = []
        for sequence, counted in pair[:2]:
            assert len(sequence) == len(counted)
            described.append([STEERED.vocabulary.describe(int(i)) for i in sequence[counted]])
        assert described[0] == described[1]
        assert sum(word.startswith("note_on") for word in described[0]) == pair[2]


def test_a_split_that_suits_no_task_is_said(tmp_path):
    short = [TOKENIZER.encode(song(i, 6)) for i in range(3)]
    few = Shards(write_shards(tmp_path / "s", short, short))
    with pytest.raises(UserError, match="task=infill: no window of split=validation suits it"):
        conditional(model(), STEERED, few, "validation", "infill")
