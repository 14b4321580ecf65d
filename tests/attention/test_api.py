"""``attend`` checks its arguments and chooses an implementation that supports them."""

import subprocess
import sys
from dataclasses import replace
from functools import cache

import pytest
import torch
from torch._subclasses import FakeTensorMode

from musictx.attention import api, positions
from musictx.attention.api import attend
from musictx.attention.job import ANY, Job, Setting
from musictx.attention.terms import Axis, Span, Terms
from musictx.speed import fused, native
from tests.attention import cases


def arguments():
    """Valid arguments of ``attend``."""
    tensors = dict(zip("qkv", cases.qkv({}, 2, 2, 5, 5, 4)))
    positions = {"query_positions": Span(0, 5), "key_positions": Span(0, 5)}
    return {"terms": cases.huang({}, 2, 4)} | tensors | positions


@pytest.mark.parametrize(
    ("implementation", "change", "more"),
    [
        ("chunked", {}, {"query_positions": torch.arange(5)}),
        ("skew", {}, {"causal": False}),
        ("skew", {}, {"query_positions": Span(9, 5)}),
        ("skew", {"value_table": torch.zeros(1, 4, 4)}, {}),
        ("sdpa", {}, {}),
        ("sdpa", {"axes": ()}, {"query_positions": Span(1, 5)}),
        ("flash", {}, {}),
    ],
)
def test_a_named_implementation_that_lacks_support_is_an_error(implementation, change, more):
    given = arguments()
    terms = replace(given.pop("terms"), **change)
    with pytest.raises(ValueError, match=f"^implementation={implementation}: "):
        attend(**given | more, terms=terms, implementation=implementation)


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ({"k": torch.zeros(2, 2, 6, 4)}, "v has shape"),
        ({"k": torch.zeros(2, 5, 4)}, "expected .batch, heads"),
        ({"q": torch.zeros(5, 4)}, "expected .batch, heads"),
        ({"q": torch.zeros(2, 3, 5, 4)}, "k has shape"),
        ({"q": torch.zeros(2, 2, 5, 4)}, "one floating dtype"),
        ({"dropout": 1.0}, "dropout"),
        ({"key_positions": Span(0, 4)}, "key_positions"),
        ({"query_positions": torch.zeros(5)}, "query_positions"),
        ({"query_positions": None}, "query_positions and key_positions"),
        ({"query_pieces": torch.zeros(2, 5).long()}, "query_pieces and key_pieces"),
        ({"query_pieces": torch.zeros(2, 5), "key_pieces": torch.zeros(2, 4)}, "key_pieces"),
        (dict.fromkeys(("query_pieces", "key_pieces"), torch.zeros(2, 5) > 0), "int64"),
        ({"terms": positions.build({"name": "t5"}, heads=2, head_dim=4, width=8)}, "Terms"),
        ({"terms": cases.huang({}, 3, 4)}, "table of axis 0"),
        ({"terms": Terms(1.0, (Axis(bias=torch.zeros(3, 4), high=3),))}, "bias of axis 0"),
        ({"terms": Terms(1.0, content_bias=torch.zeros(2, 5))}, "content_bias"),
        ({"terms": Terms(1.0, (Axis(high=3, coordinate=1),))}, "the terms measure 2"),
        ({"hidden": torch.zeros(5, 5)}, "hidden"),
    ],
)
def test_errors_name_the_invalid_argument(change, name):
    with pytest.raises(ValueError, match=f"attend: .*{name}"):
        attend(**arguments() | change)


@pytest.mark.parametrize("implementation", ["native", "chunked", "fused"])
@pytest.mark.parametrize("shape", [(0, 2, 5, 4), (2, 0, 5, 4), (2, 2, 0, 4), (2, 2, 5, 0)])
def test_empty_tensors_have_an_empty_result_and_gradient(implementation, shape):
    q = torch.zeros(shape, requires_grad=True)
    terms = Terms(1.0, (Axis(torch.zeros(shape[1], 4, shape[3]), high=3),))
    out = attend(q, q, q, terms, implementation=implementation)
    assert out.shape == torch.autograd.grad(out.sum(), q)[0].shape == shape


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda: Axis(table=torch.zeros(1, 3, 2), low=-1, high=2), "table"),
        (lambda: Axis(bias=torch.zeros(1, 3), high=3), "bias"),
        (lambda: Axis(low=1, high=0), "low"),
        (lambda: Terms(1.0, (Axis(high=1),), value_table=torch.zeros(1, 3, 2)), "value_table"),
        (lambda: Axis(high=2, labels=torch.arange(3)), "labels"),
        (lambda: Axis(high=2, coordinate=1, labels=torch.zeros(3)), "labels"),
    ],
)
def test_errors_name_the_invalid_field_of_terms(make, name):
    with pytest.raises(ValueError, match=name):
        make()


@pytest.mark.parametrize(
    ("device", "lacking", "change", "wanted"),
    [
        ("cpu", None, {}, "native"),
        ("cpu", None, {"packed": True, "dropout": True}, "native"),
        ("cpu", "no compiler", {}, "chunked"),
        ("cpu", None, {"dtype": torch.float64}, "chunked"),
        ("cpu", None, {"extras": ("value_table",)}, "chunked"),
        ("cpu", None, {"axes": 2}, "reference"),
        ("cpu", None, {"single_query": True}, "decode"),
        ("cpu", None, {"layout": ANY}, "reference"),
        ("cpu", None, {"axes": 0, "table": False}, "sdpa"),
        ("cpu", None, {"axes": 0, "table": False, "packed": True}, "native"),
        ("cuda", None, {}, "fused"),
        ("cuda", None, {"labels": 48}, "fused"),
        ("cuda", None, {"extras": ("value_table",)}, "chunked"),
        ("cuda", None, {"labels": 80}, "chunked"),
        ("cuda", "no Triton", {}, "chunked"),
        ("mps", None, {}, "reference"),
    ],
)
def test_auto_takes_the_fastest_that_supports_the_job(device, lacking, change, wanted, monkeypatch):
    monkeypatch.setattr(api, "_choice", api._choice.__wrapped__)
    monkeypatch.setattr(api, "works", lambda *_: True)
    for module in (native, fused):
        monkeypatch.setattr(module, "_missing", lambda: lacking)
    terms = Terms(0.1, (Axis(torch.zeros(1, 4, 64), high=3),))
    job = Job.of(terms, Setting((Span(0, 9),), (Span(0, 9),)), torch.zeros(1, 1, 9, 64))
    job = job._replace(**({"device": device} | change))
    assert api.choose("auto", job) == wanted
    for name in ("native", "fused"):
        if lacking and device == ("cpu" if name == "native" else "cuda"):
            with pytest.raises(ValueError, match=f"implementation={name}: {lacking}"):
                api.choose(name, job)


def broken(*arguments: object) -> torch.Tensor:
    raise RuntimeError("out of\nregisters")


class Backward(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v):
        return v.clone()

    backward = staticmethod(broken)


def test_auto_tests_a_kernel_without_the_hooks_and_modes_of_the_caller():
    with torch.autograd.graph.saved_tensors_hooks(broken, broken), FakeTensorMode():
        assert api.works.__wrapped__("chunked", "cpu", torch.float32, 16, 0)


@pytest.mark.parametrize(
    ("attend_", "words"),
    [
        (broken, "out of registers"),
        (lambda q, k, v, *_: Backward.apply(q, k, v), "out of registers"),
        (lambda q, k, v, terms, _: (q @ terms.axes[0].table.mT).log() @ v, "are not finite"),
    ],
    ids=["forward", "backward", "wrong"],
)
def test_auto_skips_a_kernel_that_fails_and_prints_one_line(attend_, words, monkeypatch, capsys):
    monkeypatch.setattr(api, "_choice", api._choice.__wrapped__)
    monkeypatch.setattr(api, "works", cache(api.works.__wrapped__))
    monkeypatch.setattr(native, "_missing", lambda: None)
    monkeypatch.setattr(native, "attend", attend_)
    state = torch.get_rng_state()
    q, k, v = (torch.randn(1, 2, 9, 16) for _ in range(3))
    terms = Terms(0.3, (Axis(torch.randn(2, 9, 16), high=8),))
    torch.set_rng_state(state)
    with torch.inference_mode():
        for _ in range(3):
            got = attend(q, k, v, terms)
    assert torch.equal(torch.get_rng_state(), state)  # a run that is resumed draws the same
    torch.testing.assert_close(got, attend(q, k, v, terms, implementation="reference"))
    line = capsys.readouterr().err
    assert line.startswith("musictx: attention=native is not used: it failed (")
    assert line.endswith(f"{words})\n")
    assert line.count("\n") == 1
    if words == "out of registers":
        v.requires_grad_()
        with pytest.raises(RuntimeError, match="registers"):
            attend(q, k, v, terms, implementation="native").sum().backward()


def test_importing_attention_and_the_model_needs_neither_triton_nor_the_compiler():
    """torch._dynamo takes longer to import than everything else together."""
    program = (
        "import sys; sys.modules['triton'] = None\n"
        "import torch, musictx.model, musictx.attention as a\n"
        "q = torch.randn(1, 2, 9, 8, requires_grad=True)\n"
        "terms = a.Terms(0.3, (a.Axis(torch.randn(2, 9, 8), high=8),))\n"
        "a.attend(q, q, q, terms).sum().backward()\n"
        "assert 'torch._dynamo' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
