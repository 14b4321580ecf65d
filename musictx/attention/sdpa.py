"""torch's attention kernels, for plain attention: schemes that add nothing to the logits."""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional as F

from musictx.attention.job import ANY, SQUARE, Job, Setting
from musictx.attention.terms import Terms


def unsupported_reason(job: Job) -> str | None:
    """Return why the job is not supported; None: it is."""
    if job.axes or job.labels:
        return "it computes no relative terms"
    needs_square = job.causal and not job.single_query  # as torch's is_causal
    return job.reason_against(extras=False, layout=SQUARE if needs_square else ANY)


def attend(q: Tensor, k: Tensor, v: Tensor, terms: Terms, setting: Setting) -> Tensor:
    """Attention of q (B, H, Tq, D) over k, v (B, H, Tk, D), without checks of the arguments.

    Pieces need a mask of B x Tq x Tk Booleans, and with dropout torch does not use its fastest
    kernels. With either, memory is not linear in length.
    """
    is_causal = setting.causal and bool(q.shape[2] > 1)  # a single query sees all keys
    mask = setting.same_piece()
    if mask is not None:  # torch allows no mask with is_causal
        mask, is_causal = mask.tril() if is_causal else mask, False
    return F.scaled_dot_product_attention(
        q, k, v, attn_mask=mask, dropout_p=setting.dropout, is_causal=is_causal, scale=terms.scale
    )
