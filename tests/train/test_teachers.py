"""Distillation: what teachers say is learnt, they are not touched."""

from __future__ import annotations

import copy

import pytest
import torch

from musictx import bundle
from musictx.errors import ConfigError, UserError
from musictx.model.transformer import MusicTransformer
from musictx.tokens.build import build
from musictx.train.lit import LitMusicTransformer
from musictx.train.teachers import Teachers, load
from tests.train.fakes import OPTIM, FakeModel, fake_batch, fit

pytestmark = pytest.mark.usefixtures("one_thread")


class Watched(LitMusicTransformer):
    """Notes the gradients that the optimizer is given."""

    def configure_gradient_clipping(self, *args, **kwargs):
        super().configure_gradient_clipping(*args, **kwargs)
        self.seen = {n: p.grad.clone() for n, p in self.model.named_parameters()}


def network(seed: int) -> FakeModel:
    torch.manual_seed(seed)
    return FakeModel(dropout=0.0)


def trained(teachers: Teachers | None, steps: int) -> Watched:
    training = Watched({}, OPTIM, model=network(0), teachers=teachers)
    fit(training, max_steps=steps, gradient_clip_val=None)
    return training


def test_the_gradient_is_that_of_a_plain_loop_over_targets():
    said = [network(1), network(2)]
    before = [copy.deepcopy(m.state_dict()) for m in said]
    training = trained(Teachers(said, 0.3), steps=1)

    oracle, batch = network(0), fake_batch(0)
    loss, count = torch.zeros(()), 0
    for row in range(len(batch.ids)):
        ids, pieces = batch.ids[row : row + 1], batch.piece_ids[row : row + 1]
        logits = oracle(ids, piece_ids=pieces)[0]
        for at, target in enumerate(batch.targets[row].tolist()):
            if target == -100:
                continue
            count += 1
            mine = logits[at].log_softmax(-1)
            loss = loss - 0.7 * mine[target]
            for teacher in said:
                theirs = teacher(ids, piece_ids=pieces)[0, at].softmax(-1).detach()
                for token, probability in enumerate(theirs):
                    loss = loss - 0.3 * probability / len(said) * mine[token]
    (loss / count).backward()
    for name, p in oracle.named_parameters():
        torch.testing.assert_close(training.seen[name], p.grad, msg=name)
    for teacher, state in zip(said, before):
        for name, value in teacher.state_dict().items():
            assert torch.equal(value, state[name])
    assert not [name for name in training.state_dict() if "teacher" in name]


def test_without_a_share_it_is_plain_training():
    alone, told = trained(None, 4), trained(Teachers([network(1)], 0.0), 4)
    for name, value in alone.model.state_dict().items():
        assert torch.equal(value, told.model.state_dict()[name]), name
    assert load([], 0.5, build("performance")) is None


def test_validation_measures_the_notes_alone():
    alone, told = (
        Watched({}, OPTIM | {"lr": 1e-12}, model=network(0), teachers=t)
        for t in (None, Teachers([network(1)], 1.0))
    )
    found = [fit(one, max_steps=1).callback_metrics for one in (alone, told)]
    assert found[0]["val/loss"] == pytest.approx(float(found[1]["val/loss"]), abs=1e-6)
    assert found[0]["train/loss"] != pytest.approx(float(found[1]["train/loss"]), abs=1e-3)


def test_a_teacher_of_other_tokens_is_refused(tmp_path):
    own, other = build("performance"), build("performance", low=40)
    shape = {"layers": 1, "width": 16, "heads": 2, "feedforward": 16, "context": 16}
    bundle.save(tmp_path / "it", MusicTransformer(other.size, **shape), other, {})
    with pytest.raises(ConfigError, match=r"^teachers=.*it: expected a model with the tokens of"):
        load([str(tmp_path / "it")], 0.5, own)
    assert load([str(tmp_path / "it")], 0.0, own) is None
    found = load([str(tmp_path / "it")], 0.5, other)
    assert found is not None
    assert not found.models[0].training


def test_what_is_no_model_is_refused_by_the_name_of_the_option(tmp_path):
    with pytest.raises(UserError, match=rf"^teachers={tmp_path}/gone: no such model folder"):
        load([f"{tmp_path}/gone"], 0.5, build(name="performance"))
