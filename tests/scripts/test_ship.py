"""A model made ready to come along: its weights, its card, its numbers."""

import json

import pytest
import torch

from musictx import bundle
from musictx.apps.evaluate import find_shards
from musictx.config import CorpusConfig, EvaluateConfig
from musictx.data.shards import Shards
from musictx.errors import UserError
from musictx.evaluate.nll import evaluate


@pytest.fixture
def trained(models, corpus, tmp_path, monkeypatch):
    """A model folder whose card tells where it was trained, as ``musictx train`` writes it."""
    monkeypatch.chdir(tmp_path)
    loaded = bundle.load(models / "huang")
    shards = find_shards(EvaluateConfig(corpus=CorpusConfig(path=str(corpus))), loaded)
    told = {"name": "corpus", "path": str(corpus), "shards": str(shards.folder), "hours": 1.0}
    words = f"musictx train experiment=a corpus.path={corpus} out={tmp_path}/run seed=3"
    card = {"command": words, "corpus": told, "habits": {"most_notes": 6}, "numbers": {"old": 1}}
    return bundle.save(tmp_path / "run" / "model", loaded.model, loaded.tokenizer, card)


def test_the_folder_is_half_the_size_names_no_place_and_holds_the_numbers(
    trained, script, corpus, tmp_path
):
    out = script("ship").main([f"model={trained}", "name=piano", f"out={tmp_path}/ours"])
    assert out == tmp_path / "ours" / "piano"
    sizes = [(folder / "model.safetensors").stat().st_size for folder in (trained, out)]
    assert 0.4 < sizes[1] / sizes[0] < 0.7
    shipped, source = bundle.load(out), bundle.load(trained)
    assert shipped.model.config == source.model.config | {"attention": "auto"}
    for name, tensor in source.model.state_dict().items():
        torch.testing.assert_close(
            shipped.model.state_dict()[name], tensor.half().float(), rtol=0, atol=0
        )
    card = shipped.card
    assert card["command"] == f"musictx train experiment=a corpus.path={corpus.name} seed=3"
    assert card["corpus"] == {"name": "corpus", "hours": 1.0}
    assert card["habits"] == {"most_notes": 6}
    assert "CC BY-NC-SA 4.0" in card["licence"]
    assert "measure" not in card
    for file in ("CARD.md", "config.yaml"):
        assert str(tmp_path) not in (text := (out / file).read_text())
        assert str(corpus) not in text

    shards = Shards(source.card["corpus"]["shards"])
    numbers = card["numbers"]
    for key, ways in {
        "windows of 2048": {"window": 2048},
        "windows of 24, as in training": {"window": 24},
        "windows of 2048, a quarter apart": {"window": 2048, "stride": 512},
    }.items():
        wanted = evaluate(shipped.model, shards, **ways)
        assert numbers[key]["nats per token"] == round(wanted.nats_per_token, 4)
        assert numbers[key]["windows"] == wanted.windows
    assert "4 pieces" in numbers["measured on"]
    assert "REHEARSAL" not in json.dumps(numbers)


def test_a_rehearsal_says_so(trained, script, tmp_path):
    shards = bundle.load(trained).card["corpus"]["shards"]
    words = [f"model={trained}", "name=piano", f"corpus={shards}", f"out={tmp_path}/ours"]
    words += ["pieces=2", "sliding=false"]
    numbers = bundle.load(script("ship").main(words)).card["numbers"]
    assert "2 pieces" in numbers["measured on"]
    assert "A REHEARSAL, of 4 pieces" in numbers["measured on"]
    assert "windows of 2048, a quarter apart" not in numbers


def test_what_cannot_be_shipped_is_told(trained, script, monkeypatch, tmp_path):
    ship = script("ship")
    with pytest.raises(UserError, match="are needed"):
        ship.main([f"model={trained}"])
    with pytest.raises(UserError, match=r"name=organ: no organ.yaml .*chorale, piano"):
        ship.main([f"model={trained}", "name=organ"])
    monkeypatch.setattr(ship, "MOST", 1000)
    with pytest.raises(UserError, match="bytes of weights, expected at most 1,000"):
        ship.main([f"model={trained}", "name=piano", f"out={tmp_path}/ours"])
