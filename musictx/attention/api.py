"""``attend``: checks what is asked, picks an implementation by name or ``auto``, never in silence.

reference   dense, any terms and positions (attention/reference.py)
chunked     linear in memory, causal, consecutive positions, one axis (attention/chunked.py,
            and attention/decode.py for a single query)
sdpa        torch's own kernel: attention without relative terms
auto        the fastest of these that can do the job
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from musictx.attention import chunked, decode, reference
from musictx.attention.terms import Positions, Span, Terms

IMPLEMENTATIONS = ("auto", "reference", "chunked", "sdpa")


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
    packed = query_pieces is not None
    whynot = {
        "sdpa": _why_not_sdpa(terms, query_positions, key_positions, causal, packed, dropout),
        "chunked": chunked.why_not(terms, query_positions, key_positions, causal),
    }
    if implementation == "auto":
        able = [name for name, reason in whynot.items() if not reason]
        # The buffers that chunked reads in two ways are untried on other kinds of device.
        if q.device.type not in ("cpu", "cuda"):
            able = [name for name in able if name != "chunked"]
        implementation = able[0] if able else "reference"
    reason = whynot.get(implementation)
    if reason:
        raise ValueError(f"implementation={implementation}: {reason}; use reference or auto")

    if implementation == "sdpa":
        return _sdpa(q, k, v, terms, causal)
    if implementation == "chunked":
        run = decode.attend if q.shape[2] == 1 else chunked.attend
        return run(
            q, k, v, terms, query_pieces=query_pieces, key_pieces=key_pieces, dropout=dropout
        )
    return reference.attend(
        q,
        k,
        v,
        terms,
        query_positions=query_positions,
        key_positions=key_positions,
        causal=causal,
        query_pieces=query_pieces,
        key_pieces=key_pieces,
        dropout=dropout,
    )


def _why_not_sdpa(
    terms: Terms,
    query_positions: Positions | tuple[Positions, ...],
    key_positions: Positions | tuple[Positions, ...],
    causal: bool,
    packed: bool,
    dropout: float,
) -> str | None:
    """Why torch's kernel cannot do this job, or None if it can."""
    if terms.relative:
        return "it knows no relative terms"
    if packed:
        return "it keeps no pieces apart"
    if dropout:
        return "it is used without dropout only"
    if causal:
        if not (isinstance(query_positions, Span) and isinstance(key_positions, Span)):
            return "causal attention needs consecutive positions (Span)"
        if query_positions != key_positions and not (
            len(query_positions) == 1 and query_positions.start >= key_positions.stop - 1
        ):
            return "causal attention needs equal positions of queries and keys, or one last query"
    return None


def _sdpa(q: Tensor, k: Tensor, v: Tensor, terms: Terms, causal: bool) -> Tensor:
    if terms.content_bias is not None:
        q = q + terms.content_bias.to(q.dtype)[:, None]
    square = causal and q.shape[2] > 1
    return F.scaled_dot_product_attention(q, k, v, is_causal=square, scale=terms.scale)


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
    needed = 1 + max((axis.coordinate for axis in terms.axes), default=0)
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
