"""``TrainConfig`` and a tokenizer -> the network that is to be trained."""

from __future__ import annotations

from typing import Any

import torch

from musictx.config import ModelConfig, TrainConfig
from musictx.config.position import plain
from musictx.errors import ConfigError
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
    "tied",
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
        tokenizer.size, position=position, **arguments, **features(config.model, tokenizer)
    )


def features(model: ModelConfig, tokenizer: Tokenizer) -> dict[str, Any]:
    """The arguments of ``MusicTransformer`` that say what of the ids so far the network is told."""
    found: dict[str, Any] = {}
    for option in ("input_intervals", "output_intervals"):
        if getattr(model, option):
            found["intervals"] = {
                "inputs": model.input_intervals,
                "outputs": model.output_intervals,
                "dropout": model.interval_dropout,
                "pitches": token_coordinates(tokenizer, f"model.{option}")["pitches"],
            }
    if model.note_ages:
        found["ages"] = {"voices": _grid(tokenizer, "note_ages")["voices"]}
    if model.repeats:
        grid = _grid(tokenizer, "repeats")
        found["repeats"] = {
            "pitches": grid["pitches"],
            "voices": grid["voices"],
            "dropout": model.repeat_dropout,
        }
    if model.counterpoint:
        grid = _grid(tokenizer, "counterpoint")
        found["counterpoint"] = {"pitches": grid["pitches"], "voices": grid["voices"]}
    for option in ("token_noise", "hidden_notes"):
        if getattr(model, option):
            found["token_noise"] = {
                "share": model.token_noise,
                "hidden": model.hidden_notes,
                "pitches": _grid(tokenizer, option)["pitches"],
            }
    if model.sounding:
        events = tokenizer.sounding()
        if events is None:
            raise ConfigError(
                "model.sounding=true: expected tokenizer=performance, whose notes start and end, "
                f"not {tokenizer.name}"
            )
        found["sounding"] = events | {
            "recent": model.sounding_recent,
            "chords": model.sounding_intervals,
        }
    if model.conditions:
        described = tokenizer.conditions()
        if described is None:
            raise ConfigError(
                "model.conditions=true: expected tokenizer=performance with "
                "tokenizer.controls=true, whose control tokens say what is asked"
            )
        found["conditions"] = described
    return found


def _grid(tokenizer: Tokenizer, option: str) -> dict[str, Any]:
    found = tokenizer.coordinates()
    if found is None or found["kind"] != "grid":
        raise ConfigError(
            f"model.{option}: expected tokenizer=chorale, whose voices take turns, not "
            f"{tokenizer.name}"
        )
    return found
