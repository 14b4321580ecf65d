"""``TrainConfig`` and a tokenizer -> the network that is to be trained."""

from __future__ import annotations

import dataclasses

import torch

from musictx.config import TrainConfig
from musictx.model.transformer import MusicTransformer
from musictx.tokens.coordinates import token_coordinates
from musictx.tokens.vocab import Tokenizer


def build_model(config: TrainConfig, tokenizer: Tokenizer) -> MusicTransformer:
    """A new model for the tokens of ``tokenizer``, its weights drawn from ``config.seed``.

    Raises ``ConfigError`` where the tokens have not what ``position=two_d``, ``model.heard`` or
    ``model.asked`` measures.
    """
    shape = dataclasses.asdict(config.model)
    del shape["name"]
    lags = {name: shape.pop(name) for name in ("heard", "asked")}
    dropout = shape.pop("heard_dropout")
    for option in (f"model.{name}" for name, given in lags.items() if given):
        pitches = token_coordinates(tokenizer, option)["pitches"]
        shape["intervals"] = lags | {"dropout": dropout, "pitches": pitches}
    position = dataclasses.asdict(config.position)
    if config.position.name == "two_d":
        position["coordinates"] = token_coordinates(tokenizer)
    torch.manual_seed(config.seed)
    return MusicTransformer(tokenizer.size, position=position, **shape)
