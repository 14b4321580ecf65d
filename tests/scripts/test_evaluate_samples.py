"""The report of samples at tiny size: what is written, that it is right, that it goes on."""

import csv
import json
import math

import numpy as np
import pytest
from PIL import Image

from musictx import midi
from musictx.errors import UserError
from musictx.evaluate.musical import METRICS, excerpt, measure

pytest.importorskip("matplotlib")

OPTIONS = ["samples=5", "seconds=3", "primer_seconds=2", "batch=2", "device=cpu"]


@pytest.fixture
def run(script, models, corpus, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def run(*words):
        module = script("evaluate_samples")
        return module.main([f"model={models / 'huang'}", f"corpus={corpus}", *OPTIONS, *words])

    return run


def table(out):
    with (out / "metrics.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def bytes_of(out):
    return {path.name: path.read_bytes() for path in (out / "samples").glob("*.mid")}


def test_everything_is_written_and_the_metrics_are_those_of_the_files(run):
    out = run("out=a")
    files = bytes_of(out)
    assert sorted(files) == [f"{k}-{i:03d}.mid" for k in ("continuation", "free") for i in range(5)]
    rows = table(out)
    counts = {}
    for row in rows:
        counts[row["kind"], row["set"]] = counts.get((row["kind"], row["set"]), 0) + 1
    sizes = {"generated": 5, "validation": 4, "train": 5}  # 4 and 5 pieces are all there are
    assert counts == {(k, s): n for k in ("continuation", "free") for s, n in sizes.items()}
    for row in rows:
        if row["set"] != "generated":
            continue
        told = json.loads((out / "samples" / f"{row['name']}.json").read_text())
        score = midi.read(out / "samples" / f"{row['name']}.mid")
        assert (told["seam"] > 0) == (row["kind"] == "continuation")
        wanted = measure(excerpt(score, told["seam"], 3.0), 3.0)
        for name in METRICS:
            assert float(row[name]) == pytest.approx(wanted[name], nan_ok=True)
    report = (out / "report.md").read_text()
    for words in (
        "## Continuations",
        "## Pieces from nothing",
        "| pitch range |",
        "onset intervals",
    ):
        assert words in report
    for name in ("continuations.png", "free.png", "samples/free-000.png"):
        with Image.open(out / name) as picture:
            assert picture.size[0] > 600


def test_the_same_seed_gives_the_same_files_and_a_stopped_run_goes_on(run, script, monkeypatch):
    first = run("out=a")
    files = bytes_of(first)
    assert bytes_of(run("out=b")) == files
    assert bytes_of(run("out=c", "seed=1")) != files
    lost = "continuation-002.mid"
    (first / "samples" / lost).unlink()
    module = script("evaluate_samples")
    made = []
    original = module.continue_each

    def watched(*words, **options):
        made.append(len(options["seeds"]))
        return original(*words, **options)

    monkeypatch.setattr(module, "continue_each", watched)
    before = (first / "metrics.csv").read_bytes()
    run("out=a")
    assert bytes_of(first) == files
    assert len(made) == 1, "only the batch of the lost one is made again"
    assert (first / "metrics.csv").read_bytes() == before


def test_settings_that_do_not_belong_to_the_folder_are_refused(run, models, corpus):
    run("out=a")
    with pytest.raises(UserError, match="out=a: the samples there are of another top_p, seed"):
        run("out=a", "seed=1", "top_p=0.5")
    with pytest.raises(UserError, match=r"out=a: .* of another model"):
        run("out=a", f"model={models / 'sinusoidal'}")


def test_what_cannot_be_is_told(run, script):
    with pytest.raises(UserError, match=r"seconds=30: no validation piece .* has 32 s"):
        run("seconds=30")
    with pytest.raises(UserError, match="samples=0"):
        run("samples=0")
    with pytest.raises(UserError, match="model: missing"):
        script("evaluate_samples").main([])


def test_quick_is_small_unless_told_otherwise(script, models, corpus, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = [f"model={models / 'huang'}", f"corpus={corpus}", f"out={tmp_path / 'q'}"]
    out = script("evaluate_samples").main([*words, "quick=true", "samples=1", "seconds=4"])
    settings = json.loads((out / "settings.json").read_text())
    assert (settings["samples"], settings["seconds"], settings["primer_seconds"]) == (1, 4.0, 4.0)
    assert len(bytes_of(out)) == 2


def test_99_percent_of_real_pieces_pass_the_limits(script):
    report = script("samples_report")
    rng = np.random.default_rng(0)
    for count in (1, 5, 100, 1001):
        windows = [{n: float(rng.integers(0, 30)) for n in report.REPEATS} for _ in range(count)]
        for name, limit in report.thresholds(windows).items():
            values = sorted(w[name] for w in windows)
            assert np.mean([v <= limit for v in values]) >= 0.99
            below = values[math.ceil(0.99 * count) - 1]
            assert limit in (below, *[v for v in values if v >= below][:2]), "and no higher"
