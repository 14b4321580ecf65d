"""``attend``: checks its arguments and calls the named implementation, or the fastest one
(``auto``). If the named one cannot compute the job, that is an error: no other takes its place.

reference   dense, any terms and positions (attention/reference.py)
skew        the formulation of Huang et al. (2018), to be read (attention/skew.py): causal, a table
sdpa        torch's kernel: plain attention (attention/sdpa.py)
auto        the fastest that can do the job and works on this machine: without relative terms sdpa,
            else what optional components add (speed/), else reference. ``torch.export`` records
            reference, whose operations every compiler knows

Optional components (:mod:`musictx.registry`) add modules like those here (attention/job.py says
what they have). These modules are imported while this package is imported, so they must import from
``musictx.attention.terms`` and its other modules, not from ``musictx.attention``. ``auto`` tries
one on a few tokens before its first use (:func:`works`).

A single query over earlier keys, as in generation, needs no skew: speed/decode.py computes it where
``auto`` or an optional implementation is requested.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch._C import _functorch
from torch.autograd import forward_ad

from musictx import registry
from musictx.attention import reference, sdpa, skew
from musictx.attention.job import Job
from musictx.attention.setting import Setting
from musictx.attention.terms import Axis, Positions, Span, Terms
from musictx.config.model import IMPLEMENTATIONS

MODULES: dict[str, Any] = {"reference": reference, "skew": skew, "sdpa": sdpa}
for _name, _path in (registry.ATTENTION | registry.DECODING).items():
    MODULES[_name] = registry.load(_path)

#: What computes a single query.
_DECODE = next(iter(registry.DECODING), "reference")


def attend(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    terms: Terms | None = None,
    *,
    query_positions: Positions | tuple[Positions, ...] | None = None,
    key_positions: Positions | tuple[Positions, ...] | None = None,
    causal: bool = True,
    query_pieces: Tensor | None = None,
    key_pieces: Tensor | None = None,
    hidden: Tensor | None = None,
    dropout: float = 0.0,
    implementation: str = "auto",
) -> Tensor:
    """Attention of q (B, H, Tq, D) over k and v (B, H, Tk, D): (B, H, Tq, D) in the dtype of q.

    terms            what the position scheme adds to the logits; None: plain attention
    query_positions  where queries stand; key_positions where keys stand: a Span, an int64 tensor
                     (T,) or (B, T), or a tuple of these, one for each coordinate of ``terms.axes``;
                     both None: keys stand at 0, 1, 2, ..., and the queries are the last of them
    causal           hide keys whose first coordinate is greater than the query's
    query_pieces     int64 (B, Tq), key_pieces (B, Tk): hide keys of other pieces; both or neither
    hidden           bool (Tq, Tk) or whatever broadcasts to (B, H, Tq, Tk): True hides the key from
                     the query. Only ``reference`` computes it, so memory is Tq x Tk
    dropout          share of attention weights set to 0, the others scaled up; give 0 when not
                     training
    implementation   one of ``IMPLEMENTATIONS`` (musictx/config/model.py)

    A query that may look at no key gives zeros. Softmax is taken in float32 at least. Raises
    ``ValueError`` for arguments that do not fit together, and for a named implementation that
    cannot do the job, saying why. ::

        scheme = positions.build({"name": "shaw"}, heads=4, head_dim=64, width=256)
        out = attend(q, k, v, scheme.terms())
    """
    if terms is None:
        terms = Terms(scale=q.shape[-1] ** -0.5)
    if (query_positions is None) != (key_positions is None):
        raise ValueError("attend: give query_positions and key_positions both or neither")
    if query_positions is None or key_positions is None:
        count = k.shape[2]
        key_positions = (Span(0, count),) * terms.coordinates
        query_positions = (Span(count - q.shape[2], q.shape[2]),) * terms.coordinates
    # Coordinates that no axis measures are dropped: implementations see those that are measured.
    at, over = terms.needed(query_positions), terms.needed(key_positions)
    if hidden is not None:
        hidden = _mask(hidden, q.shape[:3] + k.shape[2:3])
    setting = Setting(at, over, causal, query_pieces, key_pieces, dropout, hidden)
    _check(q, k, v, terms, setting)
    job = Job.of(terms, setting, q)
    learned = [tensor for _, tensor in terms.tensors()]
    name = chosen(implementation, job._replace(tangents=_has_tangents(q, k, v, *learned)))
    out: Tensor = MODULES[name].attend(q, k, v, terms, setting)
    return out


def why_not(
    implementation: str, terms: Terms, *, causal: bool = True, q: Tensor | None = None
) -> str | None:
    """Why the implementation cannot compute such terms for a text that looks at itself, or None.

    With ``q``, its device, dtype and head size count too, and what this machine has. Raises
    ``ValueError`` for an unknown name.
    """
    span = (Span(0, 8),)
    return _choice(implementation, Job.of(terms, Setting(span, span, causal), q), False)[1]


def chosen(implementation: str, job: Job) -> str:
    """The implementation that computes ``job`` if this one is requested.

    ``ValueError`` for an unknown name, and for a named one that cannot.
    """
    name, reason = _constant_choice(implementation, tuple(job), torch.compiler.is_exporting())
    if reason:
        raise ValueError(f"implementation={implementation}: {reason}")
    return name


def _constant_choice(
    implementation: str, job: tuple[Any, ...], exported: bool
) -> tuple[str, str | None]:
    return _choice(implementation, Job(*job), exported)


#: ``torch.compile`` calls it once and keeps the answer: what ``assume_constant_result`` of
#: ``torch.compiler`` does, without importing the compiler. It takes no named tuple.
_constant_choice._dynamo_marked_constant = True  # type: ignore[attr-defined]


@cache
def _choice(implementation: str, job: Job, exported: bool) -> tuple[str, str | None]:
    """(the implementation that computes ``job`` if this one is requested, why it cannot)."""
    if implementation not in IMPLEMENTATIONS:
        names = ", ".join(IMPLEMENTATIONS)
        raise ValueError(f"implementation={implementation}: expected one of {names}")
    if job.masked:
        reason = "it computes no mask of single keys, only causal, pieces and blocks"
        return "reference", None if implementation in ("auto", "reference") else reason
    if implementation != "auto":
        by_decode = job.single_query and implementation in registry.ATTENTION
        name = _DECODE if by_decode else implementation
        return name, MODULES[implementation].supports(job)
    plain = not (job.axes or job.labels or job.packed or job.dropout)
    if plain and not sdpa.supports(job):
        return "sdpa", None
    if job.single_query:
        return _DECODE, None
    if not exported and job.device is not None:
        for name in registry.ATTENTION:
            if not MODULES[name].supports(job) and works(
                name, job.device, job.dtype, job.size, job.labels
            ):
                return name, None
    return "reference", None


@cache
def works(name: str, device: str, dtype: torch.dtype, size: int, labels: int) -> bool:
    """Whether the implementation computes a few tokens and their gradients on this machine without
    an error; tried once a process. The error goes to stderr in one line."""
    try:
        with torch.inference_mode(False), torch.enable_grad():
            x = torch.linspace(-1, 1, 40 * size, device=device).view(1, 1, 40, size).to(dtype)
            q, table = x.requires_grad_(), x[0].detach().requires_grad_()
            axes, span = [Axis(table, high=39)], (Span(0, 40),) * 2
            if labels:
                numbers = torch.arange(labels, device=device)
                axes.append(Axis(table, high=39, coordinate=1, labels=numbers))
            terms = Terms(size**-0.5, tuple(axes))
            out = MODULES[name].attend(q, q, q, terms, Setting(span, span))
            gradients = torch.autograd.grad(out.sum(), (q, table))
            if not all(bool(x.isfinite().all()) for x in gradients):
                raise ArithmeticError("its gradients are not finite")
    except Exception as error:  # whatever a compiler or a driver raises
        reason = " ".join(str(error).split())[:200] or type(error).__name__
        print(f"musictx: attention={name} is not used: it failed ({reason})", file=sys.stderr)
        return False
    return True


def _has_tangents(*tensors: Tensor) -> bool:
    """Whether forward-mode differentiation is active for one of ``tensors``, or a transform of
    ``torch.func`` (such as ``hessian``, or ``vmap`` of ``grad``) is running."""
    if not torch.compiler.is_compiling() and _functorch.peek_interpreter_stack() is not None:
        return True
    if forward_ad._current_level < 0:  # no forward mode anywhere: the usual case, at no cost
        return False
    return any(forward_ad.unpack_dual(x).tangent is not None for x in tensors)


def _mask(hidden: Tensor, shape: Sequence[int]) -> Tensor:
    """``hidden`` with four dimensions; ``shape`` is (B, H, Tq, Tk)."""
    fits = hidden.dim() <= 4 and all(
        size in (1, whole) for size, whole in zip(reversed(hidden.shape), reversed(shape))
    )
    if hidden.dtype != torch.bool or not fits or hidden.dim() < 2:
        raise ValueError(
            f"attend: hidden is {hidden.dtype} {tuple(hidden.shape)}, expected torch.bool "
            f"{tuple(shape)}, or what broadcasts to it; True hides a key"
        )
    return hidden[(None,) * (4 - hidden.dim())]


def _check(q: Tensor, k: Tensor, v: Tensor, terms: Terms, setting: Setting) -> None:
    """``ValueError`` for arguments that do not fit together."""
    if q.dim() != 4 or k.dim() != 4:
        raise ValueError(
            f"attend: q {tuple(q.shape)}, k {tuple(k.shape)}: expected (batch, heads, tokens, "
            "head_dim)"
        )
    (batch, heads, queries, size), keys = q.shape, k.shape[2]
    if not 0.0 <= setting.dropout < 1.0:
        raise ValueError(f"attend: dropout={setting.dropout}, expected 0 up to but not including 1")
    at, over = setting.query_pieces, setting.key_pieces
    if (at is None) != (over is None):
        raise ValueError("attend: give query_pieces and key_pieces both or neither")
    _check_shape("k", k, (batch, heads, keys, size))
    _check_shape("v", v, (batch, heads, keys, size))
    if at is not None and over is not None:
        _check_shape("query_pieces", at, (batch, queries))
        _check_shape("key_pieces", over, (batch, keys))
    for name, x in terms.tensors():
        which = 1 if name not in ("content_bias", "position_bias") and len(x) == 1 else heads
        rows = x.shape[1:] if name.startswith("bias") else (*x.shape[1:-1], size)
        _check_shape(name, x, (which, *rows))
    if not q.dtype == k.dtype == v.dtype or not q.dtype.is_floating_point:
        raise ValueError(
            f"attend: q {q.dtype}, k {k.dtype}, v {v.dtype}: expected one floating dtype"
        )
    _check_positions("query_positions", setting.query_positions, batch, queries, terms)
    _check_positions("key_positions", setting.key_positions, batch, keys, terms)


def _check_shape(name: str, tensor: Tensor, expected: tuple[int, ...]) -> None:
    if tensor.shape != expected:
        raise ValueError(
            f"attend: {name} has shape {tuple(tensor.shape)}, expected {tuple(expected)}"
        )


def _check_positions(
    name: str, positions: tuple[Positions, ...], batch: int, length: int, terms: Terms
) -> None:
    needed = terms.coordinates
    if len(positions) < needed:
        raise ValueError(
            f"attend: {name} has {len(positions)} coordinate(s), the terms measure {needed}"
        )
    for one in positions:
        if isinstance(one, Span):
            if len(one) != length:
                raise ValueError(f"attend: {name} has length {len(one)}, expected {length}")
        elif one.dtype != torch.int64 or one.shape not in ((length,), (batch, length)):
            raise ValueError(
                f"attend: {name} is {one.dtype} {tuple(one.shape)}, expected a Span or int64 "
                f"({length},) or ({batch}, {length})"
            )
