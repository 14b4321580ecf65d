"""docs/composing.md: every command of its table of tasks runs and leaves music, cut short here."""

import re
import shlex
from pathlib import Path

import numpy as np
import pytest

import musictx
from musictx import cli
from musictx.notes import KEY, METER, NOTE, TEMPO, Score

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "composing.md").read_text(encoding="utf-8")
TASKS = re.findall(r"^\| ([^|]+) \| `(musictx [^`]+)` \|$", PAGE, flags=re.MULTILINE)


def song():
    """Twelve quarters in 96 bpm and 3/4, over a bass."""
    quarter = 60 / 96
    table = np.zeros(24, NOTE)
    table["start"] = np.repeat(np.arange(12) * quarter, 2)
    table["end"] = table["start"] + 0.9 * quarter
    table["pitch"] = np.ravel([(72 + step, 48 + step) for step in (0, 4, 7, 5, 4, 2) * 2])
    table["velocity"], table["track"] = 80, [0, 1] * 12
    marks = {"tempos": [(0.0, 96.0)], "meters": [(0.0, 3, 4)], "keys": [(0.0, 0, False)]}
    kinds = {"tempos": TEMPO, "meters": METER, "keys": KEY}
    names = {0: "tune", 1: "bass"}
    return Score(
        notes=table, names=names, **{n: np.array(rows, kinds[n]) for n, rows in marks.items()}
    )


def chorale():
    """Four bars in four tracks."""
    beats = [0.6 * n for n in range(16)]
    tracks = enumerate((72, 67, 64, 48))
    return Score().with_notes(
        [(at, at + 0.5, pitch, 80, 0, False, t) for t, pitch in tracks for at in beats]
    )


def shorter(words):
    """The same options, a second of music instead of ten, two samples instead of eight, sections
    of a bar."""
    found = []
    for word in words:
        name, equals, value = word.partition("=")
        if name == "seconds" and value not in ("3",):
            value = "2" if {"end=natural", "model=song"} & set(words) else "0.5"
        if name == "samples" and value.isdecimal():
            value = "2"
        if name == "bars" and any(other.startswith("form=") for other in words):
            value = "1"
        found.append(f"{name}{equals}{value}")
    if words[0] == "harmonise":
        found.append("particles=2")
    if words == ["generate", "model=chorale"]:
        found.append("seconds=0.5")
    composing = ("generate", "continue", "accompany", "infill", "harmonise", "play")
    if words[0] in composing and not any(word.startswith("seed=") for word in words):
        found.append("seed=1")
    return found


def test_there_are_thirty_tasks():
    assert len(TASKS) >= 30
    assert len({command for _, command in TASKS}) == len(TASKS)


@pytest.mark.slow
@pytest.mark.parametrize("command", [command for _, command in TASKS])
def test_the_command_of_each_task_runs(command, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    musictx.write(song(), tmp_path / "song.mid")
    musictx.write(chorale(), tmp_path / "chorale.mid")
    words = shorter(shlex.split(command)[1:])
    if words[0] == "compare":
        for folder in ("generated", "midi"):
            (tmp_path / folder).mkdir()
            for number in range(3):
                musictx.write(song(), tmp_path / folder / f"{number}.mid")
    before = set(tmp_path.rglob("*"))
    assert cli.main(words) == 0
    made = set(tmp_path.rglob("*")) - before
    options = dict(word.split("=", 1) for word in words if "=" in word)
    for name in ("out", "output"):
        assert name not in options or tmp_path / options[name] in made
    if words[0] == "compare":
        assert re.search(r"^ +samples +real +unit$", capsys.readouterr().out, re.MULTILINE)
    elif words[0] == "render":
        assert {path.suffix for path in made} == {".png", ".wav"}
    else:
        music = [path for path in made if path.suffix in (".mid", ".musicxml")]
        assert len(music) == int(options.get("samples", 1))
        assert all(len(musictx.read(path)) for path in music)


def test_words_that_musicians_do_not_know_are_explained():
    listed = PAGE.partition("## Words\n")[2].partition("\n## ")[0]
    explained = set(re.findall(r"\*\*([^*]+)\*\*", listed))
    assert explained >= {"nat", "primer", "seam", "held out", "window", "particles", "token"}
    assert "ends on no root-position triad" in listed
