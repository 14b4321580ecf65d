"""musictx evaluate: which corpus is measured, what is printed and written, what is refused."""

import json
import math
from dataclasses import replace

import pytest
import torch

from musictx import bundle, midi
from musictx.config import CorpusConfig, ModelFolder
from musictx.data.prepare import prepare
from musictx.data.shards import Shards
from musictx.errors import UserError, WriteError
from musictx.evaluate import app
from musictx.evaluate.config import EvaluateConfig
from musictx.evaluate.nll import evaluate
from musictx.tokens.build import build
from tests.data.helpers import song, write_songs
from tests.untrained import SMALL, saved

torch.set_num_threads(1)


@pytest.fixture
def corpus(tmp_path):
    return write_songs(tmp_path / "tunes", range(8), notes=30)


def corpus_config(tmp_path, corpus, **more):
    options = {"path": str(corpus), "shards": str(tmp_path / "shards"), "workers": 1}
    return CorpusConfig(**(options | more))


def save(folder, card, tokenizer=SMALL):
    return saved(folder, card, tokens=tokenizer, context=16)


@pytest.fixture
def trained(tmp_path, corpus):
    """A model folder whose card names the corpus as musictx train writes it."""
    prepare(corpus_config(tmp_path, corpus), build(**SMALL), progress=False)
    about = {
        "name": "folder",
        "label": "tunes",
        "path": str(corpus),
        "shards": str(tmp_path / "shards"),
        "held out": {"validation": 0.1, "test": 0.0},
    }
    return save(tmp_path / "model", {"corpus": about})


def config(model, **more):
    return EvaluateConfig(model=ModelFolder(str(model)), **({"device": "cpu"} | more))


def files(path):
    return {str(p.relative_to(path)) for p in path.rglob("*") if p.is_file()}


def test_by_default_the_corpus_the_model_was_trained_on_is_measured(
    trained, corpus, tmp_path, capsys
):
    before = files(tmp_path)
    result = app.run(config(trained))
    assert result == evaluate(bundle.load(trained).model, Shards(tmp_path / "shards"))
    printed = capsys.readouterr().out
    assert str(result) in printed
    assert str(tmp_path / "shards") in printed
    assert files(tmp_path) == before, "tokens that are there are used as they are"
    corpus.rename(corpus.with_name("elsewhere"))
    assert app.run(config(trained)) == result, "and are enough"


def test_tokens_of_several_folders_that_are_gone_are_made_again(tmp_path, corpus, monkeypatch):
    """The card of a model that was trained on several folders leads to all of them."""
    monkeypatch.chdir(tmp_path)
    more = tmp_path / "more"
    more.mkdir()
    for number in range(100, 120):
        midi.write(song(number, 30), more / f"{number}.mid")
    both = [str(corpus), str(more)]
    measured = app.run(config(save(tmp_path / "a", {}), corpus=CorpusConfig(path=both, workers=1)))
    card = {"name": "folder", "path": both, "held out": {"validation": 0.1, "test": 0.0}}
    assert app.run(config(save(tmp_path / "b", {"corpus": card}))) == measured
    damaged = {"corpus": card | {"path": [str(corpus), 5]}}
    with pytest.raises(UserError, match=r"card\.corpus\.path="):
        app.run(config(save(tmp_path / "c", damaged)))


def test_the_corpus_of_the_options_is_prepared_with_the_models_tokenizer(tmp_path, corpus, capsys):
    model = save(tmp_path / "model", {})
    result = app.run(config(model, corpus=corpus_config(tmp_path, corpus)))
    shards = Shards(tmp_path / "shards")
    assert shards.fingerprint == build(**SMALL).fingerprint
    assert result.tokens == shards.totals("validation").tokens
    assert "8 files" in capsys.readouterr().out


def test_named_parts_keep_their_programs_in_another_corpus(tmp_path, corpus):
    for number, path in enumerate(sorted(corpus.glob("*.mid"))):
        midi.write(replace(song(number, 30), names={0: "MELODY"}), path)
    tokenizer = SMALL | {"tracks": "programs"}
    card = {"corpus": {"name": "folder", "programs": {"MELODY": 73}}}
    model = save(tmp_path / "model", card, tokenizer)
    app.run(config(model, corpus=corpus_config(tmp_path, corpus)))
    shards = Shards(tmp_path / "shards")
    for piece in shards.pieces("train"):
        notes = build(**tokenizer).decode(shards.tokens(piece.number)).notes
        assert set(notes["program"].tolist()) == {73}


def test_the_json_file_states_result_protocol_and_model(trained, tmp_path, capsys):
    out = tmp_path / "new folder" / "result.json"
    result = app.run(config(trained, out=str(out), split="train", window=12))
    written = json.loads(out.read_text())
    assert written["nats_per_token"] == result.nats_per_token
    assert (written["split"], written["window"], written["stride"]) == ("train", 12, 12)
    assert written["model"] == str(trained)
    assert written["parameters"] == sum(p.numel() for p in bundle.load(trained).model.parameters())
    assert written["tokenizer"] == build(**SMALL).fingerprint
    assert math.isfinite(written["bits_per_second"])
    assert str(out) in capsys.readouterr().out
    assert files(out.parent) == {"result.json"}


@pytest.fixture
def foreign(tmp_path, corpus):
    """Shards of another vocabulary."""
    other = build(**(SMALL | {"velocity_bins": 8}))
    place = tmp_path / "foreign"
    prepare(corpus_config(tmp_path, corpus, shards=str(place)), other, progress=False)
    return place


def test_tokens_of_another_vocabulary_are_refused_and_kept(trained, foreign, corpus, tmp_path):
    before = {p: p.read_bytes() for p in foreign.iterdir()}
    for path in (None, str(corpus)):
        asked = config(trained, corpus=CorpusConfig(path=path, shards=str(foreign), workers=1))
        with pytest.raises(UserError, match="made by another tokenizer"):
            app.run(asked)
    assert {p: p.read_bytes() for p in foreign.iterdir()} == before


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"out": "{tmp}/a.json"}, "out=.*: this is a folder"),
        ({"out": "{tmp}/tunes/song-000.mid/x.json"}, "out=.*000.mid is a file, expected a folder"),
        ({"split": "test"}, "split=test: no piece of this corpus"),
        ({"device": "abacus"}, "device=abacus: "),
    ],
)
def test_mistakes_are_refused_and_leave_nothing(options, words, trained, tmp_path):
    (tmp_path / "a.json").mkdir()
    before = files(tmp_path)
    filled = {k: v.format(tmp=tmp_path) for k, v in options.items()}
    with pytest.raises((UserError, WriteError), match=words):
        app.run(config(trained, **({"out": str(tmp_path / "a" / "r.json")} | filled)))
    assert files(tmp_path) == before
    assert not (tmp_path / "a").exists()


def test_a_model_that_names_no_corpus_asks_for_one_and_a_refused_one_leaves_no_tokens(
    tmp_path, corpus, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    model = save(tmp_path / "model", {})
    with pytest.raises(UserError, match=r"corpus.path: "):
        app.run(config(model))
    with pytest.raises(UserError, match="split=test: "):
        app.run(config(model, corpus=CorpusConfig(path=str(corpus), workers=1), split="test"))
    assert not (tmp_path / "data").exists()
