"""A model is the same whichever implementation computes it, compiled or exported."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

from musictx.model import MusicTransformer
from musictx.model.features import with_tokens
from musictx.tokens import build as tokens
from tests import compiler
from tests.model import schemes
from tests.model.models import build, close, random_ids


@pytest.mark.parametrize("scheme", ["huang", "shaw", schemes.GRID])
def test_models_are_the_same_whichever_implementation_computes_them(scheme):
    """Logits and the gradient of every parameter, on packed rows longer than the table. What each
    computes: tests/attention/test_conformance.py."""
    ids = random_ids(2, 40)
    pieces = torch.tensor([[0] * 25 + [1] * 15, [0] * 40])
    found = []
    for attention in ("reference", "chunked", "auto"):
        model = build(scheme, attention=attention).double()
        logits = model(ids, piece_ids=pieces)
        F.cross_entropy(logits.flatten(0, 1), ids.flatten()).backward()
        found.append([logits, *(p.grad for p in model.parameters())])
    for one in found[1:]:
        for got, wanted in zip(one, found[0]):
            torch.testing.assert_close(got, wanted, rtol=1e-4, atol=1e-7)


@compiler.needed
def test_the_compiled_and_the_exported_model_give_the_same_logits():
    torch._dynamo.reset()
    model = build().requires_grad_(False)
    ids = random_ids(2, 30)
    compiled = torch.compile(model, backend="aot_eager", fullgraph=True)
    close(compiled(ids), model(ids))
    program = torch.export.export(model, (ids,))
    assert not [n for n in program.graph.nodes if "musictx" in str(n.target)], "torch alone runs it"
    close(program.module()(ids), model(ids))


@pytest.mark.filterwarnings("ignore")  # of torch, about itself
@pytest.mark.parametrize("name", ["sounding", "conditions", "echoes"])
@torch.no_grad()
def test_what_is_exported_can_be_saved_and_reads_other_ids(name, tmp_path):
    """Features that read notes off the ids, too: nothing in it depends on the ids it was made with.
    Dense attention, which every compiler of torch's knows."""
    tokenizer = tokens.build(name="performance", controls=True)
    model = MusicTransformer(
        tokenizer.size, layers=1, width=16, heads=2, feedforward=16, context=32,
        features=with_tokens([{"name": name}], tokenizer),
    ).eval()  # fmt: skip
    for p in model.parameters():
        torch.nn.init.normal_(p, std=0.1)
    ids = torch.randint(4, tokenizer.size, (1, 12), generator=torch.Generator().manual_seed(1))
    program = torch.export.export(model, (torch.ones_like(ids),), strict=False)
    assert not [n for n in program.graph.nodes if "as_strided" in str(n.target)]
    torch.export.save(program, tmp_path / "network.pt2")
    close(torch.export.load(tmp_path / "network.pt2").module()(ids), model(ids))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of torch, about itself
@pytest.mark.parametrize("attention", ["auto", "reference"])
@torch.no_grad()
def test_torch_s_default_compiler_takes_the_whole_model(attention):
    model, ids = build(attention=attention), random_ids(2, 24)
    close(torch.compile(model)(ids), model(ids))
