"""torch's own attention kernels, for plain attention: schemes that add nothing to the logits."""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional as F

from musictx.attention.capabilities import ANY, CONSECUTIVE, SQUARE, Capabilities
from musictx.attention.setting import Setting
from musictx.attention.terms import Terms

CAN = Capabilities(
    axes=0,
    query_biases=False,
    value_table=False,
    blocks=False,
    positions=ANY,
    causal_positions=SQUARE,
    one_query=CONSECUTIVE,
)


def attend(q: Tensor, k: Tensor, v: Tensor, terms: Terms, setting: Setting) -> Tensor:
    """Attention of q (B, H, Tq, D) over k, v (B, H, Tk, D), arguments taken as checked.

    Pieces are kept apart by a mask of B x Tq x Tk Booleans, and dropout leaves torch's fastest
    kernels: neither is linear in memory.
    """
    square = setting.causal and q.shape[2] > 1
    mask = setting.same_piece()
    if mask is not None:
        mask, square = mask.tril() if square else mask, False
    return F.scaled_dot_product_attention(
        q, k, v, attn_mask=mask, dropout_p=setting.dropout, is_causal=square, scale=terms.scale
    )
