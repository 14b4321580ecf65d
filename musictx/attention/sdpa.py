"""torch's attention kernels, for plain attention: schemes that add nothing to the logits."""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional as F

from musictx.attention.setting import (
    ANY,
    NO_TANGENTS,
    SPANS_ONLY,
    SQUARE,
    Job,
    Setting,
    no_extras,
    refusal,
)
from musictx.attention.terms import Terms


def supports(job: Job) -> str | None:
    """The reason why this implementation cannot do the job, or None."""
    not_square = "causal attention needs equal positions of queries and keys, or one last query"
    several = job.causal and not job.single_query
    return refusal(
        (job.tangents, NO_TANGENTS),
        (job.axes > 0 or job.labels > 0, "it computes no relative terms"),
        *no_extras(job),
        (several and job.layout == ANY, SPANS_ONLY),
        (several and job.layout != SQUARE, not_square),
    )


def attend(q: Tensor, k: Tensor, v: Tensor, terms: Terms, setting: Setting) -> Tensor:
    """Attention of q (B, H, Tq, D) over k, v (B, H, Tk, D), without checks of the arguments.

    Pieces need a mask of B x Tq x Tk Booleans, and with dropout torch does not use its fastest
    kernels; so with either, memory is not linear in length.
    """
    square = setting.causal and q.shape[2] > 1
    mask = setting.same_piece()
    if mask is not None:
        mask, square = mask.tril() if square else mask, False
    return F.scaled_dot_product_attention(
        q, k, v, attn_mask=mask, dropout_p=setting.dropout, is_causal=square, scale=terms.scale
    )
