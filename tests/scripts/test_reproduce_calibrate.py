"""Calibration is recovered where it is given, and fits better than none."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import torch

from musictx import bundle, cli
from musictx.data.shards import Shards, new_shards
from musictx.evaluate.nll import evaluate
from musictx.model.transformer import MusicTransformer
from musictx.tokens.vocab import BOS
from scripts.reproduce import calibrate
from scripts.reproduce.calibrate import calibrated, fit

VOICES, VOCAB, STEPS = 4, 12, 60


def network() -> MusicTransformer:
    torch.manual_seed(0)
    settings = {"layers": 1, "width": 16, "heads": 2, "feedforward": 16, "context": 256}
    model = MusicTransformer(
        VOCAB, **settings, features=[{"name": "ages", "voices": VOICES}]
    ).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(6 if parameter.dim() > 1 else 1)
    return model


def written_by(model: MusicTransformer, pieces: int) -> list[np.ndarray]:
    """Pieces drawn from ``model``, without the special ids."""
    torch.manual_seed(1)
    ids = torch.full((pieces, 1), BOS)
    with torch.no_grad():
        for _ in range(VOICES * STEPS):
            logits = model(ids)[:, -1]
            logits[:, :4] = -torch.inf
            ids = torch.cat([ids, torch.multinomial(logits.softmax(-1), 1)], 1)
    return list(ids[:, 1:].numpy())


def shards_of(folder: Path, pieces: list[np.ndarray]) -> Shards:
    with new_shards(folder, fingerprint="f", tokenizer_config={}, corpus={}) as writer:
        for number, ids in enumerate(pieces):
            row = {"name": f"{number:03d}", "split": "validation", "notes": 9, "seconds": 9.0}
            writer.add(ids.astype(np.uint16), ends=False, **row)
    return Shards(folder)


def test_what_wrote_the_pieces_is_found(tmp_path: Path) -> None:
    model = network()
    truth = {"scale": torch.linspace(0.6, 1.1, 16), "hold": torch.linspace(-0.5, 2.0, 16)}
    truth["end"] = torch.zeros(1)
    right = calibrated(model, truth)
    shards = shards_of(tmp_path / "shards", written_by(right, 48))
    fitted = fit(model, shards)
    assert (fitted["scale"] - truth["scale"]).abs().mean() < 0.1
    too_high = fitted["hold"] - truth["hold"]  # since the special ids were left out: all alike
    assert 0.2 < too_high.mean() < 0.7
    assert too_high.std() < 0.25
    ours, without = (evaluate(m, shards).nats_per_token for m in (calibrated(model, fitted), model))
    assert ours < without - 0.01
    assert ours < evaluate(right, shards).nats_per_token
    # What is calibrated already is fitted as if it were not.
    again = fit(right, shards)
    assert torch.allclose(again["scale"], fitted["scale"], atol=1e-3)


def test_a_model_is_calibrated_on_pieces_that_its_sibling_has_not_seen(tmp_path, monkeypatch):
    random = np.random.default_rng(5)
    pieces = [random.integers([62, 57, 50, 40], [79, 72, 67, 60], (n, 4)).tolist()
              for n in random.integers(8, 20, 30)]  # fmt: skip
    path = tmp_path / "chorales.json"
    path.write_text(json.dumps({"train": pieces[:28], "valid": pieces[28:]}))
    monkeypatch.setattr(calibrate, "musictx", lambda *words: cli.main([*words]))
    small = {"trainer.max_steps": 4, "trainer.val_check_interval": 4, "model.width": 32}
    small |= {"model.heads": 2, "model.feedforward": 32, "model.layers": 2}
    words = [f"{name}={value}" for name, value in small.items()]
    shards = f"corpus.shards={tmp_path / 'shards'}"
    run = tmp_path / "run"
    cli.main(["train", "experiment=jsb/best", f"corpus.path={path}", shards, f"out={run}", *words])
    (folder,) = calibrate.main(path, [str(run / "model")], runs=tmp_path / "runs", held=3, **small)
    made = bundle.load(folder)
    assert made.model.config.feature("calibration")
    assert "3 training pieces" in made.card["calibration"]
    aside = json.loads((tmp_path / "runs" / "aside-0.json").read_text())
    assert sorted(aside["train"] + aside["valid"]) == sorted(pieces[:28])
    assert len(aside["valid"]) == 3
