"""The fused kernel under Triton's interpreter against plain float64: run by test_fused.py.

The interpreter must be chosen before anybody imports Triton, hence a process of its own:

    TRITON_INTERPRET=1 python -m pytest tests/attention/fused_kernels.py
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from musictx.attention import fused
from musictx.attention.fused import Config, forward, key, launch, op, query, skew
from musictx.attention.fused.config import Tile
from musictx.attention.terms import Axis, Terms
from tests.attention import cases
from tests.attention.fused_cases import Case, config, errors, run, tensors


@pytest.fixture(autouse=True)
def _poison(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Scratch memory and outputs begin as NaN: what is not written is seen."""

    def empty(shape: Any, dtype: torch.dtype, device: torch.device) -> Tensor:
        return torch.full(shape, float("nan"), dtype=dtype, device=device)

    monkeypatch.setattr(launch, "empty", empty)
    monkeypatch.setattr(launch, "empty_like", lambda x: torch.full_like(x, float("nan")))
    torch.manual_seed(0)
    return


CASES = {
    "table_longer_than_the_sequence": Case(queries=37, heads=1),
    "table_as_long_as_the_sequence_shared": Case(rows=33, shared=True),
    "table_shorter_so_distances_are_clipped": Case(queries=45, rows=7),
    "one_row": Case(queries=20, rows=1, bias=True),
    "fewer_queries_than_keys": Case(queries=19, keys=45, rows=11),
    "fewer_queries_than_keys_long_table": Case(queries=19, keys=45, rows=60),
    "one_query": Case(queries=1, keys=21, rows=9),
    "one_token": Case(queries=1, rows=3),
    "packed_pieces": Case(queries=48, rows=50, pieces=[[5] * 12 + [3] * 21 + [4] * 15]),
    "packed_pieces_that_come_again_and_fewer_queries": Case(
        queries=21, keys=40, rows=12, pieces=[[5] * 12 + [3] * 10 + [5] * 18]
    ),
    "dropout": Case(queries=20, dropout=0.3, batch=2),
    "dropout_packed_clipped": Case(
        queries=40, rows=9, dropout=0.5, pieces=[[0] * 7 + [1] * 33], shared=True
    ),
    "bias_alone": Case(table=False, bias=True, rows=40),
    "bias_and_table_clipped": Case(queries=45, rows=9, bias=True, shared=True),
    "no_relative_term": Case(table=False),
    "rows_for_distances_that_never_occur": Case(rows=30, low=-6),
    "low_above_zero": Case(rows=9, low=4),
    "sums_of_integers_when_deterministic": Case(queries=45, rows=9, bias=True, deterministic=True),
    "deterministic_shared": Case(queries=20, rows=30, shared=True, batch=2, deterministic=True),
    "transformer_xl": Case(queries=37, rows=60, content=True, position=True, batch=2),
    "position_bias_alone_clipped": Case(queries=45, rows=9, position=True),
    "content_bias_alone": Case(queries=20, content=True, shared=True),
    "content_bias_without_a_table": Case(queries=20, content=True, table=False),
    "transformer_xl_packed_dropout_fewer_queries": Case(
        queries=21, keys=40, rows=40, content=True, position=True, dropout=0.2,
        pieces=[[5] * 12 + [3] * 10 + [5] * 18],
    ),
    "local_blocks": Case(queries=70, rows=16, block=8, heads=1),
    "local_blocks_longer_than_a_tile": Case(queries=70, rows=40, block=20, heads=1),
    "local_blocks_fewer_queries": Case(queries=19, keys=50, rows=12, block=6),
    "local_blocks_of_pieces": Case(
        queries=60, rows=14, block=7, heads=1, pieces=[[5] * 25 + [3] * 10 + [4] * 25]
    ),
    "shaw": Case(queries=45, rows=9, values=True),
    "shaw_shared_long_table": Case(queries=37, rows=60, values=True, shared=True, batch=2),
    "shaw_fewer_queries_than_keys": Case(queries=19, keys=45, rows=11, values=True),
    "shaw_one_query": Case(queries=1, keys=21, rows=9, values=True),
    "shaw_packed_dropout": Case(
        queries=40, rows=9, values=True, dropout=0.3, pieces=[[0] * 7 + [1] * 33]
    ),
    "values_alone": Case(queries=20, rows=5, values=True, table=False),
    "values_and_bias": Case(queries=20, rows=5, values=True, bias=True, table=False),
    "shaw_deterministic": Case(queries=40, rows=9, values=True, deterministic=True),
    "not_causal": Case(queries=37, rows=100, low=-50, causal=False),
    "not_causal_clipped_on_both_sides": Case(queries=53, rows=9, low=-5, causal=False),
    "not_causal_bias": Case(queries=40, rows=9, low=-3, causal=False, bias=True),
    "not_causal_without_terms": Case(queries=37, causal=False, table=False),
    "not_causal_shaw": Case(queries=53, rows=9, low=-4, causal=False, values=True),
    "not_causal_shaw_long_tables": Case(
        queries=35, rows=120, low=-60, causal=False, values=True, dropout=0.3, heads=1
    ),
    "not_causal_packed": Case(
        queries=48, rows=30, low=-9, causal=False, pieces=[[5] * 12 + [3] * 21 + [4] * 15]
    ),
    "not_causal_local": Case(queries=50, rows=24, low=-12, block=6, causal=False, heads=1),
    "not_causal_transformer_xl": Case(
        queries=33, rows=80, low=-40, content=True, position=True, causal=False
    ),
    "cross": Case(queries=41, keys=23, start=5, rows=9, low=-4, causal=False, values=True),
    "cross_divisible": Case(queries=16, keys=32, start=0, rows=9, low=-4, causal=False),
    "only_later_keys": Case(queries=20, keys=33, rows=31, low=-60, start=-40, causal=False),
    "causal_in_the_middle": Case(queries=21, keys=60, start=19, rows=30, values=True),
    "causal_beyond_the_keys": Case(queries=21, keys=30, start=38, rows=50, values=True),
    "causal_beginning_before_the_keys": Case(queries=40, keys=30, start=-7, rows=12, values=True),
    "everything": Case(
        queries=37, keys=50, rows=12, values=True, bias=True, content=True, position=True,
        block=9, pieces=[[2] * 12 + [3] * 21 + [2] * 17], dropout=0.2, deterministic=True,
    ),
    "everything_not_causal": Case(
        queries=37, keys=50, rows=12, low=-5, values=True, bias=True, content=True, position=True,
        block=9, pieces=[[2] * 12 + [3] * 21 + [2] * 17], causal=False,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_float32_agrees_with_plain_float64(name: str) -> None:
    found = errors(CASES[name], config())
    if name in ("one_token", "one_row"):  # one weight, or equal logits for all distances:
        found = [found[number] for number in (0, 3)]  # the other gradients are 0 in truth
    assert max(found) < 2e-6, found


def test_float16_stays_within_its_rounding() -> None:
    found = errors(Case(queries=40, rows=30, dtype=torch.float16), config())
    assert max(found) < 2e-3, found


@pytest.mark.parametrize("name", ["transformer_xl", "shaw", "not_causal_shaw", "everything"])
def test_float16_of_further_terms_stays_within_its_rounding(name: str) -> None:
    case = replace(CASES[name], dtype=torch.float16)
    found = errors(case, config())
    assert max(found) < 3e-3, found


def test_passes_of_different_tiles_go_together() -> None:
    cut = Config(Tile(16, 4, 1), Tile(32, 4, 1), Tile(16, 4, 1))
    assert max(errors(Case(dropout=0.2), cut)) < 2e-6


def test_dropout_does_not_depend_on_tiles() -> None:
    case = Case(queries=23, dropout=0.4, heads=1)
    inputs = tensors(case)
    outputs = []
    for side in (16, 32):
        torch.manual_seed(3)
        outputs.append(run(case, config(side), inputs))
    for a, b in zip(*outputs):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)


def test_a_query_that_sees_no_key_gives_zeros_and_no_gradient() -> None:
    case = Case(queries=20, rows=9)
    q, k, v, table, *_, upstream = tensors(case)
    leaves = [x.clone().requires_grad_() for x in (q, k, v, table)]
    pieces = torch.tensor([[1] * 8 + [9] * 4 + [2] * 8])
    elsewhere = torch.where(pieces == 9, 7, pieces)  # queries 8..11 belong to a piece without keys
    out = cases.directly(fused)(
        *leaves[:3],
        Terms(scale=0.25, axes=(Axis(table=leaves[3], high=8),)),
        query_pieces=elsewhere,
        key_pieces=pieces,
        config=config(),
    )
    dq, dk, _, dtable = torch.autograd.grad(out, leaves, upstream)
    assert (out[:, :, 8:12] == 0).all()
    assert (dq[:, :, 8:12] == 0).all()
    assert (dk[:, :, 8:12] == 0).all()
    assert dtable.isfinite().all()


def test_transposed_inputs_and_expanded_gradients() -> None:
    case = Case(queries=20, rows=9)
    q, k, v, table, *others = tensors(case)
    views = [x.transpose(1, 2).contiguous().transpose(1, 2) for x in (q, k, v)]
    upstream = torch.tensor(0.7).expand(q.shape)
    found = errors(case, config(), (*views, table, *others[:-1], upstream))
    assert max(found) < 5e-6, found
    out = cases.directly(fused)(
        *views, Terms(scale=0.25, axes=(Axis(table=table, high=8),)), config=config()
    )
    assert out.stride() == views[0].stride()


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # numpy says so when NaN arises
def test_an_infinite_gradient_is_not_hidden_by_the_deterministic_mode() -> None:
    case = Case(queries=17, rows=9, deterministic=True)
    inputs = list(tensors(case))
    inputs[-1][0, 0, 3, 2] = float("inf")
    assert run(case, config(), tuple(inputs))[4].isnan().any()


def test_a_broken_skew_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    case = Case(queries=33, rows=33)
    for module in (skew, forward, query, key):
        if hasattr(module, "skew"):
            monkeypatch.setattr(module, "skew", lambda x, delta, T: x)
    assert min(errors(case, config())) > 0.05


@pytest.mark.parametrize("what", ["pieces", "blocks", "blocks, not causal"])
def test_tiles_that_hide_everything_are_not_looked_at(
    what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Twice the length costs twice the tiles of keys, not four times."""
    load, loads = forward.load_keys, 0

    def counted(*arguments: Any) -> Any:
        nonlocal loads
        loads += 1
        return load(*arguments)

    monkeypatch.setattr(forward, "load_keys", counted)
    counts = []
    for number in (3, 6):
        length = 32 * number
        case = Case(queries=length, rows=9, heads=1, causal=what != "blocks, not causal")
        if what == "pieces":
            case.pieces = [[n for n in range(number) for _ in range(32)]]
        else:
            case.block = 32
        loads = 0
        q, k, v, *learned, _ = tensors(case)
        cases.directly(fused)(q, k, v, case.terms(learned), config=config(), **case.places())
        counts.append(loads)
    # 32 queries see two tiles of their own; blocks show 2 before, and 2 after if not causal.
    own, before = 3, 4
    a_block = own if what == "pieces" else own + before if case.causal else 12
    least = 0 if what == "pieces" else before if case.causal else 8
    assert counts == [3 * a_block - least, 6 * a_block - least]


def test_autocast_keeps_a_float32_master_of_the_table() -> None:
    case = Case(queries=20, rows=9, dtype=torch.float16)
    inputs = tensors(case)
    with torch.autocast("cpu", dtype=torch.float16):
        out, *grads = run(case, config(), inputs)
    assert out.dtype == torch.float16
    assert [g.dtype for g in grads] == [torch.float16] * 3 + [torch.float32]


def test_it_is_an_operator_that_compiles() -> None:
    case = Case(queries=17, rows=9, heads=1)
    inputs = tensors(case)

    def attend(q: Tensor, k: Tensor, v: Tensor, table: Tensor, ids: Tensor) -> Tensor:
        return cases.directly(fused)(
            q,
            k,
            v,
            Terms(scale=0.25, axes=(Axis(table=table, high=8),)),
            query_pieces=ids,
            key_pieces=ids,
            dropout=0.1,
            config=config(),
        )

    ids = torch.tensor([[0] * 8 + [1] * 9])
    results = []
    for function in (attend, torch.compile(attend, backend="aot_eager", fullgraph=True)):
        leaves = [x.clone().requires_grad_() for x in inputs[:4]]
        torch.manual_seed(5)
        out = function(*leaves, ids)
        results.append([out, *torch.autograd.grad(out, leaves, inputs[-1])])
    for a, b in zip(*results):
        torch.testing.assert_close(a, b)


def test_the_operator_keeps_torch_s_rules() -> None:
    case = Case(queries=5, rows=3, heads=1, values=True)
    q, k, v, table, _, values, *_ = tensors(case)
    q, k, v, table, values = (x.requires_grad_() for x in (q, k, v, table, values))
    constants = (0, 2, 0, True, False, 0.25, 0.0, False, str(config()))
    inputs = (q, k, v, None, table, None, values, *[None] * 8, *constants)
    torch.library.opcheck(op.attention, inputs)
