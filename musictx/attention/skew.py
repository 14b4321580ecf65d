"""The skew of Huang et al. (2018), section 3.4.1 and figure 1, as a textbook example.

The relative logits S[i, j] = <q_i, E[i - j]>, computed as in Shaw et al. (2018), need a vector for
each pair of tokens, L x L x D numbers. But <q_i, E[d]> depends only on i and d, so the product
Q E^T, L x L, contains all of them, but in other places. Three steps move them to S:

    Q E^T, columns in      pad a column       read with one       S, after the first
    descending distance    on the left        number less a row   row is dropped

    a2  a1  a0             0  a2  a1  a0      0   a2  a1
    b2  b1  b0             0  b2  b1  b0      a0  0   b2          a0  .   .
    c2  c1  c0             0  c2  c1  c0      b1  b0  0           b1  b0  .
                                              c2  c1  c0          c2  c1  c0

(a2 is query a with distance 2.) The numbers above the diagonal are masked. Memory is still L x L,
as for plain attention; speed/chunked/ does the same for a few rows at a time.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from musictx.attention.job import LAST, Job, Setting
from musictx.attention.reference import softmax, visibility_mask
from musictx.attention.terms import Terms, without_autocast


def unsupported_reason(job: Job) -> str | None:
    """Return why the job is not supported; None: it is."""
    if job.axes != 1 or not job.table or job.bias or job.labels:
        return "it computes one table of vectors for distances in the order of tokens"
    return job._replace(tangents=False).reason_against(causal=True, extras=False, layout=LAST)


def skewed(product: Tensor) -> Tensor:
    """Turn the columns of ``product`` (..., Tq, Tk), for the distances Tk - 1, ..., 1, 0, into
    columns for the keys. Query r is token Tk - Tq + r. Entries for keys after their query have no
    meaning."""
    *batch, queries, keys = product.shape
    padded = F.pad(product, (1, 0))
    reshaped = padded.reshape(*batch, keys + 1, queries)  # the same Tq (Tk + 1) numbers
    return reshaped[..., 1:, :].reshape(*batch, queries, keys)


def attend(q: Tensor, k: Tensor, v: Tensor, terms: Terms, setting: Setting) -> Tensor:
    """Attention of q (B, H, Tq, D), the last Tq of the Tk tokens, over k and v (B, H, Tk, D),
    without checks of the arguments."""
    precise = torch.promote_types(q.dtype, torch.float32)
    (axis,) = terms.axes
    assert axis.table is not None
    with without_autocast(q.device):
        q_, k_, v_ = (x.to(precise) for x in (q, k, v))
        table = axis.descending(axis.table.to(precise), k.shape[2])  # with clipped distances
        relative = skewed(q_ @ table.transpose(-1, -2))
        logits = (q_ @ k_.transpose(-1, -2) + relative) * terms.scale
        weights = F.dropout(softmax(logits, visibility_mask(setting, q.device)), setting.dropout)
        return (weights @ v_).to(q.dtype)
