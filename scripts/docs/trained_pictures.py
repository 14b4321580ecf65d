"""The pictures of what a trained model attends to."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from matplotlib import pyplot as plt

from musictx import bundle
from musictx.midi import read
from musictx.model import attention_weights
from musictx.sampling.engine import generate
from musictx.tokens.vocab import BOS
from scripts.docs.drawing import NOTHING, save


def trained(folder: str, midi: str | None, tokens: int, out: Path) -> None:
    """Into the folder ``out``: a picture of the weights of every layer and head, one of their means
    by distance, and all of them as numbers, ``weights`` (layers, heads, tokens, tokens) of
    ``ids``."""
    loaded = bundle.load(folder)
    model, tokenizer = loaded.model, loaded.tokenizer
    if midi is not None:
        ids = [BOS, *tokenizer.encode(read(midi)).tolist()][:tokens]
    else:
        begin = torch.tensor([BOS])
        drawn = generate(model, begin, max_tokens=tokens - 1, seeds=[0])
        ids = [BOS, *(int(one[0]) for one in drawn)]
    layers = [
        attention_weights(model, torch.tensor([ids]), layer)[0]
        for layer in range(len(model.blocks))
    ]
    out.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(out / "trained_weights.npz", ids=ids, weights=torch.stack(layers).numpy())
    heads = len(layers[0])
    map_ = plt.get_cmap("magma").with_extremes(bad=NOTHING)
    figure, axes = plt.subplots(
        len(layers), heads, figsize=(1.7 * heads, 1.75 * len(layers) + 0.3), squeeze=False
    )
    for layer, weights in enumerate(layers):
        for head in range(heads):
            ax = axes[layer][head]
            seen = weights[head].pow(0.4)  # a copy: small weights are the many: make them visible
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
    count = len(layers[0][0])
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
    save(figure, "trained_distances", dpi=64, folder=out)
