"""Make the network to train: a new one, or that of ``init=``, for fine-tuning.

``init=`` uses the weights, tokenizer and shape of a model. The configuration may add control tokens
or programs to its vocabulary, features, and dropout. Before training, the extended model computes
the same as the original, except for the small probability of new ids.
"""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
import torch
from torch import nn

from musictx.attention.positions.coordinates import token_coordinates
from musictx.bundle import Bundle
from musictx.config import TokenizerConfig, TrainConfig
from musictx.config.position import plain
from musictx.errors import ConfigError
from musictx.model.features import kind_of, with_tokens
from musictx.model.transformer import MusicTransformer
from musictx.tokens.build import build
from musictx.tokens.tokenizer import Tokenizer

#: Options of the model that add parameters to each layer.
SWITCHES = ("gates", "first_values")


def build_model(config: TrainConfig, tokenizer: Tokenizer) -> MusicTransformer:
    """Make a model for ``tokenizer`` with weights drawn by ``config.seed``.

    Raises ``ConfigError`` if the tokens lack what the position scheme or a feature requires.
    """
    shape = {f.name: getattr(config.model, f.name) for f in fields(config.model)}
    shape["features"] = with_tokens(config.model.features, tokenizer)
    position = plain(config.position)
    if position["name"] == "two_d":
        position["coordinates"] = token_coordinates(tokenizer)
    torch.manual_seed(config.seed)
    return MusicTransformer(tokenizer.size, position=position, group=tokenizer.group, **shape)


def model_from_init(
    loaded: Bundle, config: TrainConfig
) -> tuple[Tokenizer, MusicTransformer, list[str]]:
    """The tokenizer and the model to train, and a list of what was added to those of ``loaded``.

    Raises ``ConfigError`` for control tokens that this kind of tokenizer cannot have.
    """
    tokenizer = extended(loaded.tokenizer, config.tokenizer)
    old = loaded.model.config
    features = with_tokens(config.model.features, tokenizer)
    further = [feature for feature in features if old.feature(feature["name"]) is None]
    kept = [options | kind_of(options["name"]).of_tokens(tokenizer) for options in old.features]
    position = dict(old.position)
    if "coordinates" in position:
        position["coordinates"] = token_coordinates(tokenizer)
    larger = replace(
        old,
        vocab_size=tokenizer.size,
        position=position,
        dropout=old.dropout if config.model.dropout is None else config.model.dropout,
        features=(*kept, *further),
        gates=old.gates or config.model.gates,
        first_values=old.first_values or config.model.first_values,
    )
    added = [kind for kind in tokenizer.kinds if kind not in loaded.tokenizer.kinds]
    added += [feature["name"] for feature in further]
    added += [name for name in SWITCHES if getattr(larger, name) != getattr(old, name)]
    if larger.dropout != old.dropout:
        added.append(f"dropout {larger.dropout:g}")
    if not added:
        return tokenizer, loaded.model.requires_grad_(True).train(), []
    torch.manual_seed(config.seed)
    model = MusicTransformer(**larger.plain())
    model.load_state_dict(widened(model, loaded.model, rows(loaded.tokenizer, tokenizer)))
    return tokenizer, model.train(), added


def freeze(model: MusicTransformer, layers: int) -> None:
    """Keep the first ``layers`` layers of ``model`` as they are, with what the position scheme has
    learned for each of them; embeddings, features and all else learn.

    Raises ``ConfigError`` where the model has fewer.
    """
    if layers > len(model.blocks):
        raise ConfigError(
            f"freeze={layers}: expected at most {len(model.blocks)}, the model's layers"
        )
    for block in model.blocks[:layers]:
        block.requires_grad_(False)
    if not model.config.position.get("shared"):  # a table for each layer, or for the first
        for module in model.position.modules():
            for parameter in [*module][:layers] if isinstance(module, nn.ParameterList) else ():
                parameter.requires_grad_(False)


def extended(tokenizer: Tokenizer, options: TokenizerConfig) -> Tokenizer:
    """Add the control tokens and programs of ``options`` to ``tokenizer``."""
    config = tokenizer.to_config()
    if options.controls and tokenizer.name not in ("performance", "notes"):
        raise ConfigError(
            f"tokenizer.controls=true: {tokenizer.name}, the tokens of the model of init=, have no "
            "controls; start from performance tokens or notes, such as init=piano or init=song"
        )
    if tokenizer.name in ("performance", "notes"):
        config["controls"] = options.controls or config.get("controls", False)
    if tokenizer.name == "performance" and options.tracks == "programs":
        config["tracks"] = options.tracks
    return build(**config)


def rows(old: Tokenizer, new: Tokenizer) -> np.ndarray:
    """(ids of ``old``,) the id of ``new`` with the same kind and value."""
    ids = np.empty(old.size, np.int64)
    for number, kind in enumerate(old.kinds):
        of_old = np.flatnonzero(old.kind_of == number)
        ids[of_old] = np.flatnonzero(new.kind_of == new.kinds.index(kind))
    return ids


def widened(
    model: MusicTransformer, smaller: MusicTransformer, ids: np.ndarray
) -> dict[str, torch.Tensor]:
    """The state of ``model``, an extension of ``smaller``, with the weights of ``smaller``.

    ``ids`` is the result of :func:`rows`. Parameters whose shape differs have a row for each id;
    the rows of new ids keep their initial values. New parameters are set to zero, except one factor
    of each product of two, which could not learn otherwise.
    """
    products = {f"{feature.name}.{p}" for feature in model.features for p in feature.products}
    old_state, state = smaller.state_dict(), model.state_dict()
    for name, tensor in state.items():
        if name in old_state and tensor.shape != old_state[name].shape:
            tensor[torch.from_numpy(ids)] = old_state[name]
        elif name in old_state:
            tensor.copy_(old_state[name])
        elif name not in products:
            tensor.zero_()
    return state
