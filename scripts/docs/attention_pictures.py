"""The pictures of docs/attention.md.

    python -m scripts.docs.attention_pictures      # all that need no model, into docs/images
    python -m scripts.docs.attention_pictures model=FOLDER [midi=song.mid] [tokens=192] [out=DIR]

Needs matplotlib (pip install "musictx[plot]"). The pictures of a model, and the numbers in them
(trained_weights.npz), go into the current folder or ``out``. The numbers in the pictures of schemes
come from the schemes themselves, not from a drawing of them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import torch
from matplotlib.colors import ListedColormap
from matplotlib.patches import Rectangle
from PIL import Image

from musictx import bundle
from musictx.attention import positions, reference
from musictx.attention.positions.absolute import sinusoids
from musictx.attention.positions.rotary import turned
from musictx.attention.setting import Setting
from musictx.attention.terms import Span
from musictx.midi import read
from musictx.model import attention_weights
from musictx.sampling.engine import generate
from musictx.tokens.vocab import BOS
from scripts.harness import run

matplotlib.use("Agg")
from matplotlib import pyplot as plt

IMAGES = Path(__file__).parents[2] / "docs" / "images"
#: One colour for each distance 0..4 (green is "here" in the paper's figure too), paler ones for
#: distances -1, -2, -3, and no meaning.
DISTANCE = ["#2a9d6f", "#e9809b", "#f2b54a", "#5b8def", "#9467bd"]
AHEAD = ["#f6c8d3", "#fbe2b4", "#c5d7fa"]
NOTHING, PAD, INK = "#e3e3e3", "#ffffff", "#555555"
HEADS, SIZE, LENGTH = 4, 16, 32
Cell = tuple[str, str]


def save(figure: Any, name: str, *, dpi: int = 110, folder: Path = IMAGES) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.png"
    figure.savefig(path, dpi=dpi, bbox_inches="tight", facecolor="white")
    plt.close(figure)
    with Image.open(path) as picture:
        small = picture.convert("RGB").quantize(256)  # colours enough, and half the bytes
    small.save(path, optimize=True)
    print(path, path.stat().st_size // 1000, "kB")


# --------------------------------------------------------------- the skew, cell by cell


def cells(ax: Any, rows: list[list[Cell]], title: str, *, size: float = 11) -> None:
    """A table of (text, colour) cells."""
    for r, row in enumerate(rows):
        for c, (text, colour) in enumerate(row):
            edge = INK if colour != PAD or text else "#bbbbbb"
            ax.add_patch(Rectangle((c, r), 1, 1, facecolor=colour, edgecolor=edge, linewidth=0.8))
            ax.text(c + 0.5, r + 0.53, text, ha="center", va="center", fontsize=size)
    ax.set_xlim(-0.05, max(map(len, rows)) + 0.05)
    ax.set_ylim(len(rows) + 0.05, -0.05)
    ax.set_aspect("equal")
    ax.axis("off")
    ax.set_title(title, fontsize=11)


def named(row: int, distance: int) -> Cell:
    """The product of query ``row`` and the row of the table for ``distance``."""
    colour = DISTANCE[distance] if distance >= 0 else AHEAD[-1 - distance]
    return f"{'abcde'[row]}{distance}", colour


def in_rows(flat: list[Cell], count: int, width: int, start: int = 0) -> list[list[Cell]]:
    """``count`` rows of ``width`` cells, from place ``start`` of a buffer on."""
    return [flat[start + r * width : start + (r + 1) * width] for r in range(count)]


def causal(rows: list[list[Cell]], ahead: int = 0) -> list[list[Cell]]:
    """The future is nothing; the first query sees ``ahead`` keys more than one."""
    return [
        [cell if j <= i + ahead else ("", NOTHING) for j, cell in enumerate(row)]
        for i, row in enumerate(rows)
    ]


def index_matrix() -> None:
    """Key minus query, both sides; the distance into the past, the half that causality leaves."""
    figure, axes = plt.subplots(1, 2, figsize=(7.4, 3.6))
    both = [[(str(j - i), DISTANCE[abs(j - i)]) for j in range(5)] for i in range(5)]
    past = causal([[(str(i - j), DISTANCE[abs(i - j)]) for j in range(5)] for i in range(5)])
    for ax, rows, title in zip(axes, (both, past), ("key - query", "distance into the past")):
        cells(ax, rows, title, size=13)
        for n in range(5):
            ax.text(-0.25, n + 0.5, f"q{n}", ha="right", va="center", fontsize=10, color=INK)
            ax.text(n + 0.5, 5.35, f"k{n}", ha="center", va="center", fontsize=10, color=INK)
    save(figure, "index_matrix")


def skew() -> None:
    """Four steps on 5 x 5."""
    product = [[named(r, 4 - c) for c in range(5)] for r in range(5)]
    padded = [[("0", PAD), *row] for row in product]
    cut = in_rows([cell for row in padded for cell in row], 6, 5)
    figure, axes = plt.subplots(1, 4, figsize=(13.5, 3.7), width_ratios=[5, 6, 5, 5])
    cells(axes[0], product, "1  Q Eᵀ: all distances\nof all queries")
    cells(axes[1], padded, "2  a column of zeros\non the left")
    cells(axes[2], cut, "3  the same 30 numbers,\n5 to a row")
    first = {"fill": False, "edgecolor": "#cc3333", "linewidth": 1.6, "hatch": "//"}
    axes[2].add_patch(Rectangle((0, 0), 5, 1, **first))
    cells(axes[3], causal(cut[1:]), "4  without the first row,\nthe future masked")
    for n in range(5):
        axes[3].text(n + 0.5, 5.35, f"k{n}", ha="center", va="center", fontsize=9, color=INK)
    save(figure, "skew")


def two_row_lengths() -> None:
    """One buffer, read with W and with W - 1 numbers to a row: m = 3 queries over w = 5 keys."""
    m, w = 3, 5
    flat = [x for r in range(m) for x in (*(named(r, w - 1 - c) for c in range(w)), ("0", PAD))]
    figure, axes = plt.subplots(3, 1, figsize=(10.5, 5.6), height_ratios=[1.6, 3, 3])
    cells(axes[0], [flat], "the buffer: 18 numbers in a line", size=10)
    written = in_rows(flat, m, w + 1)
    cells(axes[1], written, "written with 6 to a row: Q Eᵀ, one dummy at the end")
    seen = causal(in_rows(flat, m, w, m - 1), w - m)
    cells(axes[2], seen, "the same memory from place 2 on, 5 to a row: columns are keys")
    for r in range(m):
        for begin, width, y, colour in ((r * (w + 1), w + 1, -0.16, "#333333"),
                                        (m - 1 + r * w, w, 1.16, "#cc3333")):  # fmt: skip
            axes[0].plot([begin + 0.05, begin + width - 0.05], [y] * 2, color=colour, lw=2)
    axes[0].set_ylim(1.4, -0.4)
    axes[1].set_xlim(-6, 12)
    axes[2].set_xlim(-6, 12)
    save(figure, "two_row_lengths")


def window() -> None:
    """Not causal: m queries and w keys have w + m - 1 distances between them."""
    m, w = 3, 4
    product = [[named(r, m - 1 - c) for c in range(w + m - 1)] for r in range(m)]
    flat = [x for row in product for x in row]
    rows = [row[:w] for row in in_rows(flat, m, w + m - 2, m - 1)]
    figure, axes = plt.subplots(1, 2, figsize=(8.4, 2.6), width_ratios=[6, 4])
    cells(axes[0], product, "Q Eᵀ, distances 2 to -3: 6 to a row")
    cells(axes[1], rows, "from place 2 on, 5 to a row,\n4 of them keys")
    save(figure, "window")


# ------------------------------------------------------- what schemes add, and which keys they see


def build(name: str, **more: Any) -> positions.PositionScheme:
    torch.manual_seed(0)
    past = more.pop("causal", True)
    sizes = {"heads": HEADS, "head_dim": SIZE, "width": HEADS * SIZE}
    return positions.build({"name": name} | more, **sizes, causal=past)


def measured(name: str, past: bool = True, **more: Any) -> tuple[Any, Setting, torch.Tensor]:
    """The terms of a scheme, where they are asked, and the row of their one table by (query,
    key)."""
    terms = build(name, causal=past, **more).terms(reach=LENGTH - 1)
    places = (Span(0, LENGTH),) * 2  # in the order of all tokens, and in the piece
    where = Setting(places, places, past)
    (rows,) = reference.distance_rows(terms, where, torch.device("cpu"))
    return terms, where, rows[0]


def hidden(matrix: torch.Tensor, terms: Any, where: Setting) -> torch.Tensor:
    seen = reference.visible(where, torch.device("cpu"), terms.blocks)[0, 0]
    return matrix.masked_fill(~seen, float("nan"))


def rows_of_table(name: str, past: bool = True, **more: Any) -> torch.Tensor:
    """Which row of the table each (query, key) takes; NaN where the key is hidden."""
    terms, where, rows = measured(name, past, **more)
    return hidden(rows.float(), terms, where)


def slopes(head: int) -> torch.Tensor:
    terms, where, rows = measured("alibi")
    return hidden(terms.axes[0].bias.detach()[head][rows], terms, where)


def transformer_xl() -> torch.Tensor:
    terms, _, rows = measured("transformer_xl", False)
    torch.manual_seed(4)
    logits: torch.Tensor = terms.axes[0].table.detach()[0] @ torch.randn(SIZE)
    return logits[rows]


def buckets() -> torch.Tensor:
    scheme = build("t5", causal=False, max_distance=32)
    axis = scheme.terms().axes[0]
    delta = torch.arange(LENGTH)[:, None] - torch.arange(LENGTH)
    numbers: torch.Tensor = scheme.buckets[delta.clamp(axis.low, axis.high) - axis.low]
    return numbers.float()


def two_axes() -> tuple[torch.Tensor, torch.Tensor]:
    """Time and pitch rows of a broken chord: shift, on, shift, on, ..."""
    tokens = [x for p in [60, 64, 67, 72, 67, 64] * 3 for x in (1, 2 + p)][:LENGTH]
    kind = {"kind": "tokens", "size": 130, "steps": [[1, 2, 2]], "pitches": [[2, 130, 0]]}
    scheme = build("two_d", max_distance=LENGTH, max_time=24, coordinates=kind)
    order, terms = Span(0, LENGTH), scheme.terms()
    both = scheme.coordinates(torch.tensor([tokens]), order, None)
    where = Setting(*((order, order, *x.unbind(1)) for x in both))
    _, time, pitch = reference.distance_rows(terms, where, torch.device("cpu"))
    low, high = terms.axes[2].low, terms.axes[2].high
    difference = pitch[0].float() + low
    difference[(difference == low) | (difference == high)] = float("nan")
    return (hidden(time[0].float(), terms, where),
            hidden(difference.clamp(-12, 12), terms, where))  # fmt: skip


def family() -> None:
    """What each scheme knows about (query, key): rows of tables, or numbers added."""
    ones, at = torch.ones(1, 1, LENGTH, SIZE), Span(0, LENGTH)
    waves = sinusoids(torch.arange(LENGTH), 64)
    table = build("learned", max_distance=LENGTH).table.detach()
    time, pitch = two_axes()
    shaw = rows_of_table("shaw", False, max_distance=6)
    turning = (turned(ones, at) @ turned(ones, at).transpose(-1, -2))[0, 0]
    panels = [
        ("huang: row of E\n(24 rows, clipped)", rows_of_table("huang", max_distance=24), "viridis"),
        ("huang_local: row of E\n(blocks of 8)", rows_of_table("huang_local", block=8), "viridis"),
        ("shaw, full: row of aK, aV\n(k = 6)", shaw, "viridis"),
        ("transformer_xl: ⟨q, W R⟩\nof one query vector", transformer_xl(), "RdBu"),
        ("t5, full: bucket\n(32, both sides)", buckets(), "tab20"),
        ("alibi: slope of head 1\n(of 4)", slopes(0), "magma"),
        ("alibi: slope of head 3", slopes(2), "magma"),
        ("rotary: ⟨q, k⟩ of equal vectors", turning, "RdBu"),
        ("sinusoidal: ⟨p(i), p(j)⟩\nof what is added", waves @ waves.T, "RdBu"),
        ("learned: ⟨p(i), p(j)⟩\nbefore training", table @ table.T, "RdBu"),
        ("two_d: row of the time table\n(an arpeggio)", time, "viridis"),
        ("two_d: semitones between\nquery and key (grey: no pitch)", pitch, "RdBu"),
    ]
    figure, axes = plt.subplots(3, 4, figsize=(12, 9.8))
    for ax, (title, matrix, colours) in zip(axes.flat, panels):
        most = float(matrix.nan_to_num().abs().max())
        limits = {"RdBu": (-most, most), "magma": (-8.0, 0.0)}.get(colours, (None, None))
        map_ = plt.get_cmap(colours).with_extremes(bad=NOTHING)
        ax.imshow(
            matrix.numpy(), cmap=map_, interpolation="nearest", vmin=limits[0], vmax=limits[1]
        )
        ax.set_title(title, fontsize=10)
        ax.set_xticks([])
        ax.set_yticks([])
    for ax in axes[:, 0]:
        ax.set_ylabel("query")
    for ax in axes[-1]:
        ax.set_xlabel("key")
    figure.tight_layout(h_pad=2.0)
    save(figure, "family", dpi=88)


def local() -> None:
    """Section 3.5: which keys each query sees, and the two triangles that make a block."""
    where = Setting((Span(0, 16),) * 2, (Span(0, 16),) * 2)
    blocks = build("huang_local", block=4).terms().blocks
    seen = reference.visible(where, torch.device("cpu"), blocks)[0, 0]
    figure, axes = plt.subplots(1, 2, figsize=(6.8, 3.4))
    masks = {"global": torch.ones(16, 16).tril(), "local, blocks of 4": seen.float()}
    for ax, (title, mask) in zip(axes, masks.items()):
        ax.imshow(mask.numpy(), cmap=ListedColormap([NOTHING, DISTANCE[3]]), vmin=0, vmax=1)
        ax.set_title(title, fontsize=11)
        ax.set_xticks([n - 0.5 for n in range(0, 17, 4)], [])
        ax.set_yticks([n - 0.5 for n in range(0, 17, 4)], [])
        ax.grid(color="white", linewidth=1)
        ax.set_xlabel("key")
        ax.set_ylabel("query")
    save(figure, "local")


# ----------------------------------------------------------- what a trained model attends to


def trained(folder: str, midi: str, tokens: int, out: Path) -> None:
    """Into the folder ``out``: a picture of the weights of every layer and head, one of their means
    by distance, and all of them as numbers, ``weights`` (layers, heads, tokens, tokens) of
    ``ids``."""
    loaded = bundle.load(folder)
    model = loaded.model
    if midi:
        ids = [BOS, *loaded.tokenizer.encode(read(midi)).tolist()][:tokens]
    else:
        drawn = generate(model, torch.tensor([BOS]), max_tokens=tokens - 1, seeds=[0])
        ids = [BOS, *(int(one[0]) for one in drawn)]
    layers = [attention_weights(model, torch.tensor([ids]), n)[0] for n in range(len(model.blocks))]
    out.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(out / "trained_weights.npz", ids=ids, weights=torch.stack(layers).numpy())
    heads, size = len(layers[0]), (1.7 * len(layers[0]), 1.75 * len(layers) + 0.3)
    map_ = plt.get_cmap("magma").with_extremes(bad=NOTHING)
    figure, axes = plt.subplots(len(layers), heads, figsize=size, squeeze=False)
    for (layer, head), ax in np.ndenumerate(axes):
        seen = layers[layer][head].pow(0.4)  # small weights are the many: make them visible
        seen[torch.ones_like(seen).triu(1).bool()] = float("nan")
        ax.imshow(seen.numpy(), cmap=map_, interpolation="nearest")
        ax.set_xticks([])
        ax.set_yticks([])
        if head == 0:
            ax.set_ylabel(f"layer {layer + 1}", fontsize=9)
        if layer == 0:
            ax.set_title(f"head {head + 1}", fontsize=9)
    figure.tight_layout()
    save(figure, "trained_weights", dpi=80, folder=out)

    figure, axes = plt.subplots(1, len(layers), figsize=(3.1 * len(layers), 2.6), squeeze=False)
    half = len(ids) // 2  # of late queries only, which have all these distances behind them
    for layer, (ax, weights) in enumerate(zip(axes[0], layers), 1):
        for head in weights:
            late = head[half:]
            means = [float(late.diagonal(half - d).mean()) for d in range(half)]
            ax.plot(range(1, half + 1), means, linewidth=1)
        ax.set_xscale("log")
        ax.set_yscale("log")
        ax.set_title(f"layer {layer}", fontsize=10)
        ax.set_xlabel("distance + 1, tokens")
    axes[0][0].set_ylabel("mean weight")
    figure.tight_layout()
    save(figure, "trained_distances", dpi=64, folder=out)


def main(model: str = "", midi: str = "", tokens: int = 192, out: Path = Path()) -> None:
    if model:
        trained(model, midi, tokens, out)
        return
    for picture in (index_matrix, skew, two_row_lengths, window, family, local):
        picture()


if __name__ == "__main__":
    run(main)
