"""The pictures of the skew: matrices of five positions, cell by cell."""

from __future__ import annotations

from matplotlib import pyplot as plt
from matplotlib.patches import Rectangle

from scripts.docs.drawing import DISTANCE, NOTHING, PAD, cells, save


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
