"""torch's attention kernels, for plain attention: schemes that add nothing to the logits."""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional as F

from musictx.attention.job import ANY, SQUARE, Job, Setting
from musictx.attention.terms import Terms


def supports(job: Job) -> str | None:
    """The reason why the job is not supported, or None."""
    if job.axes or job.labels:
        return "it computes no relative terms"
    square = job.causal and not job.single_query
    return job.reason_against(extras=False, layout=SQUARE if square else ANY)


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
