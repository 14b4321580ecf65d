"""The whole path on small files, by the command line: prepare, train, continue, measure."""

import pytest

import musictx
from musictx import cli, midi, shipped
from tests.apps.train_driver import tune

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


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Six pieces at two depths, a broken file, and something that is no music."""
    root = tmp_path_factory.mktemp("my midi (live)")
    (root / "deeper").mkdir()
    for i in range(6):
        midi.write(tune(i, 80), root / ("deeper" if i % 2 else ".") / f"tune {i}.mid")
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
    assert {p.name for p in trained.iterdir()} == {*shipped.FILES}
    assert (run / "last.ckpt").is_file()
    assert (run / "metrics.csv").is_file()
    assert {path.suffix for path in (run / "samples").iterdir()} == {".mid", ".png"}
    limits = musictx.load(trained).card["note_limits"]
    assert limits["instruments"] == [0]  # as all of tune()
    assert limits["most_notes"] == 1
    assert limits["density"] > 0


def test_a_primer_is_continued_and_rendered(trained, folder, tmp_path, capsys):
    primer = folder / "tune 0.mid"
    words = [f"model={trained}", f"primer={primer}", "primer_seconds=4", "seconds=2", "seed=3"]
    assert cli.main(["generate", *words, f"out={tmp_path}", "render=true"]) == 0
    printed = capsys.readouterr().out
    for ending in ("mid", "wav", "png"):
        assert (tmp_path / f"tune 0-continued-3-1.{ending}").is_file()
        assert f"tune 0-continued-3-1.{ending}" in printed


@pytest.mark.parametrize("tokenizer", [".name=docs.examples.remi:Remi", "=ensemble"])
def test_other_tokenizers_train_and_generate_through_the_same_code(
    tokenizer, folder, tmp_path, monkeypatch
):
    monkeypatch.setenv("MUSICTX_TRUST", "docs.examples.remi")
    words = [f"corpus.path={folder}", f"corpus.shards={tmp_path}/s", f"out={tmp_path}/run"]
    steps = ["trainer.max_steps=5", f"tokenizer{tokenizer}"]
    assert cli.main(["train", *words, *steps, *TINY]) == 0
    generate = [
        f"model={tmp_path}/run/model",
        "seconds=3",
        f"out={tmp_path}/out",
        "seed=0",
    ]
    assert cli.main(["generate", *generate, f"primer={folder / 'tune 0.mid'}"]) == 0
    assert len(midi.read(tmp_path / "out" / "tune 0-continued-0-1.mid")) > 0


@pytest.mark.parametrize("position", ["learned", "transformer_xl", "two_d"])
def test_other_positions_train_evaluate_and_generate_by_one_switch(position, folder, tmp_path):
    """Past the context too: 100 tokens where the model has seen 64."""
    words = [f"corpus.path={folder}", f"corpus.shards={tmp_path}/s"]
    steps = [f"out={tmp_path}/run", "trainer.max_steps=5", f"position={position}"]
    assert cli.main(["train", *words, *steps, *TINY]) == 0
    model = f"model={tmp_path}/run/model"
    assert cli.main(["evaluate", model, *words, "corpus.workers=1"]) == 0
    generate = [model, "seconds=30", "tokens=100", f"out={tmp_path}/out"]
    assert cli.main(["generate", *generate]) == 0
