"""Training elsewhere: what is carried is enough, and a stopped run goes on. Without wheels."""

import json
import shutil

import pytest

from musictx.config import CorpusConfig
from musictx.data.prepare import prepare
from musictx.data.shards import Shards
from musictx.tokens.build import build
from tests.data.helpers import write_songs


@pytest.fixture
def carry(script, tmp_path):
    corpus = write_songs(tmp_path / "midi", range(8), notes=60)
    asked = CorpusConfig(path=str(corpus), test=0.3, workers=1)
    prepare(asked, build("performance"), tmp_path / "shards", progress=False)
    return script("gpu/pack.py").pack(str(tmp_path / "shards"), str(tmp_path / "carry"), "false")


@pytest.mark.slow
def test_what_is_carried_trains_and_goes_on(script, carry, tmp_path):
    pack = script("gpu/pack.py")
    small = ["model.width=32", "model.heads=2", "model.layers=1", "model.feedforward=32"]
    small += ["model.context=64"]
    folder = pack.run(str(carry), str(tmp_path / "out"), small, rehearse="true")
    there, here = Shards(tmp_path / "out" / "shards"), Shards(tmp_path / "shards")
    assert {p.hash for p in there.pieces()} == {
        p.hash for p in here.pieces() if p.split in ("train", "validation")
    }
    assert json.loads((folder / "status.json").read_text())["step"] == 4
    shutil.copytree(folder, carry / "run")
    again = pack.run(str(carry), str(tmp_path / "other"), small, rehearse="true")
    assert json.loads((again / "status.json").read_text())["step"] == 4
    weights = [f / "model" / "model.safetensors" for f in (folder, again)]
    assert weights[0].read_bytes() == weights[1].read_bytes(), "what was done is not done again"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "expected: pack shards=FOLDER"),
        (["pack", "to=x"], "shards: missing"),
        (["pack", "to=x", "shards=y", "model=tiny"], "model=tiny: expected some of"),
    ],
)
def test_mistakes_are_told(script, words, said):
    with pytest.raises(SystemExit, match=said):
        script("gpu/pack.py").main(words)
