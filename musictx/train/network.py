"""``TrainConfig`` and a tokenizer -> the network that is to be trained."""

from __future__ import annotations

import dataclasses
from typing import Any

import torch

from musictx.config import ModelConfig, TrainConfig
from musictx.config.position import plain
from musictx.model.transformer import MusicTransformer
from musictx.tokens.coordinates import token_coordinates
from musictx.tokens.vocab import Tokenizer


def shape(model: ModelConfig) -> dict[str, Any]:
    """What of ``model`` are arguments of ``MusicTransformer`` by the same names, whatever the
    tokens."""
    given = dataclasses.asdict(model)
    for name in ("name", "input_intervals", "output_intervals", "interval_dropout"):
        del given[name]
    return given


def build_model(config: TrainConfig, tokenizer: Tokenizer) -> MusicTransformer:
    """A new model for the tokens of ``tokenizer``, its weights drawn from ``config.seed``.

    Raises ``ConfigError`` where the tokens do not have what ``position=two_d`` or the interval
    embeddings measure.
    """
    arguments = shape(config.model)
    model = config.model
    for option in ("input_intervals", "output_intervals"):
        if getattr(model, option):
            arguments["intervals"] = {
                "inputs": model.input_intervals,
                "outputs": model.output_intervals,
                "dropout": model.interval_dropout,
                "pitches": token_coordinates(tokenizer, f"model.{option}")["pitches"],
            }
    position = plain(config.position)
    if position["name"] == "two_d":
        position["coordinates"] = token_coordinates(tokenizer)
    torch.manual_seed(config.seed)
    return MusicTransformer(tokenizer.size, position=position, **arguments)
