"""A tiny corpus with a split table, and model folders that were never trained, for the scripts."""

import csv
import importlib
from pathlib import Path

import numpy as np
import pytest
import torch

from musictx import bundle, midi
from musictx.model.transformer import MusicTransformer
from musictx.notes import Score
from musictx.tokens.build import build

torch.set_num_threads(1)
SCRIPTS = Path(__file__).parents[2] / "scripts"


@pytest.fixture
def script(monkeypatch):
    """Name -> the module of a script."""
    monkeypatch.syspath_prepend(str(SCRIPTS))
    return importlib.import_module


def tune(seed, seconds=12.0):
    rng = np.random.default_rng(seed)
    starts = np.sort(rng.integers(0, round(seconds * 100) - 50, round(seconds * 4))) / 100
    rows = [
        (s, s + int(rng.integers(5, 50)) / 100, int(rng.integers(50, 80)), 64, 0, False, 0)
        for s in [0.0, *starts.tolist(), seconds - 0.2]
    ]
    return Score(notes=rows)


@pytest.fixture(scope="session")
def corpus(tmp_path_factory):
    """A folder like MAESTRO: 5 pieces to train, 4 of validation, 1 of test, and the table."""
    folder = tmp_path_factory.mktemp("corpus")
    splits = ["train"] * 5 + ["validation"] * 4 + ["test"]
    with (folder / "table.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["split", "midi_filename"])
        for number, split in enumerate(splits):
            midi.write(tune(number), folder / f"piece-{number}.mid")
            writer.writerow([split, f"piece-{number}.mid"])
    return folder


@pytest.fixture(scope="session")
def models(tmp_path_factory):
    """Two model folders of context 24: relative and absolute positions."""
    folder = tmp_path_factory.mktemp("models")
    tokenizer = build(name="performance", low=48, high=84, max_shift_ms=500, velocity_bins=4)
    for name in ("huang", "sinusoidal"):
        torch.manual_seed(0)
        model = MusicTransformer(
            tokenizer.size,
            layers=1,
            width=16,
            heads=2,
            feedforward=16,
            context=24,
            position={"name": name},
        )
        bundle.save(folder / name, model, tokenizer, {"habits": {"most_notes": 6}})
    return folder
