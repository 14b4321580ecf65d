"""The pictures of docs/attention.md.

    python -m scripts.docs.attention_pictures      # all that need no model, into docs/images
    python -m scripts.docs.attention_pictures model=FOLDER [midi=song.mid] [tokens=192] [out=DIR]

Needs matplotlib (pip install "musictx[plot]"). The pictures of a model, and the numbers in them
(trained_weights.npz), go into the current folder or ``out``. The numbers in the
pictures of schemes come from the schemes themselves, not from a drawing of them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from matplotlib import pyplot as plt
from matplotlib.colors import ListedColormap

from musictx.attention import positions, reference
from musictx.attention.positions.absolute import sinusoids
from musictx.attention.positions.rotary import turned
from musictx.attention.setting import Setting
from musictx.attention.terms import Span
from scripts.docs.drawing import DISTANCE, NOTHING, save
from scripts.docs.skew_pictures import index_matrix, skew, two_row_lengths, window
from scripts.docs.trained_pictures import trained
from scripts.harness import run

HEADS, SIZE, LENGTH = 4, 16, 32


def build(name: str, **more: Any) -> positions.PositionScheme:
    torch.manual_seed(0)
    causal = more.pop("causal", True)
    sizes = {"heads": HEADS, "head_dim": SIZE, "width": HEADS * SIZE}
    return positions.build({"name": name} | more, **sizes, causal=causal)


def rows_of_table(name: str, *, causal: bool = True, **more: Any) -> torch.Tensor:
    """Which row of the table each (query, key) takes; NaN where the key is hidden."""
    terms, where, rows = measured(name, causal, **more)
    return hidden(rows.float(), terms, where)


def biases(name: str, head: int) -> torch.Tensor:
    terms, where, rows = measured(name, True)
    return hidden(terms.axes[0].bias.detach()[head][rows], terms, where)


def measured(name: str, causal: bool, **more: Any) -> tuple[Any, Setting, torch.Tensor]:
    """The terms of a scheme, where they were asked, and the row of their one table by (query,
    key)."""
    terms = build(name, causal=causal, **more).terms(reach=LENGTH - 1)
    places = (Span(0, LENGTH),) * 2  # in the order of all tokens, and in the piece
    where = Setting(places, places, causal)
    (rows,) = reference.distance_rows(terms, where, torch.device("cpu"))
    return terms, where, rows[0]


def hidden(matrix: torch.Tensor, terms: Any, where: Setting) -> torch.Tensor:
    seen = reference.visible(where, torch.device("cpu"), terms.blocks)[0, 0]
    return matrix.masked_fill(~seen, float("nan"))


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
    terms, _, rows = measured("transformer_xl", False)
    torch.manual_seed(4)
    logits = terms.axes[0].table.detach()[0] @ torch.randn(SIZE)
    panels.append(("transformer_xl: ⟨q, W R⟩\nof one query vector", logits[rows], "RdBu"))
    buckets = build("t5", causal=False, max_distance=32)
    axis = buckets.terms().axes[0]
    delta = torch.arange(LENGTH)[:, None] - torch.arange(LENGTH)
    which = buckets.buckets[delta.clamp(axis.low, axis.high) - axis.low].float()
    panels.append(("t5, full: bucket\n(32, both sides)", which, "tab20"))
    panels.append(("alibi: slope of head 1\n(of 4)", biases("alibi", 0), "magma"))
    panels.append(("alibi: slope of head 3", biases("alibi", 2), "magma"))
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
        map_ = plt.get_cmap(colours).with_extremes(bad=NOTHING)
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
    where = Setting(*((order, order, *x.unbind(1)) for x in (as_query, as_key)))
    _, time, pitch = reference.distance_rows(terms, where, torch.device("cpu"))
    low, high = terms.axes[2].low, terms.axes[2].high
    difference = pitch[0].float() + low
    difference[(difference == low) | (difference == high)] = float("nan")
    return [
        (
            "two_d: row of the time table\n(an arpeggio)",
            hidden(time[0].float(), terms, where),
            "viridis",
        ),
        (
            "two_d: semitones between\nquery and key (grey: no pitch)",
            hidden(difference.clamp(-12, 12), terms, where),
            "RdBu",
        ),
    ]


def locality() -> None:
    """Section 3.5: which keys each query sees, and the two triangles that make a block."""
    scheme = build("huang_local", block=4)
    where = Setting((Span(0, 16),) * 2, (Span(0, 16),) * 2)
    seen = reference.visible(where, torch.device("cpu"), scheme.terms().blocks)[0, 0]
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


def main(model: str = "", midi: str = "", tokens: int = 192, out: Path = Path()) -> None:
    if model:
        trained(model, midi or None, tokens, out)
        return
    for picture in (index_matrix, skew, two_row_lengths, window, family, locality):
        picture()


if __name__ == "__main__":
    run(main)
