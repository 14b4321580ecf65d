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
from torch.nn import functional as F
from torch.utils.flop_counter import FlopCounterMode

from musictx.attention import reference
from musictx.attention.terms import Axis, Span, Terms
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


@pytest.mark.slow
def test_train_throughput(tmp_path: Path) -> None:
    words = ("quick=true", "attention=fused,textbook,sdpa", "modes=eager", "settings=train,plain")
    text, rows, whole = run("train_throughput", tmp_path, *words)
    assert "WRONG" not in text
    assert whole["wrong"] == []
    assert "left out, fused" in text
    found = {r["case"] for r in rows}
    assert len(found) == len(rows)
    assert sum("attention=textbook" in case for case in found) == 2
    assert sum("loader" in case for case in found) == 2
    assert all(float(row["median"]) > 0 for row in rows)


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


@pytest.fixture
def train_cases(scripts: Any) -> Any:
    return scripts("train_cases")


@pytest.mark.parametrize(
    ("script", "words", "said"),
    [
        ("decode", ["quick=true", "speed=high"], "speed=high: expected name=value with a name of"),
        ("train_throughput", ["quick=true", "fast"], "fast: expected name=value"),
        ("decode", ["model=huge"], r"model=huge: there is no conf/model/huge.yaml"),
        ("train_throughput", ["models=paper,huge"], r"model=huge: there is no conf/model/huge"),
        ("decode", [], "quick=true runs this on the CPU"),
        ("train_throughput", [], "quick=true runs this on the CPU"),
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


@pytest.mark.parametrize("attention", ["textbook", "sdpa"])
@pytest.mark.parametrize("tied", [True, False])
def test_operations_are_those_that_torch_counts(
    train_cases: Any, attention: str, tied: bool
) -> None:
    """Dense attention computes all L x L pairs: twice the causal half that the formula counts."""
    case = {"model": "quick", "attention": attention, "setting": "plain", "rows": 3}
    cpu = torch.device("cpu")
    model = train_cases.model_for(case, cpu, tied=tied, context=32)
    if attention == "sdpa":  # counted with dense products too
        model = train_cases.model_for(
            case | {"attention": "reference"}, cpu, tied=tied, context=32,
            position={"name": "none"},
        )  # fmt: skip
    ids = torch.randint(4, 392, (3, 32))
    train_cases.use(attention if attention == "textbook" else "library")
    with FlopCounterMode(display=False) as counted:
        logits = model(ids)
        F.cross_entropy(logits.flatten(0, 1), ids.flatten()).backward()
    train_cases.use("library")
    work = train_cases.operations_per_token(model, 32)
    dense = work["matrices"] + 2 * (work["content"] + work["relative"])
    assert counted.get_total_flops() == 3 * 32 * dense
    assert (work["relative"] > 0) == (attention == "textbook")


@pytest.mark.parametrize("distances", [7, 20, 40])
@pytest.mark.parametrize("packed", [False, True])
def test_the_textbook_is_the_specification(train_cases: Any, distances: int, packed: bool) -> None:
    torch.manual_seed(0)
    q, k, v = torch.randn(3, 2, 2, 20, 4, dtype=torch.float64)
    table = torch.randn(2, distances, 4, dtype=torch.float64)
    terms = Terms(0.5, (Axis(table=table, high=distances - 1),))
    where = {"query_positions": Span(0, 20), "key_positions": Span(0, 20)}
    pieces = {}
    if packed:
        ids = (torch.arange(20) >= torch.tensor([[5], [11]])).long()
        pieces = {"query_pieces": ids, "key_pieces": ids}
    got = train_cases.textbook(q, k, v, terms, **where, **pieces)
    want = reference.attend(q, k, v, terms, **where, **pieces)
    torch.testing.assert_close(got, want, rtol=1e-12, atol=1e-12)
