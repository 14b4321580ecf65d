"""The pictures of what a trained model attends to."""

from __future__ import annotations

from typing import Any

import torch
from matplotlib import pyplot as plt

from musictx import bundle
from musictx.attention import reference
from musictx.attention.setting import Setting
from musictx.midi import read
from musictx.model import block
from musictx.sampling.engine import generate
from musictx.tokens.vocab import BOS
from scripts.docs.drawing import NOTHING, save


def trained(folder: str, midi: str | None, tokens: int) -> None:
    """Where each head of each layer looks, averaged by distance, and one picture of weights."""
    loaded = bundle.load(folder)
    model, tokenizer = loaded.model, loaded.tokenizer
    if midi is not None:
        ids = [BOS, *tokenizer.encode(read(midi)).tolist()][:tokens]
    else:
        begin = torch.tensor([BOS])
        drawn = generate(model, begin, max_tokens=tokens - 1, seeds=[0])
        ids = [BOS, *(int(one[0]) for one in drawn)]
    layers: list[torch.Tensor] = []
    right = block.attend

    def watched(q: Any, k: Any, v: Any, terms: Any, **more: Any) -> Any:
        where = Setting(more["query_positions"], more["key_positions"])
        layers.append(reference.attention_weights(q, k, terms, where)[0].detach())
        return right(q, k, v, terms, **more)

    block.attend = watched
    try:
        with torch.no_grad():
            model(torch.tensor([ids]))
    finally:
        block.attend = right
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
