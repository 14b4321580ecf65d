"""What drawn pictures of the docs share: colours, tables of cells, and files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")

from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle
from PIL import Image

IMAGES = Path(__file__).parents[2] / "docs" / "images"
#: One colour for each distance 0..4 (green is "here" in the paper's figure too), and no meaning.
DISTANCE = ["#2a9d6f", "#e9809b", "#f2b54a", "#5b8def", "#9467bd"]
NOTHING, PAD = "#e3e3e3", "#ffffff"
DPI = 110


def save(figure: Any, name: str, *, dpi: int = DPI, folder: Path = IMAGES) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.png"
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
