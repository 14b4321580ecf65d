"""The scripts for a GPU run on the CPU, tiny, and need none of what bare machines lack."""

from __future__ import annotations

import csv
import importlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from musictx.model.static import StaticDecoder

GPU = Path(__file__).resolve().parents[2] / "scripts" / "gpu"
MISSING = ("hydra", "omegaconf", "mido", "symusic", "pretty_midi", "miditok", "music21")
BLOCKED = f"""
import runpy, sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {MISSING!r}:
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, Missing())
script, *sys.argv[1:] = sys.argv[1:]
sys.argv[0] = script
sys.path.insert(0, {str(GPU)!r})
runpy.run_path(script, run_name="__main__")
"""


def run(script: str, out: Path, *words: str) -> tuple[str, list[dict[str, str]], dict[str, Any]]:
    """What it prints, and its two files."""
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", BLOCKED, str(GPU / f"{script}.py"), f"out={out}", *words]
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    with (out / "results.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    return done.stdout, rows, json.loads((out / f"{script}.json").read_text(encoding="utf-8"))


COLUMNS = [
    *("gpu", "driver", "torch", "triton", "commit", "script"),
    *("case", "unit", "median", "quartile1", "quartile3", "repeats"),
]


@pytest.mark.slow
def test_decode(tmp_path: Path) -> None:
    text, rows, whole = run("decode", tmp_path, "quick=true", "commit=abc", "rows=1,2")
    assert "WRONG" not in text
    assert whole["wrong"] == []
    assert text.count(" ok ") == 11 + 2 + 1 + 2
    assert [list(row) for row in rows] == [COLUMNS] * len(rows)
    cases = {row["case"].split(" model=")[0] for row in rows}
    assert len(cases) == len(rows) == 4 + 4
    for row in rows:
        assert row["commit"] == "abc"
        assert 0 < float(row["quartile1"]) <= float(row["median"]) <= float(row["quartile3"])


def test_no_budget_no_measurements(tmp_path: Path) -> None:
    text, rows, _ = run("decode", tmp_path, "quick=true", "seconds=0", "rows=1", "ways=eager")
    assert text.count("no time left") == 3
    assert rows == []


@pytest.fixture
def scripts(monkeypatch: pytest.MonkeyPatch) -> Any:
    """What imports a file of scripts/gpu by name."""
    monkeypatch.syspath_prepend(str(GPU))
    yield importlib.import_module
    for file in GPU.glob("*.py"):
        sys.modules.pop(file.stem, None)


@pytest.mark.parametrize(
    ("script", "words", "said"),
    [
        ("decode", ["quick=true", "speed=high"], "speed=high: expected name=value with a name of"),
        ("decode", ["model=huge"], r"model=huge: there is no conf/model/huge.yaml"),
        ("decode", [], "quick=true runs this on the CPU"),
    ],
)
def test_mistakes_are_named(scripts: Any, script: str, words: list[str], said: str) -> None:
    if not words and torch.cuda.is_available():
        pytest.skip("there is a GPU")
    with pytest.raises(SystemExit, match=said):
        scripts(script).main(words)


@pytest.mark.parametrize("scheme", ["huang", "alibi", "rotary", "learned"])
def test_bytes_of_a_step_are_those_of_the_tensors_it_reads(scripts: Any, scheme: str) -> None:
    decode, common = scripts("decode"), scripts("common")
    model = common.build("quick", position={"name": scheme, "max_distance": 12}).bfloat16()
    found = decode.bytes_of_a_step(model, 3, 19)
    decoder = StaticDecoder(model, rows=3, capacity=20)
    rings = [*decoder.keys, *decoder.values]
    axes = [axis for terms in decoder.terms for axis in terms.axes]
    tables = [x for axis in axes for x in (axis.table, axis.bias) if x is not None]
    held = {id(p) for p in model.position.parameters()}
    weights = [p for p in model.parameters() if id(p) not in held]
    for name, tensors in (("keys and values", rings), ("tables", tables), ("weights", weights)):
        assert found[name] == sum(x.numel() * x.element_size() for x in tensors), name
