"""``attend``: checks what is asked, picks an implementation by name or ``auto``, never in silence.

reference   dense, any terms and positions (attention/reference.py)
skew        the formulation of Huang et al. (2018), to be read (attention/skew.py): causal, a table
chunked     linear in memory: consecutive positions, one axis, and any with labels for keys such as
            pitch (attention/chunked/, and attention/decode.py for a single last query)
sdpa        torch's own kernel: plain attention, or distances by sinusoids or of labels
            (attention/sdpa.py)
native      the algorithm of chunked in C++, compiled on first use (attention/native/)
fused       one Triton kernel for CUDA GPUs, forward and backward (attention/fused/)
auto        without relative terms sdpa, else chunked, else reference: the first that can do the
            job. native waits for a compiler and fused has not been timed on a GPU yet: by name only
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from musictx.attention import chunked, fused, native, reference, sdpa, skew
from musictx.attention import labels as widen
from musictx.attention.decode import eager as decode
from musictx.attention.terms import Positions, Span, Terms

IMPLEMENTATIONS = ("auto", "reference", "skew", "chunked", "sdpa", "native", "fused")


def attend(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    terms: Terms,
    *,
    query_positions: Positions | tuple[Positions, ...],
    key_positions: Positions | tuple[Positions, ...],
    causal: bool = True,
    query_pieces: Tensor | None = None,
    key_pieces: Tensor | None = None,
    dropout: float = 0.0,
    implementation: str = "auto",
) -> Tensor:
    """Attention of q (B, H, Tq, D) over k and v (B, H, Tk, D): (B, H, Tq, D) in the dtype of q.

    terms            what the position scheme adds to the logits
    query_positions  where queries stand; key_positions where keys stand: a Span, an int64 tensor
                     (T,) or (B, T), or a tuple of these, one for each coordinate of ``terms.axes``
    causal           hide keys whose first coordinate is greater than the query's
    query_pieces     int64 (B, Tq), key_pieces (B, Tk): hide keys of other pieces; both or neither
    dropout          share of attention weights set to 0, the others scaled up; give 0 when not
                     training
    implementation   one of :data:`IMPLEMENTATIONS`

    A query that may look at no key gives zeros. Softmax is taken in float32 at least. Raises
    ``ValueError`` for arguments that do not fit together, and for a named implementation that
    cannot do the job, saying why.
    """
    _check(q, k, v, terms, query_positions, key_positions, query_pieces, key_pieces, dropout)
    if implementation not in IMPLEMENTATIONS:
        raise ValueError(
            f"implementation={implementation}: expected one of " + ", ".join(IMPLEMENTATIONS)
        )
    # Coordinates that nobody asks for are dropped: implementations see those that are measured.
    query_positions, key_positions = terms.needed(query_positions), terms.needed(key_positions)
    places: dict[str, Any] = {"query_positions": query_positions, "key_positions": key_positions}
    masks: dict[str, Any] = {"query_pieces": query_pieces, "key_pieces": key_pieces}
    reasons = why_not(terms, **places, causal=causal, q=q)
    if implementation == "auto":
        implementation = _fastest(q, terms, reasons, plain=query_pieces is None and not dropout)
    reason = reasons[implementation]
    if reason:
        raise ValueError(f"implementation={implementation}: {reason}")
    if implementation == "sdpa":
        return sdpa.attend(q, k, v, terms, **places, causal=causal, **masks, dropout=dropout)
    if implementation == "native" and q.shape[2] == 1:
        return decode.attend(q, k, v, terms, **places, **masks, dropout=dropout)
    if implementation == "native":
        size = q.shape[-1]
        if widen.split(terms)[0]:
            with torch.autocast(q.device.type, enabled=False):
                q, k, v, terms = widen.padded(q, k, v, terms, query_positions, key_positions)
        return native.attend(q, k, v, terms, **masks, dropout=dropout)[..., :size]
    if implementation == "fused":
        return fused.attend(q, k, v, terms, **places, causal=causal, **masks, dropout=dropout)
    if implementation == "skew":
        return skew.attend(q, k, v, terms, **masks, dropout=dropout)
    if implementation == "chunked":
        at, over = query_positions[0], key_positions[0]
        assert isinstance(at, Span)
        assert isinstance(over, Span)
        if causal and len(at) == 1 and at.stop == over.stop:
            return decode.attend(q, k, v, terms, **places, **masks, dropout=dropout)
        return chunked.attend(q, k, v, terms, **places, causal=causal, **masks, dropout=dropout)
    return reference.attend(q, k, v, terms, **places, causal=causal, **masks, dropout=dropout)


def why_not(
    terms: Terms,
    query_positions: Positions | tuple[Positions, ...],
    key_positions: Positions | tuple[Positions, ...],
    causal: bool = True,
    q: Tensor | None = None,
) -> dict[str, str | None]:
    """For each implementation by name why it cannot do this job, or None if it can.

    ``q`` tells device, dtype and head size; without it they are not looked at.
    """
    job = terms, query_positions, key_positions, causal
    return {
        "reference": None,
        "skew": skew.why_not(*job),
        "chunked": chunked.why_not(*job),
        "sdpa": sdpa.why_not(*job),
        "native": native.why_not(*job, q),
        "fused": fused.why_not(*job, q),
    }


def _fastest(q: Tensor, terms: Terms, reasons: dict[str, str | None], *, plain: bool) -> str:
    """What ``auto`` stands for here; ``plain``: no pieces to keep apart, no dropout."""
    if plain and not terms.relative and not reasons["sdpa"]:
        return "sdpa"
    # The buffers that chunked reads in two ways are untried on other kinds of device.
    if q.device.type in ("cpu", "cuda") and not reasons["chunked"]:
        return "chunked"
    return "reference"


def _check(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    terms: Terms,
    query_positions: Positions | tuple[Positions, ...],
    key_positions: Positions | tuple[Positions, ...],
    query_pieces: Tensor | None,
    key_pieces: Tensor | None,
    dropout: float,
) -> None:
    if q.dim() != 4 or k.dim() != 4 or v.shape != k.shape:
        raise ValueError(
            f"attend: q {tuple(q.shape)}, k {tuple(k.shape)}, v {tuple(v.shape)}: expected "
            "(batch, heads, tokens, head_dim), k and v alike"
        )
    batch, heads, queries, size = q.shape
    keys = k.shape[2]
    if k.shape != (batch, heads, keys, size):
        raise ValueError(
            f"attend: q {tuple(q.shape)} and k {tuple(k.shape)} differ in more than tokens"
        )
    if not q.dtype == k.dtype == v.dtype or not q.dtype.is_floating_point:
        raise ValueError(
            f"attend: q {q.dtype}, k {k.dtype}, v {v.dtype}: expected one floating dtype"
        )
    if not 0.0 <= dropout < 1.0:
        raise ValueError(f"attend: dropout={dropout}, expected 0 up to but not including 1")
    _check_positions("query_positions", query_positions, batch, queries, terms)
    _check_positions("key_positions", key_positions, batch, keys, terms)
    if (query_pieces is None) != (key_pieces is None):
        raise ValueError("attend: give query_pieces and key_pieces both or neither")
    for name, pieces, length in (
        ("query_pieces", query_pieces, queries),
        ("key_pieces", key_pieces, keys),
    ):
        if pieces is not None and pieces.shape != (batch, length):
            raise ValueError(
                f"attend: {name} has shape {tuple(pieces.shape)}, expected {(batch, length)}"
            )
    for name, table, shapes in _tables(terms, heads, size):
        if table.shape not in shapes:
            raise ValueError(
                f"attend: {name} has shape {tuple(table.shape)}, expected "
                + " or ".join(str(shape) for shape in shapes)
            )


def _tables(terms: Terms, heads: int, size: int) -> list[tuple[str, Tensor, list[tuple[int, ...]]]]:
    """(name, tensor, shapes it may have) of every tensor in ``terms``."""
    found: list[tuple[str, Tensor, list[tuple[int, ...]]]] = []
    for number, axis in enumerate(terms.axes):
        rows = axis.distances
        if axis.table is not None:
            name = f"table of axis {number}"
            found.append((name, axis.table, [(1, rows, size), (heads, rows, size)]))
        if axis.bias is not None:
            found.append((f"bias of axis {number}", axis.bias, [(1, rows), (heads, rows)]))
    if terms.value_table is not None:
        rows = terms.axes[0].distances
        found.append(("value_table", terms.value_table, [(1, rows, size), (heads, rows, size)]))
    for name in ("content_bias", "position_bias"):
        vector = getattr(terms, name)
        if vector is not None:
            found.append((name, vector, [(heads, size)]))
    return found


def _check_positions(
    name: str,
    positions: Positions | tuple[Positions, ...],
    batch: int,
    length: int,
    terms: Terms,
) -> None:
    several = positions if isinstance(positions, tuple) else (positions,)
    needed = terms.coordinates
    if len(several) < needed:
        raise ValueError(
            f"attend: {name} has {len(several)} coordinate(s), the terms measure {needed}"
        )
    for one in several:
        if isinstance(one, Span):
            if len(one) != length:
                raise ValueError(f"attend: {name} has length {len(one)}, expected {length}")
        elif one.dtype != torch.int64 or one.shape not in ((length,), (batch, length)):
            raise ValueError(
                f"attend: {name} is {one.dtype} {tuple(one.shape)}, expected a Span or int64 "
                f"({length},) or ({batch}, {length})"
            )
