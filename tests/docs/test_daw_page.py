"""docs/daw.md: its commands keep the grid of a file as it says; its configuration is a server's."""

import dataclasses
import json
import re
import shlex
from pathlib import Path

import numpy as np
import pytest

import musictx
from musictx import cli
from musictx.mcp.places import Places
from tests.docs.test_composing_page import shorter, song

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "daw.md").read_text(encoding="utf-8")
LINES = re.findall(r"^\| `(musictx [^`]+)` \| (.+) \|$", PAGE, flags=re.MULTILINE)


def test_the_table_is_there():
    assert len(LINES) == 6


@pytest.mark.slow
@pytest.mark.parametrize(("line", "grid"), LINES)
def test_what_is_written_has_the_grid_that_the_page_says(line, grid, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    musictx.write(dataclasses.replace(song(), ticks_per_quarter=480), "song.mid")
    given = musictx.read("song.mid")
    assert given.tempos["bpm"].tolist() == pytest.approx([96])
    assert cli.main([*shorter(shlex.split(line)[1:]), "out=x.mid", "seed=1"]) == 0
    made = musictx.read("x.mid")
    if "song.mid" in line:
        assert grid.startswith(("that of `song.mid`", "the same"))
        assert made.tempos["bpm"].tolist() == given.tempos["bpm"].tolist()
        assert made.meters[["numerator", "denominator"]].tolist() == [(3, 4)]
        assert made.ticks_per_quarter % given.ticks_per_quarter == 0
    if "quantise=16" in line:
        sixteenth = 60 / 96 / 4
        new = made.notes["start"][made.notes["start"] > given.duration]
        assert np.abs(new / sixteenth - np.round(new / sixteenth)).max(initial=0) < 0.02


def test_the_configuration_starts_a_server(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "Music").mkdir()
    block = json.loads(re.search(r"```json\n(.*?)```", PAGE, re.DOTALL)[1])
    server = block["mcpServers"]["musictx"]
    started = []
    monkeypatch.setattr(cli, "_run", lambda command, config: started.append((command, config)))
    assert cli.main(server["args"]) == 0
    ((command, config),) = started
    assert command == "mcp"
    assert Places(config.out, config.read).out == tmp_path / "Music" / "composed"


def test_its_lines_for_ports_compose(monkeypatch):
    monkeypatch.setattr(cli, "_run", lambda command, config: None)
    lines = re.findall(r"^    (musictx .+)$", PAGE, flags=re.MULTILINE)
    assert len(lines) == 2
    for line in lines:
        assert cli.main(shlex.split(line)[1:]) == 0
