"""A model is the same whichever implementation computes it, compiled or exported."""

from __future__ import annotations

import pytest
import torch

from musictx.model import MusicTransformer
from musictx.model.features import with_tokens
from musictx.tokens import build as tokens
from tests import compiler
from tests.model.models import build, close, random_ids


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
@torch.no_grad()
def test_torch_s_default_compiler_takes_the_whole_model():
    model, ids = build(), random_ids(2, 24)
    close(torch.compile(model)(ids), model(ids))
