"""The ONNX graph of a step writes the ids that the engine writes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from musictx import bundle
from musictx.model import MusicTransformer
from musictx.model.exported import Step, onnx
from musictx.sampling import engine
from musictx.sampling.constraints import GrammarConstraint
from musictx.sampling.processors import Temperature
from tests.model import test_ring
from tests.model.features import test_conditions
from tests.model.features.test_grid import GRID, PITCHES

runtime = pytest.importorskip("onnxruntime", reason="no onnxruntime: pip install 'musictx[export]'")
pytest.importorskip("onnxscript", reason="no onnxscript: pip install 'musictx[export]'")

VOICES: dict[str, Any] = {
    "intervals": {"inputs": [1, 30], "outputs": [3], "pitches": PITCHES},
    "ages": GRID,
    "repeats": {**GRID, "pitches": PITCHES},
    "calibration": {**GRID, "phases": 4},
    "first_values": True,
}
EVENTS = {name: test_conditions.GIVEN[name] for name in ("steps", "starts", "ends")}
SOUNDS: dict[str, Any] = {
    "vocab_size": test_conditions.VOCAB,
    "sounding": {**EVENTS, "loudness": [[6, 9, 1]], "recent": 2, "chords": 2},
    "conditions": {**test_conditions.GIVEN, "chords": 2},
    "gates": True,
}


def make(scheme: str, more: dict[str, Any]) -> MusicTransformer:
    plain = test_ring.make(scheme)
    torch.manual_seed(0)
    model = MusicTransformer(**{**plain.config, **more}).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(1.5).add_(0.05 * torch.randn_like(parameter))
    return model


class Session:
    """Tokens one by one through the graph, as a program without torch would do it."""

    def __init__(self, step: Step) -> None:
        content = onnx(step, {"musictx.fingerprint": "abc"})
        self.session = runtime.InferenceSession(content, providers=["CPUExecutionProvider"])
        self.state = {name: one.numpy() for name, one in step.inputs.items()}

    def __call__(self, ids: np.ndarray) -> torch.Tensor:
        """Logits (rows, vocab) after ids (rows,)."""
        asked = [one.name for one in self.session.get_outputs()]
        given = {**self.state, "ids": ids[:, None]}
        found = dict(zip(asked, self.session.run(asked, given)))
        self.state |= {name: found[f"new_{name}"] for name in list(self.state)[2:]}
        self.state["position"] = self.state["position"] + 1
        return torch.from_numpy(found["logits"])


def written(session: Session, prompt: list[int], count: int, greedy: bool, constraint: Any = None):
    """``count`` ids a row by the graph, drawn as the engine draws."""
    rows = len(session.state["ids"])
    generators = [np.random.default_rng(seed) for seed in range(rows)]
    ended = torch.zeros(rows, dtype=torch.bool)
    for one in prompt:
        logits = session(np.full(rows, one))
    drawn = []
    for _ in range(count):
        choice = engine.forbid(logits.double(), constraint)
        choice = Temperature(0.0)(torch.zeros(rows, 0), choice) if greedy else choice
        ids = engine.draw(choice, generators, ended)
        drawn.append(ids)
        ended |= ids == engine.EOS
        if constraint is not None:
            constraint.advance(ids)
        logits = session(ids.numpy())
    return torch.stack(drawn, dim=1).tolist()


def ours(
    model: MusicTransformer, prompt: list[int], count: int, rows: int, greedy: bool, **more: Any
):
    processors = [Temperature(0.0)] if greedy else []
    steps = engine.generate(
        model, prompt, rows=rows, max_tokens=count, seeds=range(rows), processors=processors, **more
    )
    return torch.stack(list(steps), dim=1).tolist()


@pytest.mark.parametrize(
    ("scheme", "more", "rows"),
    [("huang", SOUNDS, 2), (test_ring.GRID, VOICES, 1), ("transformer_xl", {}, 1)],
    ids=["events", "voices", "plain"],
)
def test_ids_are_those_of_the_engine(scheme: str, more: dict[str, Any], rows: int) -> None:
    """Beyond the capacity too, where the window slides."""
    model = make(scheme, more)
    prompt = test_conditions.window(0, known=6, past=2, rest=0) if rows == 2 else [1, 9, 5]
    session = Session(Step(model, rows=rows, capacity=40))
    fresh = dict(session.state)
    for greedy in (True, False):
        session.state = dict(fresh)
        want = ours(model, prompt, 64, rows, greedy, context=40, cache="ring")
        got = written(session, prompt, 64, greedy)
        for one, other in zip(got, want):
            ended = other.index(engine.EOS) + 1 if engine.EOS in other else len(other)
            assert one[:ended] == other[:ended]
            assert ended > 8 or not greedy


@pytest.mark.slow
@pytest.mark.parametrize("name", ["piano", "chorale"])
def test_shipped_models(name: str) -> None:
    """64 tokens, greedy and drawn, by the grammar of the tokens."""
    loaded = bundle.load(name)
    session = Session(Step(loaded.model, rows=1, capacity=loaded.model.config["context"]))
    fresh = dict(session.state)
    for greedy in (True, False):
        session.state = dict(fresh)
        rules = [GrammarConstraint([loaded.tokenizer.grammar()], may_end=False) for _ in range(2)]
        want = ours(loaded.model, [1], 64, 1, greedy, constraint=rules[0])
        assert written(session, [1], 64, greedy, rules[1]) == want
    assert session.session.get_modelmeta().custom_metadata_map["musictx.fingerprint"] == "abc"
