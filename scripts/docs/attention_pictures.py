"""The pictures of docs/attention.md.

    python -m scripts.docs.attention_pictures      # what each scheme computes, into docs/images
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
from PIL import Image

from musictx import bundle
from musictx.attention import positions, reference
from musictx.attention.job import Setting
from musictx.attention.positions.absolute import sinusoids
from musictx.attention.positions.rotary import rotated
from musictx.attention.terms import Span
from musictx.formats import read
from musictx.model import attention_weights
from musictx.sampling.engine import generate
from musictx.tokens.vocab import BOS
from scripts.harness import run

matplotlib.use("Agg")
from matplotlib import pyplot as plt

IMAGES = Path(__file__).parents[2] / "docs" / "images"
#: The colour of what is hidden or has no meaning.
NOTHING = "#e3e3e3"
HEADS, SIZE, LENGTH = 4, 16, 32


def save(figure: Any, name: str, *, dpi: int, folder: Path = IMAGES) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.png"
    figure.savefig(path, dpi=dpi, bbox_inches="tight", facecolor="white")
    plt.close(figure)
    with Image.open(path) as picture:
        small = picture.convert("RGB").quantize(256)  # colours enough, and half the bytes
    small.save(path, optimize=True)
    print(path, path.stat().st_size // 1000, "kB")


def build(name: str, causal: bool = True, **options: Any) -> positions.PositionScheme:
    torch.manual_seed(0)
    sizes = {"heads": HEADS, "head_dim": SIZE, "width": HEADS * SIZE}
    return positions.build({"name": name} | options, **sizes, causal=causal)


def terms_and_rows(
    name: str, causal: bool = True, **options: Any
) -> tuple[Any, Setting, torch.Tensor]:
    """The terms of a scheme, the setting of the queries and keys, and the row of the table for each
    (query, key)."""
    terms = build(name, causal, **options).terms(reach=LENGTH - 1)
    places = (Span(0, LENGTH),) * 2  # in the order of all tokens, and in the piece
    (axis,), order = terms.axes, torch.arange(LENGTH)
    return terms, Setting(places, places, causal), axis.rows(order, order)


def masked(matrix: torch.Tensor, terms: Any, setting: Setting) -> torch.Tensor:
    """``matrix`` with NaN where the key is masked."""
    visible = reference.visibility_mask(setting, torch.device("cpu"), terms.blocks)[0, 0]
    return matrix.masked_fill(~visible, float("nan"))


def rows_of_table(name: str, **options: Any) -> torch.Tensor:
    """The row of the table for each (query, key); NaN where the key is masked."""
    terms, setting, rows = terms_and_rows(name, **options)
    return masked(rows.float(), terms, setting)


def slopes(head: int) -> torch.Tensor:
    terms, setting, rows = terms_and_rows("alibi")
    return masked(terms.axes[0].bias.detach()[head][rows], terms, setting)


def transformer_xl() -> torch.Tensor:
    terms, _, rows = terms_and_rows("transformer_xl", causal=False)
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
    setting = Setting(*((order, order, *x.unbind(1)) for x in both))
    time, pitch = (axis.rows(*(x[0, n] for x in both)) for n, axis in enumerate(terms.axes[1:]))
    low, high = terms.axes[2].low, terms.axes[2].high
    difference = pitch.float() + low
    difference[(difference == low) | (difference == high)] = float("nan")
    difference = difference.clamp(-12, 12)
    return masked(time.float(), terms, setting), masked(difference, terms, setting)


def family() -> None:
    """Draw for each scheme what it computes for (query, key): rows of tables, or added numbers."""
    ones, at = torch.ones(1, 1, LENGTH, SIZE), Span(0, LENGTH)
    waves = sinusoids(torch.arange(LENGTH), 64)
    table = build("learned", max_distance=LENGTH).table.detach()
    time, pitch = two_axes()
    shaw = rows_of_table("shaw", causal=False, max_distance=6)
    turning = (rotated(ones, at) @ rotated(ones, at).transpose(-1, -2))[0, 0]
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
        low, high = {"RdBu": (-most, most), "magma": (-8.0, 0.0)}.get(colours, (None, None))
        map_ = plt.get_cmap(colours).with_extremes(bad=NOTHING)
        ax.imshow(matrix.numpy(), cmap=map_, interpolation="nearest", vmin=low, vmax=high)
        ax.set_title(title, fontsize=10)
        ax.set_xticks([])
        ax.set_yticks([])
    for ax in axes[:, 0]:
        ax.set_ylabel("query")
    for ax in axes[-1]:
        ax.set_xlabel("key")
    figure.tight_layout(h_pad=2.0)
    save(figure, "family", dpi=88)


def trained(folder: str, midi: str, tokens: int, out: Path) -> None:
    """Write into the folder ``out``: a picture of the weights of every layer and head, a picture of
    their means by distance, and the weights themselves, ``weights`` (layers, heads, tokens, tokens)
    of ``ids``."""
    loaded = bundle.load(folder)
    model = loaded.model
    if midi:
        ids = [BOS, *loaded.tokenizer.encode(read(midi)).tolist()][:tokens]
    else:
        drawn = generate(model, torch.tensor([BOS]), max_tokens=tokens - 1, seeds=[0])
        ids = [BOS, *(int(row_ids[0]) for row_ids in drawn)]
    layers = [attention_weights(model, torch.tensor([ids]), n)[0] for n in range(len(model.blocks))]
    out.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(out / "trained_weights.npz", ids=ids, weights=torch.stack(layers).numpy())
    heads, size = len(layers[0]), (1.7 * len(layers[0]), 1.75 * len(layers) + 0.3)
    map_ = plt.get_cmap("magma").with_extremes(bad=NOTHING)
    figure, axes = plt.subplots(len(layers), heads, figsize=size, squeeze=False)
    for (layer, head), ax in np.ndenumerate(axes):
        seen = layers[layer][head].pow(0.4)  # make the many small weights visible
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
    half = len(ids) // 2  # only queries of the second half have keys at all these distances
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
    else:
        family()


if __name__ == "__main__":
    run(main)
