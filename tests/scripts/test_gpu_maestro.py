"""The whole flight of scripts/gpu/maestro.py at a small size, where neither Hydra nor mido is."""

import csv
import dataclasses
import os
import subprocess
import sys
import tarfile
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch

from musictx import bundle
from musictx.apps.generate import generate
from musictx.compose import compose
from musictx.config import CorpusConfig
from musictx.data.prepare import prepare
from musictx.data.shards import Shards
from musictx.data.windows import UNSCORED
from musictx.errors import ConfigError, UserError
from musictx.evaluate import protocol
from musictx.tokens.build import build
from tests.data.helpers import write_songs

ROOT = Path(__file__).resolve().parents[2]
GPU = ROOT / "scripts" / "gpu"
sys.path.insert(0, str(GPU))
import maestro_pack  # noqa: E402
import maestro_plan  # noqa: E402
import maestro_run  # noqa: E402

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
#: Each command as a process of its own would have it: the clock begins anew, only files remain.
FLIGHT = (
    BLOCKED
    + """
import time
sys.path.insert(0, sys.argv[1])
import maestro
def command(*words):
    maestro.BEGAN = time.monotonic()
    maestro.main([*words, *sys.argv[2:]])
command("plan", "sizes=1x16x2,2x16x2", "probe=0.01", "budget=1e9", "row=huang")
command("train", "row=best", "seconds=3600", "steps=6", "trainer.batch=2", "name=other", "out=no")
command("train", "row=best", "seconds=23", "budget=1000")  # 20 are kept for saving
import shutil; shutil.rmtree("runs/maestro-keep/best")          # another machine
command("train", "row=best", "seconds=3600", "last=true", "reserve=3597")
"""
)
SMALL = [
    "model.layers=1",
    "model.width=16",
    "model.heads=2",
    "model.feedforward=16",
    "model.context=32",
    "model.dropout=0.1",
    "trainer.batch=2",
    "trainer.validation_windows=2",
    "attention=auto",
    "workers=0",
    "device=cpu",
]


@pytest.fixture(scope="module")
def root(tmp_path_factory) -> Path:
    """A corpus, packed with the recipes."""
    root = tmp_path_factory.mktemp("maestro")
    write_songs(root / "midi", range(16), 60)
    settings = compose("train", ["experiment=maestro/huang"])
    tokenizer = build(**dataclasses.asdict(settings.tokenizer))
    corpus = CorpusConfig(path=str(root / "midi"), validation=0.3, test=0.3, workers=1)
    prepare(corpus, tokenizer, root / "shards", progress=False)
    maestro_pack.pack(Shards(root / "shards"), root / "pack")
    maestro_pack.write_recipes(root / "pack")
    return root


def settings(root: Path, row: str = "huang", **changes: str):
    small = dict(word.split("=") for word in SMALL if "." in word)
    return maestro_pack.recipe(root / "pack", row, small | changes)


def a_run(root: Path, where: Path, **how):
    shards = maestro_pack.unpack(root / "pack" / maestro_pack.TOKENS, root)
    how = {"device": torch.device("cpu"), "budget": 100.0, "steps": 40, "say": str} | how
    config = how.pop("config", None) or settings(root, **{"optim.ema": "0.9"})
    tokenizer = build(**shards.tokenizer_config)
    return maestro_run.Run(config, shards, tokenizer, where / "run", where / "keep", **how)


def test_what_is_packed_comes_out_again_without_the_test_split(root):
    whole, packed = (
        Shards(root / "shards"),
        maestro_pack.unpack(root / "pack" / maestro_pack.TOKENS, root),
    )
    assert packed.totals("train") == whole.totals("train")
    assert packed.totals("validation") == whole.totals("validation")
    assert whole.totals("test").pieces > 0 == packed.totals("test").pieces
    for split in ("train", "validation"):
        for one, other in zip(whole.pieces(split), packed.pieces(split)):
            assert one.name == other.name
            assert (one.begins, one.ends) == (other.begins, other.ends)
            np.testing.assert_array_equal(whole.tokens(one.number), packed.tokens(other.number))


def test_the_recipes_are_the_composed_settings_and_take_changes(root):
    for name in ("huang", "none", "best", "interim"):
        composed = compose("train", [f"experiment=maestro/{name}"])
        assert maestro_pack.recipe(root / "pack", name, {}) == composed
    changed = maestro_pack.recipe(root / "pack", "best", {"optim.lr": "1e-3", "seed": "4"})
    assert (changed.optim.lr, changed.seed) == (1e-3, 4)
    for option, message in (("optim.rate", "no such option"), ("optim.name", "optim.name=sgd")):
        with pytest.raises(ConfigError, match=message):
            maestro_pack.recipe(root / "pack", "best", {option: "sgd"})


def test_what_is_delivered_in_parts_is_put_together_by_cat_and_tar(tmp_path, monkeypatch):
    monkeypatch.setattr(maestro_pack, "PART", 6000)
    data = np.random.default_rng(0).bytes(12_000)
    (tmp_path / "weights").write_bytes(data)
    parts = maestro_pack.deliver({"run/a/weights": tmp_path / "weights"}, tmp_path / "out")
    assert len(parts) == 4
    whole = tmp_path / "whole.tar"
    whole.write_bytes(b"".join(p.read_bytes() for p in sorted(parts)))
    with tarfile.open(whole) as archive:
        assert archive.extractfile("run/a/weights").read() == data
    (tmp_path / "weights").write_bytes(data * 2)
    with pytest.raises(UserError, match="a smaller model"):
        maestro_pack.deliver({"a": tmp_path / "weights"}, tmp_path / "out")


def test_a_row_is_one_window_and_its_padding_is_not_scored(root, tmp_path):
    run = a_run(root, tmp_path, config=settings(root, **{"model.context": "512"}))
    for number in range(8):
        row = run.rows.row(0, number)
        assert set(row.piece_ids) <= {0, -1}
        assert ((row.targets == UNSCORED) == (row.piece_ids == -1)).all()
        assert (np.diff(row.piece_ids) <= 0).all(), "padding comes last"


def test_the_full_state_goes_on_as_if_nothing_had_happened(root, tmp_path):
    """Dropout apart, which is drawn anew in each sitting."""
    config = settings(root, **{"optim.ema": "0.9", "model.dropout": "0"})

    def steps(run, count):
        for batch, _ in zip(run.batches(0), range(count)):
            run.learn(run.model, batch, 0.5)
        return run

    whole = steps(a_run(root, tmp_path / "whole", config=config), 6)
    steps(a_run(root, tmp_path / "cut", config=config), 3).save_full()
    again = steps(a_run(root, tmp_path / "cut", config=config), 3)
    assert again.step == whole.step == 6
    for one, other in zip(whole.model.parameters(), again.model.parameters()):
        assert torch.equal(one, other)
    assert all(torch.equal(whole.ema.mean[n], again.ema.mean[n]) for n in whole.ema.mean)


def test_carried_weights_go_on_with_a_new_rise_and_the_further_state_wins(root, tmp_path):
    run = a_run(root, tmp_path)
    run.step, run.seconds = 30, 50.0
    run.save_weights()
    cold = a_run(root, tmp_path)
    assert (cold.step, cold.seconds) == (30, 50.0)
    for one, other in zip(run.model.parameters(), cold.model.parameters()):
        assert torch.equal(one.detach().bfloat16().float(), other)
    assert cold.rate(0.0) == pytest.approx(run.rate(0.0) / maestro_run.REWARM)
    run.step = 31
    run.save_full()
    assert a_run(root, tmp_path).step == 31
    run.step = 32
    run.save_weights()
    assert a_run(root, tmp_path).step == 32
    with pytest.raises(UserError, match="its run has seed=0, now 9"):
        a_run(root, tmp_path, config=settings(root, seed="9", **{"optim.ema": "0.9"}))


def test_the_rate_ends_at_zero_with_the_budget_or_the_steps(root, tmp_path):
    run = a_run(root, tmp_path, steps=None, budget=10.0)
    run.step = 5000
    assert run.share(5.0) == 0.5
    assert run.rate(1.0) == pytest.approx(0.0, abs=1e-9)
    run = a_run(root, tmp_path, steps=40)
    run.step = 39
    assert 0 < run.rate(39 / 40) < 0.01 * run.lr


@pytest.mark.parametrize("row", ["huang", "rotary", "none"])
def test_the_probe_takes_what_is_right_and_refuses_what_is_wrong(row, root, monkeypatch):
    config, device = settings(root, row), torch.device("cpu")
    tokenizer = build(**dataclasses.asdict(config.tokenizer))
    told: list[str] = []
    chosen = maestro_plan.choose_attention(config, tokenizer, device, say=told.append)
    assert chosen in (("chunked",) if row == "huang" else ("sdpa", "chunked"))
    right = maestro_plan.attend

    def wrong(*made, implementation, **rest):
        out = right(*made, implementation=implementation, **rest)
        return out if implementation == "reference" else out * 1.1

    monkeypatch.setattr(maestro_plan, "attend", wrong)
    assert maestro_plan.choose_attention(config, tokenizer, device, say=told.append) == "auto"
    assert "relative error 1.0e-01" in told[-1]


def test_repeats_are_worth_less_and_the_largest_that_sees_enough_wins():
    assert maestro_plan.effective(5.0, 10.0) == 5.0
    assert maestro_plan.effective(1e9, 1.0) == pytest.approx(1 + maestro_plan.REPEATS)
    grid = [maestro_plan.effective(x, 10.0) for x in range(1, 300)]
    assert all(0 < b - a <= 1.0 + 1e-9 for a, b in pairwise(grid))
    judged = [
        maestro_plan.judge(millions * 10**6, 1e6 / millions, 1000.0, 10**7, 20 * 2**20)
        for millions in (2, 5, 12, 40)
    ]
    assert [row["enough"] for row in judged] == [True, True, False, False]
    assert [row["comes_back"] for row in judged] == [True, True, True, False]
    assert [row["travels"] for row in judged] == [True, True, True, False]
    assert maestro_plan.winner(judged) is judged[1]
    assert maestro_plan.winner(judged[2:]) is None


def test_the_flight_from_the_pack_to_music_without_hydra_and_mido(root, tmp_path):
    words = [sys.executable, "-c", FLIGHT, str(GPU), f"pack={root / 'pack'}", *SMALL]
    there = {name: value for name, value in os.environ.items() if name != "OUT"}
    done = subprocess.run(words, cwd=tmp_path, env=there, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "the largest that sees enough tokens and comes back: 2x16x2" in done.stdout
    assert "from carried weights, moments anew" in done.stdout

    out = tmp_path / "runs" / "maestro-out"
    with (out / "maestro.csv").open() as file:
        (row, *more) = csv.DictReader(file)
    assert row["protocol"] == "end to end"
    assert row["position"] == "huang"
    assert [r["protocol"] for r in more] in ([], ["sliding"])
    with tarfile.open(out / "run.tar.00") as archive:
        archive.extractall(tmp_path / "home", filter="data")
    made = bundle.load(tmp_path / "home" / "maestro-gpu" / "best" / "model")
    again = protocol.end_to_end(made.model, Shards(root / "shards"))
    assert again["nats_per_token"] == pytest.approx(float(row["nats_per_token"]), abs=1e-5)
    assert made.card["numbers"]["validation, nats per token"] == float(row["nats_per_token"])
    assert "CC BY-NC-SA" in made.card["licence"]
    (sample,) = generate(made, tokens=20, seconds=None)
    assert len(sample.ids)
