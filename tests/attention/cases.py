"""Terms, positions and cases of attention, and the comparisons that its tests share."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from musictx.attention import api, reference
from musictx.attention.job import Job, Setting
from musictx.attention.terms import Axis, Span, Terms

Named = dict[str, Tensor]


def learned(named: Named, name: str, *shape: int, dtype: torch.dtype = torch.float64) -> Tensor:
    """The tensor of this name; if there is none yet, a random one that requires a gradient."""
    if name not in named:
        named[name] = torch.randn(shape, dtype=dtype).requires_grad_()
    return named[name]


def huang(named: Named, heads: int, size: int) -> Terms:
    table = learned(named, "table", heads, 4, size)
    return Terms(scale=size**-0.5, axes=(Axis(table=table, high=3),))


LABELS = torch.tensor([3, 0, 17, 9, 30])  # unsorted, with gaps


def label_axes(named: Named, heads: int, size: int) -> tuple[Axis, ...]:
    """Axes of pitch and voice, with labels."""
    table = learned(named, "pitch", heads, 9, size)
    bias = learned(named, "pitch_bias", heads, 9)
    voice = learned(named, "voice", 1, 7, size)
    return (
        Axis(table, bias, low=-5, high=3, coordinate=1, labels=LABELS),
        Axis(voice, low=-3, high=3, coordinate=2, labels=torch.arange(4)),
    )


def places(rows: int, start: int, count: int) -> tuple[Span, Tensor, Tensor]:
    """Order, pitches (some of them are not labels), voices (the same in every row)."""
    pitches = torch.cat([LABELS, torch.tensor([12, 39])])
    return (
        Span(start, count),
        pitches[torch.randint(len(pitches), (rows, count))],
        torch.arange(start, start + count) % 4,
    )


def qkv(
    named: Named, rows: int, heads: int, queries: int, keys: int, size: int, **dtype: torch.dtype
) -> tuple[Tensor, Tensor, Tensor]:
    q = learned(named, "q", rows, heads, queries, size, **dtype)
    k, v = (learned(named, name, rows, heads, keys, size, **dtype) for name in "kv")
    return q, k, v


def directly(module: Any) -> Callable[..., Tensor]:
    """``module.attend`` with the arguments of ``api.attend``, whatever that would choose."""

    def attend(q: Tensor, k: Tensor, v: Tensor, terms: Terms, **more: Any) -> Tensor:
        return module.attend(q, k, v, terms, setting(terms, q, k, **more))

    return attend


def setting(terms: Terms, q: Tensor, k: Tensor, **more: Any) -> Setting:
    """The setting for the arguments ``more`` of ``attend``. Without positions the queries are the
    last of the keys; a position that is no tuple is that of all coordinates."""
    queries, keys = q.shape[2], k.shape[2]
    options = {"query_positions": Span(keys - queries, queries), "key_positions": Span(0, keys)}
    options |= more
    for name in ("query_positions", "key_positions"):
        x = options[name]
        x = x if isinstance(x, tuple) else (x,) * terms.coordinate_count
        options[name] = terms.used_positions(x)
    return Setting(**options)


#: The reference implementation.
dense = directly(reference)


def weights(q: Tensor, k: Tensor, terms: Terms, **more: Any) -> Tensor:
    return reference.attention_weights(q, k, terms, setting(terms, q, k, **more))


def why_not(
    module: Any, terms: Terms, at: Any, over: Any, causal: bool = True, q: Tensor | None = None
) -> str | None:
    """Why the implementation does not support these terms, for queries ``at`` and keys ``over``."""
    setting = Setting(terms.used_positions(at), terms.used_positions(over), causal)
    return module.unsupported_reason(Job.of(terms, setting, q))


class Case(NamedTuple):
    """Tensors in float64 by name; a function that makes terms of them; options of ``attend``."""

    named: Named
    terms: Callable[[Named], Terms]
    options: dict[str, Any]

    def run(self, function: Callable[..., Tensor], **more: Any) -> Callable[[Named], Tensor]:
        def attend(named: Named) -> Tensor:
            qkv = (named[x] for x in "qkv")
            return function(*qkv, self.terms(named), **self.options, **more)

        return attend


def computed(name: str) -> Callable[..., Tensor]:
    return directly(api.MODULES[name])


def precision(name: str) -> torch.dtype:
    return torch.float32 if name in ("native", "fused") else torch.float64


def results(run: Callable[[Named], Tensor], named: Named, up: Tensor, dtype: Any) -> Named:
    """The output ``out`` and the gradients by name, for the upstream gradient ``up``."""
    inputs = {n: x.detach().to(dtype).requires_grad_() for n, x in named.items()}
    out = run(inputs)
    gradients = torch.autograd.grad(
        out, [*inputs.values()], up.to(out.dtype), materialize_grads=True, allow_unused=True
    )
    return {"out": out.detach()} | dict(zip(named, gradients))


def excess(name: str, case: Case, dtype: torch.dtype | None = None, **own: Any) -> dict[str, float]:
    """Errors of output and gradients, divided by those that rounding may cause: must be below 1.

    Errors are those to the reference in float64. Allowed are four times the errors of the reference
    in the implementation's precision, and rounding errors at the size of the largest number; for
    tables, whose gradients are sums that may cancel, of every summand. ``own``: options that only
    this implementation has.
    """
    rows, heads, queries, _ = case.named["q"].shape
    up = torch.randn(case.named["q"].mT.shape, dtype=torch.float64).mT
    dtype = dtype or precision(name)
    exact = results(case.run(dense), case.named, up, torch.float64)
    rounded = results(case.run(dense), case.named, up, dtype)
    got = results(case.run(computed(name), **own), case.named, up, dtype)
    scale = max(1.0, *(float(x.abs().max()) for x in exact.values()))
    shares = {}
    for which, truth in exact.items():
        assert got[which].shape == truth.shape
        assert got[which].dtype == dtype
        budget = 4 * float((rounded[which] - truth).norm())
        summands = rows * heads * queries if which not in ("out", "q", "k", "v") else 1
        # Products of bfloat16 pairs round the weights too.
        unit = {torch.float64: 2**-46, torch.bfloat16: 2**-9}.get(dtype, 2**-24)
        budget += 4 * unit * scale * math.sqrt(truth.numel() * summands)
        error = float((got[which] - truth).norm())
        shares[which] = error / budget if math.isfinite(error) else math.inf
    return shares


def table_job(queries: int, keys: int, distances: int, size: int = 8, rows: int = 2) -> Case:
    named: Named = {}
    qkv(named, rows, 2, queries, keys, size)
    learned(named, "table", 2, distances, size)
    learned(named, "bias", 2, distances)

    def terms(named: Named) -> Terms:
        return Terms(0.4, (Axis(named["table"], named["bias"], high=distances - 1),))

    return Case(named, terms, {})
