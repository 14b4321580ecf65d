"""The two rows against ``evaluate`` itself, and the table on disk."""

import csv

import numpy as np
import pytest
import torch

from musictx.data.shards import Shards
from musictx.errors import UserError
from musictx.evaluate import protocol
from musictx.evaluate.nll import evaluate
from musictx.model.transformer import MusicTransformer
from tests.data.helpers import TOKENIZER, write_shards


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    random = np.random.default_rng(0)
    pieces = [random.integers(4, TOKENIZER.size, n) for n in (5, 16, 40)]
    shards = Shards(write_shards(tmp_path_factory.mktemp("p") / "shards", pieces, pieces))
    torch.manual_seed(0)
    shape = {"layers": 1, "width": 16, "heads": 2, "feedforward": 16, "context": 16}
    return MusicTransformer(TOKENIZER.size, **shape), shards


def test_the_rows_are_windows_end_to_end_and_sliding_by_a_quarter(measured):
    model, shards = measured
    first, second = protocol.end_to_end(model, shards), protocol.sliding(model, shards)
    whole, quarter = evaluate(model, shards), evaluate(model, shards, stride=4)
    assert first["nats_per_token"] == whole.nats_per_token
    assert second["nats_per_token"] == quarter.nats_per_token != whole.nats_per_token
    assert (first["protocol"], second["protocol"]) == ("end to end", "sliding")
    assert first["tokens"] == second["tokens"] == 61
    per_second = first["nats_per_token"] * 61 / 3 / np.log(2)  # three pieces of a second
    assert first["bits_per_second"] == pytest.approx(per_second)


def test_windows_may_be_longer_than_those_of_training(measured):
    model, shards = measured
    first = protocol.end_to_end(model, shards, window=24)
    second = protocol.sliding(model, shards, window=24)
    assert first["nats_per_token"] == evaluate(model, shards, window=24).nats_per_token
    assert second["nats_per_token"] == evaluate(model, shards, window=24, stride=6).nats_per_token
    assert (first["window"], second["stride"]) == (24, 6)


def test_a_table_may_have_rows_of_different_columns(tmp_path):
    path = protocol.write_table(tmp_path / "new" / "a.csv", [{"x": 1}, {"x": 2, "y": "b,c"}])
    with path.open() as file:
        assert list(csv.DictReader(file)) == [{"x": "1", "y": ""}, {"x": "2", "y": "b,c"}]
    assert [p.name for p in path.parent.iterdir()] == ["a.csv"]
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match="cannot be written"):
        protocol.write_table(tmp_path / "file" / "a.csv", [])
