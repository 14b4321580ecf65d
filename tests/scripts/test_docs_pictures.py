"""The pictures of docs/attention.md by a model: into the current folder, with their numbers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

import musictx
from musictx.model import attention_weights

pytest.importorskip("matplotlib")


def test_pictures_of_a_model_and_their_numbers_are_written_here(tmp_path, monkeypatch):
    from scripts.docs import attention_pictures

    before = {path: path.stat().st_mtime_ns for path in attention_pictures.IMAGES.iterdir()}
    monkeypatch.chdir(tmp_path)
    attention_pictures.main(model="chorale", tokens=24)
    names = ["trained_distances.png", "trained_weights.npz", "trained_weights.png"]
    assert sorted(path.name for path in tmp_path.iterdir()) == names
    assert {path: path.stat().st_mtime_ns for path in attention_pictures.IMAGES.iterdir()} == before
    numbers = np.load("trained_weights.npz")
    model = musictx.load("chorale").model
    for layer, weights in enumerate(numbers["weights"]):
        ids = torch.from_numpy(numbers["ids"])[None]
        want = attention_weights(model, ids, layer)[0].numpy()
        np.testing.assert_allclose(weights, want, atol=1e-6)
    attention_pictures.main(model="chorale", tokens=24, out=Path("other"))
    assert sorted(path.name for path in (tmp_path / "other").iterdir()) == names
