"""Make the network to train: a new one, or a model to fine-tune (``init=``).

``init=`` uses the weights, tokenizer and shape of a model. The configuration may change its
dropout, and add features and, to its vocabulary, control tokens or programs. Before training, the
extended model computes the same as the original, except that new ids have a small probability.
"""

from __future__ import annotations

from dataclasses import asdict

import numpy as np
import torch
from torch import nn

from musictx.attention.positions.added import AddedPositions
from musictx.attention.positions.base import PositionScheme
from musictx.bundle import Bundle
from musictx.config import TokenizerConfig, TrainConfig
from musictx.errors import ConfigError
from musictx.model.config import NetworkConfig, complete_arguments
from musictx.model.features import complete_features, user_options
from musictx.model.transformer import MusicTransformer
from musictx.tokens.build import build
from musictx.tokens.tokenizer import Tokenizer
from musictx.tokens.vocab import Vocabulary

#: Options of the model (true or false) that add parameters to its layers.
SWITCHES = ("gates", "first_values")


def build_model(config: TrainConfig, tokenizer: Tokenizer) -> MusicTransformer:
    """Make a model for ``tokenizer`` with weights drawn by ``config.seed``.

    Raises ``ConfigError`` if the tokens lack what the position scheme or a feature requires.
    """
    options = asdict(config.model) | {"position": config.position, "group": tokenizer.group}
    arguments = complete_arguments(options, tokenizer)
    torch.manual_seed(config.seed)
    return MusicTransformer(tokenizer.vocabulary.size, **arguments)


def model_from_init(
    loaded: Bundle, config: TrainConfig
) -> tuple[Tokenizer, MusicTransformer, list[str]]:
    """Return the tokenizer and the model to train, and the names of what ``config`` added to them.

    Raises ``ConfigError`` if control tokens are added to a tokenizer that cannot have them.
    """
    tokenizer = extend_tokenizer(loaded.tokenizer, config.tokenizer)
    old = loaded.model.config
    features = complete_features(config.model.features, tokenizer)
    added_features = [feature for feature in features if old.feature(feature["name"]) is None]
    arguments = old.user_options()
    arguments |= {
        "vocab_size": tokenizer.vocabulary.size,
        "dropout": old.dropout if config.model.dropout is None else config.model.dropout,
        "features": [*arguments.get("features", ()), *user_options(added_features)],
        **{name: getattr(old, name) or getattr(config.model, name) for name in SWITCHES},
    }
    extended = NetworkConfig(**complete_arguments(arguments, tokenizer))
    kinds, old_kinds = tokenizer.vocabulary.kinds, loaded.tokenizer.vocabulary.kinds
    added = [kind for kind in kinds if kind not in old_kinds]
    added += [feature["name"] for feature in added_features]
    added += [name for name in SWITCHES if getattr(extended, name) != getattr(old, name)]
    if extended.dropout != old.dropout:
        added.append(f"dropout {extended.dropout:g}")
    if not added:
        return tokenizer, loaded.model.requires_grad_(True).train(), []
    torch.manual_seed(config.seed)
    model = MusicTransformer(**extended.plain())
    ids = new_ids(loaded.tokenizer.vocabulary, tokenizer.vocabulary)
    model.load_state_dict(extended_state(model, loaded.model, ids))
    return tokenizer, model.train(), added


def freeze(model: MusicTransformer, layers: int) -> None:
    """Freeze the first ``layers`` layers of ``model`` and the parameters of the position scheme
    that these layers use, those that all layers share included. All other parameters, such as
    embeddings, are trained.

    Raises ``ConfigError`` if the model has fewer layers.
    """
    if layers > len(model.blocks):
        raise ConfigError(
            f"freeze={layers}: expected at most {len(model.blocks)}, the model's layers"
        )
    for block in model.blocks[:layers]:
        block.requires_grad_(False)
    scheme = type(model.position)
    if (scheme.terms, scheme.rotate) != (PositionScheme.terms, PositionScheme.rotate):
        _freeze_position(model.position, layers)  # otherwise its parameters are embeddings


def _freeze_position(module: nn.Module, layers: int) -> None:
    """Freeze the parameters of ``module``, except entries from ``layers`` on of its lists: these
    have an entry for each layer, or for each of the first layers."""
    for parameter in module.parameters(recurse=False):
        parameter.requires_grad_(False)
    for child in module.children():
        if isinstance(child, nn.ParameterList | nn.ModuleList):
            for entry in [*child][:layers]:
                entry.requires_grad_(False)
        elif not isinstance(child, AddedPositions):  # it adds to the embeddings
            _freeze_position(child, layers)


def extend_tokenizer(tokenizer: Tokenizer, options: TokenizerConfig) -> Tokenizer:
    """Return ``tokenizer`` with the control tokens and programs that ``options`` add. Raises
    ``ConfigError`` if it cannot have control tokens."""
    config = tokenizer.to_config()
    if options.controls:
        config["controls"] = True
    if options.tracks == "programs" and "program" not in tokenizer.vocabulary.kinds:
        config["tracks"] = options.tracks
    return build(**config)


def new_ids(old: Vocabulary, new: Vocabulary) -> np.ndarray:
    """Return the id in ``new`` of each id of ``old``: (old.size,) int64."""
    ids = np.empty(old.size, np.int64)
    for kind in old.kinds:
        ids[slice(*old.range(kind))] = np.arange(*new.range(kind))
    return ids


def extended_state(
    model: MusicTransformer, smaller: MusicTransformer, ids: np.ndarray
) -> dict[str, torch.Tensor]:
    """Return the state of ``model``, an extension of ``smaller``, with the weights of ``smaller``.

    ``ids`` is the result of :func:`new_ids`. Parameters whose shape differs have a row for each id;
    the rows of new ids keep their initial values. New parameters are set to zero, except one factor
    of each product of two: if both were zero, both gradients would be zero.
    """
    nonzero = {f"{f.name}.{name}" for f in model.features for name in f.random_when_added}
    old_state, state = smaller.state_dict(), model.state_dict()
    for name, tensor in state.items():
        if name in old_state and tensor.shape != old_state[name].shape:
            tensor[torch.from_numpy(ids)] = old_state[name]
        elif name in old_state:
            tensor.copy_(old_state[name])
        elif name not in nonzero:
            tensor.zero_()
    return state
