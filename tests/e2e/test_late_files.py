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
from tests.e2e.test_recipes import TINY

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
