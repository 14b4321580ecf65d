"""A model folder is written atomically, read strictly, and gives the logits of the saved model."""

import copy
import json
import os
import resource
import shutil
from functools import partial
from unittest.mock import Mock

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from musictx import __version__, bundle, shipped
from musictx.config import ModelConfig, TrainConfig
from musictx.errors import UserError
from musictx.evaluate import app
from musictx.folders import MODEL_FILES
from musictx.tokens.build import build
from musictx.training.network import build_model
from tests.data.helpers import contents
from tests.untrained import at_random, network

CARD = {
    "title": "Small tunes",
    "summary": "Six melodies.",
    "command": "musictx train corpus.path=tunes",
    "corpus": {"name": "folder", "path": "t\udcfcnes", "shards": "data/shards/tunes"},
    "numbers": {"validation_nll": np.float64(1.25), "steps": np.int64(40)},
    "licence": ["weights CC0"],
}
TOKENS = build("performance", low=60, high=72, velocity_bins=4)
make = partial(network, TOKENS.vocabulary.size, layers=2, width=16, feedforward=32, context=16)


@pytest.fixture
def folder(tmp_path):
    return bundle.save(tmp_path / "model", make(), TOKENS, CARD)


def logits(model):
    ids = torch.arange(4, 4 + 20)[None] % TOKENS.vocabulary.size
    with torch.no_grad():
        return model(ids)


def test_a_model_trained_with_attention_of_a_gpu_is_loaded_for_this_machine(tmp_path):
    for attention, loaded in (("fused", "auto"), ("reference", "reference")):
        bundle.save(tmp_path / attention, make(attention=attention), TOKENS, CARD)
        model = bundle.load(tmp_path / attention, "cpu").model
        assert model.config.attention == loaded
        torch.testing.assert_close(logits(model), logits(make()))


@pytest.mark.parametrize(
    ("dtype", "share", "step"),
    [("float16", 0.6, 2.0**-10), ("bfloat16", 0.6, 2.0**-7), ("int8", 0.45, 0.501 / 127)],
)
def test_fewer_bits_shrink_the_file_and_lose_half_a_step_at_most(tmp_path, dtype, share, step):
    """``step``: the distance of neighbouring numbers as a share of the number, in int8 of the
    largest number in its row. Loaded weights are float32."""
    model = make()
    with torch.no_grad():
        model.embedding.weight[3] = 0.0  # a row of zeros
        model.embedding.weight[4] *= 1e-6
    full = bundle.save(tmp_path / "full", model, TOKENS, CARD)
    small = bundle.save(tmp_path / "small", model, TOKENS, CARD, dtype=dtype)
    full_size, size = ((f / "model.safetensors").stat().st_size for f in (full, small))
    assert size < share * full_size  # the header of such a small model counts
    for weight, read in zip(model.parameters(), bundle.load(small).model.parameters()):
        assert read.dtype == torch.float32
        by_row = dtype == "int8" and weight.dim() > 1
        largest = weight.abs().amax(-1, keepdim=True) if by_row else weight.abs()
        assert ((weight - read).abs() <= step * largest + 1e-6 * (not by_row)).all()


def test_the_card_is_data_and_text(folder):
    assert bundle.load(folder).card == CARD | {"numbers": {"validation_nll": 1.25, "steps": 40}}
    text = (folder / "CARD.md").read_text()
    for words in ("# Small tunes", "Six melodies.", "tunes", "1.25", "CC0", __version__):
        assert words in text
    assert sorted(p.name for p in folder.iterdir()) == sorted(MODEL_FILES)
    assert len({p.stat().st_mode & 0o777 for p in folder.iterdir()}) == 1


def test_saving_again_replaces_and_a_full_disk_keeps_the_old_one(folder, monkeypatch):
    new = make(seed=5, tied=False, position={"name": "none"})
    bundle.save(folder, new, TOKENS, {})
    assert torch.equal(logits(bundle.load(folder).model), logits(new))
    before = contents(folder)
    monkeypatch.setattr(bundle, "save_file", Mock(side_effect=OSError(28, "No space left")))
    with pytest.raises(UserError, match="cannot be written"):
        bundle.save(folder, make(seed=6), TOKENS, {})
    assert contents(folder) == before
    assert [p.name for p in folder.parent.iterdir()] == ["model"]


def test_other_files_are_not_replaced(tmp_path):
    cat = tmp_path / "photos" / "cat.jpg"
    cat.parent.mkdir()
    cat.write_bytes(b"cat")
    for path in (cat.parent, cat):
        with pytest.raises(UserError, match=path.name):
            bundle.save(path, make(), TOKENS, CARD)
    assert cat.read_bytes() == b"cat"


def test_a_run_folder_is_read_as_its_model_and_an_incomplete_model_is_refused(folder):
    (folder / "CARD.md").unlink()  # which no program reads
    back = bundle.load(folder.parent)
    assert back.folder == folder
    assert back.card["title"] == "Small tunes"
    assert "performance tokens" in repr(back)
    with pytest.raises(UserError, match="nowhere: no such model folder"):
        bundle.load(folder / "nowhere")
    for name in ("model.safetensors", "config.json", "tokenizer.json"):
        (folder / name).rename(folder / "away")
        with pytest.raises(UserError, match=f"{name} missing"):
            bundle.load(folder)
        (folder / "away").rename(folder / name)


def test_find_latest_takes_the_newest_complete_model(tmp_path, monkeypatch):
    monkeypatch.setattr(shipped, "models", dict)  # nothing is included
    with pytest.raises(UserError, match="no trained model under"):
        shipped.find_latest(tmp_path)
    for age, name in ((30, "b"), (10, "a"), (20, "c")):
        path = bundle.save(tmp_path / name / "model", make(), TOKENS, {})
        os.utime(path / "config.json", (1e9 - age, 1e9 - age))
    assert shipped.find_latest(tmp_path) == tmp_path / "a" / "model"
    (tmp_path / "a" / "model" / "model.safetensors").unlink()
    assert shipped.find_latest(tmp_path) == tmp_path / "c" / "model"


def change(path, edit):
    value = json.loads(path.read_text())
    edit(value)
    path.write_text(json.dumps(value))


def assert_refused(folder, *words):
    """Assert that the folder is refused with ``words`` in one sentence, and in little memory."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(UserError, match=r"^.{1,1000}$") as caught:
        bundle.load(folder)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200_000  # KB
    assert all(word in str(caught.value) for word in words), str(caught.value)


NUMBERS = ("vocab_size", "layers", "width", "heads", "feedforward", "context", "dropout", "group")
ABSURD = (-1, 10**9, 2.5, float("nan"), "many", [1], None)
#: Configurations of a network that contradict the tokens or the weights.
NETWORKS = [
    *({name: value} for name in (*NUMBERS, "tied", "gates", "attention") for value in ABSURD),
    *({"position": {"name": name}} for name in ("os:abort", ["huang"])),
    *({"position": {"name": "huang", "max_distance": n}} for n in (2**20, float("inf"))),
    {"position": {"name": "none", "periods": [9999] * 100_000}},
    {"position": {"name": "none", "concat_sinusoids": 2**19}},
    {"position": {"name": "two_d", "coordinates": {"kind": "grid", "voices": 2**20}}},
    *({"features": value} for value in ({"name": "sounding"}, [{"name": ["sounding"]}])),
    {"features": [{"name": "os:abort"}]},
    {"features": [{"name": "sounding", "recent": 2**19}]},
    {"features": [{"name": "sounding", "steps": [[0, 5, 2**19]]}]},
    {"features": [{"name": "intervals", "inputs": list(range(1, 100_000))}]},
    {"features": [{"name": "counterpoint", "voices": 1000}]},
    {"features": [{"name": "echoes", "steps": [[1, 0]]}]},
    {"flavour": 3},
]
#: Entries of config.json with values of a wrong type.
CONFIGS = [
    *({"format": value} for value in (99, 1, None)),
    *({"vocabulary": None}, {"model": []}, {"card": "abc"}),
    {"deep": json.loads("[" * 200 + "]" * 200)},
]
#: The rates of six drums, and of seven.
SIX, SEVEN = (" ".join(["9" * 24] * count) for count in (6, 7))
#: (section, entry) of the card -> a right value and wrong values.
ENTRIES = {
    ("corpus", "name"): ("bach", "os:system", 5),
    ("corpus", "programs"): ({"x": 5}, "text", [1], {"x": "3"}, {"x": 10**30}, {"x": -1}),
    ("corpus", "tasks"): ({"melody": "73"}, "text", {"melody": 128}, {"melody": [5]}),
    ("note_limits", "density"): (2.5, "b", float("nan"), True),
    ("note_limits", "parts"): ([[33, 1, 28, 60, 2.5]], [[33, 1, 28, 60]], [5]),
    ("note_limits", "ensembles"): ([[2, [0, 33]]], [[2, 0, 33]], [[2, [129]]], [5]),
    ("drummers", "rock"): ([SIX], "text", ["9" * 96], [SEVEN], [5]),
}


def test_a_config_that_contradicts_tokens_or_weights_is_refused(folder):
    path = folder / "config.json"
    original = path.read_text()
    for values in NETWORKS:
        change(path, lambda c, v=values: c["model"].update(v))
        assert_refused(folder)
        path.write_text(original)
    for values in CONFIGS:
        change(path, lambda c, v=values: c.update(v))
        assert_refused(folder, "config.json")
        path.write_text(original)


FEATURE_OPTIONS = {
    **dict.fromkeys(("bars", "ahead", "harmony", "echoes"), ()),
    "sounding": ("recent", "chords"),
    "conditions": ("chords",),
    "intervals": ("inputs", "outputs", "dropout"),
    "repeats": ("dropout",),
}
#: Tokens, and a network for them: with ``classes``, with ``resets``, with coordinates.
FEATURED = [
    ({"name": "notes", "controls": True}, "huang", ["bars", "ahead", "harmony"]),
    ({"name": "performance", "controls": True}, "two_d", ["sounding", "conditions", "echoes"]),
    ({"name": "chorale"}, "two_d", [{"name": "intervals", "inputs": [1, 4]}, "repeats"]),
]


@pytest.mark.parametrize(("tokens", "scheme", "features"), FEATURED)
def test_only_old_folders_store_what_follows_from_the_tokens(tmp_path, tokens, scheme, features):
    """Loading keeps all that is learnt, such as a table of positions: the logits are the same."""
    shape = ModelConfig(layers=2, width=16, heads=2, context=16, dropout=0.5, features=features)
    tokenizer = build(**tokens)
    options = TrainConfig(model=shape, position={"name": scheme})
    model = at_random(build_model(options, tokenizer)).eval()
    folder = bundle.save(tmp_path / "m", model, tokenizer, {})
    path, full = folder / "config.json", model.config.plain()
    stored = json.loads(path.read_text())["model"]
    assert stored["features"] == [
        {option: feature[option] for option in ("name", *FEATURE_OPTIONS[feature["name"]])}
        for feature in full["features"]
    ]
    assert "coordinates" not in stored["position"]
    ids = torch.arange(4, 4 + 20)[None]
    for old in (False, True):
        if old:
            change(path, lambda c: c.update(format=3, model=full))
        loaded = bundle.load(folder)
        assert (loaded.folder, loaded.tokenizer.fingerprint) == (folder, tokenizer.fingerprint)
        back = loaded.model
        assert back.config == model.config
        assert not back.training
        with torch.no_grad():
            assert torch.equal(back(ids), model(ids))
    for number, feature in enumerate(full["features"]):
        for argument in feature.keys() - stored["features"][number].keys():
            wrong = copy.deepcopy(full)
            wrong["features"][number][argument] = 3
            change(path, lambda c, wrong=wrong: c.update(model=wrong))
            assert_refused(folder, "follow from the tokens")


@pytest.mark.parametrize(("section", "entry"), ENTRIES)
def test_entries_of_the_card_have_the_type_that_is_read(folder, section, entry):
    right, *wrong = ENTRIES[section, entry]
    change(folder / "config.json", lambda c: c.update(card={section: {entry: right}}))
    assert bundle.load(folder).card == {section: {entry: right}}
    for value in wrong:
        change(folder / "config.json", lambda c, v=value: c.update(card={section: {entry: v}}))
        assert_refused(folder, "config.json: card")


NAMES = {"float32": "blocks.1.attention.out.weight", "int8": "embedding.weight.scales"}


@pytest.mark.parametrize("dtype", NAMES)
def test_weights_load_strictly(folder, dtype):
    bundle.save(folder, make(), TOKENS, CARD, dtype=dtype)
    path, name = folder / "model.safetensors", NAMES[dtype]
    whole = load_file(path)
    broken = whole[name].clone()
    broken.view(-1)[0] = float("nan")
    integers = [broken.char(), broken.int()] * (dtype == "float32")
    for stored, word in (
        ({key: tensor for key, tensor in whole.items() if key != name}, name),
        (whole | {"extra": torch.zeros(1)}, "extra"),
        *((whole | {name: t}, name) for t in (broken, broken[:1], *integers)),
        ({str(n): torch.zeros(1) for n in range(10_001)}, "do not fit"),
    ):
        save_file(stored, path)
        assert_refused(folder, "model.safetensors", word.removesuffix(".scales"))
    path.write_bytes(path.read_bytes()[:100])
    assert_refused(folder, "model.safetensors")
    path.unlink()
    os.mkfifo(path)
    assert_refused(folder, "model.safetensors", "expected a file")


@pytest.mark.parametrize(
    "name", ["os:abort", "subprocess:Popen", "musictx.files:remove_partial", "a.b:C"]
)
def test_the_name_of_a_tokenizer_may_not_import_code(folder, name, monkeypatch):
    change(folder / "tokenizer.json", lambda t: t.update(config={"name": name}))
    assert_refused(folder, "tokenizer.json", "MUSICTX_TRUST", name)
    monkeypatch.setenv("MUSICTX_TRUST", "a.b,c")
    if name == "a.b:C":
        assert_refused(folder, "importable")


def test_positions_and_corpora_of_a_model_folder_may_not_import_code(folder, tmp_path, monkeypatch):
    (tmp_path / "stranger.py").write_text("open('imported', 'w').close()")
    monkeypatch.chdir(tmp_path)
    schemes = ({"_target_": "stranger.Scheme"}, {"name": "stranger:Scheme"}, {"name": "stranger"})
    for position in schemes:
        change(folder / "config.json", lambda c, p=position: c["model"].update(position=p))
        assert_refused(folder, "config.json", "position")
    with pytest.raises(UserError, match=r"corpus\.name=stranger"):
        app.corpus_from_card({"name": "stranger"})
    assert not (tmp_path / "imported").exists()


def test_a_tokenizer_that_is_not_the_models_is_refused(folder, tmp_path):
    options = ({"step_ms": 10**9}, {"step_ms": 20}, {"flavour": 1}, {"name": "nothing"})
    for config in (*({"name": "performance"} | more for more in options), []):
        change(folder / "tokenizer.json", lambda t, config=config: t.update(config=config))
        assert_refused(folder, "tokenizer.json")
    # As many ids, with other meanings: only the fingerprint differs.
    other = build("performance", low=61, high=73, velocity_bins=4)
    assert other.vocabulary.size == TOKENS.vocabulary.size
    bundle.save(tmp_path / "other", make(), other, {})
    shutil.copy(tmp_path / "other" / "tokenizer.json", folder)
    assert_refused(folder, other.fingerprint, TOKENS.fingerprint)


def test_files_that_are_not_json_are_refused(folder):
    for name in ("tokenizer.json", "config.json"):  # which is read first
        for text in ("[" * 200_000, "9" * 5000, "5", "null", '{"format":', "\xff", "x" * 5_000_000):
            (folder / name).write_text(text, encoding="latin-1")
            assert_refused(folder, name)
