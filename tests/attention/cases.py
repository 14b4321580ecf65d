"""Hand-made terms of every family, and the comparison that all attention tests share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from musictx.attention import api, capabilities, reference
from musictx.attention.setting import Setting
from musictx.attention.terms import Axis, Blocks, Span, Terms, Waves

Named = dict[str, Tensor]


def learned(named: Named, name: str, *shape: int, dtype: torch.dtype = torch.float64) -> Tensor:
    """A random tensor that wants a gradient, remembered under its name."""
    named[name] = torch.randn(shape, dtype=dtype).requires_grad_()
    return named[name]


def huang(named: Named, heads: int, size: int) -> Terms:
    table = learned(named, "table", heads, 4, size)
    return Terms(scale=size**-0.5, axes=(Axis(table=table, high=3),))


def huang_shared(named: Named, heads: int, size: int) -> Terms:
    table = learned(named, "table", 1, 4, size)
    return Terms(scale=size**-0.5, axes=(Axis(table=table, high=3),))


def shaw(named: Named, heads: int, size: int) -> Terms:
    table = learned(named, "table", 1, 6, size)
    values = learned(named, "value_table", 1, 6, size)
    return Terms(size**-0.5, (Axis(table=table, low=-2, high=3),), value_table=values)


def transformer_xl(named: Named, heads: int, size: int) -> Terms:
    table = learned(named, "table", heads, 15, size)
    return Terms(
        scale=size**-0.5,
        axes=(Axis(table=table, low=-7, high=7),),
        content_bias=learned(named, "u", heads, size),
        position_bias=learned(named, "v_bias", heads, size),
    )


def t5(named: Named, heads: int, size: int) -> Terms:
    return Terms(scale=1.0, axes=(Axis(bias=learned(named, "bias", heads, 5), low=-1, high=3),))


def alibi(named: Named, heads: int, size: int) -> Terms:
    slopes = 2.0 ** -torch.arange(1, heads + 1, dtype=torch.float64)
    distances = torch.arange(10, dtype=torch.float64)
    return Terms(scale=size**-0.5, axes=(Axis(bias=-slopes[:, None] * distances, high=9),))


def table_and_bias(named: Named, heads: int, size: int) -> Terms:
    axis = Axis(
        table=learned(named, "table", heads, 4, size), bias=learned(named, "bias", 1, 4), high=3
    )
    return Terms(scale=0.7, axes=(axis,))


def two_axes(named: Named, heads: int, size: int) -> Terms:
    """Order by a table, a second coordinate (say, pitch) by a table and a bias, both ways."""
    order = Axis(table=learned(named, "table", heads, 4, size), high=3)
    pitch = Axis(
        table=learned(named, "pitch_table", heads, 7, size),
        bias=learned(named, "pitch_bias", heads, 7),
        low=-3,
        high=3,
        coordinate=1,
    )
    return Terms(size**-0.5, (order, pitch), value_table=learned(named, "V", heads, 4, size))


def by_waves(named: Named, heads: int, size: int) -> Terms:
    """Transformer-XL with its table made of sinusoids; distances up to 15 either way."""
    projection = learned(named, "projection", heads, 6, size)
    waves = Waves(torch.tensor([1.0, 0.3, 0.01]), projection)
    axis = Axis(table=waves.table(-15, 15), low=-15, high=15, waves=waves)
    return Terms(
        scale=size**-0.5,
        axes=(axis,),
        content_bias=learned(named, "u", heads, size),
        position_bias=learned(named, "v_bias", heads, size),
    )


def local(named: Named, heads: int, size: int) -> Terms:
    """Blocks of 3 tokens."""
    table = learned(named, "table", heads, 6, size)
    return Terms(size**-0.5, (Axis(table=table, high=5),), blocks=Blocks(3))


def everything(named: Named, heads: int, size: int) -> Terms:
    """All that one axis can have, tables shorter than the distances on both sides."""
    axis = Axis(
        table=learned(named, "table", heads, 5, size),
        bias=learned(named, "bias", 1, 5),
        low=-2,
        high=2,
    )
    return Terms(
        scale=0.7,
        axes=(axis,),
        content_bias=learned(named, "u", heads, size),
        position_bias=learned(named, "v_bias", heads, size),
        value_table=learned(named, "V", 1, 5, size),
        blocks=Blocks(4),
    )


def plain(named: Named, heads: int, size: int) -> Terms:
    return Terms(scale=size**-0.5)


FAMILY: dict[str, Callable[[Named, int, int], Terms]] = {
    f.__name__: f
    for f in (
        huang,
        huang_shared,
        shaw,
        transformer_xl,
        t5,
        alibi,
        table_and_bias,
        two_axes,
        by_waves,
        local,
        everything,
        plain,
    )
}


def qkv(
    named: Named, rows: int, heads: int, queries: int, keys: int, size: int, **options: object
) -> tuple[Tensor, Tensor, Tensor]:
    q = learned(named, "q", rows, heads, queries, size, **options)  # type: ignore[arg-type]
    k = learned(named, "k", rows, heads, keys, size, **options)  # type: ignore[arg-type]
    v = learned(named, "v", rows, heads, keys, size, **options)  # type: ignore[arg-type]
    return q, k, v


#: What single implementations take beside the arguments of ``attend``.
_OWN = {"position", "config", "deterministic"}


def directly(module: Any) -> Callable[..., Tensor]:
    """``module.attend`` itself, whatever ``attend`` would choose; arguments as of ``attend``."""

    def attend(q: Tensor, k: Tensor, v: Tensor, terms: Terms, **more: Any) -> Tensor:
        own = {name: more.pop(name) for name in _OWN & more.keys()}
        found: Tensor = module.attend(q, k, v, terms, setting(terms, q, k, **more), **own)
        return found

    return attend


def setting(terms: Terms, q: Tensor, k: Tensor, **more: Any) -> Setting:
    """The arguments of ``attend`` as implementations take them; without positions the queries are
    the last of the keys."""
    queries, keys = q.shape[2], k.shape[2]
    given = {"query_positions": Span(keys - queries, queries), "key_positions": Span(0, keys)}
    given |= more
    for name in ("query_positions", "key_positions"):
        one = given[name]
        given[name] = terms.needed(one if isinstance(one, tuple) else (one,) * terms.coordinates)
    return Setting(**given)


#: The specification.
dense = directly(reference)


def weights(q: Tensor, k: Tensor, terms: Terms, **more: Any) -> Tensor:
    """Its weights."""
    return reference.attention_weights(q, k, terms, setting(terms, q, k, **more))


def textbook(q: Tensor, k: Tensor, v: Tensor, table: Tensor) -> Tensor:
    """What plain low precision does: every operation in the dtype of its inputs."""
    length = q.shape[2]
    delta = torch.arange(length)[:, None] - torch.arange(length)
    relative = (q @ table.transpose(-1, -2)).gather(-1, delta.clamp(0).expand(*q.shape[:3], length))
    logits = (q @ k.transpose(-1, -2) + relative) * q.shape[-1] ** -0.5
    return logits.masked_fill(delta < 0, float("-inf")).softmax(-1) @ v


def why_not(
    module: Any, terms: Terms, at: Any, over: Any, causal: bool = True, q: Tensor | None = None
) -> str | None:
    """Why the implementation cannot compute attention with these terms between these positions."""
    job = capabilities.job(terms, Setting(terms.needed(at), terms.needed(over), causal), q)
    return capabilities.why_not(module.CAN, job)


def reasons(*job: Any) -> dict[str, str | None]:
    """The same for every implementation by name."""
    return {n: why_not(m, *job) for n, m in api._MODULES.items() if n != "decode"}


def gradients(out: Tensor, named: Named, upstream: Tensor) -> Named:
    """The gradient of every named tensor."""
    found = torch.autograd.grad(out, list(named.values()), upstream, retain_graph=True)
    return dict(zip(named, found))


def differences(
    got: Tensor, want: Tensor, named: Named, upstream: Tensor, *, silent: tuple[str, ...] = ()
) -> dict[str, float]:
    """Largest error of the output and of every gradient, each relative to the largest value.

    Every gradient must be there and not be all zero: two zeros agree about nothing. Those named
    ``silent`` must be zero in truth; their error is absolute.
    """
    found, wanted = gradients(got, named, upstream), gradients(want, named, upstream)
    errors = {"out": relative_error(got, want)}
    for name in named:
        if name in silent:
            assert wanted[name].abs().max() < 1e-12, f"gradient of {name} is not zero"
            errors[name] = float(found[name].abs().max())
            continue
        assert wanted[name].abs().max() > 0, f"gradient of {name} is zero"
        errors[name] = relative_error(found[name], wanted[name])
    return errors


def relative_error(got: Tensor, want: Tensor) -> float:
    assert got.shape == want.shape
    assert torch.isfinite(got).all()
    size = want.detach().double().abs().max().clamp_min(1e-30)
    return float((got.detach().double() - want.detach().double()).abs().max() / size)
