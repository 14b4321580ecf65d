"""``TrainConfig`` and a tokenizer -> the network that is to be trained."""

from __future__ import annotations

import dataclasses
from typing import Any

import torch

from musictx.config import ModelConfig, TrainConfig
from musictx.model.transformer import MusicTransformer
from musictx.tokens.coordinates import token_coordinates
from musictx.tokens.vocab import Tokenizer


def shape(model: ModelConfig) -> dict[str, Any]:
    """What of ``model`` are arguments of ``MusicTransformer`` by the same names, whatever the
    tokens."""
    given = dataclasses.asdict(model)
    for name in ("name", "heard", "asked", "heard_dropout"):
        del given[name]
    return given


def build_model(config: TrainConfig, tokenizer: Tokenizer) -> MusicTransformer:
    """A new model for the tokens of ``tokenizer``, its weights drawn from ``config.seed``.

    Raises ``ConfigError`` where the tokens have not what ``position=two_d``, ``model.heard`` or
    ``model.asked`` measures.
    """
    arguments = shape(config.model)
    lags = {"heard": config.model.heard, "asked": config.model.asked}
    for option in (f"model.{name}" for name, given in lags.items() if given):
        pitches = token_coordinates(tokenizer, option)["pitches"]
        dropout = config.model.heard_dropout
        arguments["intervals"] = lags | {"dropout": dropout, "pitches": pitches}
    position = dataclasses.asdict(config.position)
    if config.position.name == "two_d":
        position["coordinates"] = token_coordinates(tokenizer)
    torch.manual_seed(config.seed)
    return MusicTransformer(tokenizer.size, position=position, **arguments)
