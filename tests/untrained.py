"""Untrained networks and model folders: random logits, and the grammar of their tokens."""

from pathlib import Path
from typing import Any

import torch

from musictx import bundle
from musictx.model.transformer import MusicTransformer
from musictx.tokens.build import build

#: Tokens of a small vocabulary.
SMALL = {"name": "performance", "low": 48, "high": 84, "velocity_bins": 4}


def network(ids: int, *, seed: int = 0, std: float | None = None, **shape) -> MusicTransformer:
    """Return a network of one layer, or of ``shape``; ``std`` is that of all parameters."""
    torch.manual_seed(seed)
    sizes = {"layers": 1, "width": 8, "heads": 2, "feedforward": 16, "context": 32} | shape
    model = MusicTransformer(ids, **sizes).eval()
    return at_random(model, seed=seed, std=std) if std else model


def at_random(module: Any, *, seed: int = 0, std: float = 1.0) -> Any:
    """Return the module with all parameters drawn anew, of which some begin at zero."""
    torch.manual_seed(seed)
    for parameter in module.parameters():
        torch.nn.init.normal_(parameter, std=std)
    return module


def spread(module: Any, by: float) -> Any:
    """Return the module with parameters multiplied and noise added, so that its logits depend on
    everything and are not nearly equal."""
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.mul_(by).add_(0.05 * torch.randn_like(parameter))
    return module


def saved(folder: Path, card: dict | None = None, *, tokens: dict = SMALL, **shape) -> Path:
    """Save a :func:`network` as a model folder."""
    tokenizer = build(**tokens)
    return bundle.save(folder, network(tokenizer.vocabulary.size, **shape), tokenizer, card or {})


def models(folder: Path) -> dict[str, Path]:
    """Save a small model of each kind, by the names of the included models."""
    piano = {"name": "performance", "low": 30, "high": 96, "controls": True, "velocity_bins": 8}
    corpus = {"programs": {"melody": 73, "bridge": 48, "piano": 0}, "tasks": {"melody": "73"}}
    programs, plain = piano | {"tracks": "programs"}, piano | {"controls": False}
    return {
        "piano": saved(folder / "piano", tokens=piano, context=160),
        "pop": saved(folder / "pop", {"corpus": corpus}, tokens=programs, context=160),
        "chorale": saved(folder / "chorale", tokens={"name": "chorale"}, context=400),
        "plain": saved(folder / "plain", tokens=plain, context=160),
    }
