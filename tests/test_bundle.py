"""A model folder: written whole, read strictly, the same logits back."""

import json
import os
import re
import shutil
import sys
import time

import numpy as np
import pytest
import torch
import yaml
from safetensors.torch import load_file, save_file

from musictx import __version__, bundle, shipped
from musictx.apps import measuring
from musictx.errors import UserError
from musictx.files import PART
from musictx.model.transformer import MusicTransformer
from musictx.tokens.build import build as build_tokenizer

CARD = {
    "title": "Small tunes",
    "summary": "Six melodies.",
    "command": "musictx train corpus.path=tunes",
    "corpus": {"name": "folder", "path": "tunes", "shards": "data/shards/tunes"},
    "numbers": {"validation_nll": np.float64(1.25), "steps": np.int64(40)},
    "licence": ["weights CC0"],
}


@pytest.fixture
def tokenizer():
    return build_tokenizer(name="performance", low=60, high=72, velocity_bins=4)


def make(tokenizer, seed=0, **more):
    torch.manual_seed(seed)
    arguments = {"layers": 2, "width": 16, "heads": 2, "feedforward": 32, "context": 16} | more
    return MusicTransformer(tokenizer.size, **arguments).eval()


@pytest.fixture
def folder(tmp_path, tokenizer):
    return bundle.save(tmp_path / "model", make(tokenizer), tokenizer, CARD)


def logits(model, tokenizer):
    ids = torch.arange(4, 4 + 20)[None] % tokenizer.size
    with torch.no_grad():
        return model(ids)


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("scheme", ["huang", "none", "sinusoidal"])
def test_round_trip_gives_identical_logits(tmp_path, tokenizer, tied, scheme):
    model = make(tokenizer, tied=tied, position={"name": scheme}, dropout=0.5)
    bundle.save(tmp_path / "m", model, tokenizer, CARD)
    back = bundle.load(tmp_path / "m")
    assert not back.model.training
    assert back.model.config == model.config
    assert torch.equal(logits(back.model, tokenizer), logits(model, tokenizer))
    assert back.tokenizer.fingerprint == tokenizer.fingerprint
    assert back.folder == tmp_path / "m"


def test_everything_learned_is_in_the_file(tmp_path, tokenizer):
    """No table of positions, or anything else, is made anew at random when loading."""
    model = make(tokenizer)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_()
    bundle.save(tmp_path / "m", model, tokenizer, {})
    torch.manual_seed(99)
    back = bundle.load(tmp_path / "m").model
    for (name, ours), (same, theirs) in zip(
        model.named_parameters(), back.named_parameters(), strict=True
    ):
        assert name == same
        assert torch.equal(ours, theirs), name


def test_weights_that_share_memory_are_stored_once_and_shared_again(tmp_path, tokenizer):
    model = make(tokenizer)
    model.again = torch.nn.Embedding(tokenizer.size, 16)
    model.again.weight = model.embedding.weight
    kept = bundle._weights(model, "float32")
    assert [name for name in kept if "embedding" in name or "again" in name] == ["embedding.weight"]
    assert set(bundle._canonical(model)) == set(model.state_dict())
    save_file(kept, tmp_path / "w")
    other = make(tokenizer, seed=1)
    other.again = torch.nn.Embedding(tokenizer.size, 16)
    other.again.weight = other.embedding.weight
    bundle._fill(other, tmp_path / "w")
    assert torch.equal(other.again.weight, model.embedding.weight)


@pytest.mark.parametrize(("dtype", "bits"), [("float16", 10), ("bfloat16", 7)])
def test_half_precision_halves_the_file_and_loads_as_float32(tmp_path, tokenizer, dtype, bits):
    model = make(tokenizer)
    full = bundle.save(tmp_path / "full", model, tokenizer, CARD)
    half = bundle.save(tmp_path / "half", model, tokenizer, CARD, dtype=dtype)
    sizes = [(f / "model.safetensors").stat().st_size for f in (full, half)]
    assert sizes[1] < 0.6 * sizes[0]
    back = bundle.load(half).model
    for ours, theirs in zip(model.parameters(), back.parameters()):
        assert theirs.dtype == torch.float32
        assert torch.allclose(ours, theirs, rtol=2.0**-bits, atol=1e-6)
    with pytest.raises(UserError, match=r"dtype=int4: expected one of float32, .*, int8"):
        bundle.save(tmp_path / "m", model, tokenizer, CARD, dtype="int4")


def test_bytes_quarter_the_file_and_lose_half_a_step_of_each_row_at_most(tmp_path, tokenizer):
    model = make(tokenizer)
    with torch.no_grad():
        model.embedding.weight[3] = 0.0  # a row without a largest number
        model.embedding.weight[4] *= 1e-6
    full = bundle.save(tmp_path / "full", model, tokenizer, CARD)
    small = bundle.save(tmp_path / "small", model, tokenizer, CARD, dtype="int8")
    sizes = [(f / "model.safetensors").stat().st_size for f in (full, small)]
    assert sizes[1] < 0.45 * sizes[0]  # the header of so small a model counts
    back = bundle.load(small).model
    for ours, theirs in zip(model.parameters(), back.parameters()):
        assert theirs.dtype == torch.float32
        if ours.dim() > 1:
            step = ours.abs().amax(-1, keepdim=True) / 127
            assert ((ours - theirs).abs() <= 0.501 * step).all()
        else:
            assert torch.allclose(ours, theirs, rtol=2.0**-10, atol=1e-6)
    # What was read as bytes is written as the same bytes.
    again = bundle.save(tmp_path / "again", back, tokenizer, CARD, dtype="int8")
    first, second = (load_file(f / "model.safetensors") for f in (small, again))
    assert all(
        torch.equal(first[name], second[name]) for name in first if first[name].dtype == torch.int8
    )


@pytest.mark.parametrize("spoilt", ["shape", "kind", "scale", "missing"])
def test_bytes_without_their_scales_are_refused(tmp_path, tokenizer, spoilt):
    folder = bundle.save(tmp_path / "m", make(tokenizer), tokenizer, CARD, dtype="int8")
    weights = load_file(folder / "model.safetensors")
    scales = weights["embedding.weight.scales"]
    if spoilt == "shape":
        weights["embedding.weight.scales"] = scales[1:].clone()
    elif spoilt == "kind":
        weights["embedding.weight"] = weights["embedding.weight"].float()
    elif spoilt == "scale":
        scales[0] = float("inf")
    else:
        del weights["embedding.weight.scales"]
    save_file(weights, folder / "model.safetensors")
    with pytest.raises(UserError, match=r"the weights do not fit config\.yaml: "):
        bundle.load(folder)


def test_the_card_is_data_and_text(folder):
    assert bundle.load(folder).card == {
        **CARD,
        "numbers": {"validation_nll": 1.25, "steps": 40},
    }
    text = (folder / "CARD.md").read_text()
    for words in ("# Small tunes", "Six melodies.", "tunes", "1.25", "CC0", "musictx generate"):
        assert words in text
    assert f"musictx {__version__}" in text


def test_a_folder_holds_four_files_that_anyone_may_read(folder):
    assert sorted(p.name for p in folder.iterdir()) == sorted(bundle.FILES)
    modes = {p.stat().st_mode & 0o777 for p in folder.iterdir()}
    assert len(modes) == 1
    assert [p.name for p in folder.parent.iterdir()] == ["model"], "something was left beside"


def test_nothing_in_the_folder_can_run(folder):
    """No pickle: the weights are safetensors, and YAML tags that make objects are refused."""
    load_file(folder / "model.safetensors")
    for name in ("config.yaml", "CARD.md", "tokenizer.json"):
        assert "_target_" not in (folder / name).read_text()
    marker = folder / "ran"
    with (folder / "config.yaml").open("a") as file:
        file.write(f"\nevil: !!python/object/apply:os.mkdir ['{marker}']\n")
    with pytest.raises(UserError, match=r"config.yaml: cannot be read as YAML"):
        bundle.load(folder)
    assert not marker.exists()


def test_saving_again_replaces_and_a_failure_keeps_the_old_one(folder, tokenizer, monkeypatch):
    new = make(tokenizer, seed=5)
    bundle.save(folder, new, tokenizer, {})
    assert torch.equal(logits(bundle.load(folder).model, tokenizer), logits(new, tokenizer))

    def fail(*args, **kwargs):
        raise OSError(28, "No space left on device")

    before = {p.name: p.read_bytes() for p in folder.iterdir()}
    monkeypatch.setattr(bundle, "save_file", fail)
    with pytest.raises(UserError, match=r"cannot be written: .*No space left"):
        bundle.save(folder, make(tokenizer, seed=6), tokenizer, {})
    assert {p.name: p.read_bytes() for p in folder.iterdir()} == before
    assert [p.name for p in folder.parent.iterdir()] == ["model"], "something was left beside"


def test_the_old_model_stands_again_if_the_new_one_cannot_be_put_there(
    folder, tokenizer, monkeypatch
):
    before = {p.name: p.read_bytes() for p in folder.iterdir()}
    real = type(folder).rename

    def fail(self, target):
        if self.name.startswith(PART) and "-old-" not in self.name:
            raise OSError(5, "Input/output error")
        return real(self, target)

    monkeypatch.setattr(type(folder), "rename", fail)
    with pytest.raises(UserError, match="cannot be written"):
        bundle.save(folder, make(tokenizer, seed=6), tokenizer, {})
    assert {p.name: p.read_bytes() for p in folder.iterdir()} == before
    assert [p.name for p in folder.parent.iterdir()] == ["model"]


def test_a_folder_with_something_else_in_it_is_not_replaced(tmp_path, tokenizer):
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "cat.jpg").write_bytes(b"cat")
    with pytest.raises(UserError, match="there is something else in this folder"):
        bundle.save(tmp_path / "photos", make(tokenizer), tokenizer, CARD)
    assert (tmp_path / "photos" / "cat.jpg").read_bytes() == b"cat"
    with pytest.raises(UserError, match="this is a file"):
        bundle.save(tmp_path / "photos" / "cat.jpg", make(tokenizer), tokenizer, CARD)


def test_a_tokenizer_that_is_not_the_models_is_not_saved_with_it(tmp_path, tokenizer):
    other = build_tokenizer(name="performance")
    with pytest.raises(UserError, match=f"it has {other.size} ids but the model was built for"):
        bundle.save(tmp_path / "m", make(tokenizer), other, CARD)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["model.safetensors", "config.yaml", "tokenizer.json"])
def test_a_half_complete_folder_names_what_is_missing(folder, name):
    (folder / name).unlink()
    with pytest.raises(UserError, match=f"{name} missing; a model folder holds model.safetensors"):
        bundle.load(folder)


def test_a_lost_card_for_people_is_no_harm(folder):
    (folder / "CARD.md").unlink()
    assert bundle.load(folder).card["title"] == "Small tunes"


def test_a_missing_folder_says_what_one_is(tmp_path):
    with pytest.raises(UserError, match=r"no such model folder .*written by musictx train"):
        bundle.load(tmp_path / "nowhere")


def test_a_run_folder_stands_for_the_model_in_it(folder):
    assert bundle.load(folder.parent).folder == folder


def change_json(path, **values):
    path.write_text(json.dumps(json.loads(path.read_text()) | values))


def test_a_foreign_vocabulary_is_refused(folder, tmp_path, tokenizer):
    """The same number of ids, meaning other things: only the fingerprint can tell."""
    other = build_tokenizer(name="performance", low=61, high=73, velocity_bins=4)
    assert other.size == tokenizer.size
    bundle.save(tmp_path / "other", make(other), other, {})
    shutil.copy(tmp_path / "other" / "tokenizer.json", folder)
    with pytest.raises(UserError, match=r"describes the vocabulary .* trained with") as error:
        bundle.load(folder)
    assert other.fingerprint in str(error.value)
    assert tokenizer.fingerprint in str(error.value)


def test_a_tokenizer_config_that_was_edited_is_refused(folder, tokenizer):
    path = folder / "tokenizer.json"
    change_json(path, config=json.loads(path.read_text())["config"] | {"step_ms": 20})
    with pytest.raises(UserError, match=r"tokenizer.json: its config now gives the vocabulary"):
        bundle.load(folder)


@pytest.mark.parametrize("config", [{"name": "nothing"}, {"name": "performance", "flavour": 1}])
def test_a_tokenizer_that_cannot_be_built_is_told(folder, config):
    change_json(folder / "tokenizer.json", config=config)
    with pytest.raises(UserError, match="tokenizer"):
        bundle.load(folder)


def change_config(folder, change):
    config = yaml.safe_load((folder / "config.yaml").read_text())
    change(config)
    (folder / "config.yaml").write_text(yaml.safe_dump(config))


def test_another_vocabulary_size_is_refused(folder):
    change_config(folder, lambda c: c["model"].update(vocab_size=500))
    with pytest.raises(UserError, match=r"vocab_size=500: expected \d+, as the weights have"):
        bundle.load(folder)


def test_weights_load_strictly(folder):
    """A missing, foreign or wrongly shaped tensor is named, never left at random."""
    path = folder / "model.safetensors"
    whole = load_file(path)
    name = next(n for n in whole if n.startswith("blocks.1"))
    for stored, words in (
        ({n: t for n, t in whole.items() if n != name}, f"1 tensors are missing, such as {name}"),
        (whole | {"extra": torch.zeros(1)}, "1 tensors are foreign to the model, such as extra"),
        (whole | {name: torch.zeros(3)}, f"{name} has shape \\(3,\\) where the model has"),
    ):
        save_file(stored, path)
        with pytest.raises(UserError, match=f"the weights do not fit config.yaml: {words}"):
            bundle.load(folder)
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(UserError, match="cannot be read as safetensors"):
        bundle.load(folder)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda c: c.update(format=99), "format 99, written by musictx .*install a newer one"),
        (lambda c: c.update(format=1), "format 1, written by musictx .*train the model again"),
        (lambda c: c.pop("format"), "this is not the configuration of a model"),
        (lambda c: c.pop("vocabulary"), "the entry 'vocabulary' is missing"),
        (lambda c: c["model"].update(flavour=3), "no model can be built from it: .*flavour"),
        (lambda c: c["model"].update(heads=3), r"model\.heads=3: expected a divisor of width=16"),
        (lambda c: c["card"]["corpus"].update(name="os:system"), "may not import code"),
        *(
            (
                lambda c, wrong=wrong: c["card"]["corpus"].update(programs=wrong),
                r"card\.corpus\.programs=.*: expected name -> program",
            )
            for wrong in ("text", [1], {5: 3}, {"x": "3"}, {"x": 10**30}, {"x": -1}, {"x": True})
        ),
        *(
            (
                lambda c, wrong=wrong: c["card"]["corpus"].update(tasks=wrong),
                r"card\.corpus\.tasks=.*: expected a melody",
            )
            for wrong in (
                "text",
                [1],
                {"melody": "\u00b2"},
                {"melody": 128},
                {"melody": [5]},
                {"melody": "9" * 5000},
            )
        ),
        (lambda c: c.update(card="abc"), "card=abc: expected entries by name"),
        (
            lambda c: c["card"].update(note_limits="text"),
            r"card\.note_limits=text: expected numbers",
        ),
        (
            lambda c: c["card"].update(note_limits={"longest_note": [[0, 1.0, 2]]}),
            r"longest_note as a list of \[lowest pitch, seconds\]",
        ),
        (lambda c: c["card"].update(note_limits={"a": "b"}), r"card\.note_limits="),
        (
            lambda c: c["card"].update(note_limits={"parts": [[33, 1, 28, 60]]}),
            r"notes a second\]",
        ),
        (
            lambda c: c["card"].update(note_limits={"instruments": ["all"]}),
            r"instruments as a list",
        ),
        (lambda c: c["card"].update(drummers={"rock": []}), r"card\.drummers=.*: expected a list"),
        (lambda c: c["card"].update(drummers={"rock": ["9" * 96]}), "each four words of 24 digits"),
        (lambda c: c["model"].update(position={"name": "os:abort"}), "may not import code"),
        (
            lambda c: c["model"].update(position={"max_distance": 1e400}),
            "bear out",
        ),
        (
            lambda c: c["model"].update(position={"max_distance": 10**9}),
            "bear out",
        ),
        (
            lambda c: c["model"].update(position={"periods": [9999] * 1000}),
            "bear out",
        ),
        (
            lambda c: c["model"].update(features=[{"name": "intervals", "inputs": [10**9]}]),
            r"intervals=.* bear out",
        ),
        (
            lambda c: c["model"].update(features=[{"name": "counterpoint", "voices": 1000}]),
            r"counterpoint=.* a few voices",
        ),
        (
            lambda c: c["model"].update(features=[{"name": "sounding", "recent": 10**4}]),
            r"sounding=.* bear out",
        ),
        (
            lambda c: c["model"].update(features=[{"name": "conditions", "chords": 10**4}]),
            r"conditions=.* bear out",
        ),
        (lambda c: c["model"].update(features=[{"name": "os:abort"}]), "may not import code"),
        (lambda c: c["model"].update(features=[{"name": "abort"}]), "abort: expected one of"),
        (lambda c: c["model"].update(features=[{"name": ["a"]}]), "each with a name"),
        (lambda c: c["model"].update(features={"name": "ages"}), "expected a list"),
    ],
)
def test_a_config_that_cannot_be_used_is_told(folder, change, words):
    change_config(folder, change)
    with pytest.raises(UserError, match=words):
        bundle.load(folder)


@pytest.mark.parametrize(
    "name", ["vocab_size", "layers", "width", "heads", "feedforward", "context", "dropout", "tied"]
)
def test_absurd_zero_and_text_values_are_refused_by_name(folder, name):
    """Before anything is made of them: none of these takes memory or time."""
    for value in (0, -1, 10**9, 10**5 + 1, float("nan"), float("inf"), "many", [1], True, None):
        if [name, value] in (["dropout", 0], ["tied", True]):
            continue
        change_config(folder, lambda c, value=value: c["model"].update({name: value}))
        with pytest.raises(UserError, match=rf"config\.yaml: model\.{name}=.*: expected "):
            bundle.load(folder)


def test_deep_large_and_referring_files_are_one_sentence(folder):
    good = (folder / "config.yaml").read_text()
    for text, words in (
        ("[" * 60_000, "nested too deeply"),
        (f"format: 2\nmodel: {'[' * 101}{']' * 101}\n", "nested too deeply"),
        ("a: &x [1, 2]\nb: [*x, *x]\n" + good, "it has references"),
        (good + "z: " + "9" * 5000, "cannot be read as YAML"),
        ("x" * 5_000_000, "larger than"),
    ):
        (folder / "config.yaml").write_text(text)
        with pytest.raises(UserError, match=words) as caught:
            bundle.load(folder)
        assert "\n" not in str(caught.value)
    (folder / "config.yaml").write_text(good)
    for text in ("[" * 200_000, '{"fingerprint": 1}', "5", "null", '{"fingerprint":'):
        (folder / "tokenizer.json").write_text(text)
        with pytest.raises(UserError, match=r"tokenizer\.json: "):
            bundle.load(folder)


def test_a_tokenizer_of_absurd_size_is_refused(folder):
    told = json.loads((folder / "tokenizer.json").read_text())
    change_json(folder / "tokenizer.json", config=told["config"] | {"step_ms": 10**9})
    with pytest.raises(UserError, match="its options are too large"):
        bundle.load(folder)


@pytest.mark.parametrize("name", ["os:abort", "subprocess:Popen", "musictx.files:tidy", "a.b:C"])
def test_a_tokenizer_may_not_import_and_call_what_its_name_says(folder, name, monkeypatch):
    change_json(folder / "tokenizer.json", config={"name": name})
    with pytest.raises(UserError, match="may not import code; if you trust this one, set"):
        bundle.load(folder)
    monkeypatch.setenv("MUSICTX_TRUST", "a.b,c")
    if name == "a.b:C":
        with pytest.raises(UserError, match=r"a\.b:C: expected module:Class, importable from"):
            bundle.load(folder)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_weights_that_are_no_numbers_are_told(folder, value):
    path = folder / "model.safetensors"
    stored = load_file(path)
    name = next(iter(stored))
    stored[name].view(-1)[0] = value
    save_file(stored, path)
    with pytest.raises(UserError, match=f"{name} holds numbers that are not finite"):
        bundle.load(folder)


def test_a_bundle_is_shown_in_one_line(folder):
    text = repr(bundle.load(folder))
    assert re.fullmatch(r"Bundle\('.*/model', performance tokens, [\d,]+ parameters\)", text)


def test_find_latest_takes_the_newest_complete_model(tmp_path, tokenizer, monkeypatch):
    monkeypatch.setattr(shipped, "models", dict)  # nothing comes along
    with pytest.raises(UserError, match=r"no trained model under .*musictx train corpus.path=DIR"):
        shipped.find_latest(tmp_path / "runs")
    for age, name in ((30, "b"), (10, "a"), (20, "c")):
        made = bundle.save(tmp_path / "runs" / name / "model", make(tokenizer), tokenizer, {})
        os.utime(made / "config.yaml", (1e9 - age, 1e9 - age))
    assert shipped.find_latest(tmp_path / "runs") == tmp_path / "runs" / "a" / "model"
    (tmp_path / "runs" / "a" / "model" / "model.safetensors").unlink()
    assert shipped.find_latest(tmp_path / "runs") == tmp_path / "runs" / "c" / "model"


def test_a_large_configuration_is_refused_before_it_is_parsed(folder):
    path = folder / "config.yaml"
    text = path.read_text() + "x: " + ":".join(["59"] * 100_000)
    path.write_text(text)
    begin = time.process_time()
    with pytest.raises(UserError, match=r"config\.yaml: larger than 64000 bytes"):
        bundle.load(folder)
    assert time.process_time() - begin < 1


def test_weights_of_a_foreign_kind_are_refused(folder):
    file = folder / "model.safetensors"
    weights = load_file(file)
    save_file({name: tensor.to(torch.float8_e4m3fn) for name, tensor in weights.items()}, file)
    with pytest.raises(UserError, match="holds float8_e4m3fn, expected float32, float16, bfloat16"):
        bundle.load(folder)


@pytest.mark.parametrize(
    "corpus",
    [
        {"path": 5},
        {"path": ["a"]},
        {"shards": 5},
        {"held out": {"evil": 1}, "name": "bach"},
        {"held out": 5, "name": "bach"},
        {"name": 5},
        {"name": ["a"], "path": "x"},
        {"name": "this:Zen"},
        {"name": "this:Zen", "path": "x"},
        {"programs": [1, 2], "path": "P"},
        {"programs": "ab", "path": "P"},
    ],
)
def test_a_damaged_card_is_one_sentence_to_evaluate(corpus):
    told = r"card is damaged; give corpus\.path=DIR|card: corpus.name=this:Zen: .*may not import"
    with pytest.raises(UserError, match=told):
        measuring._corpus_of({"corpus": corpus})
    assert "this" not in sys.modules
