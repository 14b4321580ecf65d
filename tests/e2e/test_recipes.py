"""Every experiment trains, and so do other tokenizers and positions by one option. Files with notes
before the first beat are prepared, trained on, continued, filled and accompanied."""

import json

import numpy as np
import pytest

from musictx import cli, formats
from musictx.commands import groups, preset
from musictx.data.shards import Shards
from musictx.grid import in_time
from musictx.notes import Score
from musictx.songs.bar_tokens import BarTokenizer
from tests.data.helpers import write_songs
from tests.pieces import line, listed, score
from tests.untrained import saved

TINY = ["model=tiny", "model.layers=1", "model.width=32", "model.heads=2", "model.context=64"]
TINY += ["model.feedforward=64", "trainer=laptop", "trainer.accelerator=cpu", "optim.warmup=2"]
TINY += ["trainer.val_check_interval=5", "data.validation_windows=4", "data.batch_size=4"]
TINY += ["callbacks.samples.seconds=1", "corpus.workers=1"]


@pytest.mark.parametrize(
    "option",
    ["tokenizer.name=docs.examples.remi:Remi", "tokenizer=ensemble", "position=learned",
     "position=two_d"],
)  # fmt: skip
def test_a_model_with_another_option_trains_evaluates_and_continues(option, tmp_path, monkeypatch):
    """Also beyond the context, and from a folder with a broken file and a text file."""
    monkeypatch.setenv("MUSICTX_TRUST", "docs.examples.remi")
    folder = write_songs(tmp_path / "my midi (live)", range(6), notes=80)
    (folder / "broken.MID").write_bytes(b"MThd\x00\x00")
    (folder / "notes.txt").write_text("not music")
    words, model = [f"corpus.path={folder}", f"corpus.shards={tmp_path}/s"], f"{tmp_path}/run/model"
    steps = [f"out={tmp_path}/run", "trainer.max_steps=5", option]
    assert cli.main(["train", *words, *steps, *TINY]) == 0
    assert cli.main(["evaluate", f"model={model}", *words, "corpus.workers=1"]) == 0
    options = [f"model={model}", "seconds=30", "tokens=100", f"out={tmp_path}/made.mid"]
    assert cli.main(["continue", f"{folder}/song-001.mid", *options]) == 0
    assert len(formats.read(tmp_path / "made.mid")) > 80


@pytest.fixture(scope="module")
def corpora(tmp_path_factory) -> dict[str, list[str]]:
    """Return folder of experiments -> options of its corpus, and of a small model where the paper's
    would take minutes. Experiments without a folder share shards of the chorales. ``init``: a small
    model in place of the included one."""
    root = tmp_path_factory.mktemp("corpora")
    small = [f"model.{k}={v}" for k, v in {"layers": 1, "width": 16, "heads": 2}.items()]
    piece = [[72, 67, 60, 48], [74, 67, 59, 50]] * 8
    (root / "jsb.json").write_text(json.dumps({"train": [piece] * 3, "valid": [piece]}))
    songs = write_songs(root / "midi", range(6))
    splits = ["validation", *["train"] * 5]
    rows = [f"{split},{path.name}" for split, path in zip(splits, sorted(songs.iterdir()))]
    (songs / "maestro.csv").write_text("\n".join(["split,midi_filename", *rows]))
    (root / "grid").mkdir()
    split = ["split,midi_filename"]
    for seed in range(6):
        pitches = np.random.default_rng(seed).integers(60, 72, 32)
        tune = line(*pitches, every=0.25, length=0.2, program=73)
        formats.write(tune, root / "grid" / f"{seed}.mid")
        split.append(f"{'train' if seed else 'validation'},{seed}.mid")
    (root / "grid" / "split.csv").write_text("\n".join(split))
    return {
        "init": [f"init={saved(root / 'init', tokens={'name': 'performance'}, context=64)}"],
        "jsb": [f"corpus.path={root / 'jsb.json'}", f"corpus.shards={root}/jsb", *small],
        "": [f"corpus.shards={root}/bach"],
        "maestro": [f"corpus.path={songs}", *small],
        "song": [f"corpus.path={root / 'grid'}", *small],
    }


@pytest.mark.usefixtures("few_chorales")
@pytest.mark.parametrize("name", groups("train")["experiment"])
def test_every_experiment_takes_a_step(name, corpora, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # the default place of shards
    words = [f"experiment={name}", "trainer.max_steps=1", "trainer.max_time=null"]
    short = [
        "data.batch_size=2",
        "data.validation_windows=2",
        "callbacks=quiet",
        "corpus.workers=1",
    ]
    where = [f"out={tmp_path}/run", "trainer.accelerator=cpu", "data.num_workers=0"]
    where += corpora["init"] if preset("experiment", name).get("init") else []
    where += corpora.get(name) or corpora["maestro" if name == "own" else name.rpartition("/")[0]]
    assert cli.main(["train", *words, *short, *where]) == 0
    assert (tmp_path / "run" / "model" / "model.safetensors").is_file()


def late(low: int, bpm: float = 120.0) -> Score:
    """Return a note at 0, before the first beat, and 47 eighths, each 40 ticks late."""
    starts = [0, *(240 * n + 40 for n in range(1, 48))]
    second = 8 * bpm
    rows = [(start / second, (start + 160) / second, low + n * 7 % 24, 70, 0, False, 0)
            for n, start in enumerate(starts)]  # fmt: skip
    return score(rows, bpm=bpm)


PIECES = {"a": late(48), "b": late(50), "c": late(53), "slow": late(48, 40.0)}
LATE = [*TINY, "tokenizer=notes", "tokenizer.controls=true", "corpus.validation=0.2"]
LATE += ["data.tasks.infill=0.3", "data.tasks.accompany=0.3", "trainer.max_steps=4"]


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Make a folder with the pieces, shards and a model; encoding the slow piece raises an
    unexpected error."""
    assert BarTokenizer().clock(in_time(PIECES["a"])).offset < -0.1
    root = tmp_path_factory.mktemp("late")
    (root / "midi").mkdir()
    for name, piece in PIECES.items():
        formats.write(piece, root / "midi" / f"{name}.mid")
    words = [f"corpus.path={root}/midi", f"corpus.shards={root}/shards", f"out={root}/run"]
    real = BarTokenizer.grid

    def grid(self, score, *moments):
        if score.tempos["bpm"][0] < 41:
            raise ZeroDivisionError("what nobody expects")
        return real(self, score, *moments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(BarTokenizer, "grid", grid)
        assert cli.main(["train", *words, *LATE]) == 0
    return root


def test_late_files_are_prepared_without_the_one_that_cannot_be_encoded(trained):
    (left_out,) = json.loads((trained / "shards" / "report.json").read_text())["left_out"]
    assert (left_out["name"], left_out["reason"]) == ("slow.mid", "not encodable")
    assert left_out["detail"] == "ZeroDivisionError: what nobody expects"
    assert sum(piece.notes for piece in Shards(trained / "shards").pieces()) == 3 * 48


@pytest.mark.parametrize("words", ["continue bars=2", "infill from=1 to=1", "accompany add=piano"])
def test_late_files_are_continued_filled_and_accompanied(trained, tmp_path, words):
    """Given notes keep their times; new notes are where they were requested."""
    file, (command, *options) = trained / "midi" / "a.mid", words.split()
    options += [f"model={trained}/run/model", f"out={tmp_path}/made.mid", "seed=1"]
    assert cli.main([command, str(file), *options]) == 0
    given, made = formats.read(file).notes, formats.read(tmp_path / "made.mid").notes
    lost = listed(given) - listed(made)
    assert not lost or (command == "infill" and max(start for start, *_ in lost) < 2.0)
    if command == "continue":
        assert np.all(made[len(given) :]["start"] > given["start"].max())
