"""Fine-tuning from a model that knew less: other kinds of tokens, further features.

``init=`` takes over a model's weights, tokenizer and shape. What the configuration asks for beyond
them is added here: control tokens or programs to its vocabulary, features to its network. Until it
learns better the larger model computes what the smaller one did, but for the little that new ids
take from the probability of the old ones.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from musictx.bundle import Bundle
from musictx.config import TokenizerConfig, TrainConfig
from musictx.errors import ConfigError
from musictx.model.transformer import MusicTransformer
from musictx.tokens.build import build
from musictx.tokens.vocab import Tokenizer
from musictx.train.network import features

#: Parameters with a row for each id.
BY_ID = ("embedding.weight", "output.weight")
#: New parameters begin at zero, but for those that have an effect only times another new one.
PRODUCTS = ("interval_maps",)


def take_over(loaded: Bundle, config: TrainConfig) -> tuple[Tokenizer, MusicTransformer, list[str]]:
    """The tokenizer and the model to train, and what was added to those of ``loaded``, in words.

    Raises ``ConfigError`` for tokens that this model's tokenizer does not have.
    """
    tokenizer = extended(loaded.tokenizer, config.tokenizer)
    old = loaded.model.config
    asked: dict[str, Any] = features(config.model, tokenizer)
    asked |= {name: True for name in ("gates", "first_values") if getattr(config.model, name)}
    further = {name: value for name, value in asked.items() if name not in old}
    added = [k for k in tokenizer.kinds if k not in loaded.tokenizer.kinds] + list(further)
    if not added:
        return tokenizer, loaded.model.requires_grad_(True).train(), []
    arguments = {**old, **further, "vocab_size": tokenizer.size}
    for name, described in (
        ("sounding", tokenizer.sounding()),
        ("conditions", tokenizer.conditions()),
    ):
        if name in old:
            arguments[name] = {**old[name], **(described or {})}
    if "coordinates" in old["position"]:
        described = tokenizer.coordinates()
        arguments["position"] = {**old["position"], "coordinates": described}
    torch.manual_seed(config.seed)
    model = MusicTransformer(**arguments)
    model.load_state_dict(widened(model, loaded.model, rows(loaded.tokenizer, tokenizer)))
    return tokenizer, model.train(), added


def extended(own: Tokenizer, asked: TokenizerConfig) -> Tokenizer:
    """``own`` with the control tokens and programs that are ``asked`` for beside what it has."""
    config = own.to_config()
    if asked.controls and own.name != "performance":
        raise ConfigError(
            f"tokenizer.controls=true: the model of init= writes {own.name} tokens, which have no "
            "control tokens; start from one of performance tokens, such as init=piano"
        )
    if own.name == "performance":
        config["controls"] = asked.controls or config.get("controls", False)
        if asked.tracks == "programs":
            config["tracks"] = asked.tracks
    return build(**config)


def rows(old: Tokenizer, new: Tokenizer) -> np.ndarray:
    """(ids of ``old``,) the id of ``new`` with the same kind and value."""
    found = np.empty(old.size, np.int64)
    for number, kind in enumerate(old.kinds):
        of_old = np.flatnonzero(old.kind_of == number)
        found[of_old] = np.flatnonzero(new.kind_of == new.kinds.index(kind))
    return found


def widened(
    model: MusicTransformer, smaller: MusicTransformer, ids: np.ndarray
) -> dict[str, torch.Tensor]:
    """The state of ``model`` with all that ``smaller`` has learnt; ``ids`` as :func:`rows` gives
    them. Rows of new ids stay as a new model's begin."""
    known, state = smaller.state_dict(), model.state_dict()
    for name, tensor in state.items():
        if name in BY_ID and name in known:
            tensor[torch.from_numpy(ids)] = known[name]
        elif name in known:
            tensor.copy_(known[name])
        elif not name.endswith(PRODUCTS):
            tensor.zero_()
    return state
