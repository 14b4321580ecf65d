"""The pictures of docs/attention.md.

    python scripts/docs/attention_pictures.py                      # all that need no model
    python scripts/docs/attention_pictures.py --model runs/X/model --midi song.mid

Needs matplotlib (pip install "musictx[plot]"). Writes docs/images/*.png. The numbers in the
pictures of schemes come from the schemes themselves, not from a drawing of them.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")

import torch
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.patches import Rectangle
from PIL import Image

from musictx.attention import positions, reference
from musictx.attention.positions.absolute import sinusoids
from musictx.attention.positions.rotary import turned
from musictx.attention.terms import Span

IMAGES = Path(__file__).parents[2] / "docs" / "images"
#: One colour for each distance 0..4 (green is "here" in the paper's figure too), and no meaning.
DISTANCE = ["#2a9d6f", "#e9809b", "#f2b54a", "#5b8def", "#9467bd"]
NOTHING, PAD = "#e3e3e3", "#ffffff"
DPI = 110


def save(figure: Any, name: str, *, dpi: int = DPI) -> None:
    IMAGES.mkdir(parents=True, exist_ok=True)
    path = IMAGES / f"{name}.png"
    figure.savefig(path, dpi=dpi, bbox_inches="tight", facecolor="white")
    plt.close(figure)
    with Image.open(path) as picture:
        small = picture.convert("RGB").quantize(256)  # colours enough, and half the bytes
    small.save(path, optimize=True)
    print(path, path.stat().st_size // 1000, "kB")


def cells(ax: Axes, rows: list[list[tuple[str, str]]], title: str, *, size: float = 11) -> None:
    """A table of (text, colour) cells."""
    for r, row in enumerate(rows):
        for c, (text, colour) in enumerate(row):
            edge = "#555555" if colour != PAD or text else "#bbbbbb"
            ax.add_patch(Rectangle((c, r), 1, 1, facecolor=colour, edgecolor=edge, linewidth=0.8))
            ax.text(c + 0.5, r + 0.53, text, ha="center", va="center", fontsize=size)
    ax.set_xlim(-0.05, max(map(len, rows)) + 0.05)
    ax.set_ylim(len(rows) + 0.05, -0.05)
    ax.set_aspect("equal")
    ax.axis("off")
    ax.set_title(title, fontsize=11)


# ---------------------------------------------------------------------------- the index matrix


def index_matrix() -> None:
    """Key minus query, both sides; the distance into the past, the half that causality leaves."""
    figure, axes = plt.subplots(1, 2, figsize=(7.4, 3.6))
    both = [[(str(j - i), DISTANCE[abs(j - i)]) for j in range(5)] for i in range(5)]
    past = [
        [(str(i - j), DISTANCE[i - j]) if j <= i else ("", NOTHING) for j in range(5)]
        for i in range(5)
    ]
    cells(axes[0], both, "key - query", size=13)
    cells(axes[1], past, "distance into the past", size=13)
    for ax in axes:
        for n in range(5):
            ax.text(-0.25, n + 0.5, f"q{n}", ha="right", va="center", fontsize=10, color="#555555")
            ax.text(n + 0.5, 5.35, f"k{n}", ha="center", va="center", fontsize=10, color="#555555")
    save(figure, "index_matrix")


# ------------------------------------------------------------------------------------ the skew


def named(row: int, distance: int) -> tuple[str, str]:
    return f"{'abcde'[row]}{distance}", DISTANCE[distance]


def skew() -> None:
    """Four steps on 5 x 5."""
    length = 5
    product = [[named(r, length - 1 - c) for c in range(length)] for r in range(length)]
    padded = [[("0", PAD), *row] for row in product]
    flat = [cell for row in padded for cell in row]
    cut = [flat[n : n + length] for n in range(0, len(flat), length)]
    done = [
        [cell if j <= i else ("", NOTHING) for j, cell in enumerate(row)]
        for i, row in enumerate(cut[1:])
    ]
    figure, axes = plt.subplots(1, 4, figsize=(13.5, 3.7), width_ratios=[5, 6, 5, 5])
    cells(axes[0], product, "1  Q Eᵀ: all distances\nof all queries")
    cells(axes[1], padded, "2  a column of zeros\non the left")
    cells(axes[2], cut, "3  the same 30 numbers,\n5 to a row")
    axes[2].add_patch(
        Rectangle((0, 0), 5, 1, fill=False, edgecolor="#cc3333", linewidth=1.6, hatch="//")
    )
    cells(axes[3], done, "4  without the first row,\nthe future masked")
    for n in range(length):
        axes[3].text(n + 0.5, 5.35, f"k{n}", ha="center", va="center", fontsize=9, color="#555555")
    save(figure, "skew")


def two_row_lengths() -> None:
    """One buffer, read with W and with W - 1 numbers to a row: m = 3 queries over w = 5 keys."""
    m, w = 3, 5
    wide = w + 1
    names = []
    for r in range(m):
        names += [named(r, w - 1 - c) for c in range(w)] + [("0", PAD)]
    figure, axes = plt.subplots(3, 1, figsize=(10.5, 5.6), height_ratios=[1.6, 3, 3])
    cells(axes[0], [names], "the buffer: 18 numbers in a line", size=10)
    cells(
        axes[1],
        [names[r * wide : (r + 1) * wide] for r in range(m)],
        "written with 6 to a row: Q Eᵀ, one dummy at the end",
    )
    start = m - 1
    rows = [names[start + r * w : start + (r + 1) * w] for r in range(m)]
    seen = [
        [cell if j <= w - m + r else ("", NOTHING) for j, cell in enumerate(row)]
        for r, row in enumerate(rows)
    ]
    cells(axes[2], seen, "the same memory from place 2 on, 5 to a row: columns are keys")
    ax = axes[0]
    for r in range(m):
        ax.plot([r * wide + 0.05, (r + 1) * wide - 0.05], [-0.16] * 2, color="#333333", lw=2)
        ax.plot(
            [start + r * w + 0.05, start + (r + 1) * w - 0.05], [1.16] * 2, color="#cc3333", lw=2
        )
    ax.set_ylim(1.4, -0.4)
    axes[1].set_xlim(-6, 12)
    axes[2].set_xlim(-6, 12)
    save(figure, "two_row_lengths")


def window() -> None:
    """Not causal: m queries and w keys have w + m - 1 distances between them."""
    m, w = 3, 4
    wide = w + m - 1
    ahead = ["#f6c8d3", "#fbe2b4", "#c5d7fa"]  # distances -1, -2, -3: paler

    def cell(r: int, c: int) -> tuple[str, str]:
        distance = m - 1 - c
        return f"{'abc'[r]}{distance}", DISTANCE[distance] if distance >= 0 else ahead[
            -1 - distance
        ]

    product = [[cell(r, c) for c in range(wide)] for r in range(m)]
    flat = [x for row in product for x in row]
    start = m - 1
    rows = [flat[start + r * (wide - 1) : start + r * (wide - 1) + w] for r in range(m)]
    figure, axes = plt.subplots(1, 2, figsize=(8.4, 2.6), width_ratios=[6, 4])
    cells(axes[0], product, "Q Eᵀ, distances 2 to -3: 6 to a row")
    cells(axes[1], rows, "from place 2 on, 5 to a row,\n4 of them keys")
    save(figure, "window")


# ----------------------------------------------------------------------------------- the family

HEADS, SIZE, LENGTH = 4, 16, 32


def build(name: str, **more: Any) -> positions.PositionScheme:
    torch.manual_seed(0)
    causal = more.pop("causal", True)
    sizes = {"heads": HEADS, "head_dim": SIZE, "width": HEADS * SIZE}
    return positions.build({"name": name} | more, **sizes, causal=causal)


def rows_of_table(name: str, *, causal: bool = True, **more: Any) -> torch.Tensor:
    """Which row of the table each (query, key) takes; NaN where the key is hidden."""
    scheme = build(name, causal=causal, **more)
    terms = scheme.terms(reach=LENGTH - 1)
    where = (Span(0, LENGTH),) * 2
    (rows,) = reference.distance_rows(terms, where, where, torch.device("cpu"))
    return hidden(rows[0].float(), terms, where, causal)


def hidden(matrix: torch.Tensor, terms: Any, where: Any, causal: bool) -> torch.Tensor:
    seen = reference.visible(
        *(where, where),
        causal=causal,
        query_pieces=None,
        key_pieces=None,
        device=torch.device("cpu"),
        blocks=terms.blocks,
    )[0, 0]
    return matrix.masked_fill(~seen, float("nan"))


def biases(name: str, *, causal: bool, head: int = 0, **more: Any) -> torch.Tensor:
    scheme = build(name, causal=causal, **more)
    terms = scheme.terms(reach=LENGTH - 1)
    where = (Span(0, LENGTH),) * 2
    (rows,) = reference.distance_rows(terms, where, where, torch.device("cpu"))
    return hidden(terms.axes[0].bias.detach()[head][rows[0]], terms, where, causal)


def family() -> None:
    """What each scheme knows about (query, key): rows of tables, or numbers added."""
    panels: list[tuple[str, torch.Tensor, str]] = [
        ("huang: row of E\n(24 rows, clipped)", rows_of_table("huang", max_distance=24), "viridis"),
        ("huang_local: row of E\n(blocks of 8)", rows_of_table("huang_local", block=8), "viridis"),
        (
            "shaw, full: row of aK, aV\n(k = 6)",
            rows_of_table("shaw", causal=False, max_distance=6),
            "viridis",
        ),
    ]
    scheme = build("transformer_xl", causal=False)
    terms = scheme.terms(reach=LENGTH - 1)
    where = (Span(0, LENGTH),) * 2
    (rows,) = reference.distance_rows(terms, where, where, torch.device("cpu"))
    torch.manual_seed(4)
    logits = terms.axes[0].table.detach()[0] @ torch.randn(SIZE)
    panels.append(("transformer_xl: ⟨q, W R⟩\nof one query vector", logits[rows[0]], "RdBu"))
    buckets = build("t5", causal=False, buckets=16, max_distance=24)
    axis = buckets.terms().axes[0]
    delta = torch.arange(LENGTH)[:, None] - torch.arange(LENGTH)
    which = buckets.buckets[delta.clamp(axis.low, axis.high) - axis.low].float()
    panels.append(("t5, full: bucket\n(16, both sides)", which, "tab20"))
    panels.append(("alibi: slope of head 1\n(of 4)", biases("alibi", causal=True, head=0), "magma"))
    panels.append(("alibi: slope of head 3", biases("alibi", causal=True, head=2), "magma"))
    ones = torch.ones(1, 1, LENGTH, SIZE)
    at = Span(0, LENGTH)
    products = (turned(ones, at) @ turned(ones, at).transpose(-1, -2))[0, 0]
    panels.append(("rotary: ⟨q, k⟩ of equal vectors", products, "RdBu"))
    waves = sinusoids(torch.arange(LENGTH), 64)
    panels.append(("sinusoidal: ⟨p(i), p(j)⟩\nof what is added", waves @ waves.T, "RdBu"))
    table = build("learned", max_distance=LENGTH).table.detach()
    panels.append(("learned: ⟨p(i), p(j)⟩\nbefore training", table @ table.T, "RdBu"))
    panels += two_axes()
    figure, axes = plt.subplots(3, 4, figsize=(12, 9.8))
    for ax, (title, matrix, colours) in zip(axes.flat, panels):
        map_ = plt.get_cmap(colours).copy()
        map_.set_bad(NOTHING)
        span = {}
        if colours == "RdBu":
            most = float(matrix.nan_to_num().abs().max())
            span = {"vmin": -most, "vmax": most}
        elif title.startswith("alibi"):
            span = {"vmin": -8.0, "vmax": 0.0}  # both heads alike
        ax.imshow(matrix.numpy(), cmap=map_, interpolation="nearest", **span)
        ax.set_title(title, fontsize=10)
        ax.set_xticks([])
        ax.set_yticks([])
    for ax in axes[:, 0]:
        ax.set_ylabel("query")
    for ax in axes[-1]:
        ax.set_xlabel("key")
    figure.tight_layout(h_pad=2.0)
    save(figure, "family", dpi=88)


def two_axes() -> list[tuple[str, torch.Tensor, str]]:
    """Time and pitch rows of a broken chord: shift, on, shift, on, ..."""
    pitches = [60, 64, 67, 72, 67, 64] * 3
    tokens = [x for p in pitches for x in (1, 2 + p)][:LENGTH]
    scheme = build(
        "two_d",
        max_distance=LENGTH,
        max_time=24,
        coordinates={
            "kind": "tokens",
            "size": 130,
            "steps": [[1, 2, 2]],
            "pitches": [[2, 130, 0]],
        },
    )
    as_query, as_key = scheme.coordinates(torch.tensor([tokens]), Span(0, LENGTH), None)
    order = Span(0, LENGTH)
    terms = scheme.terms()
    at, over = ((order, order, *x.unbind(1)) for x in (as_query, as_key))
    _, time, pitch = reference.distance_rows(terms, at, over, torch.device("cpu"))
    low, high = terms.axes[2].low, terms.axes[2].high
    difference = pitch[0].float() + low
    difference[(difference == low) | (difference == high)] = float("nan")
    return [
        (
            "two_d: row of the time table\n(an arpeggio)",
            hidden(time[0].float(), terms, at, True),
            "viridis",
        ),
        (
            "two_d: semitones between\nquery and key (grey: no pitch)",
            hidden(difference.clamp(-12, 12), terms, at, True),
            "RdBu",
        ),
    ]


def locality() -> None:
    """Section 3.5: which keys each query sees, and the two triangles that make a block."""
    scheme = build("huang_local", block=4)
    where = (Span(0, 16),) * 2
    terms = scheme.terms()
    seen = reference.visible(
        *(where, where),
        causal=True,
        query_pieces=None,
        key_pieces=None,
        device=torch.device("cpu"),
        blocks=terms.blocks,
    )[0, 0]
    figure, axes = plt.subplots(1, 2, figsize=(6.8, 3.4))
    full = torch.ones(16, 16).tril()
    for ax, mask, title in (
        (axes[0], full, "global"),
        (axes[1], seen.float(), "local, blocks of 4"),
    ):
        ax.imshow(mask.numpy(), cmap=ListedColormap([NOTHING, DISTANCE[3]]), vmin=0, vmax=1)
        ax.set_title(title, fontsize=11)
        ax.set_xticks([n - 0.5 for n in range(0, 17, 4)], [])
        ax.set_yticks([n - 0.5 for n in range(0, 17, 4)], [])
        ax.grid(color="white", linewidth=1)
        ax.set_xlabel("key")
        ax.set_ylabel("query")
    save(figure, "local")


# -------------------------------------------------------------------------------- a trained model


def trained(folder: str, midi: str | None, tokens: int) -> None:
    """Where each head of each layer looks, averaged by distance, and one picture of weights."""
    from musictx import bundle
    from musictx.midi import read
    from musictx.model import transformer
    from musictx.sampling.engine import generate
    from musictx.tokens.vocab import BOS

    loaded = bundle.load(folder)
    model, tokenizer = loaded.model, loaded.tokenizer
    if midi is not None:
        ids = [BOS, *tokenizer.encode(read(midi)).tolist()][:tokens]
    else:
        begin = torch.tensor([BOS])
        drawn = generate(model, begin, rows=1, max_tokens=tokens - 1, seeds=[0])
        ids = [BOS, *(int(one[0]) for one in drawn)]
    layers: list[torch.Tensor] = []
    right = transformer.attend

    def watched(q: Any, k: Any, v: Any, terms: Any, **more: Any) -> Any:
        where = {n: more[n] for n in ("query_positions", "key_positions")}
        layers.append(reference.attention_weights(q, k, terms, **where)[0].detach())
        return right(q, k, v, terms, **more)

    transformer.attend = watched
    try:
        with torch.no_grad():
            model(torch.tensor([ids]))
    finally:
        transformer.attend = right
    heads = len(layers[0])
    map_ = plt.get_cmap("magma").copy()
    map_.set_bad(NOTHING)
    figure, axes = plt.subplots(
        len(layers), heads, figsize=(1.7 * heads, 1.75 * len(layers) + 0.3), squeeze=False
    )
    for layer, weights in enumerate(layers):
        for head in range(heads):
            ax = axes[layer][head]
            seen = weights[head].pow(0.4)  # small weights are the many: make them visible
            seen[torch.ones_like(seen).triu(1).bool()] = float("nan")
            ax.imshow(seen.numpy(), cmap=map_, interpolation="nearest")
            ax.set_xticks([])
            ax.set_yticks([])
            if head == 0:
                ax.set_ylabel(f"layer {layer + 1}", fontsize=9)
            if layer == 0:
                ax.set_title(f"head {head + 1}", fontsize=9)
    figure.tight_layout()
    save(figure, "trained_weights", dpi=80)

    figure, axes = plt.subplots(1, len(layers), figsize=(3.1 * len(layers), 2.6), squeeze=False)
    count = len(ids)
    for layer, weights in enumerate(layers):
        ax = axes[0][layer]
        for head in range(heads):
            # Late queries only, which have all these distances behind them.
            late = weights[head][count // 2 :]
            found = [
                float(torch.stack([row[count // 2 + n - d] for n, row in enumerate(late)]).mean())
                for d in range(count // 2)
            ]
            ax.plot(range(1, len(found) + 1), found, linewidth=1)
        ax.set_xscale("log")
        ax.set_yscale("log")
        ax.set_title(f"layer {layer + 1}", fontsize=10)
        ax.set_xlabel("distance + 1, tokens")
    axes[0][0].set_ylabel("mean weight")
    figure.tight_layout()
    save(figure, "trained_distances", dpi=64)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", help="model folder: draw what it attends to, nothing else")
    parser.add_argument("--midi", help="the music it reads; default: it draws its own")
    parser.add_argument("--tokens", type=int, default=192)
    args = parser.parse_args()
    if args.model:
        trained(args.model, args.midi, args.tokens)
        return
    for picture in (index_matrix, skew, two_row_lengths, window, family, locality):
        picture()


if __name__ == "__main__":
    main()
