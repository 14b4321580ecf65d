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

from musictx.attention.capabilities import CONSECUTIVE, SQUARE, Capabilities
from musictx.attention.setting import Setting
from musictx.attention.terms import Axis, KeyPositions, Terms, angles, as_tensor

CAN = Capabilities(
    waves_only=True,
    labels="channels",
    value_table=False,
    blocks=False,
    clips=False,
    causal_positions=SQUARE,
    one_query=CONSECUTIVE,
)


def attend(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    terms: Terms,
    setting: Setting,
    position: Tensor | None = None,
) -> Tensor:
    """Attention of q (B, H, Tq, D) over k, v (B, H, Tk, D), arguments taken as checked.

    ``position`` (B, H, Tq, D): the queries that meet tables, where labels.py has widened q and k.
    Pieces are kept apart by a mask of B x Tq x Tk Booleans, and dropout leaves torch's fastest
    kernels: neither is linear in memory.
    """
    square = setting.causal and q.shape[2] > 1
    how: dict[str, Any] = {"is_causal": square, "scale": terms.scale}
    how["dropout_p"] = setting.dropout
    mask = setting.same_piece()
    if mask is not None:
        how |= {"is_causal": False, "attn_mask": mask.tril() if square else mask}
    if not terms.axes and position is None:
        content = q
        if terms.content_bias is not None:
            content = q + terms.content_bias.to(q.dtype)[:, None]
        return F.scaled_dot_product_attention(content, k, v, **how)

    with torch.autocast(q.device.type, enabled=False):
        # Products of turned features cancel where sums of distances do not: float32 at least.
        precise = torch.promote_types(q.dtype, torch.float32)
        wide_q, wide_k = q.to(precise), k.to(precise)
        if terms.content_bias is not None:
            wide_q = wide_q + terms.content_bias.to(precise)[:, None]
        if position is None:
            position = q.to(precise)
            if terms.position_bias is not None:
                position = position + terms.position_bias.to(precise)[:, None]
        for axis in terms.axes:
            wide_q = torch.cat(
                [wide_q, _of_query(position, axis, setting.query_positions[0])], dim=-1
            )
            features = _of_key(axis, setting.key_positions[0], q.device).to(precise)
            wide_k = torch.cat([wide_k, features.expand(*k.shape[:2], -1, -1)], dim=-1)
        # Values of the same width, zeros, or the kernels with linear memory are not taken.
        more = wide_k.shape[-1] - v.shape[-1]
        out = F.scaled_dot_product_attention(wide_q, wide_k, F.pad(v.to(precise), (0, more)), **how)
        return out[..., : v.shape[-1]].to(v.dtype)


def _phases(axis: Axis, positions: KeyPositions, device: torch.device) -> Tensor:
    """f p for each position: (T, F)."""
    assert axis.waves is not None
    return angles(as_tensor(positions, device)[0], axis.waves.frequencies)


def _of_query(position: Tensor, axis: Axis, positions: KeyPositions) -> Tensor:
    """The factor of the query: (B, H, Tq, 2F), first what meets cosines, then what meets sines."""
    assert axis.waves is not None
    phases = _phases(axis, positions, position.device)
    sine, cosine = phases.sin().to(position.dtype), phases.cos().to(position.dtype)
    projection = axis.waves.projection.to(position.dtype)
    of_sine, of_cosine = (position @ projection.transpose(-1, -2)).chunk(2, dim=-1)
    return torch.cat(
        [of_sine * sine + of_cosine * cosine, of_cosine * sine - of_sine * cosine], dim=-1
    )


def _of_key(axis: Axis, positions: KeyPositions, device: torch.device) -> Tensor:
    """The factor of the key: (Tk, 2F)."""
    phases = _phases(axis, positions, device)
    return torch.cat([phases.cos(), phases.sin()], dim=-1)
