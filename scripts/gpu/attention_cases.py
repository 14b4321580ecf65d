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
from musictx.attention.terms import Axis, Span, Terms  # noqa: E402

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


def dense(
    made: list[Tensor],
    dtype: torch.dtype,
    bias: Tensor | None,
    pieces: Tensor | None,
    keep: Tensor | None,
) -> list[Tensor]:
    """Output and gradients of dense attention with every operation in ``dtype``."""
    leaves = [x.detach().to(dtype).requires_grad_() for x in made[:4]]
    q, k, v, table = leaves
    extra = None if bias is None else bias.detach().to(dtype).requires_grad_()
    queries, keys = q.shape[2], k.shape[2]
    i = torch.arange(keys - queries, keys, device=q.device)[:, None]
    j = torch.arange(keys, device=q.device)[None, :]
    row = (i - j).clamp(0, table.shape[1] - 1)
    product = q @ table.expand(HEADS, -1, -1).transpose(-1, -2)
    relative = product.gather(-1, row.expand(*q.shape[:2], -1, -1))
    logits = (q @ k.transpose(-1, -2) + relative) * q.shape[-1] ** -0.5
    if extra is not None:
        logits = logits + extra.expand(HEADS, -1)[:, row]
    seen = (j <= i).expand(q.shape[0], 1, -1, -1)
    if pieces is not None:
        seen = seen & (pieces[:, None, keys - queries :, None] == pieces[:, None, None, :])
    weights = logits.masked_fill(~seen, float("-inf")).softmax(-1)
    if keep is not None:
        weights = weights * keep.to(dtype)
    out = weights @ v
    every = [*leaves, *([] if extra is None else [extra])]
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
}


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
    keys, table = made[1].shape[2], made[3]
    bias = pieces = keep = None
    masks = {}
    if case.get("bias"):
        bias = torch.randn(HEADS, table.shape[1], device=DEVICE).requires_grad_()
    if case.get("pieces"):
        cuts = torch.tensor([[keys // 3], [keys // 2]], device=DEVICE)
        pieces = (torch.arange(keys, device=DEVICE)[None] >= cuts).long()
        masks = {"query_pieces": pieces[:, keys - case["length"] :], "key_pieces": pieces}
    dropout = case.get("dropout", 0.0)
    axis = Axis(table=table, bias=bias, high=table.shape[1] - 1)
    terms = Terms(scale=size**-0.5, axes=(axis,))
    leaves = [*made[:4], *([] if bias is None else [bias])]

    def run() -> list[Tensor]:
        torch.manual_seed(1)
        out = fused.attend(
            *made[:3], terms, config=config, dropout=dropout,
            deterministic=case.get("deterministic", False), **masks,
        )  # fmt: skip
        return [out, *torch.autograd.grad(out, leaves, made[4])]

    try:
        results = run()
        if dropout:
            torch.manual_seed(1)
            rows, columns = (
                fused._random((2, HEADS, n), torch.device(DEVICE)) for n in (case["length"], keys)
            )
            threshold = round(dropout * 2**24)
            keep = kept(rows, columns, threshold) / (1 - threshold / 2**24)
        wanted = dense(made, torch.float64, bias, pieces, keep)
        budget = 1e-5
        if dtype != torch.float32:
            budget = 1.5 * apart(dense(made, dtype, bias, pieces, keep), wanted)
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
            few = ("plain", "all") if REHEARSE or size != SIZES[0] else ("plain", "clipped", "all")
            first = not REHEARSE and size == SIZES[0] and dtype == "bfloat16"
            side = 16 if REHEARSE else 32 if dtype == "float32" else 64
            for plan in ("panel", "gather"):
                tile = Tile(side, side, 8 if size == 128 else 4, 1, plan)
                tasks += [(size, dtype, str(tile), name) for name in (CASES if first else few)]
    return tasks


def agrees_with_the_specification() -> float:
    """This script's dense attention against attention/reference.py."""
    made = inputs(1, 24, 16, torch.float64)
    spans = {"query_positions": Span(0, 24), "key_positions": Span(0, 24)}
    out = reference.attend(*made[:3], terms_of(made[3].double()), **spans)
    return apart([out], dense(made, torch.float64, None, None, None)[:1])
