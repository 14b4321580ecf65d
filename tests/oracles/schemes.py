"""Each article's own formula, number by number: O(L^2 D), sharing nothing with ``Terms``.

``attention`` is the loop; each scheme gives it a logit and a value for the query at position i and
the key at position j, read from its paper. Parameters are those of the scheme object under test.
"""

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

Logit = Callable[[int, Tensor, Tensor, int, int], Tensor]  # head, q_i, k_j, place in list of each
Value = Callable[[int, Tensor, int, int], Tensor]
Seen = Callable[[int, int], bool]


def attention(q: Tensor, k: Tensor, v: Tensor, logit: Logit, value: Value, seen: Seen) -> Tensor:
    """softmax over the keys that are seen, for one batch row: q (H, Tq, D), k and v (H, Tk, D)."""
    rows = []
    for h in range(q.shape[0]):
        for a in range(q.shape[1]):
            keys = [c for c in range(k.shape[1]) if seen(a, c)]
            out = torch.zeros_like(q[h, a])
            if keys:
                logits = torch.stack([logit(h, q[h, a], k[h, c], a, c) for c in keys])
                weights = torch.exp(logits - logits.detach().max())
                weights = weights / weights.sum()
                for weight, c in zip(weights, keys):
                    out = out + weight * value(h, v[h, c], a, c)
            rows.append(out)
    return torch.stack(rows).view(q.shape)


def run(
    name: str,
    scheme: nn.Module,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    query_positions: Sequence[Sequence[int]],
    key_positions: Sequence[Sequence[int]],
    *,
    causal: bool,
    query_pieces: Sequence[int] | None = None,
    key_pieces: Sequence[int] | None = None,
) -> Tensor:
    """The article ``name`` on q, k, v (H, T, D) of one row.

    Positions are lists, one for each coordinate: order, place in the piece, time or voice, pitch
    (the last two as the scheme's own code hands them on).
    """
    at, over = query_positions, key_positions

    def seen(a: int, c: int) -> bool:
        if causal and over[0][c] > at[0][a]:
            return False
        if query_pieces is not None and key_pieces is not None and query_pieces[a] != key_pieces[c]:
            return False
        if name == "huang_local":  # its own block, the one before, and after if not causal
            n = scheme.block
            return abs(at[1][a] // n - over[1][c] // n) <= 1
        return True

    def logit(h: int, q_i: Tensor, k_j: Tensor, a: int, c: int) -> Tensor:
        i, j = ([x[n] for x in where] for where, n in ((at, a), (over, c)))
        return ARTICLES.get(name, plain)(scheme, 0, h, q_i, k_j, i, j)

    def value(h: int, v_j: Tensor, a: int, c: int) -> Tensor:
        if name != "shaw":
            return v_j
        return v_j + of_head(scheme.value_tables[0], h)[shaw_row(scheme, at[0][a], over[0][c])]

    return attention(q, k, v, logit, value, seen)


def plain(scheme, layer, h, q_i, k_j, i, j) -> Tensor:
    return q_i.dot(k_j) / math.sqrt(len(q_i))


def of_head(table: Tensor, h: int) -> Tensor:
    return table[h if len(table) > 1 else 0]


def huang(scheme, layer, h, q_i, k_j, i, j) -> Tensor:
    """(q_i k_j + q_i E[i - j]) / sqrt(D); beyond the table the last vector (2018, equation 3)."""
    table, root = of_head(scheme.tables[layer], h), math.sqrt(len(q_i))
    ahead = 0 if scheme.sizes.causal else len(table) // 2
    row = min(max(i[0] - j[0] + ahead, 0), len(table) - 1)
    return (q_i.dot(k_j) + q_i.dot(table[row])) / root


def shaw_row(scheme, i: int, j: int) -> int:
    """The row for clip(j - i, -k, k), the paper's w_clip(j - i); ours count into the past."""
    k = scheme.high
    clip = max(-k, min(k, j - i))
    return -clip + (0 if scheme.sizes.causal else k)


def shaw(scheme, layer, h, q_i, k_j, i, j) -> Tensor:
    """q_i (k_j + a_K[clip(j - i)]) / sqrt(D) (2018, equation 4)."""
    a = of_head(scheme.key_tables[layer], h)[shaw_row(scheme, i[0], j[0])]
    return q_i.dot(k_j + a) / math.sqrt(len(q_i))


def transformer_xl(scheme, layer, h, q_i, k_j, i, j) -> Tensor:
    """The four terms (a) to (d) of section 3.3 (2019), R from sinusoids."""
    projection = of_head(scheme.projections[layer], h)
    waves = len(projection) // 2
    distance = i[0] - j[0]
    theta = [distance / 10000 ** (2 * c / len(projection)) for c in range(waves)]
    r = [math.sin(t) for t in theta] + [math.cos(t) for t in theta]
    wr = projection.T @ torch.tensor(r, dtype=projection.dtype)
    u, v = scheme.u[h], scheme.v[h]
    return (q_i.dot(k_j) + q_i.dot(wr) + u.dot(k_j) + v.dot(wr)) / math.sqrt(len(q_i))


def t5(scheme, layer, h, q_i, k_j, i, j) -> Tensor:
    """A number by the bucket of memory position - query position (2020, and the authors' code)."""
    found = t5_bucket(j[0] - i[0], scheme.bias.shape[1], scheme.high, scheme.sizes.causal)
    return q_i.dot(k_j) / math.sqrt(len(q_i)) + scheme.bias[h, found]


def t5_bucket(relative: int, buckets: int, longest: int, causal: bool) -> int:
    found = 0
    n = -relative
    if not causal:
        buckets //= 2
        if n < 0:
            found += buckets
        n = abs(n)
    else:
        n = max(n, 0)
    exact = buckets // 2
    if n < exact:
        found += n
    else:
        large = exact + int(math.log(n / exact) / math.log(longest / exact) * (buckets - exact))
        found += min(large, buckets - 1)
    return found


def slopes(heads: int) -> list[float]:
    """As the authors of ALiBi write them down."""
    if math.log2(heads).is_integer():
        start = 2 ** (-(2 ** -(math.log2(heads) - 3)))
        return [start * start**n for n in range(heads)]
    below = 2 ** math.floor(math.log2(heads))
    return slopes(below) + slopes(2 * below)[0::2][: heads - below]


def alibi(scheme, layer, h, q_i, k_j, i, j) -> Tensor:
    slope = slopes(scheme.sizes.heads)[h]
    return q_i.dot(k_j) / math.sqrt(len(q_i)) - slope * abs(i[0] - j[0])


def rotary(scheme, layer, h, q_i, k_j, i, j) -> Tensor:
    """Pairs of channels as complex numbers, times exp(i m theta) (2021, equation 12)."""

    def turned(x: Tensor, m: int) -> Tensor:
        theta = [10000 ** (-2 * c / len(x)) for c in range(len(x) // 2)]
        theta = torch.tensor(theta, dtype=torch.float64)
        return torch.view_as_complex(x.reshape(-1, 2)) * torch.exp(1j * m * theta)

    q_m, k_n = turned(q_i, i[0]), turned(k_j, j[0])
    return (q_m * k_n.conj()).real.sum() / math.sqrt(len(q_i))


def two_d(scheme, layer, h, q_i, k_j, i, j) -> Tensor:
    """q_i (k_j + E[order] + E_t[time] + E_p[pitch]) / sqrt(D) (Huang et al. 2018, section 3.3)."""
    root = math.sqrt(len(q_i))
    found = huang(scheme, layer, h, q_i, k_j, i, j)
    time = of_head(scheme.time_tables[layer], h)
    ahead = 0 if scheme.sizes.causal else len(time) // 2
    found = found + q_i.dot(time[min(max(i[2] - j[2] + ahead, 0), len(time) - 1)]) / root
    return found + pitch_term(scheme, layer, h, q_i, i[3], j[3])


def two_d_by_labels(scheme, layer, h, q_i, k_j, i, j) -> Tensor:
    """The same with E_v[voice] in the place of E_t[time]; what opens a piece, -1, has no voice."""
    found = huang(scheme, layer, h, q_i, k_j, i, j)
    if j[2] >= 0:
        voice = of_head(scheme.voice_tables[layer], h)
        found = found + q_i.dot(voice[i[2] - j[2] + len(voice) // 2]) / math.sqrt(len(q_i))
    return found + pitch_term(scheme, layer, h, q_i, i[3], j[3])


def pitch_term(scheme, layer, h, q_i, i: int, j: int) -> Tensor:
    pitch = of_head(scheme.pitch_tables[layer], h)
    row = min(max(i - j + len(pitch) // 2, 0), len(pitch) - 1)
    return q_i.dot(pitch[row]) / math.sqrt(len(q_i))


ARTICLES = {
    "huang": huang,
    "huang_local": huang,
    "shaw": shaw,
    "transformer_xl": transformer_xl,
    "t5": t5,
    "alibi": alibi,
    "rotary": rotary,
    "two_d": two_d,
    "two_d by labels": two_d_by_labels,
}
