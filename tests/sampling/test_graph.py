"""The loop on the device draws the ids of the engine; its whole step is one graph."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from musictx.sampling import engine, graph
from musictx.sampling.graph import Loop
from musictx.sampling.processors import MinP, Temperature, TopK, TopP
from musictx.tokens.vocab import BOS, CUT, EOS, PAD
from tests.sampling.test_engine import GREEDY, V, make

RULES: dict[str, list[Any]] = {
    "none": [],
    "greedy": GREEDY,
    "temperature": [Temperature(1.7)],
    "top-k": [TopK(3)],
    "top-p": [Temperature(2.0), TopP(0.8)],
    "min-p": [MinP(0.1)],
    "all": [Temperature(3.0), TopK(7), TopP(0.9), MinP(0.01)],
}
SCHEMES = ["huang", "rotary", "sinusoidal", "learned", "alibi", "t5", "none"]


def both(model, prompt, **more):
    """Ids of the engine and of the loop, (rows, tokens)."""
    found = []
    for how in (engine.generate, graph.generate):
        found.append(torch.stack(list(how(model, prompt, **more)), dim=1).tolist())
    return found


@pytest.mark.parametrize("rules", RULES)
@pytest.mark.parametrize("prompt", [[BOS], [BOS, 4, 5, 9]], ids=len)
def test_the_ids_of_the_engine(rules, prompt):
    """Rows end on their own, the loop with the last of them."""
    model = make(context=128)
    wanted, got = both(
        model, prompt, rows=5, max_tokens=100, seeds=[3, 1, 4, (1, 5), 9], processors=RULES[rules]
    )
    assert got == wanted
    assert len({tuple(row) for row in got}) == (1 if rules == "greedy" else 5)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_every_scheme_that_fits_its_context(scheme):
    model = make(context=40, scheme=scheme)
    wanted, got = both(model, [BOS, 5], rows=3, max_tokens=38, seeds=range(3))
    assert got == wanted


def test_a_prompt_for_each_row_and_one_longer_than_the_context():
    model = make(context=12)
    wanted, got = both(model, [[BOS, 4, 5], [CUT, 6, 6]], rows=2, max_tokens=9, seeds=[0, 1])
    assert got == wanted
    wanted, got = both(model, [BOS, *range(4, 12), *range(4, 12)], rows=1, max_tokens=1, seeds=[0])
    assert got == wanted


def test_a_full_window_slides_by_one():
    """With one layer a key depends on its own token only, so the window says it all."""
    model = make(context=10, layers=1)
    ids = [BOS]
    for step in graph.generate(model, ids, rows=1, max_tokens=60, seeds=[0], processors=GREEDY):
        with torch.no_grad():
            logits = model(torch.tensor([ids[-10:]]))[0, -1]
        logits[[PAD, BOS, CUT]] = -math.inf
        assert int(step) == int(logits.argmax())
        ids.append(int(step))
    assert len(ids) > 11


def test_absolute_positions_do_not_slide():
    model = make(context=10, scheme="sinusoidal")
    list(graph.generate(model, [BOS, 4], rows=1, max_tokens=8, seeds=[0]))
    with pytest.raises(ValueError, match=r"max_tokens=9: 2 ids of prompt .* 10 positions"):
        list(graph.generate(model, [BOS, 4], rows=1, max_tokens=9, seeds=[0]))


def test_the_host_looks_seldom_and_sees_everything(monkeypatch):
    model = make(context=64)
    arguments = {"rows": 4, "max_tokens": 50, "seeds": range(4), "processors": [Temperature(2.0)]}
    whole = [x.tolist() for x in graph.generate(model, [BOS], **arguments)]
    for every in (1, 7, 1000):
        monkeypatch.setattr(graph, "EVERY", every)
        assert [x.tolist() for x in graph.generate(model, [BOS], **arguments)] == whole


def test_of_equal_logits_greedy_takes_the_smallest_id_and_the_draw_takes_all():
    model = make(context=16)
    loop = Loop(model, rows=1, capacity=16, max_tokens=1, processors=GREEDY)
    even = torch.zeros(1, V)
    loop._choose(even)
    assert loop.out.tolist() == [[EOS]], "pad, bos and cut are never drawn"
    allowed = [i for i in range(V) if i not in (PAD, BOS, CUT)]
    for share in (0.0, 0.4, 1 - 2**-53):
        loop = Loop(model, rows=1, capacity=16, max_tokens=1)
        loop.points.fill_(share)
        loop._choose(even)
        assert loop.out.tolist() == [[allowed[int(share * len(allowed))]]]


def test_a_broken_model_is_told():
    model = make()
    with torch.no_grad():
        model.embedding.weight.fill_(math.nan)
    for rules in ([], GREEDY):
        with pytest.raises(FloatingPointError, match="not numbers"):
            list(graph.generate(model, [BOS], rows=1, max_tokens=3, seeds=[0], processors=rules))


def test_what_it_cannot_do_is_named():
    def own(ids, logits):
        return logits

    model = make()
    with pytest.raises(ValueError, match="may look at earlier ids"):
        Loop(model, rows=1, capacity=8, max_tokens=4, processors=[own])
    with pytest.raises(ValueError, match="way=fast: expected one of eager, graph"):
        Loop(model, rows=1, capacity=8, max_tokens=4, way="fast")
    with pytest.raises(ValueError, match="way=graph: CUDA graphs need a CUDA GPU, not cpu"):
        Loop(model, rows=1, capacity=8, max_tokens=4, way="graph")


@pytest.mark.parametrize("rules", ["none", "greedy", "all"])
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_one_graph_holds_network_rules_and_draw(rules, backend):
    """fullgraph: a break, such as a look at a number on the device, would raise."""
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    model = make(context=32, scheme="huang")
    loops = [
        Loop(model, rows=3, capacity=32, max_tokens=30, processors=RULES[rules], **way)
        for way in ({}, {"way": "compile", "backend": backend})
    ]
    with torch.no_grad():
        for loop in loops:
            cache = model.new_cache(rows=1, capacity=4)
            loop.begin(cache, model(torch.tensor([[BOS, 4, 7]]), cache=cache)[:, -1], [1, 2, 3])
            for _ in range(29):
                loop.advance()
    assert torch.equal(loops[0].out, loops[1].out)
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == 1
