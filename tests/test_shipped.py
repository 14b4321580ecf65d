"""The included models: small, described, unchanged, and chosen for the requests that they suit."""

import re
from pathlib import Path

import numpy as np
import pytest
import torch

import musictx
from musictx import bundle, shipped
from musictx.apps.results import choose_model, suits_bars
from musictx.chorale.config import HarmoniseConfig
from musictx.config import AccompanyConfig, GenerateConfig, InfillConfig, ModelFolder
from musictx.errors import UserError
from musictx.notes import Score
from tests import pieces
from tests.untrained import saved

MODELS = sorted(shipped.models())


@pytest.mark.parametrize("name", MODELS)
def test_a_model_is_small_described_and_names_no_private_place(name):
    folder = shipped.models()[name]
    assert (folder / "model.safetensors").stat().st_size < 20e6
    loaded = bundle.load(name)  # by its name
    assert loaded.folder == folder
    assert loaded.model.config.attention == "auto"  # no compiler, no GPU needed
    for key in ("title", "summary", "corpus", "training", "numbers", "licence", "command"):
        assert loaded.card.get(key), key
    for file in ("CARD.md", "config.json"):
        text = (folder / file).read_text()
        assert not re.search(r"(?<![\w.])/(?!min\b)\w+/\w+", text), "an absolute path"


#: Logits of ids 0, 5, 17, 40 and 63 after the ids 7 * (1..64) mod size, as they were when the
#: models were included.
LOGITS = {
    "piano": [-5.9892, -3.9232, 0.2316, -4.9365, -14.8474],
    "song": [-7.5771, -7.6913, -7.7383, -1.4311, -7.7053],
    "chorale": [-2.4543, -6.3552, -4.7347, -6.278, -9.997],
}


@pytest.mark.parametrize("name", MODELS)
def test_a_model_gives_the_logits_it_was_shipped_with(name):
    loaded = bundle.load(name)
    ids = torch.arange(1, 65)[None] * 7 % loaded.tokenizer.vocabulary.size
    with torch.no_grad():
        logits = loaded.model(ids)[0, -1, [0, 5, 17, 40, 63]]
    assert torch.allclose(logits, torch.tensor(LOGITS[name]), atol=2e-3, rtol=0)


def test_the_newest_suitable_model_is_chosen_and_named(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)

    def chosen(request):
        return choose_model(request.model, request.tokenizer), capsys.readouterr().out

    harmonising = HarmoniseConfig(melody="ode_to_joy")
    chorale = shipped.models()["chorale"]
    where, line = chosen(GenerateConfig())
    assert where == shipped.find_latest() == shipped.default_model()
    assert "not for commercial use" in line
    newest = Path("runs/performance/model")
    saved(newest, context=64)
    assert chosen(GenerateConfig()) == (newest, f"model: {newest}, the newest\n")
    assert chosen(harmonising) == (chorale, "model: chorale, which comes with musictx\n")
    saved(Path("runs/chorale/model"), tokens={"name": "chorale"}, context=64)
    assert chosen(harmonising)[0] == Path("runs/chorale/model")
    assert chosen(GenerateConfig(model=ModelFolder("chorale"))) == (chorale, "")
    with pytest.raises(UserError, match="nothing-of-the-kind"):
        shipped.locate("nothing-of-the-kind")
    (tmp_path / "chorale").mkdir()  # such as a folder of chorales
    assert shipped.locate("chorale") == chorale
    (tmp_path / "chorale" / "config.json").touch()  # a model comes before an included one
    with pytest.raises(UserError, match="missing"):
        shipped.locate("chorale")


TIMES = np.random.default_rng(1).uniform(0, 20, 40)
#: Notes at random between the beats of the file; the same with a drum; notes on the beats.
PLAYED = pieces.of(*[(t, t + 0.3, 60 + n % 9) for n, t in enumerate(TIMES)])
WITH_DRUM = pieces.of(*PLAYED.notes.tolist(), (5.0, 5.1, 36, 80, 0, True, 1))
IN_TIME = pieces.line(*range(60, 76))


@pytest.mark.parametrize(
    ("request_", "score", "in_bars"),
    [
        (GenerateConfig(seconds=8), None, False),
        (GenerateConfig(bars=4), None, True),
        (GenerateConfig(tempo=90), None, True),
        (GenerateConfig(form="AB"), None, True),
        (GenerateConfig(seconds=8), PLAYED, False),
        (GenerateConfig(bars=4), PLAYED, False),
        (GenerateConfig(seconds=8), IN_TIME, True),
        (GenerateConfig(seconds=8), WITH_DRUM, True),
        (InfillConfig(), PLAYED, False),
        (AccompanyConfig(add="Piano"), PLAYED, False),
        (AccompanyConfig(add="piano, bass"), PLAYED, True),
        (AccompanyConfig(chords="| C |"), Score(), True),
        (AccompanyConfig(), Score(markers=[(0.0, "C:maj")]), True),
    ],
)  # fmt: skip
def test_the_model_for_a_request_has_bars_if_options_or_music_need_them(request_, score, in_bars):
    assert suits_bars(request_, score) is in_bars


@pytest.mark.slow
@pytest.mark.parametrize(("name", "primer"), [("piano", "mozart_k545"), ("chorale", None)])
@pytest.mark.usefixtures("one_thread")
def test_the_same_seed_gives_the_same_file_on_any_number_of_threads(name, primer):
    files = []
    for threads in (1, 3):
        torch.set_num_threads(threads)
        pieces = musictx.generate(name, primer=primer, tokens=40, samples=2, seed=5)
        files.append(musictx.to_bytes(pieces[1]))
    assert files[0] == files[1]
