"""Every recipe of experiment= trains, and `make` shows how far it is."""

import json
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from musictx import cli, midi
from musictx.commands import groups, preset
from musictx.notes import Score
from tests.data.helpers import write_songs
from tests.untrained import saved

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.skipif(shutil.which("make") is None, reason="the Makefile is for Linux and macOS")
@pytest.mark.parametrize("target", ["demo", "test"])
def test_make_shows_how_far_the_big_download_is(target, tmp_path):
    """Torch first, with pip's progress bar; the rest in silence."""
    words = ["make", "--dry-run", target, f"VENV={tmp_path}"]
    out = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    first, rest = (line.split() for line in out.splitlines() if "pip install" in line)
    assert first[-3:] == ["--progress-bar", "on", "torch"]
    assert "--quiet" not in first
    assert "--quiet" in rest


@pytest.fixture(scope="module")
def corpora(tmp_path_factory) -> dict[str, list[str]]:
    """An experiment's folder -> its corpus and, where the paper's size would take minutes, a
    small model. Recipes without a folder train on the chorales, whose shards they share. ``init``:
    a small model in place of the included one."""
    root = tmp_path_factory.mktemp("corpora")
    small = [f"model.{k}={v}" for k, v in {"layers": 1, "width": 16, "heads": 2}.items()]
    piece = [[72, 67, 60, 48], [74, 67, 59, 50]] * 8
    (root / "jsb.json").write_text(json.dumps({"train": [piece] * 3, "valid": [piece]}))
    songs = write_songs(root / "midi", range(6))
    splits = ["validation", *["train"] * 5]
    rows = [f"{split},{path.name}" for split, path in zip(splits, sorted(songs.iterdir()))]
    (songs / "maestro.csv").write_text("\n".join(["split,midi_filename", *rows]))
    grid = root / "grid"
    grid.mkdir()
    for seed in range(6):
        pitches = np.random.default_rng(seed).integers(60, 72, 32)
        rows = [(i / 4, i / 4 + 0.2, p, 80, 73, False, 0) for i, p in enumerate(pitches)]
        midi.write(Score(rows), grid / f"{seed}.mid")
    split = [f"{'train' if seed else 'validation'},{seed}.mid" for seed in range(6)]
    (grid / "split.csv").write_text("\n".join(["split,midi_filename", *split]))
    return {
        "init": [f"init={saved(root / 'init', tokens={'name': 'performance'}, context=64)}"],
        "jsb": [f"corpus.path={root / 'jsb.json'}", f"corpus.shards={root}/jsb", *small],
        "": [f"corpus.shards={root}/bach"],
        "maestro": [f"corpus.path={songs}", *small],
        "song": [f"corpus.path={grid}", *small],
    }


@pytest.mark.parametrize("name", groups("train")["experiment"])
def test_every_experiment_takes_a_step(name, corpora, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # where shards go that are not named
    words = [f"experiment={name}", "trainer.max_steps=1", "trainer.max_time=null"]
    short = ["data.batch_size=2", "data.validation_windows=2", "callbacks=quiet"]
    where = [f"out={tmp_path}/run", "trainer.accelerator=cpu", "data.num_workers=0"]
    where += corpora["init"] if preset("experiment", name).get("init") else []
    where += corpora.get(name) or corpora["maestro" if name == "own" else name.rpartition("/")[0]]
    assert cli.main(["train", *words, *short, *where]) == 0
    assert (tmp_path / "run" / "model" / "model.safetensors").is_file()
