"""The benchmark of training: that it measures the command itself, and counts what it says."""

import csv
import math

import pytest
import torch
from torch.nn import functional as F
from torch.utils.flop_counter import FlopCounterMode

from musictx.attention.terms import Axis, Span, Terms
from musictx.model import block
from musictx.model.transformer import MusicTransformer
from tests.attention import cases


@pytest.fixture
def bench(script):
    return script("bench/train.py")


@pytest.mark.slow
def test_both_attentions_are_measured_through_the_command(bench, tmp_path, capsys):
    small = ["model=tiny", "model.layers=1", "model.width=32", "model.heads=2"]
    small += ["model.feedforward=32", "model.context=32", "trainer=laptop", "data.batch_size=2"]
    words = ["steps=3", "warm=2", f"csv={tmp_path / 'a.csv'}", "trainer.accelerator=cpu"]
    bench.main([*small, *words])
    with (tmp_path / "a.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["attention"] for row in rows] == ["auto", "textbook"]
    for row in rows:
        assert (row["steps"], row["rows"], row["length"]) == ("3", "2", "32")
        assert float(row["tokens_per_second"]) > 0
        assert math.isnan(float(row["utilisation"])), "nobody states a CPU's peak"
    assert block.attend is bench.LIBRARY
    assert "tokens/s" in capsys.readouterr().out


@pytest.mark.parametrize("tied", [True, False])
def test_operations_are_those_that_torch_counts(bench, tied, monkeypatch):
    """Dense attention computes all L x L pairs: twice the causal half that the formula counts."""
    shape = {"layers": 2, "width": 32, "heads": 2, "feedforward": 64, "context": 32, "tied": tied}
    model = MusicTransformer(392, **shape, position={"name": "huang"})
    ids = torch.randint(4, 392, (3, 32))
    monkeypatch.setattr(block, "attend", bench.textbook)
    with FlopCounterMode(display=False) as counted:
        logits = model(ids)
        F.cross_entropy(logits.flatten(0, 1), ids.flatten()).backward()
    work = bench.operations_per_token(model, 32)
    dense = work["matrices"] + 2 * (work["content"] + work["relative"])
    assert counted.get_total_flops() == 3 * 32 * dense
    assert work["relative"] > 0


@pytest.mark.parametrize("distances", [7, 20, 40])
@pytest.mark.parametrize("packed", [False, True])
def test_the_textbook_is_the_specification(bench, distances, packed):
    torch.manual_seed(0)
    q, k, v = torch.randn(3, 2, 2, 20, 4, dtype=torch.float64)
    table = torch.randn(2, distances, 4, dtype=torch.float64)
    terms = Terms(0.5, (Axis(table=table, high=distances - 1),))
    where = {"query_positions": Span(0, 20), "key_positions": Span(0, 20)}
    pieces = {}
    if packed:
        ids = (torch.arange(20) >= torch.tensor([[5], [11]])).long()
        pieces = {"query_pieces": ids, "key_pieces": ids}
    got = bench.textbook(q, k, v, terms, **where, **pieces)
    want = cases.dense(q, k, v, terms, **where, **pieces)
    torch.testing.assert_close(got, want, rtol=1e-12, atol=1e-12)
