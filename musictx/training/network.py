"""``TrainConfig`` and a tokenizer -> the network that is to be trained."""

from __future__ import annotations

import torch

from musictx.config import TrainConfig
from musictx.config.position import plain
from musictx.model.features import with_tokens
from musictx.model.transformer import MusicTransformer
from musictx.tokens.coordinates import token_coordinates
from musictx.tokens.vocab import Tokenizer

#: Options that are arguments of ``MusicTransformer`` by the same names, whatever the tokens.
SHAPE = (
    "layers",
    "width",
    "heads",
    "feedforward",
    "context",
    "dropout",
    "attention",
    "gates",
    "first_values",
)


def build_model(config: TrainConfig, tokenizer: Tokenizer) -> MusicTransformer:
    """A new model for the tokens of ``tokenizer``, its weights drawn from ``config.seed``.

    Raises ``ConfigError`` where the tokens do not have what the position scheme or a feature of the
    model measures.
    """
    arguments = {name: getattr(config.model, name) for name in SHAPE}
    position = plain(config.position)
    if position["name"] == "two_d":
        position["coordinates"] = token_coordinates(tokenizer)
    torch.manual_seed(config.seed)
    return MusicTransformer(
        tokenizer.size,
        position=position,
        features=with_tokens(config.model.features, tokenizer),
        group=tokenizer.group,
        **arguments,
    )
