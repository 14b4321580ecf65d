"""Model folders that were never trained: their opinions are random, their grammar is not."""

from pathlib import Path

import torch

from musictx import bundle
from musictx.model.transformer import MusicTransformer
from musictx.tokens.build import build

#: Tokens that make a small model.
SMALL = {"name": "performance", "low": 48, "high": 84, "velocity_bins": 4}


def saved(folder: Path, card: dict | None = None, *, tokens: dict = SMALL, **shape) -> Path:
    """A model folder with a network of one layer, unless ``shape`` says otherwise."""
    tokenizer = build(**tokens)
    torch.manual_seed(0)
    sizes = {"layers": 1, "width": 8, "heads": 2, "feedforward": 16, "context": 32} | shape
    return bundle.save(folder, MusicTransformer(tokenizer.size, **sizes), tokenizer, card or {})
