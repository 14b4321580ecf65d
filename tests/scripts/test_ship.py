"""An included model is half as large, measured as stored, and has nothing private on its card."""

from functools import partial

import pytest
import torch
import yaml

from musictx import bundle
from musictx.data.shards import Shards
from musictx.errors import UserError
from musictx.evaluate.nll import evaluate
from scripts import ship as shipping
from tests.data.helpers import write_songs
from tests.untrained import saved

CARD = {
    "note_limits": {"most_notes": 6},
    "command": "musictx train '/home/me/my songs' corpus.path=/home/me/in out=/x",
    "training": {"init": "/home/me/runs/old"},
}


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return saved(tmp_path_factory.mktemp("models") / "huang", CARD, width=16, context=24)


@pytest.fixture
def ship(model, tmp_path, monkeypatch):
    monkeypatch.setattr(shipping, "ROOT", tmp_path)
    (tmp_path / "scripts" / "ships").mkdir(parents=True)
    card = {"title": "A piano", "measure": {"kind": "performances", "window": 16}}
    (tmp_path / "scripts" / "ships" / "piano.yaml").write_text(yaml.safe_dump(card))
    corpus = write_songs(tmp_path / "midi", range(6), notes=30)
    where = {"corpus.path": corpus, "corpus.shards": tmp_path / "s", "corpus.workers": 1}
    return partial(shipping.main, [model], "piano", out=tmp_path / "models", **where)


def test_a_shipped_model_states_its_numbers_and_nothing_private(ship, tmp_path):
    folder = ship()
    made = bundle.load(folder)
    shards = Shards(tmp_path / "s")
    numbers = made.card["numbers"]
    for name, way in {
        "windows of 16": {"window": 16},
        "windows of 24, as it composes": {"window": 24},
    }.items():
        wanted = evaluate(made.model, shards, **way)
        assert numbers[name]["nats per token"] == pytest.approx(wanted.nats_per_token, abs=1e-4)
        assert numbers[name]["windows"] == wanted.windows
    assert made.card["title"] == "A piano"
    assert made.card["command"] == "musictx train 'my songs' corpus.path=in"
    assert made.card["training"] == {"init": "old"}
    for private in (str(tmp_path), "/home/me"):
        assert private not in (folder / "config.json").read_text()
    assert made.model.config.attention == "auto"


def test_weights_may_be_bytes_and_logits_divided_by_a_temperature(ship, model, tmp_path):
    place = tmp_path / "scripts" / "ships" / "piano.yaml"
    place.write_text(yaml.safe_dump(yaml.safe_load(place.read_text()) | {"dtype": "int8"}))
    made = bundle.load(ship(windows=2, temperature=1.25))
    assert made.card["logits divided by"] == 1.25
    assert '"dtype": "int8"' in (made.folder / "config.json").read_text()
    ids = torch.arange(20)[None]
    with torch.no_grad():
        before, after = bundle.load(model).model(ids), made.model(ids)
    assert (1.25 * after - before).norm() < 0.05 * before.norm()  # rounded to bytes
    assert (after - before).norm() > 0.1 * before.norm()
    with pytest.raises(UserError, match=r"temperature=nan: expected a number above 0"):
        ship(temperature=float("nan"))
    with pytest.raises(UserError, match=r"temperature=1\.1: the logits"):
        shipping.divide_logits(bundle.load("song").model, 1.1)


def test_several_models_are_averaged_and_must_be_of_one_shape(model, tmp_path):
    other = bundle.load(model)
    with torch.no_grad():
        for weight in other.model.parameters():
            weight += torch.randn_like(weight)
    bundle.save(tmp_path / "other", other.model, other.tokenizer, other.card)
    mean = shipping.averaged([model, tmp_path / "other", tmp_path / "other"])
    old, new = bundle.load(model).model.state_dict(), other.model.state_dict()
    for name, weight in mean.model.state_dict().items():
        torch.testing.assert_close(weight, (old[name] + 2 * new[name]) / 3)
    assert len(mean.card["averaged from"]) == 3
    with pytest.raises(UserError, match="settings differ"):
        shipping.averaged([model, "chorale"])


@pytest.mark.parametrize("name", ["piano", "song", "chorale"])
def test_cards_of_included_models_have_the_text_of_their_files(name):
    text, card = shipping.read_description(name), bundle.load(name).card
    stated = {key: text[key] for key in text if key not in ("measure", "dtype")}
    assert {key: card[key] for key in stated} == stated
