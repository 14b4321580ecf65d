"""Files whose first notes lie before the first beat can be prepared, trained on and continued. A
file that cannot be encoded is left out of its corpus; the other files are prepared."""

from __future__ import annotations

import json

import numpy as np
import pytest

from musictx import cli, midi
from musictx.data.shards import Shards
from musictx.grid import in_time
from musictx.notes import Score
from musictx.songs.bar_tokens import BarTokenizer
from tests.e2e.test_walkthrough import TINY

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
    "grace notes": late(early=2, shift=48, bpm=96.0),
    "a pick-up": late(early=1, shift=40, pickup=1),
    "early": late(early=0, shift=-40),
    "slow": late(early=1, shift=42, bpm=40.0, meter=(3, 4)),
    "six eighths": late(early=3, shift=48, meter=(6, 8)),
}
WORDS = [
    *TINY,
    "tokenizer=notes",
    "tokenizer.controls=true",
    "data.tasks.infill=0.3",
    "data.tasks.accompany=0.3",
    "corpus.validation=0.2",
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    root = tmp_path_factory.mktemp("late")
    for name, score in PIECES.items():
        midi.write(score, root / f"{name}.mid")
    return root


@pytest.fixture(scope="module")
def trained(folder, tmp_path_factory):
    """A model trained on these files; encoding the slow piece raises an unexpected error."""
    begins = [BarTokenizer().clock(in_time(score)).begins for score in PIECES.values()]
    assert sum(begin < -0.1 for begin in begins) == 5, "some notes stand before their beats"
    root = tmp_path_factory.mktemp("run")
    words = [f"corpus.path={folder}", f"corpus.shards={root}/shards", f"out={root}/run"]
    real = BarTokenizer.grid

    def grid(self, score, *moments):
        if score.tempos["bpm"][0] < 41:
            raise ZeroDivisionError("what nobody expects")
        return real(self, score, *moments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(BarTokenizer, "grid", grid)
        assert cli.main(["train", *words, "trainer.max_steps=4", *WORDS]) == 0
    return root / "run" / "model"


def test_a_network_learns_from_them_without_the_one_that_cannot_be_encoded(trained):
    shards = trained.parent.parent / "shards"
    (left_out,) = json.loads((shards / "report.json").read_text())["left_out"]
    assert left_out == {
        "name": "slow.mid",
        "reason": "not encodable",
        "detail": "ZeroDivisionError: what nobody expects",
    }
    assert sum(piece.notes for piece in Shards(shards).pieces()) == 48 * (len(PIECES) - 1) + 3


REQUESTS = [
    ("continue", "bars=2"),
    ("infill", "from=1 to=1"),
    ("infill", "from=0s to=1s"),
    ("infill", "from=2 to=3"),
    ("accompany", "add=piano"),
]


@pytest.mark.parametrize(
    ("name", "command", "words"), [(name, *REQUESTS[n % 5]) for n, name in enumerate(PIECES)]
)
def test_they_are_composed_to(trained, folder, tmp_path, name, command, words):
    """Given notes keep their times; new notes are where they were requested."""
    given = midi.read(folder / f"{name}.mid").notes
    more = [f"model={trained}", f"out={tmp_path}/made.mid", "seed=1"]
    assert cli.main([command, str(folder / f"{name}.mid"), *words.split(), *more]) == 0
    made = midi.read(tmp_path / "made.mid").notes
    kept = {(n["start"], n["end"], n["pitch"]) for n in made} & {
        (n["start"], n["end"], n["pitch"]) for n in given
    }
    if command == "infill":
        assert len(kept) >= len(given) - 16  # the notes of two bars
    else:
        assert len(kept) == len(given)
    if command == "continue":
        new = made[len(given) :]
        assert np.all(new["start"] > given["start"].max())
