"""The numbers against plain definitions: loops over pieces, models whose answers are given."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from musictx.data.shards import Shards, new_shards
from musictx.errors import UserError
from musictx.evaluate.nll import evaluate, lengths
from musictx.model.transformer import MusicTransformer
from musictx.tokens.vocab import BOS, CUT, EOS

V = 20


def shards_of(folder, pieces, split="validation"):
    """A shard folder of lists of ids; notes and seconds are made up."""
    with new_shards(folder, fingerprint="f", tokenizer_config={}, corpus={}) as writer:
        for i, ids in enumerate(pieces):
            writer.add(
                np.asarray(ids, np.uint16),
                name=f"piece {i:03d}",
                split=split,
                notes=max(1, len(ids) // 4),
                seconds=len(ids) / 10,
            )
    return Shards(folder)


def random_pieces(lengths, seed=0):
    rng = np.random.default_rng(seed)
    return [rng.integers(4, V, n).tolist() for n in lengths]


def real_model(context=8, seed=0, dropout=0.4):
    torch.manual_seed(seed)
    model = MusicTransformer(
        V, layers=2, width=16, heads=2, feedforward=32, context=context, dropout=dropout
    )
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.mul_(3)
    return model.eval()


def in_a_plain_loop(model, pieces, window, stride):
    """Total nats, hits, tokens and ends, one window and one token at a time."""
    nats, hits, tokens, ends = 0.0, 0, 0, []
    for piece in pieces:
        whole = [*piece, EOS]
        start = scored = 0
        while scored < len(whole):
            stop = min(start + window, len(whole))
            first = BOS if start == 0 else CUT
            ids = torch.tensor([[first, *whole[start : stop - 1]]])
            with torch.no_grad():
                chances = model(ids)[0].double().log_softmax(-1)
            for i in range(scored, stop):
                loss = -float(chances[i - start, whole[i]])
                if whole[i] == EOS:
                    ends.append(loss)
                    continue
                nats += loss
                hits += int(chances[i - start].argmax()) == whole[i]
                tokens += 1
            scored, start = stop, start + stride
    return nats, hits, tokens, ends


@pytest.mark.parametrize(("window", "stride"), [(8, None), (8, 3), (8, 1), (5, 5), (64, None)])
@pytest.mark.parametrize("batch", [1, 4])
def test_equals_a_plain_loop(tmp_path, window, stride, batch):
    pieces = random_pieces([1, 7, 8, 9, 16, 17, 30])
    model = real_model()
    result = evaluate(
        model, shards_of(tmp_path / "s", pieces), window=window, stride=stride, batch=batch
    )
    nats, hits, tokens, ends = in_a_plain_loop(model, pieces, window, stride or window)
    assert result.tokens == tokens == sum(map(len, pieces))
    assert result.nats_per_token == pytest.approx(nats / tokens, rel=1e-6)
    assert result.accuracy == pytest.approx(hits / tokens)
    assert result.nats_per_end == pytest.approx(np.mean(ends), rel=1e-6)
    assert result.perplexity == pytest.approx(math.exp(nats / tokens), rel=1e-5)
    assert result.nats_per_note == pytest.approx(nats / result.notes, rel=1e-6)
    assert result.bits_per_second == pytest.approx(nats / math.log(2) / (tokens / 10), rel=1e-6)


def test_dropout_is_off_gradients_are_off_and_the_mode_comes_back(tmp_path):
    shards = shards_of(tmp_path / "s", random_pieces([20]))
    model = real_model().train()
    first, second = evaluate(model, shards), evaluate(model, shards)
    assert model.training
    assert first == second
    assert first == evaluate(model.eval(), shards)
    assert all(p.grad is None for p in model.parameters())


def test_progress_counts_the_windows(tmp_path):
    done = []
    shards = shards_of(tmp_path / "s", random_pieces([20, 20]))
    evaluate(real_model(), shards, window=6, batch=3, progress=lambda *at: done.append(at))
    assert done == [(3, 8), (6, 8), (8, 8)]


def test_an_empty_split_is_refused(tmp_path):
    shards = shards_of(tmp_path / "s", random_pieces([20]), split="train")
    with pytest.raises(
        UserError, match=r"split=test: no piece of this corpus .*train 1.*corpus.test"
    ):
        evaluate(real_model(), shards, "test")


def test_a_stride_that_leaves_tokens_out_is_refused(tmp_path):
    shards = shards_of(tmp_path / "s", random_pieces([20]))
    with pytest.raises(UserError, match="stride=9: expected 1 to window=8"):
        evaluate(real_model(), shards, stride=9)


def test_a_window_by_default_holds_whole_notes():
    model = SimpleNamespace(config=SimpleNamespace(context=512, group=5))
    assert lengths(model, None) == (510, 510)
    assert lengths(model, 20, 10) == (20, 10)
    with pytest.raises(UserError, match="window=512: expected a multiple of 5"):
        lengths(model, 512)
