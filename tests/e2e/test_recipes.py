"""Every recipe of experiment= trains, and so do other tokenizers and positions by one switch. Files
whose first notes lie before the first beat are prepared, trained on and composed to."""

from __future__ import annotations

import json

import numpy as np
import pytest

from musictx import cli, midi
from musictx.commands import groups, preset
from musictx.data.shards import Shards
from musictx.grid import in_time
from musictx.notes import Score
from musictx.songs.bar_tokens import BarTokenizer
from tests.data.helpers import write_songs
from tests.untrained import saved

TINY = ["model=tiny", "model.layers=1", "model.width=32", "model.heads=2", "model.context=64"]
TINY += ["model.feedforward=64", "trainer=laptop", "trainer.accelerator=cpu", "optim.warmup=2"]
TINY += ["trainer.val_check_interval=5", "data.validation_windows=4", "data.batch_size=4"]
TINY += ["callbacks.samples.seconds=1", "corpus.workers=1"]


@pytest.mark.parametrize(
    "switch",
    ["tokenizer.name=docs.examples.remi:Remi", "tokenizer=ensemble", "position=learned",
     "position=two_d"],
)  # fmt: skip
def test_a_switch_trains_evaluates_and_continues(switch, tmp_path, monkeypatch):
    """Past the context too, in a folder with a file that is broken and one that is no music."""
    monkeypatch.setenv("MUSICTX_TRUST", "docs.examples.remi")
    folder = write_songs(tmp_path / "my midi (live)", range(6), notes=80)
    (folder / "broken.MID").write_bytes(b"MThd\x00\x00")
    (folder / "notes.txt").write_text("not music")
    words, model = [f"corpus.path={folder}", f"corpus.shards={tmp_path}/s"], f"{tmp_path}/run/model"
    steps = [f"out={tmp_path}/run", "trainer.max_steps=5", switch]
    assert cli.main(["train", *words, *steps, *TINY]) == 0
    assert cli.main(["evaluate", f"model={model}", *words, "corpus.workers=1"]) == 0
    options = [f"model={model}", "seconds=30", "tokens=100", f"out={tmp_path}/made.mid"]
    assert cli.main(["continue", f"{folder}/song-001.mid", *options]) == 0
    assert len(midi.read(tmp_path / "made.mid")) > 80


@pytest.fixture(scope="module")
def corpora(tmp_path_factory) -> dict[str, list[str]]:
    """An experiment's folder -> its corpus and, where the paper's size would take minutes, a
    small model. Recipes without a folder train on the chorales, whose shards they share. ``init``:
    a small model in place of the included one."""
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
        rows = [(i / 4, i / 4 + 0.2, p, 80, 73, False, 0) for i, p in enumerate(pitches)]
        midi.write(Score(rows), root / "grid" / f"{seed}.mid")
        split.append(f"{'train' if seed else 'validation'},{seed}.mid")
    (root / "grid" / "split.csv").write_text("\n".join(split))
    return {
        "init": [f"init={saved(root / 'init', tokens={'name': 'performance'}, context=64)}"],
        "jsb": [f"corpus.path={root / 'jsb.json'}", f"corpus.shards={root}/jsb", *small],
        "": [f"corpus.shards={root}/bach"],
        "maestro": [f"corpus.path={songs}", *small],
        "song": [f"corpus.path={root / 'grid'}", *small],
    }


@pytest.mark.parametrize("name", groups("train")["experiment"])
def test_every_experiment_takes_a_step(name, corpora, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # where shards go that are not named
    words = [f"experiment={name}", "trainer.max_steps=1", "trainer.max_time=null"]
    short = ["data.batch_size=2", "data.validation_windows=2", "callbacks=quiet"]
    where = [f"out={tmp_path}/run", "trainer.accelerator=cpu", "data.num_workers=0"]
    where += corpora["init"] if preset("experiment", name).get("init") else []
    where += corpora.get(name) or corpora["maestro" if name == "own" else name.rpartition("/")[0]]
    assert cli.main(["train", *words, *short, *where]) == 0
    assert (tmp_path / "run" / "model" / "model.safetensors").is_file()


TICKS = 480


def late(*, early: int, shift: int, bpm: float = 120.0, meter=(4, 4), pickup: int = 0) -> Score:
    """48 eighths, ``shift`` ticks off, after ``pickup`` quarters; before them ``early`` notes from
    tick 0 on, 20 ticks apart."""
    second = TICKS * bpm / 60
    starts = [20 * n for n in range(early)]
    starts += [max(pickup * TICKS + TICKS // 2 * n + shift, 0) for n in range(early > 0, 48)]
    notes = [
        (start / second, (start + 160) / second, 48 + n * 7 % 24, 70, 0, False, 0)
        for n, start in enumerate(starts)
    ]
    meters = [(0.0, 1, 4)] * bool(pickup) + [(pickup * 60 / bpm, *meter)]
    return Score(notes, tempos=[(0.0, bpm)], meters=meters, ticks_per_quarter=TICKS)


PIECES = {
    "late": late(early=1, shift=40),
    "a pick-up": late(early=1, shift=40, pickup=1),
    "early": late(early=0, shift=-40),
    "slow": late(early=1, shift=42, bpm=40.0, meter=(3, 4)),
    "six eighths": late(early=3, shift=48, meter=(6, 8)),
}
WORDS = [*TINY, "tokenizer=notes", "tokenizer.controls=true", "corpus.validation=0.2"]
WORDS += ["data.tasks.infill=0.3", "data.tasks.accompany=0.3"]


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A folder with these files, shards and a model; encoding the slow piece raises an unexpected
    error."""
    begins = [BarTokenizer().clock(in_time(score)).begins for score in PIECES.values()]
    assert sum(begin < -0.1 for begin in begins) == 4, "some notes stand before their beats"
    root = tmp_path_factory.mktemp("late")
    (root / "midi").mkdir()
    for name, score in PIECES.items():
        midi.write(score, root / "midi" / f"{name}.mid")
    words = [f"corpus.path={root}/midi", f"corpus.shards={root}/shards", f"out={root}/run"]
    real = BarTokenizer.grid

    def grid(self, score, *moments):
        if score.tempos["bpm"][0] < 41:
            raise ZeroDivisionError("what nobody expects")
        return real(self, score, *moments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(BarTokenizer, "grid", grid)
        assert cli.main(["train", *words, "trainer.max_steps=4", *WORDS]) == 0
    return root


def test_a_network_learns_from_them_without_the_one_that_cannot_be_encoded(trained):
    shards = trained / "shards"
    (left_out,) = json.loads((shards / "report.json").read_text())["left_out"]
    assert (left_out["name"], left_out["reason"]) == ("slow.mid", "not encodable")
    assert left_out["detail"] == "ZeroDivisionError: what nobody expects"
    assert sum(piece.notes for piece in Shards(shards).pieces()) == 48 * (len(PIECES) - 1) + 2


@pytest.mark.parametrize(
    ("name", "command", "words"),
    [
        ("late", "continue", "bars=2"),
        ("a pick-up", "infill", "from=0s to=1s"),
        ("slow", "accompany", "add=piano"),
        ("six eighths", "infill", "from=1 to=1"),
    ],
)
def test_they_are_composed_to(trained, tmp_path, name, command, words):
    """Given notes keep their times; new notes are where they were requested."""
    file = trained / "midi" / f"{name}.mid"
    more = [f"model={trained}/run/model", f"out={tmp_path}/made.mid", "seed=1"]
    assert cli.main([command, str(file), *words.split(), *more]) == 0
    given, made = midi.read(file).notes, midi.read(tmp_path / "made.mid").notes
    kept = {(n["start"], n["end"], n["pitch"]) for n in made} & {
        (n["start"], n["end"], n["pitch"]) for n in given
    }
    assert len(kept) >= len(given) - 16 * (command == "infill")  # the notes of two bars
    if command == "continue":
        assert np.all(made[len(given) :]["start"] > given["start"].max())
