"""musictx evaluate: numbers against plain loops, the choice of the corpus, and the output."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from musictx import bundle, formats
from musictx.config import CorpusConfig, ModelFolder
from musictx.data.prepare import prepare
from musictx.data.shards import Shards
from musictx.errors import UserError, WriteError
from musictx.evaluate import app, nll
from musictx.evaluate.config import EvaluateConfig
from musictx.evaluate.nll import evaluate
from musictx.tokens.build import build
from musictx.tokens.vocab import BOS, CUT, EOS
from tests.data.helpers import contents, make_shards, song, write_songs
from tests.sampling.engines import make
from tests.untrained import SMALL, saved


@pytest.fixture
def corpus(tmp_path):
    return write_songs(tmp_path / "tunes", range(8), notes=30)


def corpus_config(tmp_path, corpus, **changes):
    options = {"path": str(corpus), "shards": str(tmp_path / "shards"), "workers": 1}
    return CorpusConfig(**options | changes)


@pytest.fixture
def trained(tmp_path, corpus):
    """Save a model whose card names the corpus, as musictx train does."""
    prepare(corpus_config(tmp_path, corpus), build(**SMALL))
    about = {"name": "folder", "path": str(corpus), "shards": str(tmp_path / "shards")}
    about |= {"label": "tunes", "held out": {"validation": 0.1, "test": 0.0}}
    return saved(tmp_path / "model", {"corpus": about}, context=16)


def config(model, **changes):
    return EvaluateConfig(model=ModelFolder(str(model)), **({"device": "cpu"} | changes))


def test_by_default_the_corpus_of_the_model_is_measured(trained, corpus, tmp_path, capsys):
    before, out = contents(tmp_path), tmp_path / "new folder" / "result.json"
    result = app.run(config(trained, out=str(out)))
    assert result == evaluate(bundle.load(trained).model, Shards(tmp_path / "shards"), window=16)
    printed = capsys.readouterr().out
    assert all(str(text) in printed for text in (result, out, tmp_path / "shards", ": 1 piece, "))
    new_file = {"new folder/result.json": out.read_bytes()}
    assert contents(tmp_path) == before | new_file, "existing shards are used"
    content = json.loads(out.read_text())
    assert content["nats_per_token"] == result.nats_per_token
    assert (content["split"], content["window"]) == ("validation", 16)
    assert content["model"] == str(trained)
    assert content["tokenizer"] == build(**SMALL).fingerprint
    corpus.rename(corpus.with_name("elsewhere"))
    assert app.run(config(trained)) == result, "the corpus itself is not needed"


def test_programs_of_named_parts_apply_to_another_corpus(tmp_path, corpus):
    for number, path in enumerate(sorted(corpus.glob("*.mid"))):
        formats.write(replace(song(number, 30), names={0: "MELODY"}), path)
    tokenizer = SMALL | {"tracks": "programs"}
    card = {"corpus": {"name": "folder", "programs": {"MELODY": 73}}}
    model = saved(tmp_path / "model", card, tokens=tokenizer)
    app.run(config(model, corpus=corpus_config(tmp_path, corpus)))
    shards = Shards(tmp_path / "shards")
    for piece in shards.pieces("train"):
        notes = build(**tokenizer).decode(shards.tokens(piece.number)).notes
        assert set(notes["program"].tolist()) == {73}


def test_tokens_of_another_vocabulary_are_refused_and_kept(trained, corpus, tmp_path):
    other, folder = build(**SMALL | {"velocity_bins": 8}), tmp_path / "foreign"
    prepare(corpus_config(tmp_path, corpus, shards=str(folder)), other)
    before = contents(folder)
    for path in (None, str(corpus)):
        foreign = corpus_config(tmp_path, corpus, path=path, shards=str(folder))
        with pytest.raises(UserError, match="made by another tokenizer"):
            app.run(config(trained, corpus=foreign))
    assert contents(folder) == before


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"out": "{tmp}/tunes/song-000.mid/x.json"}, "out=.*000.mid is a file, expected a folder"),
        ({"split": "test"}, "split=test: no piece of this corpus"),
    ],
)
def test_mistakes_are_refused_and_write_nothing(options, words, trained, tmp_path):
    before = contents(tmp_path)
    filled = {k: v.format(tmp=tmp_path) if isinstance(v, str) else v for k, v in options.items()}
    with pytest.raises((UserError, WriteError), match=words):
        app.run(config(trained, **({"out": str(tmp_path / "a" / "r.json")} | filled)))
    assert contents(tmp_path) == before
    assert not (tmp_path / "a").exists()


def test_a_model_without_a_corpus_on_its_card_needs_corpus_path(tmp_path):
    with pytest.raises(UserError, match=r"corpus.path: "):
        app.run(config(saved(tmp_path / "model")))


V = 20


def in_a_plain_loop(model, pieces, window):
    """Return nats, correct tokens, tokens and nats of each end, by windows and tokens in turn."""
    nats, hits, tokens, ends = 0.0, 0, 0, []
    for piece in pieces:
        whole = [*piece.tolist(), EOS]
        for start in range(0, len(whole), window):
            stop = min(start + window, len(whole))
            first = BOS if start == 0 else CUT
            ids = torch.tensor([[first, *whole[start : stop - 1]]])
            with torch.no_grad():
                chances = model(ids)[0].double().log_softmax(-1)
            for i in range(start, stop):
                loss = -float(chances[i - start, whole[i]])
                if whole[i] == EOS:
                    ends.append(loss)
                    continue
                nats += loss
                hits += int(chances[i - start].argmax()) == whole[i]
                tokens += 1
    return nats, hits, tokens, ends


@pytest.mark.parametrize("window", [8, 5, 64])
@pytest.mark.parametrize("batch", [1, 4])
def test_numbers_are_those_of_a_plain_loop(tmp_path, window, batch, monkeypatch):
    monkeypatch.setattr(nll, "BATCH", batch)
    random = np.random.default_rng(0)
    pieces = [random.integers(4, V, n).astype(np.uint16) for n in (1, 7, 8, 9, 16, 17, 30)]
    model, shards = make(context=8, vocab=V), make_shards(tmp_path / "s", [], pieces)
    result = evaluate(model.train(), shards, window=window)
    assert model.training
    assert all(p.grad is None for p in model.parameters())
    model.eval()
    nats, hits, tokens, ends = in_a_plain_loop(model, pieces, window)
    assert result.tokens == tokens == sum(map(len, pieces))
    assert result.nats_per_token == pytest.approx(nats / tokens, rel=1e-6)
    assert result.accuracy == pytest.approx(hits / tokens)
    assert result.nats_per_end == pytest.approx(np.mean(ends), rel=1e-6)
    assert result.perplexity == pytest.approx(math.exp(nats / tokens), rel=1e-5)
    assert result.nats_per_note == pytest.approx(nats / result.notes, rel=1e-6)
    assert result.bits_per_second == pytest.approx(nats / math.log(2) / len(pieces), rel=1e-6)


def test_a_window_holds_whole_notes(trained, monkeypatch):
    monkeypatch.setattr(app, "alignment", lambda *_: 5)
    assert app.run(config(trained)).window == 15  # of a context of 16
    with pytest.raises(UserError, match="window=12: expected a multiple of 5"):
        app.run(config(trained, window=12))
