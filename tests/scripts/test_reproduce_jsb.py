"""scripts/reproduce/jsb.py on six short chorales: the table, and that what is done is only read."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest

from musictx import bundle, cli
from scripts.reproduce import calibrate
from scripts.reproduce import jsb as reproduce


@pytest.fixture
def chorales(tmp_path) -> Path:
    random = np.random.default_rng(5)
    low, high = [62, 57, 50, 40], [79, 72, 67, 60]
    pieces = [random.integers(low, high, (random.integers(8, 20), 4)).tolist() for _ in range(30)]
    file = tmp_path / "chorales.json"
    file.write_text(json.dumps({"train": pieces[:28], "valid": pieces[28:29], "test": pieces[29:]}))
    return file


def test_every_row_asked_for_is_trained_measured_and_kept(chorales, tmp_path, monkeypatch, capsys):
    ran = []

    def run(*words: str) -> None:  # in this process, which is quicker than a new one
        split = [word.partition("=")[2] for word in words if word.startswith("split=")]
        ran.append(" ".join([words[0], *split]))
        assert cli.main(list(words)) in (None, 0)

    monkeypatch.setattr(reproduce, "musictx", run)
    monkeypatch.setattr(calibrate, "musictx", run)
    words = {"rows": ["plain", "calibrated"], "transposition": ["true"], "rehearse": True}
    words |= {"path": chorales, "runs": tmp_path / "runs"}
    reproduce.main(**words)
    runs = tmp_path / "runs" / "rehearsal"
    with (runs / "jsb.csv").open() as file:
        table = list(csv.DictReader(file))
    assert [(line["row"], line["steps"]) for line in table] == [("plain", "6"), ("calibrated", "6")]
    once = ["train", "evaluate validation", "evaluate test"]
    assert ran == [*once, "train", *once]
    for line in table:
        assert 3 < float(line["validation_nats"]) < 5, "six steps leave it near log 64"
        assert int(line["tokens_seen"]) > 0
        folder = {"plain": "plain", "calibrated": "best"}[line["row"]]
        name = {"plain": "model", "calibrated": "model-calibrated"}[line["row"]]
        model = bundle.load(runs / f"{folder}-transposed-0" / name).model
        assert bool(model.config.feature("calibration")) == (line["row"] == "calibrated")
        assert sum(p.numel() for p in model.parameters()) == int(line["parameters"])
    assert float(table[0]["test_nats"]) > 0
    assert (runs / "jsb.png").stat().st_size > 1000
    assert "| calibrated |" in capsys.readouterr().out

    before = (runs / "jsb.csv").read_text()
    reproduce.main(**words)  # what is trained is not trained again
    assert (runs / "jsb.csv").read_text() == before
