"""Every implementation equals the reference in every job that it supports.

All have the same tests, with random jobs for which ``unsupported_reason`` returns None.
The Triton kernel, ``fused``, is tested alone, in the process with Triton's interpreter that
test_fused.py starts.
"""

import contextlib
import functools
import math
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from musictx.attention import api
from musictx.attention.job import ANY, CONSECUTIVE, LAST, SQUARE, Job
from musictx.attention.terms import Axis, Blocks, Terms
from musictx.speed import native
from musictx.speed.chunked import tiling
from musictx.speed.native import build, library
from tests import compiler
from tests.attention import cases
from tests.attention.cases import Case, Named, computed, dense, excess, results, table_job
from tests.speed.interpreter import INTERPRETED, set_tiles

ALL = ("skew", "chunked", "sdpa", "native", "decode", "fused")
SIZE = 16


def implementations(*names: str) -> Any:
    """Parametrize by those that this process tests; without any, there is no test."""
    here = [name for name in names if (name == "fused") == INTERPRETED]
    return pytest.mark.parametrize("name", here, indirect=True) if here else lambda test: None


@pytest.fixture(scope="module")
def name(request) -> str:
    if request.param == "native" and not compiler.INSTALLED:
        pytest.skip("no C++ compiler on this machine")
    return str(request.param)


@functools.cache
def own_products() -> library.Library:
    return library.Library(build.library_path(library.SOURCE), library.Products(None, None, None))


@contextlib.contextmanager
def cut(block: int, budget: int, run: int, lent: bool = True) -> Iterator[None]:
    """Divide the work into blocks of ``block`` queries, memory for ``budget`` logits, and ``run``
    keys at a time. ``lent``: use torch's matrix products where possible (not on Windows)."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tiling, "BLOCK", block)
        patch.setattr(tiling, "BUDGET", budget)
        patch.setattr(native, "BLOCK", block)
        patch.setattr(native, "PANEL", run)
        if not lent:
            patch.setattr(library, "load", own_products)
        if INTERPRETED:
            set_tiles(patch, 32 if block > 16 else 16)
        yield


def draw_case(draw: Any, name: str) -> Case:
    """A random case that the implementation supports: lengths, positions, terms, blocks, pieces."""
    integers, any_of = st.integers, st.sampled_from
    torch.manual_seed(draw(integers(0, 99)))
    one = name == "decode"

    def can(**changes: Any) -> bool:
        """Whether it supports the simplest of its jobs with these changes."""
        plain = {"axes": 0, "table": False} if name == "sdpa" else {"single_query": one}
        return api.MODULES[name].unsupported_reason(Job(**plain | changes)) is None

    def chance(what: str, able: bool = True) -> bool:
        return able and draw(st.booleans(), what)

    causal = not can(causal=False) or one or chance("causal")
    layouts = [x for x in (SQUARE, LAST, CONSECUTIVE, ANY) if can(layout=x, causal=causal)]
    layout = layouts[-1]
    most = 35 if INTERPRETED else 30  # of tokens; interpreted: three tiles of 16
    rows = 1 if INTERPRETED else draw(integers(1, 3), "rows")
    queries, keys = draw(integers(1, most), "queries"), draw(integers(1, most), "keys")
    start = draw(integers(-35, 35), "queries begin")
    if layout == SQUARE:
        queries, start = keys, 0
    elif layout == LAST:
        queries = min(queries, keys)
        start = keys - queries
    elif one:
        queries, start = 1, max(keys - 1, start)
    named: Named = {}
    size = draw(any_of([SIZE, 5, 40]), "size") if name == "native" else SIZE
    cases.qkv(named, rows, 2, queries, keys, size)

    low = draw(integers(-6, 6), "low")
    count = 1 + draw(any_of([0, 1, 4, 12, 40]), "distances")
    heads = draw(any_of([1, 2]), "heads of tables")
    must = not can(axes=0, table=False)
    axis = can(axes=1) and (must or chance("an axis"))
    table = axis and (must or chance("table"))
    labelled = chance("labels", can(labels=9))
    for which, there, shape in (
        ("table", table, (heads, count, size)),
        ("bias", chance("bias", axis and can(bias=True)), (heads, count)),
        ("V", chance("V", axis and can(extras=("value_table",))), (3 - heads, count, size)),
        ("u", chance("u", can(extras=("content_bias",))), (2, size)),
        (
            "v_bias",
            chance("v_bias", can(extras=("position_bias",)) and (table or labelled)),
            (2, size),
        ),
    ):
        if there:
            cases.learned(named, which, *shape)
    if labelled:
        cases.label_axes(named, 2, size)
    if chance("another layout in memory"):
        named = {n: x.detach().mT.contiguous().mT for n, x in named.items()}
    blocks = None
    if chance("blocks", can(extras=("blocks",))):
        blocks = Blocks(draw(integers(1, 10), "length"), coordinate=draw(any_of([0, 1])))

    def terms(named: Named) -> Terms:
        get = named.get
        axes = (Axis(get("table"), get("bias"), low=low, high=low + count - 1),) if axis else ()
        if labelled:
            axes += cases.label_axes(named, 2, size)
        return Terms(0.3, axes, get("u"), get("v_bias"), get("V"), blocks)

    at, over = cases.places(rows, start, queries), cases.places(rows, 0, keys)
    options: dict[str, Any] = {"query_positions": at, "key_positions": over}
    if chance("packed"):
        ids = torch.randint(-(2**40), 2**40, (3,))  # any ids, not only runs
        over, at = (ids[torch.randint(3, (rows, n))] for n in (keys, queries))
        options |= {"query_pieces": at, "key_pieces": over}
    if not (one or name == "skew"):
        options["causal"] = causal
    return Case(named, terms, options)


@implementations(*ALL)
@settings(max_examples=12 if INTERPRETED else 150)
@given(data=st.data())
def test_every_supported_job_equals_the_reference(name, data):
    draw = data.draw
    block = draw(st.sampled_from([1, 2, 5, 8, 9, 128]), "block")
    budget = draw(st.sampled_from([1, 10**3, 10**6]), "budget")
    lent = name != "native" or draw(st.booleans(), "products of torch's")
    with cut(block, budget, draw(st.sampled_from([1, 1024]), "run"), lent):
        case = draw_case(draw, name)
        terms, options = case.terms(case.named), case.options
        places = options["query_positions"], options["key_positions"]
        q, causal = case.named["q"].to(torch.float32), options.get("causal", True)
        assert cases.why_not(api.MODULES[name], terms, *places, causal, q) is None
        low = name in ("native", "chunked") and draw(st.booleans(), "bfloat16")
        shares = excess(name, case, torch.bfloat16 if low else None)
    assert max(shares.values()) < 1, shares


@implementations("chunked", "native", "fused")
@pytest.mark.parametrize("residual", [False, True])
def test_second_derivatives_are_refused(name, residual):
    x = torch.randn(1, 1, 6, SIZE, requires_grad=True)
    out = computed(name)(x, x.sin(), x, Terms(0.3, (Axis(torch.randn(1, 4, SIZE), high=3),)))
    (gradient,) = torch.autograd.grad((x * residual + out).square().sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="differentiated twice"):
        torch.autograd.grad(gradient.square().sum(), x)


@implementations("chunked", "native", "fused")
def test_gradients_do_not_depend_on_which_others_are_computed(name):
    torch.manual_seed(0)
    case = table_job(12, 12, 9, SIZE, rows=1)
    dtype = cases.precision(name)
    named = {n: x.detach().to(dtype).requires_grad_() for n, x in case.named.items()}
    up, out = torch.randn(named["q"].shape).to(named["q"].dtype), case.run(computed(name))
    every = dict(zip(named, torch.autograd.grad(out(named), [*named.values()], up)))
    for constant in ("q", "table", "bias"):
        rest = {n: x for n, x in named.items() if n != constant}
        less = out(rest | {constant: named[constant].detach()})
        for which, gradient in zip(rest, torch.autograd.grad(less, [*rest.values()], up)):
            torch.testing.assert_close(gradient, every[which], msg=f"{which} without {constant}")


@implementations("skew", "chunked", "sdpa", "native")
@pytest.mark.filterwarnings("ignore:.torch.jit.script.*deprecated")  # torch's own, on first use
@pytest.mark.parametrize("way", ["jvp", "hessian", "gradients of each"])
def test_torch_func_gives_the_right_result_or_an_error(name, way):
    torch.manual_seed(2)
    q = torch.randn(1, 1, 6, SIZE, dtype=torch.float64 if name == "skew" else torch.float32)
    axes = () if name == "sdpa" else (Axis(torch.randn(1, 4, SIZE), high=3),)

    def loss(q, implementation):
        out = api.attend(q, q.cos(), q, Terms(0.3, axes), implementation=implementation)
        return out.square().sum()

    def found(implementation):
        function = functools.partial(loss, implementation=implementation)
        if way == "jvp":
            return torch.func.jvp(function, (q,), (q.sin(),))[1]
        if way == "gradients of each":
            return torch.func.vmap(torch.func.grad(function))(torch.stack([q, 2 * q]))
        return getattr(torch.func, way)(function)(q)

    wanted = found("reference")
    for implementation in ("auto", name):
        if implementation in ("auto", "skew"):
            torch.testing.assert_close(found(implementation), wanted, rtol=1e-4, atol=1e-4)
        else:
            with pytest.raises(ValueError, match=f"implementation={name}: .* by torch.func"):
                found(name)


@implementations("reference", "chunked", "decode", "native", "fused")
def test_dropout_is_one_mask_forward_and_backward(name):
    """With the identity as values the output is the weights and shows which were dropped. Output
    and gradients equal those of the weights of the reference under that mask."""
    torch.manual_seed(0)
    length, share, rows = 32, 0.3, 2 if INTERPRETED else 8
    case = table_job(1 if name == "decode" else length, length, 30, size=length, rows=rows)
    compiled = name in ("native", "fused")
    if not compiled:  # compiled kernels have no table of values
        cases.learned(case.named, "V", 1, 30, length)

    def terms(named: Named, table: Tensor | None = None) -> Terms:
        (axis,) = case.terms(named).axes
        return Terms(0.4, (Axis(axis.table * 0.1, axis.bias, high=29),), value_table=table)

    def dropped(named: Named, v: Tensor | None = None, seed: int = 5) -> Tensor:
        torch.manual_seed(seed)
        both = (named["v"], named.get("V")) if v is None else (v.to(named["v"].dtype), None)
        return computed(name)(named["q"], named["k"], both[0], terms(named, both[1]), dropout=share)

    eye = torch.eye(length).expand(rows, 2, -1, -1)
    dtype = cases.precision(name)
    plain = {n: x.detach().to(dtype) for n, x in case.named.items()}
    with cut(16, 1, 20):
        shown = dropped(plain, eye)
        mask = shown != 0
        weights = cases.weights(plain["q"], plain["k"], terms(plain))
        torch.testing.assert_close(shown, weights * mask / (1 - share), rtol=1e-4, atol=1e-7)
        count = int((weights > 0).sum())
        observed = 1 - int(mask.sum()) / count
        assert abs(observed - share) < 5 * math.sqrt(share * (1 - share) / count)
        assert not torch.equal(mask[0], mask[1]), "batch rows drop different weights"
        assert not torch.equal(mask[:, 0], mask[:, 1]), "heads drop different weights"
        if name != "decode":
            halves = mask[:, :, 8:16, :8], mask[:, :, 16:24, :8]
            assert not torch.equal(*halves), "and so do queries"
        assert not torch.equal(dropped(plain, eye, seed=6) != 0, mask), "another seed drops others"
    if compiled:
        with cut(32, 1, 1024):
            assert torch.equal(dropped(plain, eye) != 0, mask), "however the work is cut"

    def formula(named: Named) -> Tensor:
        left = cases.weights(named["q"], named["k"], terms(named)) * mask / (1 - share)
        out = left @ named["v"]
        if not compiled:
            here = torch.arange(length)[-mask.shape[2] :]
            distance = (here[:, None] - torch.arange(length)).clamp(0, 29)
            out = out + torch.einsum("bhij,ijd->bhid", left, named["V"][0, distance])
        return out

    up = torch.randn(case.named["q"].shape)
    exact = results(formula, case.named, up, torch.float64)
    with cut(16, 1, 20):
        got = results(dropped, case.named, up, dtype)
    for which, truth in exact.items():
        assert float((got[which] - truth).norm() / truth.norm()) < 1e-5, which


@implementations("chunked", "native")
def test_results_are_bit_equal_in_every_run_with_any_number_of_threads_and_callers(name):
    torch.manual_seed(0)
    q, k, v = cases.qkv({}, 3, 2, 300, 300, 16, dtype=torch.float32)
    table = cases.learned({}, "table", 2, 50, 16, dtype=torch.float32)
    up, before = torch.randn(q.shape), torch.get_num_threads()

    def run(threads: int, dropout: float = 0.0) -> list[Tensor]:
        torch.set_num_threads(threads)
        torch.manual_seed(0)
        out = computed(name)(q, k, v, Terms(0.3, (Axis(table, high=49),)), dropout=dropout)
        return [out, *torch.autograd.grad(out, (q, k, v, table), up)]

    try:
        dropped = run(2, 0.2)
        for threads in (2,) if name == "chunked" else (1, 2, 3):
            assert all(map(torch.equal, dropped, run(threads, 0.2)))
        if name == "native":
            want = run(1)
            with ThreadPoolExecutor(4) as callers:
                for found in callers.map(run, [3, 2, 3, 1] * 2):
                    assert all(map(torch.equal, found, want))
    finally:
        torch.set_num_threads(before)


@implementations("chunked", "native", "decode", "reference")
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32], ids=str)
def test_the_dtype_stays_and_sums_are_in_float32(name, dtype):
    torch.manual_seed(0)
    queries = 1 if name == "decode" else 12
    q, buffer = torch.randn(2, 2, queries, 8).to(dtype), torch.randn(2, 2, 50, 8).to(dtype)
    k = v = buffer[:, :, 10:40]
    table = Axis(torch.randn(2, 20, 8), high=19)
    named = {n: torch.randn(s) for n, s in (("pitch", (2, 9, 8)), ("pitch_bias", (2, 9)))}
    table.table.requires_grad_()
    terms = Terms(0.3, (table, *cases.label_axes(named | {"voice": torch.randn(1, 7, 8)}, 2, 8)))
    at, over = cases.places(2, 30 - queries, queries), cases.places(2, 0, 30)
    where = {"query_positions": at, "key_positions": over}
    with torch.autocast("cpu", dtype=torch.bfloat16):
        got = computed(name)(q, k, v, terms, **where)
        (gradient,) = torch.autograd.grad(got.sum(), table.table)
    assert (got.dtype, gradient.dtype) == (dtype, torch.float32)
    exact = dense(q.double(), k.double(), v.double(), terms, **where)
    limit = {torch.float16: 2**-9, torch.bfloat16: 2**-7, torch.float32: 1e-5}[dtype]
    torch.testing.assert_close(got.double(), exact, rtol=limit, atol=limit)
