"""Terms, places and jobs of attention, and the comparisons that its tests share."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from musictx.attention import api, reference
from musictx.attention.job import Job as Asked
from musictx.attention.job import Setting
from musictx.attention.terms import Axis, Span, Terms

Named = dict[str, Tensor]


def learned(named: Named, name: str, *shape: int, dtype: torch.dtype = torch.float64) -> Tensor:
    """The tensor of this name; a random one with a gradient, if there is none yet."""
    if name not in named:
        named[name] = torch.randn(shape, dtype=dtype).requires_grad_()
    return named[name]


def huang(named: Named, heads: int, size: int) -> Terms:
    table = learned(named, "table", heads, 4, size)
    return Terms(scale=size**-0.5, axes=(Axis(table=table, high=3),))


LABELS = torch.tensor([3, 0, 17, 9, 30])  # in no order, with gaps


def label_axes(named: Named, heads: int, size: int) -> tuple[Axis, ...]:
    """Pitch and voice, which the keys have by labels."""
    table = learned(named, "pitch", heads, 9, size)
    bias = learned(named, "pitch_bias", heads, 9)
    voice = learned(named, "voice", 1, 7, size)
    return (
        Axis(table, bias, low=-5, high=3, coordinate=1, labels=LABELS),
        Axis(voice, low=-3, high=3, coordinate=2, labels=torch.arange(4)),
    )


def places(rows: int, start: int, count: int) -> tuple[Span, Tensor, Tensor]:
    """Order, pitches (now and then one that is no label), voices (the same in every row)."""
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
    """``module.attend`` itself, whatever ``attend`` would choose; arguments as of ``attend``."""

    def attend(q: Tensor, k: Tensor, v: Tensor, terms: Terms, **more: Any) -> Tensor:
        return module.attend(q, k, v, terms, setting(terms, q, k, **more))

    return attend


def setting(terms: Terms, q: Tensor, k: Tensor, **more: Any) -> Setting:
    """The arguments of ``attend`` as implementations take them; without positions the queries are
    the last of the keys."""
    queries, keys = q.shape[2], k.shape[2]
    given = {"query_positions": Span(keys - queries, queries), "key_positions": Span(0, keys)}
    given |= more
    for name in ("query_positions", "key_positions"):
        one = given[name]
        given[name] = terms.used_positions(
            one if isinstance(one, tuple) else (one,) * terms.coordinates
        )
    return Setting(**given)


#: The specification.
dense = directly(reference)


def weights(q: Tensor, k: Tensor, terms: Terms, **more: Any) -> Tensor:
    return reference.attention_weights(q, k, terms, setting(terms, q, k, **more))


def why_not(
    module: Any, terms: Terms, at: Any, over: Any, causal: bool = True, q: Tensor | None = None
) -> str | None:
    """Why the implementation cannot compute attention with these terms between these positions."""
    setting = Setting(terms.used_positions(at), terms.used_positions(over), causal)
    return module.supports(Asked.of(terms, setting, q))


class Job(NamedTuple):
    """Tensors in float64 by name, what makes terms of them, and where and what to attend to."""

    named: Named
    terms: Callable[[Named], Terms]
    where: dict[str, Any]

    def run(self, function: Callable[..., Tensor], **more: Any) -> Callable[[Named], Tensor]:
        def made(named: Named) -> Tensor:
            qkv = (named[x] for x in "qkv")
            return function(*qkv, self.terms(named), **self.where, **more)

        return made


def computed(name: str) -> Callable[..., Tensor]:
    return directly(api.MODULES[name])


def precision(name: str) -> torch.dtype:
    return torch.float32 if name in ("native", "fused") else torch.float64


def results(run: Callable[[Named], Tensor], named: Named, up: Tensor, dtype: Any) -> Named:
    inputs = {n: x.detach().to(dtype).requires_grad_() for n, x in named.items()}
    out = run(inputs)
    wanted = list(inputs.values())
    found = torch.autograd.grad(
        out, wanted, up.to(out.dtype), materialize_grads=True, allow_unused=True
    )
    return {"out": out.detach()} | dict(zip(named, found))


def excess(name: str, job: Job, dtype: torch.dtype | None = None, **own: Any) -> dict[str, float]:
    """Errors of output and gradients as a share of what rounding may cost: must be below 1.

    The truth is the specification in float64; the budget is four times the error that the
    specification makes in the implementation's own precision, and rounding at the size of the
    largest number: for tables, whose gradients add up parts that may cancel, of every part.
    ``own``: arguments that this implementation alone takes.
    """
    rows, heads, queries, _ = job.named["q"].shape
    up = torch.randn(job.named["q"].mT.shape, dtype=torch.float64).mT
    dtype = dtype or precision(name)
    exact = results(job.run(dense), job.named, up, torch.float64)
    plain = results(job.run(dense), job.named, up, dtype)
    got = results(job.run(computed(name), **own), job.named, up, dtype)
    scale = max(1.0, *(float(x.abs().max()) for x in exact.values()))
    shares = {}
    for which, truth in exact.items():
        assert got[which].shape == truth.shape
        assert got[which].dtype == dtype
        budget = 4 * float((plain[which] - truth).norm())
        parts = rows * heads * queries if which not in ("out", "q", "k", "v") else 1
        # Products of bfloat16 pairs round the weights too.
        unit = {torch.float64: 2**-46, torch.bfloat16: 2**-9}.get(dtype, 2**-24)
        budget += 4 * unit * scale * math.sqrt(truth.numel() * parts)
        error = float((got[which] - truth).norm())
        shares[which] = error / budget if math.isfinite(error) else math.inf
    return shares


def table_job(queries: int, keys: int, distances: int, size: int = 8, rows: int = 2) -> Job:
    named: Named = {}
    qkv(named, rows, 2, queries, keys, size)
    learned(named, "table", 2, distances, size)
    learned(named, "bias", 2, distances)

    def terms(named: Named) -> Terms:
        return Terms(0.4, (Axis(named["table"], named["bias"], high=distances - 1),))

    return Job(named, terms, {})
