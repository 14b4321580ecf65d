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
from musictx.attention.terms import FURTHER, Positions, Span, as_tensor
from musictx.errors import ConfigError
from musictx.model.block import Block, Where
from musictx.model.cache import Cache, KVCache
from musictx.model.config import NetworkConfig
from musictx.model.features import Feature, kind_of


class MusicTransformer(nn.Module):
    """Token ids -> logits of the next token.

    The arguments are those of :class:`~musictx.model.config.NetworkConfig`, which ``config`` is:
    ``MusicTransformer(**model.config.plain())`` is an equal network. Everything learned is in
    ``state_dict()``. A feature is also an attribute of the model by its name, as in the names of
    its weights. ::

        shape = {"layers": 2, "width": 64, "heads": 2, "feedforward": 128, "context": 128}
        model = MusicTransformer(vocab_size=392, **shape)
        logits = model(torch.tensor([[1, 20, 30]]))  # (1, 3, 392)
    """

    def __init__(self, vocab_size: int, **shape: Any) -> None:
        super().__init__()
        self.config = config = NetworkConfig.read(vocab_size, **shape)
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
        self.check_attention(config.attention)
        self.dropout = nn.Dropout(config.dropout)
        self.blocks = nn.ModuleList(Block(config, layer) for layer in range(config.layers))
        self.norm = nn.LayerNorm(config.width)
        #: What takes a group of ids as one step of the layers.
        self.cascade = _cascade(config.group, config.width) if config.group > 1 else None
        self.output = (
            None if config.tied else nn.Linear(config.width, config.vocab_size, bias=False)
        )
        self._initialise()
        self._features = [self._add_feature(one) for one in self.config.features]

    def _add_feature(self, config: dict[str, Any]) -> str:
        """Build a feature and register it under its name, which is returned."""
        arguments = dict(config)
        kind = kind_of(arguments.pop("name"))
        if hasattr(self, kind.name):
            raise ConfigError(f"model.features: {kind.name} stands twice, or is no name for a part")
        feature = kind(self.config.vocab_size, self.config.width, **arguments)
        self.add_module(kind.name, feature)
        return kind.name

    @property
    def features(self) -> list[Feature]:
        """The features, in the order in which they are added."""
        return [cast(Feature, self.get_submodule(name)) for name in self._features]

    def check_attention(self, implementation: str) -> None:
        """``ConfigError`` with the reason if ``implementation`` cannot compute the scheme."""
        name = self.config.position["name"]
        for layer in range(self.config.layers if implementation != "auto" else 0):
            reason = why_not(implementation, self.position.terms(layer, reach=7))
            if reason:
                raise ConfigError(
                    f"model.attention={implementation}: {reason}; position={name} needs another, "
                    "such as auto"
                )

    def _initialise(self) -> None:
        """Weights of std 0.5 / sqrt(width) (0.02 at width 512), biases 0.

        The matrices that write to the residual stream are smaller by sqrt(2 * layers), the number
        of them, so that the stream's variance does not grow with depth (Radford et al. 2019).

        Embeddings are not scaled up by sqrt(width) as in Vaswani et al. (2017). Before a norm their
        size has no other effect than to drown out the branches, and with a tied output the model
        would begin by predicting each token once more: a loss far above the uniform guess.
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
        """An empty cache for ``rows`` sequences of up to ``capacity`` tokens."""
        if self.cascade is not None:
            steps = self._cache(rows, capacity // self.config.group + 1)
            return cast(Cache, self.cascade.new_cache(steps, capacity))
        return self._cache(rows, capacity)

    def _cache(self, rows: int, capacity: int) -> KVCache:
        weight = next(self.parameters())
        width, heads = self.config.width, self.config.heads
        return KVCache(
            layers=len(self.blocks),
            rows=rows,
            heads=heads,
            capacity=capacity,
            head_dim=width // heads,
            coordinates=self.position.further,
            dtype=weight.dtype,
            device=weight.device,
        )

    def forward(
        self,
        ids: Tensor,
        *,
        positions: Positions | None = None,
        piece_ids: Tensor | None = None,
        cache: Cache | None = None,
    ) -> Tensor:
        """Logits (B, T, vocab) in float32 of the token after each of ``ids`` (B, T) int64.

        positions  where the tokens stand: a Span or an int64 tensor (T,) or (B, T). None means
                   consecutive: after the tokens of the cache, or from 0, and, for schemes that
                   look at single positions, from 0 again in each new piece.
        piece_ids  (B, T) int64, runs of equal ids are pieces packed in a row; no token sees
                   another piece. Padding is -1, a separate piece.
        cache      keys and values of earlier tokens; those of ``ids`` are appended.

        Raises ``ValueError`` for shapes that do not fit and for combinations without a meaning.
        """
        x, seen = self._pass(ids, positions, piece_ids, cache)
        if self.output is None:
            logits = F.linear(x, self.embedding.weight).float()
        else:
            logits = self.output(x).float()
        for feature, its in zip(self.features, seen):
            logits = feature.score(logits, x, its)
        return logits

    def hidden(
        self,
        ids: Tensor,
        *,
        positions: Positions | None = None,
        piece_ids: Tensor | None = None,
        cache: Cache | None = None,
    ) -> Tensor:
        """What the output matrix reads, (B, T, width): embeddings of the music up to each token.

        Arguments as of :meth:`forward`.
        """
        return self._pass(ids, positions, piece_ids, cache)[0]

    def _pass(
        self,
        ids: Tensor,
        positions: Positions | None,
        piece_ids: Tensor | None,
        cache: Cache | None,
    ) -> tuple[Tensor, list[Any]]:
        """The normed output of the last layer (B, T, width), and what each feature has read."""
        if self.cascade is not None:
            grouped: tuple[Tensor, list[Any]] = self.cascade.run(self, ids, piece_ids, cache)
            return grouped
        assert cache is None or isinstance(cache, KVCache)
        self._check(ids, positions, piece_ids, cache)
        features = self.features
        # What precedes ids, before the cache appends them.
        earlier = [_earlier(feature, ids, cache) for feature in features]
        clean = ids
        for feature in features:
            ids = feature.disturb(ids)
        where = self.where(ids, positions, piece_ids, cache)
        places = where.queries[1]
        x = self.position.embed(self.embedding(ids), places)
        if self.position.added is not None:
            x = self.position.added(x, places)
        seen = []
        for feature, before in zip(features, earlier):
            place = as_tensor(places, ids.device).expand_as(ids)
            seen.append(feature.read(ids if feature.noisy else clean, before, place))
            x = feature.embed(x, seen[-1])
        x = self.through(x, where, cache)
        for feature, its in zip(features, seen):
            x = feature.finish(x, its)
        return self.norm(x), seen

    def through(self, x: Tensor, where: Where, cache: KVCache | None) -> Tensor:
        """``x`` (B, T, width) after the last layer."""
        x = self.dropout(x)
        first: list[Tensor] = []
        for layer, block in enumerate(self.blocks):
            x = block(x, self.position, layer, where, cache, first)
        return x

    def where(
        self,
        ids: Tensor,
        positions: Positions | None,
        piece_ids: Tensor | None,
        cache: KVCache | None,
    ) -> Where:
        """Where the tokens stand, and the keys that they look at."""
        count = ids.shape[1]
        order: Positions
        over: Positions
        if cache is not None:
            order, over = cache.where(count)
        else:
            order = over = Span(0, count) if positions is None else positions
        places = order
        if piece_ids is not None and positions is None:
            places = positions_in_piece(piece_ids)
        queries: tuple[Positions, ...] = (order, places)
        keys: tuple[Positions, ...] = (over, places if cache is None else over)
        as_query = as_key = ids[:, None][:, :0]  # no coordinates (rows, 0, count)
        if self.position.further:
            last = None if cache is None else cache.last()
            as_query, as_key = self.position.coordinates(ids, places, last)
        if cache is not None:
            as_key = cache.note(ids, as_key)
        assert len(queries) == FURTHER
        # Not unbind(1): torch.export.load knows none that gives nothing.
        queries = (*queries, *(as_query[:, n] for n in range(as_query.shape[1])))
        keys = (*keys, *(as_key[:, n] for n in range(as_key.shape[1])))
        return Where(queries, keys, piece_ids, _reach(over))

    def _check(
        self,
        ids: Tensor,
        positions: Positions | None,
        piece_ids: Tensor | None,
        cache: KVCache | None,
    ) -> None:
        if ids.dim() != 2 or ids.shape[1] == 0:
            raise ValueError(f"ids have shape {tuple(ids.shape)}, expected (rows, tokens >= 1)")
        if piece_ids is not None and piece_ids.shape != ids.shape:
            raise ValueError(
                f"piece_ids have shape {tuple(piece_ids.shape)}, expected {tuple(ids.shape)}"
            )
        if cache is not None:
            if piece_ids is not None or positions is not None:
                raise ValueError("cache: the cache knows the positions; give no positions, pieces")
            if cache.rows != ids.shape[0] or cache.layers != len(self.blocks):
                raise ValueError(
                    f"cache has {cache.rows} rows and {cache.layers} layers, expected "
                    f"{ids.shape[0]} and {len(self.blocks)}"
                )


def _cascade(group: int, width: int) -> Any:
    """The part of a network that takes ``group`` ids as one step; ``ConfigError`` where there is
    none."""
    path = registry.GROUPS.get("cascade")
    if path is None:
        raise ConfigError(f"model.group={group}: the folder musictx/songs is missing")
    return registry.load(path)(group, width)


def _earlier(feature: Feature, ids: Tensor, cache: KVCache | None) -> Tensor:
    """The ids before ``ids`` that ``feature`` looks at, (B, N)."""
    if cache is None:
        return ids[:, :0]
    most = cache.capacity if feature.longest is None else feature.longest
    return cache.earlier(most).clone()


def _reach(keys: Positions) -> int:
    """The largest distance between two of the tokens."""
    if isinstance(keys, Span):
        return max(len(keys) - 1, 0)
    assert isinstance(keys, Tensor)
    return int((keys.amax(-1) - keys.amin(-1)).max())


def positions_in_piece(piece_ids: Tensor) -> Tensor:
    """Positions (B, T) that begin at 0 wherever the id changes along a row."""
    index = torch.arange(piece_ids.shape[1], device=piece_ids.device).expand_as(piece_ids)
    new = torch.ones_like(piece_ids, dtype=torch.bool)
    new[:, 1:] = piece_ids[:, 1:] != piece_ids[:, :-1]
    return index - torch.where(new, index, 0).cummax(1).values


@contextmanager
def evaluating(model: MusicTransformer) -> Iterator[None]:
    """The model in evaluation mode, and back at the end."""
    training = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(training)
