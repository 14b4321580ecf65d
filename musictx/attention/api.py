"""``attend``: check the arguments and call an implementation of attention.

reference   dense attention with any terms and positions (attention/reference.py)
skew        the formulation of Huang et al. (2018): causal, with one table (attention/skew.py)
sdpa        torch's kernel: plain attention (attention/sdpa.py)
auto        the fastest one that supports the call and works on this machine: sdpa for plain
            attention, otherwise the first of the optional components (speed/) or reference. With
            ``torch.export`` and ``torch.jit.trace`` it is reference, whose operations every
            compiler supports

If a named implementation does not support the call, ``UserError`` is raised; no other one replaces
it. Optional components (:mod:`musictx.registry`) add modules with ``attend`` and
``unsupported_reason`` (attention/job.py). They are imported with this package, so they import from
``musictx.attention.terms`` and other modules, not from ``musictx.attention``. Before its first use
``auto`` tests an implementation on a few tokens (:func:`works`).

A single query over earlier keys, as in generation, is computed by speed/single_query.py for
``auto`` and for the optional implementations.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch._C import _DisableTorchDispatch, _functorch
from torch.autograd import forward_ad

from musictx import registry
from musictx.attention import reference, sdpa, skew
from musictx.attention.job import Job, Setting
from musictx.attention.terms import Axis, Positions, Span, Terms
from musictx.config import IMPLEMENTATIONS
from musictx.errors import UserError

MODULES: dict[str, Any] = {"reference": reference, "skew": skew, "sdpa": sdpa}
for _name, _path in (registry.ATTENTION | registry.DECODING).items():
    MODULES[_name] = registry.load(_path)

#: The implementation for a single query.
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

    terms            the terms of the position scheme; None: plain attention
    query_positions, key_positions  a Span, an int64 tensor (T,) or (B, T), or a tuple of these, one
                     for each coordinate of ``terms.axes``; both None: keys are at 0, 1, 2, ..., and
                     the queries are the last of them
    causal           mask keys whose first coordinate is greater than that of the query
    query_pieces, key_pieces  int64 (B, Tq) and (B, Tk): mask keys of other pieces; both or neither
    hidden           bool (Tq, Tk) or a shape that broadcasts to (B, H, Tq, Tk): True masks the key
                     for the query. Only ``reference`` supports it, so memory is Tq x Tk
    dropout          probability with which an attention weight is set to 0; the others are scaled
                     up. 0 when not training
    implementation   one of ``IMPLEMENTATIONS`` (musictx/config/train.py)

    The result of a query without visible keys is zero. The softmax is computed in float32 or more.
    Raises ``ValueError`` for inconsistent arguments, and its subclass ``UserError``, with the
    reason, for a named implementation that does not support the call. ::

        scheme = positions.build({"name": "shaw"}, heads=4, head_dim=64, width=256)
        out = attend(q, k, v, scheme.terms())
    """
    if q.dim() != 4 or k.dim() != 4:
        raise ValueError(
            f"attend: q {tuple(q.shape)}, k {tuple(k.shape)}: expected (batch, heads, tokens, "
            "head_dim)"
        )
    if terms is None:
        terms = Terms(scale=q.shape[-1] ** -0.5)
    if not isinstance(terms, Terms):
        raise ValueError(f"attend: expected Terms, such as scheme.terms(), not {type(terms)}")
    if (query_positions is None) != (key_positions is None):
        raise ValueError("attend: give query_positions and key_positions both or neither")
    if query_positions is None or key_positions is None:
        count = k.shape[2]
        key_positions = (Span(0, count),) * terms.coordinate_count
        query_positions = (Span(count - q.shape[2], q.shape[2]),) * terms.coordinate_count
    # Implementations get only the coordinates that the terms measure.
    query_positions = terms.used_positions(query_positions)
    key_positions = terms.used_positions(key_positions)
    if hidden is not None:
        hidden = _four_dimensional(hidden, q.shape[:3] + k.shape[2:3])
    setting = Setting(
        query_positions, key_positions, causal, query_pieces, key_pieces, dropout, hidden
    )
    _check(q, k, v, terms, setting)
    job = Job.of(terms, setting, q)
    if not q.numel() or not k.numel():  # other implementations need at least one token
        implementation = "reference"
    tables = [tensor for _, tensor in terms.named_tensors()]
    name = choose(implementation, job._replace(tangents=_has_tangents(q, k, v, *tables)))
    out: Tensor = MODULES[name].attend(q, k, v, terms, setting)
    return out


def why_not(
    implementation: str, terms: Terms, *, causal: bool = True, q: Tensor | None = None
) -> str | None:
    """Return why the implementation does not support ``terms`` for self-attention; None: it does.

    With ``q``, this also depends on its device, dtype and head size, and on this machine. Raises
    ``ValueError`` for an unknown name.
    """
    span = (Span(0, 8),)
    job = Job.of(terms, Setting(span, span, causal), q)
    return _choice(implementation, job, exporting=False)[1]


def choose(implementation: str, job: Job) -> str:
    """Return the name of the implementation that computes ``job`` if ``implementation`` is
    requested. Raises ``ValueError`` for an unknown name, and ``UserError`` if the requested
    implementation does not support ``job``."""
    exporting = torch.compiler.is_exporting() or torch.jit.is_tracing()
    name, reason = _constant_choice(implementation, tuple(job), exporting)
    if reason:
        raise UserError(f"implementation={implementation}: {reason}")
    return name


def _constant_choice(
    implementation: str, job: tuple[Any, ...], exporting: bool
) -> tuple[str, str | None]:
    return _choice(implementation, Job(*job), exporting)


#: The mark of ``torch.compiler.assume_constant_result``, without importing the compiler:
#: ``torch.compile`` calls the function once and treats the result as a constant. The arguments of
#: such functions cannot be named tuples.
_constant_choice._dynamo_marked_constant = True  # type: ignore[attr-defined]


@cache
def _choice(implementation: str, job: Job, exporting: bool) -> tuple[str, str | None]:
    """Return the implementation that computes ``job`` if ``implementation`` is requested, and the
    reason if it does not support ``job``."""
    if implementation not in IMPLEMENTATIONS:
        names = ", ".join(IMPLEMENTATIONS)
        raise ValueError(f"implementation={implementation}: expected one of {names}")
    if job.masked:
        reason = "it computes no mask of single keys, only causal, pieces and blocks"
        return "reference", None if implementation in ("auto", "reference") else reason
    if implementation != "auto":
        is_decoding = job.single_query and implementation in registry.ATTENTION
        name = _DECODE if is_decoding else implementation
        return name, MODULES[implementation].unsupported_reason(job)
    is_plain = not (job.axes or job.labels or job.packed or job.dropout)
    if is_plain and not sdpa.unsupported_reason(job):
        return "sdpa", None
    if job.single_query:
        return _DECODE, None
    if not exporting and job.device is not None:
        for name in registry.ATTENTION:
            if not MODULES[name].unsupported_reason(job) and works(
                name, job.device, job.dtype, job.size, job.labels
            ):
                return name, None
    return "reference", None


@cache
def works(name: str, device: str, dtype: torch.dtype, size: int, labels: int) -> bool:
    """Whether the implementation computes a few tokens and their gradients without an error on this
    machine, tested once in each process. Prints an error to stderr, in one line."""
    hooks = torch.autograd.graph.saved_tensors_hooks(lambda x: x, lambda x: x)
    try:  # without the modes and hooks of the caller, such as those of gradient checkpointing
        with torch.inference_mode(False), torch.enable_grad(), _DisableTorchDispatch(), hooks:
            x = torch.linspace(-1, 1, 40 * size, device=device).view(1, 1, 40, size).to(dtype)
            q, table = x.requires_grad_(), x[0].detach().requires_grad_()
            axes, span = [Axis(table, high=39)], (Span(0, 40),) * 2
            if labels:
                label_values = torch.arange(labels, device=device)
                axes.append(Axis(table, high=39, coordinate=1, labels=label_values))
            terms = Terms(size**-0.5, tuple(axes))
            out = MODULES[name].attend(q, q, q, terms, Setting(span, span))
            gradients = torch.autograd.grad(out.sum(), (q, table))
            if not all(bool(gradient.isfinite().all()) for gradient in gradients):
                raise ArithmeticError("its gradients are not finite")
    except Exception as error:  # compilers and drivers may raise anything
        reason = " ".join(str(error).split())[:200] or type(error).__name__
        print(f"musictx: attention={name} is not used: it failed ({reason})", file=sys.stderr)
        return False
    return True


def _has_tangents(*tensors: Tensor) -> bool:
    """Whether forward-mode differentiation is active for one of ``tensors``, or a transform of
    ``torch.func`` (such as ``hessian``, or ``vmap`` of ``grad``) is running."""
    if not torch.compiler.is_compiling() and _functorch.peek_interpreter_stack() is not None:
        return True
    if forward_ad._current_level < 0:  # no forward mode: fast for the usual case
        return False
    return any(forward_ad.unpack_dual(x).tangent is not None for x in tensors)


def _four_dimensional(hidden: Tensor, shape: Sequence[int]) -> Tensor:
    """Return ``hidden`` with four dimensions that broadcast to ``shape`` (B, H, Tq, Tk)."""
    fits = hidden.dim() <= 4 and all(
        size in (1, full_size) for size, full_size in zip(reversed(hidden.shape), reversed(shape))
    )
    if hidden.dtype != torch.bool or not fits or hidden.dim() < 2:
        raise ValueError(
            f"attend: hidden is {hidden.dtype} {tuple(hidden.shape)}, expected torch.bool "
            f"{tuple(shape)}, or a shape that broadcasts to it; True hides a key"
        )
    return hidden[(None,) * (4 - hidden.dim())]


def _check(q: Tensor, k: Tensor, v: Tensor, terms: Terms, setting: Setting) -> None:
    """Raise ``ValueError`` for inconsistent arguments."""
    (batch, heads, queries, size), keys = q.shape, k.shape[2]
    if not 0.0 <= setting.dropout < 1.0:
        raise ValueError(f"attend: dropout={setting.dropout}, expected 0 up to but not including 1")
    query_pieces, key_pieces = setting.query_pieces, setting.key_pieces
    if (query_pieces is None) != (key_pieces is None):
        raise ValueError("attend: give query_pieces and key_pieces both or neither")
    _check_shape("k", k, (batch, heads, keys, size))
    _check_shape("v", v, (batch, heads, keys, size))
    if query_pieces is not None and key_pieces is not None:
        _check_shape("query_pieces", query_pieces, (batch, queries))
        _check_shape("key_pieces", key_pieces, (batch, keys))
        if torch.bool in (query_pieces.dtype, key_pieces.dtype):
            raise ValueError("attend: query_pieces and key_pieces are torch.bool, expected int64")
    for name, x in terms.named_tensors():
        is_shared = name not in ("content_bias", "position_bias") and len(x) == 1
        rows = x.shape[1:] if name.startswith("bias") else (*x.shape[1:-1], size)
        _check_shape(name, x, (1 if is_shared else heads, *rows))
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
    count = terms.coordinate_count
    if len(positions) < count:
        raise ValueError(
            f"attend: {name} has {len(positions)} coordinate(s), the terms measure {count}"
        )
    for values in positions:
        if isinstance(values, Span):
            if len(values) != length:
                raise ValueError(f"attend: {name} has length {len(values)}, expected {length}")
        elif values.dtype != torch.int64 or values.shape not in ((length,), (batch, length)):
            raise ValueError(
                f"attend: {name} is {values.dtype} {tuple(values.shape)}, expected a Span or int64 "
                f"({length},) or ({batch}, {length})"
            )
