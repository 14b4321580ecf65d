"""The chorale table of scripts/gpu/jsb.py at a small size, where neither Hydra nor mido is."""

import csv
import dataclasses
import json
import os
import subprocess
import sys
import tarfile
import time
from pathlib import Path

import numpy as np
import pytest
import torch

from musictx import bundle
from musictx.apps import train as app
from musictx.attention.api import attend
from musictx.compose import compose
from musictx.config import CorpusConfig
from musictx.errors import UserError
from musictx.evaluate.nll import evaluate
from musictx.tokens.build import build

ROOT = Path(__file__).resolve().parents[2]
GPU = ROOT / "scripts" / "gpu"
sys.path[:0] = [str(GPU), str(GPU.parent)]
import jsb  # noqa: E402
import jsb_attention  # noqa: E402
import jsb_report  # noqa: E402
import jsb_run  # noqa: E402
import jsb_table  # noqa: E402
import maestro_pack  # noqa: E402
from jsb_options import Asked  # noqa: E402

#: What the machine with the GPU lacks, and Lightning, which we can do without there.
ABSENT = "hydra omegaconf mido symusic pretty_midi miditok music21 pytorch_lightning lightning"
BLOCKED = f"""
import sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {ABSENT.split()!r}:
            raise ImportError(name + " is not on that machine")
sys.meta_path.insert(0, Absent())
"""
SMALL = [
    "model.context=96",
    "width=16",
    "heads=2",
    "feedforward=16",
    "layers=2",
    "steps=6",
    "lr=0.02",
    "dropout=0.2",
    "optim.name=muon",
    "optim.rest=0.33",
    "optim.ema=0.9",
    "optim.warmup=2",
    "trainer.validate_every=2",
    "device=cpu",
    "attention=auto",
]


def piece(seed: int, steps: int) -> list[list[int]]:
    """Four voices that walk, each within an octave."""
    walk = np.random.default_rng(seed).integers(-2, 3, (steps, 4)).cumsum(0)
    return np.add(np.clip(walk, -6, 6), [72, 65, 58, 48]).tolist()


@pytest.fixture(scope="module")
def root(tmp_path_factory) -> Path:
    """A file of chorales, packed with the recipes."""
    root = tmp_path_factory.mktemp("jsb")
    sizes = {"train": range(6), "valid": range(10, 13), "test": range(20, 22)}
    chorales = {name: [piece(n, 8 + n % 10) for n in seeds] for name, seeds in sizes.items()}
    (root / "chorales.json").write_text(json.dumps(chorales))
    words = [f"path={root / 'chorales.json'}", f"pack={root / 'pack'}"]
    assert jsb.pack(Asked(words, time.time())) == 0
    return root


def asked(root: Path, where: Path, *words: str) -> Asked:
    places = [f"{n}={where / n}" for n in ("runs", "keep", "out")]
    return Asked([f"pack={root / 'pack'}", *places, *SMALL, *words], time.time())


def a_run(root: Path, where: Path, *words: str, row: str = "best") -> jsb_run.Run:
    given = asked(root, where, f"rows={row}", "transposition=true", *words)
    (job,) = given.jobs()
    shards = given.shards()
    tokenizer = build(**shards.tokenizer_config)
    places = where / "runs" / "one", where / "keep" / "one"
    device = torch.device("cpu")
    return jsb_run.Run(given.config(job), shards, tokenizer, *places, device=device, say=str)


def for_steps(run: jsb_run.Run, count: int) -> jsb_run.Run:
    end = run.step + count
    run.sit(lambda: end - run.step)
    return run


def test_recipes_are_the_composed_settings_by_steps_and_take_changes(root, tmp_path):
    for row in jsb_table.ROWS:
        composed = compose("train", [f"experiment=jsb/{row}"])
        assert maestro_pack.recipe(root / "pack", row, {}) == composed
        given = Asked([f"pack={root / 'pack'}", f"rows={row}", "clock_steps=77"], 0.0)
        first, *_, last = given.jobs()
        config = given.config(first)
        clock = composed.trainer.minutes is not None
        assert config.trainer.steps == (77 if clock else composed.trainer.steps)
        assert config.trainer.minutes is None
        assert config.corpus.augment.transpose == composed.corpus.augment.transpose > 0
        assert given.config(last).corpus.augment.transpose == 0
        assert dataclasses.replace(config, trainer=composed.trainer) == composed
        given.changes["trainer.minutes"] = "5"
        assert given.config(first).trainer.steps == 77
    given = asked(root, tmp_path, "rows=best", "steps=9", "lr=0.5", "dropout=0.25", "seeds=3")
    config = given.config(given.jobs()[0])
    found = config.trainer.steps, config.optim.lr, config.model.dropout, config.seed
    assert found == (9, 0.5, 0.25, 3)
    for word, told in (("rows=worst", "worst"), ("seeds=-1", "seeds"), ("tag=a/b", "tag")):
        with pytest.raises(UserError, match=told):
            asked(root, tmp_path, word)


def test_a_run_learns_what_musictx_train_learns(root, tmp_path):
    """Dropout apart, which each draws from its own generator's course."""
    words = ["dropout=0", "model.heard_dropout=0", "trainer.batch=2"]
    run = for_steps(a_run(root, tmp_path, *words), 6)
    corpus = CorpusConfig(
        name="jsb",
        path=str(root / "chorales.json"),
        shards=str(tmp_path / "shards"),
        augment=run.config.corpus.augment,
    )
    trainer = dataclasses.replace(run.config.trainer, precision="32", accelerator="cpu")
    folder = tmp_path / "lightning"
    app.run(dataclasses.replace(run.config, corpus=corpus, trainer=trainer, out=str(folder)))
    rows = [row for row in jsb_table.read(folder / "metrics.csv") if row["validation_nll"]]
    assert [int(row["tokens"]) for row in rows] == [row["tokens"] for row in run.log]
    theirs = [float(row["validation_nll"]) for row in rows]
    assert theirs == pytest.approx([row["validation_nll"] for row in run.log], abs=2e-4)
    best = bundle.load(folder / "model").model.state_dict()
    for name, weight in run.best_weights.items():
        if weight.dim() > 1:  # a bias of keys has no gradient but rounding, which AdamW magnifies
            # Muon's products in bfloat16 turn another order of sums into steps a little different.
            torch.testing.assert_close(weight, best[name], atol=1e-3, rtol=1e-3)


def test_a_run_that_was_cut_is_bit_for_bit_a_whole_one(root, tmp_path):
    """Muon, averages, dropout and the best weights included."""
    whole = for_steps(a_run(root, tmp_path / "whole"), 6)
    cut = for_steps(a_run(root, tmp_path / "cut"), 3)
    assert not cut.finished
    cut.save()
    again = for_steps(a_run(root, tmp_path / "cut"), 3)
    assert again.finished
    for one, other in zip(whole.model.parameters(), again.model.parameters()):
        assert torch.equal(one, other)
    for name, weight in whole.best_weights.items():
        assert torch.equal(weight, again.best_weights[name])
    assert (whole.best, whole.tokens) == (again.best, again.tokens)
    kept = ("step", "tokens", "learning_rate", "validation_nll")
    for one, other in zip(whole.log, again.log, strict=True):
        assert [one[name] for name in kept] == [other[name] for name in kept]


def test_the_small_state_is_enough_and_a_run_of_other_settings_is_refused(root, tmp_path):
    run = for_steps(a_run(root, tmp_path), 4)
    run.save(travelling=True)
    full, state = tmp_path / "keep" / "one" / "full.pt", tmp_path / "runs" / "one" / "state.pt"
    full.unlink()  # another machine
    again = a_run(root, tmp_path)
    assert (again.step, again.tokens, again.best) == (4, run.tokens, run.best)
    for one, other in zip(run.model.parameters(), again.model.parameters()):
        assert torch.equal(one.detach().bfloat16().float(), other)
    small = jsb_run.smaller([{"step": torch.tensor(3201.0), "moment": torch.full((2,), 1 / 3)}])
    assert small[0]["step"] == 3201.0, "a count is not rounded"
    assert small[0]["moment"].dtype == torch.bfloat16
    again = for_steps(again, 2)
    assert again.best["nll"] < run.log[0]["validation_nll"]
    again.save()
    assert a_run(root, tmp_path).step == 6, "the further of two states"
    for words in (["optim.lr=1e-3"], ["steps=7"], ["corpus.augment.transpose=2"]):
        with pytest.raises(UserError, match="tag=WORD"):
            a_run(root, tmp_path, *words)
    again.forget()
    assert not full.exists()
    assert not state.exists()


@pytest.mark.parametrize("row", ["pitch_time", "plain"])
def test_attention_is_chosen_by_layer_and_what_is_wrong_is_refused(
    row, root, tmp_path, monkeypatch
):
    run = a_run(root, tmp_path, row=row)
    told: list[str] = []
    tokenizer = build(**run.shards.tokenizer_config)
    where = run.config, run.shards, tokenizer, torch.device("cpu")
    chosen = jsb_attention.choose(*where, say=told.append)
    assert set(chosen) <= {"sdpa", "reference", "chunked"}
    kinds = [line for line in told if line.startswith("layer")]
    two = ["layer 1: distances by order, first label, second label", "layer 2: distances by order"]
    assert kinds == (two if row == "pitch_time" else ["layer 1: distances by nothing"])
    assert any("fused" in line and "CUDA" in line for line in told)

    def wrong(*made, implementation, **rest):
        out = attend(*made, implementation=implementation, **rest)
        return out if implementation == "reference" else out * 1.1

    monkeypatch.setattr(jsb_attention, "attend", wrong)
    monkeypatch.setattr(jsb_attention, "CANDIDATES", ("chunked",))
    assert jsb_attention.choose(*where, say=told.append) == ["auto", "auto"]
    assert "relative error 1.0e-01" in told[-1]


def line(row: str, nats: float, seed: int = 0, transposition: str = "true") -> dict:
    numbers = {"parameters": 4e6, "tokens_seen": 8e6, "minutes": 2, "test_nats": ""}
    numbers |= {"row": row, "transposition": transposition, "seed": seed}
    return numbers | {"validation_nats": f"{nats:.4f}"}


def test_the_table_has_mean_and_deviation_of_seeds_and_a_line_replaces_its_own(tmp_path):
    path = tmp_path / "jsb.csv"
    for seed, nats in enumerate((0.40, 0.44, 0.42)):
        jsb_table.record(path, line("relative-512", nats, seed))
    jsb_table.record(path, line("plain", 0.5, transposition="false"))
    found = jsb_table.record(path, line("relative-512", 0.48, 1))
    assert len(found) == 4
    _, _, first, second = jsb_table.table(jsb_table.read(path)).splitlines()
    assert first.startswith("| relative-512 | 0.357 | yes | 0,1,2 | 0.4333 +- 0.0416 | - | 4.00 M")
    assert second.startswith("| plain | 0.417 | no | 0 | 0.5000 | - |")


def test_the_best_of_all_machines_travels_and_states_as_far_as_there_is_room(tmp_path, monkeypatch):
    runs, keep = tmp_path / "runs", tmp_path / "keep"

    def finished(name: str, nats: float) -> None:
        jsb_run.write_json(runs / name / "line.json", {"line": line(name, nats), "settings": {}})
        (keep / name / "model").mkdir(parents=True, exist_ok=True)
        (keep / name / "model" / "weights").write_text(name)

    def best() -> str:
        return (jsb_report.keep_best(runs, keep) / "weights").read_text()

    assert jsb_report.keep_best(runs, keep) is None
    finished("a", 0.5)
    finished("b", 0.4)
    assert best() == "b"
    jsb_report.shutil.rmtree(keep)  # another machine
    finished("c", 0.45)
    assert best() == "b"
    finished("d", 0.3)
    assert best() == "d"
    finished("d", 0.6)  # begun anew, worse
    assert best() == "c", "of those whose models are here"

    for name, step in (("x", 3), ("y", 9), ("z", 5)):
        (runs / name).mkdir()
        torch.save({"step": step, "weights": torch.zeros(7000)}, runs / name / "state.pt")
    monkeypatch.setattr(maestro_pack, "PARTS", 1)
    monkeypatch.setattr(maestro_pack, "PART", 90_000)
    files, left_behind = jsb_report.travelling(runs)
    assert left_behind == ["x"]
    assert {"runs/y/state.pt", "runs/z/state.pt", "runs/best-model/weights"} <= set(files)
    maestro_pack.deliver(files, tmp_path / "out")  # no error: they do fit


def test_what_fails_is_tried_again_with_auto_and_the_clock_ends_all(root, tmp_path, monkeypatch):
    """Processes that only pretend."""
    begun: list[tuple[str, str]] = []
    scripts = {"plain": "0", "sinusoids": "1 if names == 'fused' else 0", "labels": "3"}
    scripts |= {"relative": "1", "best": "time.sleep(60)"}

    def start(asked, job, names):
        begun.append((job.row, names))
        code = f"import sys, time; names = {names!r}; sys.exit({scripts[job.row]})"
        return subprocess.Popen([sys.executable, "-S", "-c", code])

    monkeypatch.setattr(jsb, "start", start)
    monkeypatch.setattr(jsb, "FEWEST", -1e9)
    rows = "rows=plain,sinusoids,labels,relative"
    given = asked(root, tmp_path, rows, "transposition=true", "beside=2", "seconds=600")
    names = dict.fromkeys(scripts, "fused")
    assert sorted(jsb.side_by_side(given, given.jobs(), names)) == [
        "labels-transposed-0",
        "relative-transposed-0",
    ]
    assert sorted(begun) == [
        ("labels", "fused"),
        ("plain", "fused"),
        *(("relative", name) for name in ("auto", "fused")),
        *(("sinusoids", name) for name in ("auto", "fused")),
    ]
    given = asked(root, tmp_path, "rows=best", "transposition=true", "seconds=1", "reserve=0")
    began = time.monotonic()
    assert jsb.side_by_side(given, given.jobs(), names) == []
    assert time.monotonic() - began < 50


def test_the_flight_from_the_pack_to_the_table_without_hydra_and_mido(root, tmp_path):
    (tmp_path / "sitecustomize.py").write_text(BLOCKED)
    there = {name: value for name, value in os.environ.items() if name != "OUT"}
    there["PYTHONPATH"] = str(tmp_path)  # the processes that are started have it too
    words = [f"pack={root / 'pack'}", *(w for w in SMALL if "=auto" not in w)]
    words += ["rows=pitch_time,best", "transposition=true", "quick=true", "beside=2"]
    command = [sys.executable, str(GPU / "jsb.py"), "train", *words, "seconds=3600"]
    how = {"cwd": tmp_path, "env": there, "capture_output": True, "text": True}
    done = subprocess.run(command, **how)
    assert done.returncode == 0, done.stdout + done.stderr

    with (tmp_path / "runs" / "jsb-out" / "jsb.csv").open() as file:
        rows = {row["row"]: row for row in csv.DictReader(file)}
    assert set(rows) == {"pitch_time", "best"}
    assert tuple(rows["best"]) == jsb_table.COLUMNS
    assert rows["best"]["command"].startswith("python scripts/gpu/jsb.py train ")
    assert "cpu, 2 runs at a time" in rows["best"]["device"]
    assert (tmp_path / "runs" / "jsb-out" / "jsb.png").stat().st_size > 1000
    with tarfile.open(tmp_path / "runs" / "jsb-out" / "run.tar.00") as archive:
        archive.extractall(tmp_path / "home", filter="data")
    home = tmp_path / "home" / "jsb-gpu-quick"
    assert sorted(f.name for f in home.iterdir()) == [
        *("best-model", "best-transposed-0", "best.json", "pitch_time-transposed-0")
    ]
    winner = min(rows.values(), key=lambda row: float(row["validation_nats"]))
    made = bundle.load(home / "best-model")
    shards = Asked([f"pack={root / 'pack'}"], 0.0).shards()
    for split in ("validation", "test"):
        again = evaluate(made.model, shards, split, batch=1).nats_per_token
        assert again == pytest.approx(float(winner[f"{split}_nats"]), abs=1e-4)
        assert made.card["numbers"][f"{split}, nats per token"] == pytest.approx(again, abs=1e-5)

    jsb_report.shutil.rmtree(tmp_path / "runs" / "jsb-keep-quick")  # another machine
    again = subprocess.run(command, **how)
    assert again.returncode == 0, again.stdout + again.stderr
    assert again.stdout.count("done before") == 2
    assert "validation" not in again.stdout.partition("| row |")[0]
