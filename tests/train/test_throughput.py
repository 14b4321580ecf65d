"""Tokens a second as the clock has it, and the operations that torch counts."""

import csv

import pytest
import torch
from torch.nn import functional as F
from torch.utils.flop_counter import FlopCounterMode

from musictx.model.transformer import MusicTransformer
from musictx.train.loggers import MetricsTable
from musictx.train.throughput import Throughput, operations_per_token
from tests.train.fakes import VOCAB, fake_training, fit

SHAPE = {"layers": 2, "width": 32, "heads": 2, "feedforward": 64, "context": 32}


@pytest.mark.parametrize("tied", [True, False])
def test_operations_are_those_that_torch_counts(tied):
    """Dense attention computes all L x L pairs: twice the causal half that the formula counts."""
    model = MusicTransformer(392, **SHAPE, tied=tied, position={"name": "huang"}, attention="skew")
    ids = torch.randint(4, 392, (3, 32))
    with FlopCounterMode(display=False) as counted:
        F.cross_entropy(model(ids).flatten(0, 1), ids.flatten()).backward()
    work = operations_per_token(model, 32)
    dense = work["matrices"] + 2 * (work["content"] + work["relative"])
    assert counted.get_total_flops() == 3 * 32 * dense
    assert work["relative"] > 0


def test_the_table_of_a_run_has_tokens_and_operations_a_second(tmp_path):
    model = MusicTransformer(VOCAB, **SHAPE)
    callbacks, loggers = [Throughput(window_size=3)], [MetricsTable(tmp_path)]
    fit(fake_training(model), folder=tmp_path, callbacks=callbacks, loggers=loggers)
    with (tmp_path / "metrics.csv").open(newline="") as file:
        last = list(csv.DictReader(file))[-1]
    tokens, flops = (float(last[f"train/device/{n}_per_sec"]) for n in ("items", "flops"))
    work = sum(operations_per_token(model, 12).values())
    assert tokens > 0
    assert flops == pytest.approx(tokens * work, rel=1e-3)
