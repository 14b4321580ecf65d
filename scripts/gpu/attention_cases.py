"""What scripts/gpu/attention.py compares, and whether it is correct: candidates, cases, budgets."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))
OPTIONS = dict(part.split("=", 1) for part in sys.argv[1:] if "=" in part)
REHEARSE = OPTIONS.get("rehearse", "false") == "true"
if REHEARSE:
    os.environ["TRITON_INTERPRET"] = "1"  # before anything imports Triton

import torch  # noqa: E402
from torch import Tensor  # noqa: E402
from torch.nn import functional as F  # noqa: E402
from torch.nn.attention import SDPBackend, sdpa_kernel  # noqa: E402

from musictx.attention import fused, reference  # noqa: E402
from musictx.attention.fused.config import Config, Tile  # noqa: E402
from musictx.attention.terms import Axis, Blocks, Span, Terms  # noqa: E402

DEVICE = "cpu" if REHEARSE else "cuda"
TOKENS, HEADS = (64, 2) if REHEARSE else (2**15, 8)
LENGTHS = (32, 64) if REHEARSE else (1024, 2048, 4096, 8192)
SIZES = tuple(int(x) for x in OPTIONS.get("sizes", "16" if REHEARSE else "64,32,128").split(","))
HALF = torch.float16 if REHEARSE else torch.bfloat16  # the interpreter knows no bfloat16 products


def inputs(
    batch: int,
    length: int,
    size: int,
    dtype: torch.dtype,
    *,
    keys: int | None = None,
    rows: int | None = None,
    heads: int | None = None,
) -> list[Tensor]:
    """q, k, v, table, upstream: random, the first four with gradients."""
    keys = keys or length
    shapes = [(batch, HEADS, n, size) for n in (length, keys, keys)]
    shapes.append((heads or HEADS, rows or keys, size))
    made = [torch.randn(s, device=DEVICE).to(dtype) for s in shapes]
    made[3] = made[3].float() * 0.5
    upstream = torch.randn(batch, HEADS, length, size, device=DEVICE).to(dtype)
    return [*(x.requires_grad_() for x in made), upstream]


def terms_of(table: Tensor) -> Terms:
    axes = (Axis(table=table, high=table.shape[1] - 1),)
    return Terms(scale=table.shape[-1] ** -0.5, axes=axes)


def ours(config: Config | None = None, deterministic: bool = False) -> Callable[..., Tensor]:
    def run(q: Tensor, k: Tensor, v: Tensor, table: Tensor) -> Tensor:
        terms = terms_of(table)
        return fused.attend(q, k, v, terms, config=config, deterministic=deterministic)

    return run


def textbook(q: Tensor, k: Tensor, v: Tensor, table: Tensor) -> Tensor:
    """The skew of Huang et al. (2018), section 3.4.1, all in the dtype of q."""
    length = q.shape[2]
    product = F.pad(q @ table.to(q.dtype)[:, :length].flip(1).transpose(-1, -2), (1, 0))
    relative = product.reshape(*q.shape[:2], length + 1, length)[:, :, 1:]
    logits = (q @ k.transpose(-1, -2) + relative) * q.shape[-1] ** -0.5
    later = torch.ones(length, length, dtype=torch.bool, device=q.device).triu(1)
    return logits.masked_fill(later, float("-inf")).softmax(-1) @ v


def plain(backend: SDPBackend) -> Callable[..., Tensor]:
    """Attention of torch without any relative term."""

    def run(q: Tensor, k: Tensor, v: Tensor, table: Tensor) -> Tensor:
        with sdpa_kernel(backend):
            return F.scaled_dot_product_attention(q, k, v, is_causal=True)

    return run


def flex(length: int) -> Callable[..., Tensor]:
    """FlexAttention with q E^T computed before: it takes memory of length x length."""
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    def causal(b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        return i >= j

    mask = create_block_mask(causal, None, None, length, length, device=DEVICE)
    compiled = torch.compile(flex_attention, dynamic=False)

    def run(q: Tensor, k: Tensor, v: Tensor, table: Tensor) -> Tensor:
        product = q @ table.to(q.dtype)[:, :length].transpose(-1, -2)
        scale = q.shape[-1] ** -0.5

        def moved(score: Tensor, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
            return score + scale * product[b, h, i, (i - j).clamp(min=0)]

        result: Tensor = compiled(q, k, v, score_mod=moved, block_mask=mask, scale=scale)
        return result

    return run


def kept(rows: Tensor, columns: Tensor, threshold: int) -> Tensor:
    """The hash that decides on dropout (fused/common.py), in int64."""
    mask = 2**32 - 1
    x = (rows.long()[..., :, None] & mask) ^ (columns.long()[..., None, :] & mask)
    x = x ^ (x >> 16)
    x = (x * 0x7FEB352D) & mask
    x = x ^ (x >> 15)
    x = (x * 0x846CA68B) & mask
    return (x >> 8) >= threshold


def learned(case: dict[str, Any], size: int, rows: int) -> dict[str, Tensor]:
    """What the case learns beside the table: numbers, vectors of values, biases of queries."""
    shapes = {
        "bias": (HEADS, rows),
        "values": (HEADS, rows, size),
        "content": (HEADS, size),
        "position": (HEADS, size),
    }
    return {
        name: (torch.randn(shape, device=DEVICE) * 0.5).requires_grad_()
        for name, shape in shapes.items()
        if case.get(name)
    }


def dense(
    made: list[Tensor],
    dtype: torch.dtype,
    extra: dict[str, Tensor] | None = None,
    keep: Tensor | None = None,
    *,
    low: int = 0,
    start: int | None = None,
    causal: bool = True,
    pieces: Tensor | None = None,
    block: int | None = None,
) -> list[Tensor]:
    """Output and gradients of dense attention with every operation in ``dtype``.

    low     distance of the table's first row; start: where the first query stands (None: the
            queries are the last); block: of local attention, counted from key 0 on
    pieces  (B, keys); queries are then the last
    """
    leaves = [x.detach().to(dtype).requires_grad_() for x in made[:4]]
    more = {n: x.detach().to(dtype).requires_grad_() for n, x in (extra or {}).items()}
    q, k, v, table = leaves
    queries, keys = q.shape[2], k.shape[2]
    start = keys - queries if start is None else start
    i = torch.arange(start, start + queries, device=q.device)[:, None]
    j = torch.arange(keys, device=q.device)[None, :]
    row = (i - j).clamp(low, low + table.shape[1] - 1) - low
    content, position = (
        q + more[name][:, None] if name in more else q for name in ("content", "position")
    )
    product = position @ table.expand(HEADS, -1, -1).transpose(-1, -2)
    relative = product.gather(-1, row.expand(*q.shape[:2], -1, -1))
    logits = (content @ k.transpose(-1, -2) + relative) * q.shape[-1] ** -0.5
    if "bias" in more:
        logits = logits + more["bias"][:, row]
    seen = (j <= i if causal else j == j).expand(q.shape[0], 1, queries, -1)
    if pieces is not None:
        seen = seen & (pieces[:, None, keys - queries :, None] == pieces[:, None, None, :])
    if block is not None:
        seen = seen & ((i // block - j // block).abs() <= 1)
    weights = logits.masked_fill(~seen, float("-inf")).softmax(-1)
    if keep is not None:
        weights = weights * keep.to(dtype)
    out = weights @ v
    if "values" in more:
        by_row = torch.zeros_like(product).scatter_add(-1, row.expand_as(weights), weights)
        out = out + by_row @ more["values"]
    every = [*leaves, *more.values()]
    return [out, *torch.autograd.grad(out, every, made[4].to(dtype))]


def apart(results: list[Tensor], wanted: list[Tensor]) -> float:
    """The largest relative error (norms) of output and gradients; infinite if anything is NaN."""
    worst = 0.0
    for a, b in zip(results, wanted, strict=True):
        error = ((a.double() - b.double()).norm() / b.double().norm()).item()
        worst = max(worst, error if error == error else float("inf"))
    return worst


#: name -> length, keys, rows, heads of the table, further features
CASES: dict[str, dict[str, Any]] = {
    "plain": {"length": 300},
    "clipped": {"length": 300, "rows": 70},
    "shared": {"length": 257, "heads": 1},
    "cross": {"length": 100, "keys": 333, "rows": 200},
    "packed": {"length": 300, "pieces": True},
    "dropout": {"length": 300, "dropout": 0.2, "rows": 150},
    "bias": {"length": 300, "bias": True, "rows": 128},
    "deterministic": {"length": 300, "deterministic": True},
    "all": {"length": 211, "keys": 300, "rows": 99, "pieces": True, "dropout": 0.1},
    "transformer_xl": {"length": 300, "content": True, "position": True},
    "local": {"length": 500, "rows": 160, "block": 80},
    "shaw": {"length": 300, "rows": 70, "values": True},
    "shaw dropout": {"length": 300, "rows": 70, "values": True, "dropout": 0.2, "pieces": True},
    "full": {"length": 300, "rows": 250, "low": -120, "causal": False},
    "full shaw": {"length": 211, "rows": 90, "low": -40, "causal": False, "values": True},
    "cross full": {
        "length": 211, "keys": 150, "rows": 90, "low": -40, "causal": False, "start": 30,
    },
    "every term": {
        "length": 211, "keys": 300, "rows": 99, "bias": True, "values": True, "content": True,
        "position": True, "block": 90, "dropout": 0.1, "deterministic": True,
    },
}  # fmt: skip


#: What goes by plan gather whatever the configuration says.
GATHER = {name for name, x in CASES.items() if {"bias", "values", "causal"} & set(x)}


def correctness(task: tuple[int, str, str, str]) -> tuple[float, float, str]:
    """(error, budget, what went wrong) of one case; nothing went wrong where that is empty."""
    size, dtype_name, tile_name, name = task
    dtype, tile = getattr(torch, dtype_name), Tile.parse(tile_name)
    config = Config(tile, tile, tile, 32 if REHEARSE else 512)
    case = {k: v // 10 if REHEARSE and type(v) is int else v for k, v in CASES[name].items()}
    torch.set_float32_matmul_precision("highest")
    torch.manual_seed(sum(map(ord, name)))
    made = inputs(
        2, case["length"], size, dtype,
        keys=case.get("keys"), rows=case.get("rows"), heads=case.get("heads"),
    )  # fmt: skip
    queries, keys, table = made[0].shape[2], made[1].shape[2], made[3]
    extra = learned(case, size, table.shape[1])
    plain = {x: case[x] for x in ("low", "start", "causal", "block") if x in case}
    masks = {}
    if case.get("pieces"):
        cuts = torch.tensor([[keys // 3], [keys // 2]], device=DEVICE)
        plain["pieces"] = pieces = (torch.arange(keys, device=DEVICE)[None] >= cuts).long()
        masks = {"query_pieces": pieces[:, keys - queries :], "key_pieces": pieces}
    dropout, keep, low = case.get("dropout", 0.0), None, case.get("low", 0)
    axis = Axis(table=table, bias=extra.get("bias"), low=low, high=low + table.shape[1] - 1)
    blocks = Blocks(case["block"]) if "block" in case else None
    biases = (extra.get(name) for name in ("content", "position"))
    terms = Terms(size**-0.5, (axis,), *biases, extra.get("values"), blocks)
    at, over = Span(case.get("start", keys - queries), queries), Span(0, keys)
    leaves = [*made[:4], *extra.values()]

    def run() -> list[Tensor]:
        torch.manual_seed(1)
        out = fused.attend(
            *made[:3], terms, query_positions=at, key_positions=over, config=config,
            causal=case.get("causal", True), dropout=dropout,
            deterministic=case.get("deterministic", False), **masks,
        )  # fmt: skip
        return [out, *torch.autograd.grad(out, leaves, made[4])]

    try:
        results = run()
        if dropout:
            torch.manual_seed(1)
            rows, columns = (
                fused._random((2, HEADS, n), torch.device(DEVICE)) for n in (queries, keys)
            )
            threshold = round(dropout * 2**24)
            keep = kept(rows, columns, threshold) / (1 - threshold / 2**24)
        wanted = dense(made, torch.float64, extra, keep, **plain)
        budget = 1e-5
        if dtype != torch.float32:
            budget = 1.5 * apart(dense(made, dtype, extra, keep, **plain), wanted)
        error = apart(results, wanted)
        why = "" if error <= budget else "too far from float64"
        if case.get("deterministic"):
            for _ in range(3):
                if not all(torch.equal(a, b) for a, b in zip(results, run())):
                    why = "two runs differ"
        return error, budget, why
    except Exception as problem:
        return float("nan"), float("nan"), f"{type(problem).__name__}: {str(problem)[-200:]}"


def all_cases() -> list[tuple[int, str, str, str]]:
    """What :func:`correctness` is to look at: everything in the first size and the first dtype."""
    tasks = []
    for size in SIZES:
        for dtype in ("float32", "float16") if REHEARSE else ("bfloat16", "float16", "float32"):
            if size != SIZES[0] and dtype != "bfloat16":
                continue
            few = ("plain", "all", "every term")
            if not REHEARSE and size == SIZES[0]:
                few += ("clipped", "full shaw")
            first = not REHEARSE and size == SIZES[0] and dtype == "bfloat16"
            side = 16 if REHEARSE else 32 if dtype == "float32" else 64
            for plan in ("panel", "gather"):
                tile = Tile(side, side, 8 if size == 128 else 4, 1, plan)
                names = [
                    x for x in (CASES if first else few) if plan == "gather" or x not in GATHER
                ]
                tasks += [(size, dtype, str(tile), name) for name in names]
    return tasks


def agrees_with_the_specification() -> float:
    """This script's dense attention against attention/reference.py."""
    made = inputs(1, 24, 16, torch.float64)
    spans = {"query_positions": Span(0, 24), "key_positions": Span(0, 24)}
    out = reference.attend(*made[:3], terms_of(made[3].double()), **spans)
    return apart([out], dense(made, torch.float64)[:1])
