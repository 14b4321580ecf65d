"""The Music Transformer: a decoder-only, pre-norm transformer with a position scheme of choice."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from musictx import registry
from musictx.attention import positions as schemes
from musictx.attention.api import why_not
from musictx.attention.terms import PLACE, Positions, Span, as_tensor
from musictx.errors import ConfigError, reason
from musictx.model.block import Block, ForwardPass
from musictx.model.cache import Cache, KVCache
from musictx.model.config import NetworkConfig
from musictx.model.features import Feature, feature_class


class MusicTransformer(nn.Module):
    """Token ids -> logits of the next token.

    The arguments are those of :class:`~musictx.model.config.NetworkConfig`, the type of ``config``:
    ``MusicTransformer(**model.config.plain())`` is an equal network. ``state_dict()`` contains all
    learned weights. Each feature is an attribute of the model by its name. ::

        shape = {"layers": 2, "width": 64, "heads": 2, "feedforward": 128, "context": 128}
        model = MusicTransformer(vocab_size=392, **shape)
        logits = model(torch.tensor([[1, 20, 30]]))  # (1, 3, 392)
    """

    def __init__(self, vocab_size: int, **shape: Any) -> None:
        super().__init__()
        self.config = config = NetworkConfig(vocab_size, **shape)
        self.context = config.context
        self.embedding = nn.Embedding(config.vocab_size, config.width)
        self.position = schemes.build(
            config.position,
            layers=config.layers,
            heads=config.heads,
            head_dim=config.head_dim,
            width=config.width,
            context=config.steps,
        )
        for layer in range(config.layers if config.attention != "auto" else 0):
            if problem := why_not(config.attention, self.position.terms(layer, reach=7)):
                raise ConfigError(
                    f"model.attention={config.attention}: {problem}; "
                    f"position={config.position['name']} needs another, such as auto"
                )
        self.dropout = nn.Dropout(config.dropout)
        self.blocks = nn.ModuleList(Block(config, layer) for layer in range(config.layers))
        self.norm = nn.LayerNorm(config.width)
        #: Runs the layers once for each group of ids; None: once for each id.
        self.cascade: Any = None
        if config.group > 1:
            if "cascade" not in registry.GROUPS:
                problem = registry.GROUPS.missing_message("cascade")
                raise ConfigError(f"model.group={config.group}: {problem}")
            self.cascade = registry.load(registry.GROUPS["cascade"])(config.group, config.width)
        self.output = (
            None if config.tied else nn.Linear(config.width, config.vocab_size, bias=False)
        )
        self._initialise()
        self._features = [self._add_feature(options) for options in config.features]

    def _add_feature(self, options: dict[str, Any]) -> str:
        """Build a feature, register it under its name, and return the name."""
        arguments = dict(options)
        feature_type = feature_class(arguments.pop("name"))
        try:
            name = feature_type.name
            if hasattr(self, name):
                problem = "is listed twice, or is the name of another module"
                raise ConfigError(f"model.features: {name} {problem}")
            for method in ("disturb", "add_to_output"):
                is_own = getattr(feature_type, method) is not getattr(Feature, method)
                if is_own and self.config.group > 1:
                    problem = f"has {method}, which networks with groups of ids do not call"
                    raise ConfigError(f"model.features: {name} {problem}")
            feature = feature_type(self.config.vocab_size, self.config.width, **arguments)
        except (AttributeError, TypeError) as error:  # in a user's own class
            message = f"model.features={options['name']}: cannot be created ({reason(error)})"
            raise ConfigError(message) from error
        self.add_module(name, feature)
        return name

    @property
    def features(self) -> list[Feature]:
        """The features, in the order in which they act."""
        return [cast(Feature, self.get_submodule(name)) for name in self._features]

    def _initialise(self) -> None:
        """Draw weights with std 0.5 / sqrt(width) (0.02 at width 512), and set biases to 0.

        The 2 * layers matrices whose outputs are added to the residual stream are divided by
        sqrt(2 * layers), so that its variance does not grow with depth (Radford et al. 2019).

        Embeddings are not scaled up by sqrt(width) as in Vaswani et al. (2017): they would drown
        out the branches, and with a tied output an untrained model would predict that each token
        is repeated, at a loss far above that of a uniform guess.
        """
        std = 0.5 * self.config.width**-0.5
        for module in self.modules():
            if isinstance(module, nn.Linear | nn.Embedding):
                nn.init.normal_(module.weight, std=std)
                if isinstance(module, nn.Linear) and module.bias is not None:
                    nn.init.zeros_(module.bias)
        for block in self.blocks:
            assert isinstance(block, Block)
            for branch in (block.attention.out, block.feedforward[-1]):
                assert isinstance(branch, nn.Linear)
                nn.init.normal_(branch.weight, std=std / math.sqrt(2 * len(self.blocks)))
        if self.position.added is not None:
            self.position.added.initialise()

    def new_cache(self, rows: int, capacity: int) -> Cache:
        """Make an empty cache for ``rows`` sequences of up to ``capacity`` tokens."""
        weight = next(self.parameters())
        layer_cache = KVCache(
            layers=len(self.blocks),
            rows=rows,
            heads=self.config.heads,
            capacity=capacity if self.cascade is None else capacity // self.config.group + 1,
            head_dim=self.config.head_dim,
            coordinates=self.position.further,
            dtype=weight.dtype,
            device=weight.device,
        )
        if self.cascade is None:
            return layer_cache
        return cast(Cache, self.cascade.new_cache(layer_cache))

    def forward(
        self,
        ids: Tensor,
        *,
        positions: Positions | None = None,
        piece_ids: Tensor | None = None,
        cache: Cache | None = None,
    ) -> Tensor:
        """Compute the logits (B, T, vocab), in float32, of the token after each of ``ids`` (B, T)
        int64.

        positions  positions of the tokens: a Span or an int64 tensor (T,) or (B, T). None:
                   consecutive, from 0 or after the tokens of the cache; what depends on the
                   position in a piece counts from 0 again in each piece. Must be None for networks
                   with ``group`` > 1
        piece_ids  (B, T) int64, to pack several pieces into a row, each a run of equal piece ids.
                   Tokens attend only to their own piece. Padding has -1, like a separate piece
        cache      keys and values of earlier tokens, to which those of ``ids`` are appended.
                   Requires that ``positions`` and ``piece_ids`` are None

        Raises ``ValueError`` for wrong shapes and for arguments that exclude each other.
        """
        x, states = self._run(ids, positions, piece_ids, cache)
        if self.output is None:
            logits = F.linear(x, self.embedding.weight).float()
        else:
            logits = self.output(x).float()
        for feature, state in zip(self.features, states):
            logits = feature.score(logits, x, state)
        return logits

    def hidden(
        self,
        ids: Tensor,
        *,
        positions: Positions | None = None,
        piece_ids: Tensor | None = None,
        cache: Cache | None = None,
    ) -> Tensor:
        """Compute the input of the output matrix (B, T, width): an embedding of the music up to
        each token. The arguments are those of :meth:`forward`."""
        return self._run(ids, positions, piece_ids, cache)[0]

    def _run(
        self,
        ids: Tensor,
        positions: Positions | None,
        piece_ids: Tensor | None,
        cache: Cache | None,
    ) -> tuple[Tensor, list[Any]]:
        """Compute the normed output of the layers (B, T, width) and the state of each feature."""
        self._check(ids, positions, piece_ids, cache)
        if self.cascade is not None:
            grouped: tuple[Tensor, list[Any]] = self.cascade.run(self, ids, piece_ids, cache)
            return grouped
        assert cache is None or isinstance(cache, KVCache)
        features = self.features
        # Read them before the cache appends ids.
        previous_ids = [_previous_ids(feature, ids, cache) for feature in features]
        original_ids = ids
        for feature in features:
            ids = feature.disturb(ids)
        forward_pass = self.new_pass(ids, positions, piece_ids, cache)
        piece_positions = forward_pass.query_positions[PLACE]
        x = self.position.add_to_embeddings(self.embedding(ids), piece_positions)
        piece_positions = as_tensor(piece_positions, ids.device).expand_as(ids)
        states = []
        for feature, previous in zip(features, previous_ids):
            feature_ids = ids if feature.reads_disturbed else original_ids
            states.append(feature.read(feature_ids, previous, piece_positions))
            x = feature.embed(x, states[-1])
        x = self.run_layers(x, forward_pass)
        for feature, state in zip(features, states):
            x = feature.add_to_output(x, state)
        return self.norm(x), states

    def run_layers(self, x: Tensor, forward_pass: ForwardPass) -> Tensor:
        """Compute the output of the last layer, before the norm, for ``x`` (B, T, width)."""
        x = self.dropout(x)
        for block in self.blocks:
            x = block(x, forward_pass)
        return x

    def new_pass(
        self,
        ids: Tensor,
        positions: Positions | None,
        piece_ids: Tensor | None,
        cache: KVCache | None,
    ) -> ForwardPass:
        """Begin a forward pass over ``ids``: compute their coordinates and those of all keys, and
        add ``ids`` to the cache. The arguments are those of :meth:`forward`."""
        count = ids.shape[1]
        if cache is not None:
            index, key_index = cache.spans(count)
        else:
            index = key_index = Span(0, count) if positions is None else positions
        piece_positions = index
        if piece_ids is not None and positions is None:
            piece_positions = positions_in_piece(piece_ids)
        as_query = as_key = ids[:, None][:, :0]  # no further coordinates: (rows, 0, count)
        if self.position.further:
            last = None if cache is None else cache.last_coordinates()
            as_query, as_key = self.position.coordinates(ids, piece_positions, last)
        if cache is not None:
            as_key = cache.add_ids(ids, as_key)
        # Not unbind(1): torch.export.load fails if it returns no tensors.
        further_queries = (as_query[:, n] for n in range(as_query.shape[1]))
        further_keys = (as_key[:, n] for n in range(as_key.shape[1]))
        return ForwardPass(
            self.position,
            (index, piece_positions, *further_queries),
            (key_index, piece_positions if cache is None else key_index, *further_keys),
            piece_ids,
            _reach(key_index),
            cache,
        )

    def _check(
        self,
        ids: Tensor,
        positions: Positions | None,
        piece_ids: Tensor | None,
        cache: Cache | None,
    ) -> None:
        if ids.dim() != 2 or ids.shape[1] == 0:
            raise ValueError(f"ids have shape {tuple(ids.shape)}, expected (rows, tokens >= 1)")
        if positions is not None and self.cascade is not None:
            raise ValueError(
                f"positions: leave them out; a network with group={self.config.group} counts its "
                "groups itself"
            )
        if positions is not None:
            shape = tuple(as_tensor(positions, ids.device).shape)
            if shape not in ((1, ids.shape[1]), tuple(ids.shape)):
                raise ValueError(f"positions have shape {shape}, expected (1, {ids.shape[1]})")
        if piece_ids is not None and piece_ids.shape != ids.shape:
            raise ValueError(
                f"piece_ids have shape {tuple(piece_ids.shape)}, expected {tuple(ids.shape)}"
            )
        if cache is not None:
            if piece_ids is not None or positions is not None:
                raise ValueError(
                    "cache: leave out positions and piece_ids, which follow from the cache"
                )
            layer_cache: Any = getattr(cache, "layer_cache", cache)  # a GroupCache contains one
            layers = layer_cache.layers
            if cache.rows != ids.shape[0] or layers != len(self.blocks):
                raise ValueError(
                    f"cache has {cache.rows} rows and {layers} layers, expected {ids.shape[0]} and "
                    f"{len(self.blocks)}"
                )


def _previous_ids(feature: Feature, ids: Tensor, cache: KVCache | None) -> Tensor:
    """Return the ids before ``ids`` that ``feature`` reads: (B, N)."""
    if cache is None:
        return ids[:, :0]
    count = cache.capacity if feature.lookback is None else feature.lookback
    return cache.last_ids(count).clone()


def _reach(keys: Positions) -> int:
    """Return the greatest distance between two of the keys."""
    if isinstance(keys, Span):
        return max(len(keys) - 1, 0)
    return int((keys.amax(-1) - keys.amin(-1)).max())


def positions_in_piece(piece_ids: Tensor) -> Tensor:
    """Return positions (B, T) that count from 0 again wherever the piece id changes in a row."""
    index = torch.arange(piece_ids.shape[1], device=piece_ids.device).expand_as(piece_ids)
    is_first = torch.ones_like(piece_ids, dtype=torch.bool)
    is_first[:, 1:] = piece_ids[:, 1:] != piece_ids[:, :-1]
    return index - torch.where(is_first, index, 0).cummax(1).values


@contextmanager
def evaluating(model: MusicTransformer) -> Iterator[None]:
    """Set evaluation mode within the ``with`` block, and restore the previous mode at its end."""
    training = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(training)
