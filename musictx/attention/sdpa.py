"""torch's own attention kernels: plain attention, and relative attention by sinusoids or labels.

When the vectors of distances are made of sinusoids, R[d] = P^T [sin(f d), cos(f d)] as in
Transformer-XL, the relative logit of query i and key j is, with a = P q_i split in two halves,

    <q_i, R[i - j]> = sum over f  a_sin sin(f i - f j) + a_cos cos(f i - f j)
                    = sum over f  (a_sin sin(f i) + a_cos cos(f i)) cos(f j)
                                + (a_cos sin(f i) - a_sin cos(f i)) sin(f j)

a product of something of the query with something of the key. So both are made wider by the number
of sinusoids and any kernel of plain attention computes the sum, with its own linear memory. The
price is a head of D + 2F numbers instead of D; with few sinusoids it is small.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from musictx.attention.labels import split, widened
from musictx.attention.terms import Axis, Positions, Span, Terms, angles


def why_not(
    terms: Terms,
    query_positions: Positions | tuple[Positions, ...],
    key_positions: Positions | tuple[Positions, ...],
    causal: bool,
) -> str | None:
    """Why torch's kernel cannot do this job, or None if it can."""
    axes = split(terms)[1].axes  # those with labels for keys are content
    if any(axis.waves is None or axis.bias is not None for axis in axes):
        return "it knows no relative terms but those made of sinusoids or with labels for keys"
    if len(axes) > 1 or terms.value_table is not None:
        return "it knows one axis of distance and no value_table"
    if terms.blocks is not None:
        return "it knows no blocks"
    queries, keys = terms.needed(query_positions)[0], terms.needed(key_positions)[0]
    if not (isinstance(queries, Span) and isinstance(keys, Span)):
        consecutive = not causal and not axes
        return None if consecutive else "it needs consecutive positions (Span)"
    if causal and queries != keys and not (len(queries) == 1 and queries.start >= keys.stop - 1):
        return "causal attention needs equal positions of queries and keys, or one last query"
    for axis in axes:
        lowest = 0 if causal else queries.start - (keys.stop - 1)
        if axis.high < queries.stop - 1 - keys.start or axis.low > lowest:
            return f"distances beyond {axis.low}..{axis.high} are not clipped by it"
    return None


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
) -> Tensor:
    """Attention of q (B, H, Tq, D) over k, v (B, H, Tk, D); see :func:`why_not`.

    Pieces are kept apart by a mask of B x Tq x Tk Booleans, and dropout leaves torch's fastest
    kernels: neither is linear in memory.
    """
    square = causal and q.shape[2] > 1
    how: dict[str, Any] = {"is_causal": square, "scale": terms.scale, "dropout_p": dropout}
    if query_pieces is not None and key_pieces is not None:
        mask = query_pieces[:, None, :, None] == key_pieces[:, None, None, :]
        how |= {"is_causal": False, "attn_mask": mask.tril() if square else mask}
    if not terms.axes:
        content = q
        if terms.content_bias is not None:
            content = q + terms.content_bias.to(q.dtype)[:, None]
        return F.scaled_dot_product_attention(content, k, v, **how)

    # Products of turned features cancel where sums of distances do not: float32 at least.
    with torch.autocast(q.device.type, enabled=False):
        at, over = terms.needed(query_positions), terms.needed(key_positions)
        wide_q, position, wide_k, left = widened(q, k, terms, at, over)
        for axis in left.axes:
            wide_q = torch.cat([wide_q, _of_query(position, axis, at[0])], dim=-1)
            features = _of_key(axis, over[0], q.device).to(wide_k.dtype)
            wide_k = torch.cat([wide_k, features.expand(*k.shape[:2], -1, -1)], dim=-1)
        # Values of the same width, zeros, or the kernels with linear memory are not taken.
        more = wide_k.shape[-1] - v.shape[-1]
        out = F.scaled_dot_product_attention(
            wide_q, wide_k, F.pad(v.to(wide_k.dtype), (0, more)), **how
        )
        return out[..., : v.shape[-1]].to(q.dtype)


def _phases(axis: Axis, positions: Positions, device: torch.device) -> Tensor:
    """f p for each position: (T, F)."""
    assert axis.waves is not None
    place = positions.tensor(device) if isinstance(positions, Span) else positions
    return angles(place, axis.waves.frequencies)


def _of_query(position: Tensor, axis: Axis, positions: Positions) -> Tensor:
    """The factor of the query: (B, H, Tq, 2F), first what meets cosines, then what meets sines."""
    assert axis.waves is not None
    phases = _phases(axis, positions, position.device)
    sine, cosine = phases.sin().to(position.dtype), phases.cos().to(position.dtype)
    projection = axis.waves.projection.to(position.dtype)
    of_sine, of_cosine = (position @ projection.transpose(-1, -2)).chunk(2, dim=-1)
    return torch.cat(
        [of_sine * sine + of_cosine * cosine, of_cosine * sine - of_sine * cosine], dim=-1
    )


def _of_key(axis: Axis, positions: Positions, device: torch.device) -> Tensor:
    """The factor of the key: (Tk, 2F)."""
    phases = _phases(axis, positions, device)
    return torch.cat([phases.cos(), phases.sin()], dim=-1)
