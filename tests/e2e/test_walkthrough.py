"""The whole path on small files, by the command line: prepare, train, continue, measure."""

import json
import shutil

import numpy as np
import pytest

import musictx
from musictx import cli, midi
from musictx.notes import NOTE, Score

TINY = [
    "model=tiny",
    "model.layers=1",
    "model.width=32",
    "model.heads=2",
    "model.feedforward=64",
    "model.context=64",
    "trainer=laptop",
    "data.batch_size=4",
    "trainer.val_check_interval=5",
    "data.validation_windows=4",
    "callbacks.samples.seconds=1",
    "trainer.accelerator=cpu",
    "optim.warmup=2",
    "corpus.workers=1",
]


def tune(seed: int, notes: int = 80) -> Score:
    """A scale-bound melody over held fifths, two tracks, different for each seed."""
    rng = np.random.default_rng(seed)
    table = np.zeros(notes + notes // 4, NOTE)
    scale = np.array([60, 62, 64, 65, 67, 69, 71, 72])
    table["pitch"][:notes] = scale[np.abs(np.cumsum(rng.integers(-1, 2, notes))) % 8]
    table["start"][:notes] = np.arange(notes) * 0.25
    table["end"][:notes] = table["start"][:notes] + 0.24
    table["pitch"][notes:] = 48 + 7 * rng.integers(0, 2, notes // 4)
    table["start"][notes:] = np.arange(notes // 4)
    table["end"][notes:] = table["start"][notes:] + 0.95
    table["velocity"] = rng.integers(50, 100, len(table))
    table["track"][notes:] = 1
    return Score(notes=table)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Six pieces at two depths, a broken file, and something that is no music."""
    root = tmp_path_factory.mktemp("my midi (live)")
    (root / "deeper").mkdir()
    for i in range(6):
        midi.write(tune(i), root / ("deeper" if i % 2 else ".") / f"tune {i}.mid")
    (root / "broken.MID").write_bytes(b"MThd\x00\x00")
    (root / "notes.txt").write_text("not music")
    return root


@pytest.fixture(scope="module")
def trained(folder, tmp_path_factory):
    """A model folder made by `musictx train` alone."""
    root = tmp_path_factory.mktemp("runs")
    words = [f"corpus.path={folder}", f"corpus.shards={root}/shards", f"out={root}/run"]
    assert cli.main(["train", *words, "trainer.max_steps=10", *TINY]) == 0
    return root / "run" / "model"


def test_train_leaves_model_folder_checkpoints_samples_and_log(trained):
    run = trained.parent
    assert {p.name for p in trained.iterdir()} >= {
        "model.safetensors",
        "config.yaml",
        "tokenizer.json",
        "CARD.md",
    }
    assert (run / "last.ckpt").is_file()
    assert (run / "metrics.csv").is_file()
    assert list((run / "samples").glob("*.mid"))
    assert list((run / "samples").glob("*.png"))
    limits = musictx.load(trained).card["note_limits"]
    assert max(s for _, s in limits["longest_note"]) == 0.95  # of the held fifths of tune()
    assert 1 <= limits["most_notes"] <= 3
    assert limits["density"] > 0


def test_a_primer_is_continued_and_rendered(trained, folder, tmp_path, capsys):
    primer = folder / "tune 0.mid"
    words = [f"model={trained}", f"primer={primer}", "primer_seconds=4", "seconds=2", "seed=3"]
    out = [f"out={tmp_path}", "render=true", "name=piece"]
    assert cli.main(["generate", *words, *out]) == 0
    printed = capsys.readouterr().out
    for ending in ("mid", "wav", "png"):
        assert (tmp_path / f"piece-3-1.{ending}").is_file()
        assert f"piece-3-1.{ending}" in printed
    made, start = midi.read(tmp_path / "piece-3-1.mid"), midi.read(primer)
    given = start.notes[start.notes["start"] < 3.9]
    kept = made.notes[: len(given)]
    assert np.array_equal(np.sort(kept["pitch"]), np.sort(given["pitch"]))
    assert made.duration <= 4 + 2 + 0.05


def test_free_generation_is_the_same_for_the_same_seed(trained, tmp_path):
    for name in ("a", "b"):
        words = [f"model={trained}", "seconds=3", "seed=11", f"out={tmp_path}", f"name={name}"]
        assert cli.main(["generate", *words, "samples=2"]) == 0
    files = {p.name: p.read_bytes() for p in tmp_path.glob("*.mid")}
    assert files["a-11-1.mid"] == files["b-11-1.mid"]
    assert files["a-11-2.mid"] == files["b-11-2.mid"]
    assert files["a-11-1.mid"] != files["a-11-2.mid"]


def test_evaluate_prints_and_writes_the_protocol(trained, folder, tmp_path, capsys):
    out = tmp_path / "result.json"
    words = [f"model={trained}", f"corpus.path={folder}", f"corpus.shards={tmp_path}/s"]
    assert cli.main(["evaluate", *words, f"out={out}", "corpus.workers=1"]) == 0
    result = json.loads(out.read_text())
    assert result["split"] == "validation"
    assert result["window"] == 64
    assert 0 < result["nats_per_token"] < 10
    assert "nats" in capsys.readouterr().out


def test_starting_the_same_command_again_returns_the_finished_model(trained, folder, capsys):
    root = trained.parent.parent
    before = (trained / "model.safetensors").read_bytes()
    words = [f"corpus.path={folder}", f"corpus.shards={root}/shards", f"out={root}/run"]
    assert cli.main(["train", *words, "trainer.max_steps=10", *TINY]) == 0
    assert "already" in capsys.readouterr().out
    assert (trained / "model.safetensors").read_bytes() == before


def test_fine_tuning_starts_from_a_model_folder(trained, tmp_path, capsys):
    few = tmp_path / "mine"
    few.mkdir()
    midi.write(tune(99, 50), few / "only.mid")
    words = [f"corpus.path={few}", f"corpus.shards={tmp_path}/s", f"out={tmp_path}/run"]
    assert cli.main(["train", *words, f"init={trained}", "trainer.max_steps=5", *TINY]) == 0
    assert (tmp_path / "run" / "model" / "model.safetensors").is_file()


@pytest.mark.parametrize("tokenizer", ["remi", "ensemble"])
def test_other_tokenizers_train_and_generate_through_the_same_code(tokenizer, folder, tmp_path):
    words = [f"corpus.path={folder}", f"corpus.shards={tmp_path}/s", f"out={tmp_path}/run"]
    steps = ["trainer.max_steps=5", f"tokenizer={tokenizer}"]
    assert cli.main(["train", *words, *steps, *TINY]) == 0
    generate = [
        f"model={tmp_path}/run/model",
        "seconds=3",
        f"out={tmp_path}/out",
        "name=x",
        "seed=0",
    ]
    assert cli.main(["generate", *generate, f"primer={folder / 'tune 0.mid'}"]) == 0
    assert len(midi.read(tmp_path / "out" / "x-0-1.mid")) > 0


@pytest.mark.parametrize(
    "position", ["none", "sinusoidal", "learned", "huang_shared", "shaw", "transformer_xl", "two_d"]
)
def test_other_positions_train_evaluate_and_generate_by_one_switch(position, folder, tmp_path):
    """Past the context too: 100 tokens where the model has seen 64."""
    words = [f"corpus.path={folder}", f"corpus.shards={tmp_path}/s"]
    steps = [f"out={tmp_path}/run", "trainer.max_steps=5", f"position={position}"]
    assert cli.main(["train", *words, *steps, *TINY]) == 0
    model = f"model={tmp_path}/run/model"
    assert cli.main(["evaluate", model, *words, "corpus.workers=1"]) == 0
    generate = [model, "seconds=30", "tokens=100", f"out={tmp_path}/out"]
    assert cli.main(["generate", *generate]) == 0


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["train", "corpus.path={tmp}/nowhere"], "nowhere"),
        (["train", "corpus.path={tmp}/empty"], "no MIDI file"),
        (["train"], "not a folder of token shards"),
        (["prepare", "corpus.path={tmp}/broken"], "broken.mid"),
        (["generate", "model={tmp}/nowhere"], "nowhere"),
        (["generate", "model={trained}", "primer={tmp}/none.mid"], "none.mid"),
        (["generate", "model={trained}", "primer={tmp}/broken/broken.mid"], "broken.mid"),
        (["generate", "model={trained}", "out=/proc/no/where"], "/proc/no/where"),
        (["generate", "model={foreign}"], "vocabulary"),
        (["render", "{tmp}/none.mid"], "none.mid"),
        (["render"], "files: missing"),
        (["evaluate", "model={trained}", "corpus.path={tmp}/empty"], "no MIDI file"),
    ],
)
def test_wrong_input_gets_one_sentence_and_its_status(words, sentence, trained, tmp_path, capsys):
    (tmp_path / "empty").mkdir()
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "broken.mid").write_bytes(b"this is no MIDI file")
    foreign = tmp_path / "foreign"
    shutil.copytree(trained, foreign)
    tokenizer = json.loads((foreign / "tokenizer.json").read_text())
    tokenizer["fingerprint"] = "0" * 16
    (foreign / "tokenizer.json").write_text(json.dumps(tokenizer))
    before = set(tmp_path.rglob("*"))

    where = {"tmp": tmp_path, "trained": trained, "foreign": foreign}
    filled = [w.format(**where) for w in words]
    if words[0] in ("prepare", "train"):
        filled += [f"corpus.shards={tmp_path}/shards", "corpus.workers=1"]
    if words[0] == "train":
        filled += [f"out={tmp_path}/run", *TINY]
    elif words[0] == "generate" and not any(w.startswith("out=") for w in words):
        filled.append(f"out={tmp_path}/out")
    elif words[0] == "evaluate":
        filled += [f"corpus.shards={tmp_path}/shards", "corpus.workers=1"]

    status = cli.main(filled)
    err = capsys.readouterr().err
    assert status == (1 if sentence.startswith("/proc") else 2)  # 1: it cannot be written
    last = err.strip().splitlines()[-1]
    assert last.startswith("musictx: ")
    assert sentence in last
    assert "Traceback" not in err
    left = {p for p in tmp_path.rglob("*") if p.is_file()} - before
    assert not left, f"left behind: {left}"
