"""Every experiment trains, and so do other tokenizers and positions by one option."""

import json

import numpy as np
import pytest

from musictx import cli, formats
from musictx.commands import groups, preset
from tests.data.helpers import write_songs
from tests.pieces import line
from tests.untrained import saved

TINY = ["model=tiny", "model.layers=1", "model.width=32", "model.heads=2", "model.context=64"]
TINY += ["model.feedforward=64", "trainer=laptop", "trainer.accelerator=cpu", "optim.warmup=2"]
TINY += ["trainer.val_check_interval=5", "data.validation_windows=4", "data.batch_size=4"]
TINY += ["callbacks.samples.seconds=1", "corpus.workers=1"]


@pytest.mark.parametrize(
    "option",
    ["tokenizer.name=docs.examples.remi:Remi", "tokenizer=ensemble", "position=learned",
     "position=two_d"],
)  # fmt: skip
def test_a_model_with_another_option_trains_evaluates_and_continues(option, tmp_path, monkeypatch):
    """Also beyond the context, and from a folder with a broken file and a text file."""
    monkeypatch.setenv("MUSICTX_TRUST", "docs.examples.remi")
    folder = write_songs(tmp_path / "my midi (live)", range(6), notes=80)
    (folder / "broken.MID").write_bytes(b"MThd\x00\x00")
    (folder / "notes.txt").write_text("not music")
    words, model = [f"corpus.path={folder}", f"corpus.shards={tmp_path}/s"], f"{tmp_path}/run/model"
    steps = [f"out={tmp_path}/run", "trainer.max_steps=5", option]
    assert cli.main(["train", *words, *steps, *TINY]) == 0
    assert cli.main(["evaluate", f"model={model}", *words, "corpus.workers=1"]) == 0
    options = [f"model={model}", "seconds=30", "tokens=100", f"out={tmp_path}/made.mid"]
    assert cli.main(["continue", f"{folder}/song-001.mid", *options]) == 0
    assert len(formats.read(tmp_path / "made.mid")) > 80


@pytest.fixture(scope="module")
def corpora(tmp_path_factory) -> dict[str, list[str]]:
    """Return folder of experiments -> options of its corpus, and of a small model where the paper's
    would take minutes. Experiments without a folder share shards of the chorales. ``init``: a small
    model in place of the included one."""
    root = tmp_path_factory.mktemp("corpora")
    small = [f"model.{k}={v}" for k, v in {"layers": 1, "width": 16, "heads": 2}.items()]
    piece = [[72, 67, 60, 48], [74, 67, 59, 50]] * 8
    (root / "jsb.json").write_text(json.dumps({"train": [piece] * 3, "valid": [piece]}))
    songs = write_songs(root / "midi", range(6))
    splits = ["validation", *["train"] * 5]
    rows = [f"{split},{path.name}" for split, path in zip(splits, sorted(songs.iterdir()))]
    (songs / "maestro.csv").write_text("\n".join(["split,midi_filename", *rows]))
    (root / "grid").mkdir()
    for seed in range(6):
        pitches = np.random.default_rng(seed).integers(60, 72, 32)
        tune = line(*pitches, every=0.25, length=0.2, program=73)
        formats.write(tune, root / "grid" / f"{seed}.mid")
    return {
        "init": [f"init={saved(root / 'init', tokens={'name': 'performance'}, context=128)}"],
        "jsb": [f"corpus.path={root / 'jsb.json'}", f"corpus.shards={root}/jsb", *small],
        "": [f"corpus.shards={root}/bach"],
        "maestro": [f"corpus.path={songs}", *small],
        "song": [f"corpus.path={root / 'grid'}", *small],
    }


@pytest.mark.usefixtures("few_chorales")
@pytest.mark.parametrize("name", groups("train")["experiment"])
def test_every_experiment_takes_a_step(name, corpora, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # the default place of shards
    words = [f"experiment={name}", "trainer.max_steps=1", "trainer.max_time=null"]
    short = ["data.batch_size=2", "data.validation_windows=2", "callbacks=quiet"]
    short += ["corpus.workers=1"]
    where = [f"out={tmp_path}/run", "trainer.accelerator=cpu", "data.num_workers=0"]
    where += corpora["init"] if preset("experiment", name).get("init") else []
    where += corpora.get(name) or corpora["maestro" if name == "own" else name.rpartition("/")[0]]
    assert cli.main(["train", *words, *short, *where]) == 0
    assert (tmp_path / "run" / "model" / "model.safetensors").is_file()
