"""The Music Transformer: a decoder-only, pre-norm transformer with a position scheme of choice."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from musictx.attention import positions as schemes
from musictx.attention.api import IMPLEMENTATIONS, why_not
from musictx.attention.positions.absolute import AddedPositions
from musictx.attention.positions.coordinates import ranges
from musictx.attention.terms import FURTHER, KeyPositions, Positions, Span, as_tensor
from musictx.errors import ConfigError
from musictx.model.block import Block, Where
from musictx.model.cache import Cache, KVCache
from musictx.model.features import (
    Calibration,
    Conditions,
    Counterpoint,
    Feature,
    Intervals,
    NoteAges,
    Repeats,
    Sounding,
    TokenNoise,
)


class MusicTransformer(nn.Module):
    """Token ids -> logits of the next token.

    vocab_size   number of token ids
    layers, width, heads, feedforward   the network's shape; ``width`` is a multiple of ``heads``
    context      length of a training window, tokens; longer inputs work, untrained
    dropout      on embeddings, attention weights and each residual branch
    tied         use the token embedding as output matrix too
    position     a scheme and its options, {"name": "huang", "max_distance": 512}; those left out
                 follow from the context, as each scheme says (``musictx/config/position.py``)
    attention    implementation of attention, by name (see ``attention/api.py``)
    gates        weigh what each head found by a number that its token asks for
    first_values let every layer mix the first layer's values into its own
    intervals, ages, repeats, counterpoint, sounding, conditions   what the network is told of the
                 ids so far: arguments of the features in ``model/features``, with ``pitches`` and
                 other tables of ids as ranges [first, stop, value] (``coordinates.ranges``); None
                 leaves one out
    token_noise  arguments of ``features/noise.py``: in training notes are read wrong
    calibration  arguments of ``features/calibration.py``: how sure the model may be

    ``config`` is the dict of these arguments: ``MusicTransformer(**model.config)`` is an equal
    network. Everything learned is in ``state_dict()``.
    """

    def __init__(
        self,
        vocab_size: int,
        *,
        layers: int,
        width: int,
        heads: int,
        feedforward: int,
        context: int,
        dropout: float = 0.0,
        tied: bool = True,
        position: dict[str, Any] | None = None,
        attention: str = "auto",
        gates: bool = False,
        first_values: bool = False,
        intervals: dict[str, Any] | None = None,
        ages: dict[str, Any] | None = None,
        repeats: dict[str, Any] | None = None,
        counterpoint: dict[str, Any] | None = None,
        sounding: dict[str, Any] | None = None,
        conditions: dict[str, Any] | None = None,
        token_noise: dict[str, Any] | None = None,
        calibration: dict[str, Any] | None = None,
    ) -> None:
        super().__init__()
        if width % heads or (width // heads) % 2:
            raise ValueError(
                f"MusicTransformer: heads={heads}, expected a divisor of width={width} that leaves "
                "an even size for each head"
            )
        if attention not in IMPLEMENTATIONS:
            raise ValueError(
                f"MusicTransformer: attention={attention}, expected one of "
                + ", ".join(IMPLEMENTATIONS)
            )
        position = schemes.complete(position or {}, context=context, width=width)
        self.config: dict[str, Any] = {
            "vocab_size": vocab_size,
            "layers": layers,
            "width": width,
            "heads": heads,
            "feedforward": feedforward,
            "context": context,
            "dropout": dropout,
            "tied": tied,
            "position": position,
            "attention": attention,
        }
        further = {
            "gates": gates,
            "first_values": first_values,
            "intervals": intervals,
            "ages": ages,
            "repeats": repeats,
            "counterpoint": counterpoint,
            "sounding": sounding,
            "conditions": conditions,
            "token_noise": token_noise,
            "calibration": calibration,
        }
        self.config |= {name: given for name, given in further.items() if given}  # if used
        self.context = context
        self.weights = "float32"  # what the weights were rounded to (model/weights.py)
        self.embedding = nn.Embedding(vocab_size, width)
        self.position = schemes.build(
            position,
            layers=layers,
            heads=heads,
            head_dim=width // heads,
            width=width,
            context=context,
        )
        self.check_attention(attention)
        self.dropout = nn.Dropout(dropout)
        self.blocks = nn.ModuleList(
            Block(
                width,
                heads,
                feedforward,
                dropout,
                attention,
                gates=gates,
                first_values=first_values and layer > 0,
            )
            for layer in range(layers)
        )
        self.norm = nn.LayerNorm(width)
        self.output = None if tied else nn.Linear(width, vocab_size, bias=False)
        self._initialise()
        self.intervals = self.ages = self.repeats = self.counterpoint = None
        self.sounding = self.conditions = None
        if intervals:
            self.intervals = Intervals(**_pitches(vocab_size, intervals), width=width)
        if ages:
            self.ages = NoteAges(width, **ages)
        if repeats:
            self.repeats = Repeats(**_pitches(vocab_size, repeats), width=width)
        if counterpoint:
            self.counterpoint = Counterpoint(**_pitches(vocab_size, counterpoint))
        if sounding:
            self.sounding = Sounding(vocab_size, width, **sounding)
        if conditions:
            self.conditions = Conditions(vocab_size, width, **conditions)
        self.calibration = Calibration(**calibration) if calibration else None
        self.noise = None
        if token_noise:
            self.noise = TokenNoise(**_pitches(vocab_size, token_noise))

    @property
    def features(self) -> list[Feature]:
        """What the network is told of the ids so far."""
        found = (
            self.intervals,
            self.ages,
            self.repeats,
            self.counterpoint,
            self.sounding,
            self.conditions,
            self.calibration,
        )
        return [feature for feature in found if feature is not None]

    def check_attention(self, implementation: str) -> None:
        """``ConfigError`` with the reason if ``implementation`` cannot compute the scheme."""
        name = self.config["position"]["name"]
        for layer in range(self.config["layers"]):
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
        std = 0.5 * self.config["width"] ** -0.5
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
        if isinstance(self.position.added, AddedPositions):
            self.position.added.initialise()

    def new_cache(self, rows: int, capacity: int) -> KVCache:
        """An empty cache for ``rows`` sequences of up to ``capacity`` tokens."""
        weight = self.embedding.weight
        width, heads = self.config["width"], self.config["heads"]
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
                   another piece. Padding is -1, a piece of its own.
        cache      keys and values of earlier tokens; those of ``ids`` are appended.

        Raises ``ValueError`` for shapes that do not fit and for combinations without a meaning.
        """
        x, seen = self._pass(ids, positions, piece_ids, cache)
        weight = self.embedding.weight if self.output is None else self.output.weight
        logits = F.linear(x, weight).float()
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
        self._check(ids, positions, piece_ids, cache)
        features = self.features
        earlier = [_earlier(feature, ids, cache) for feature in features]  # before it knows of ids
        clean, ids = ids, ids if self.noise is None else self.noise(ids)
        where = self._where(ids, positions, piece_ids, cache)
        places = where.queries[1]
        x = self.position.embed(self.embedding(ids), places)
        if self.position.added is not None:
            x = self.position.added(x, places)
        seen = []
        for feature, known in zip(features, earlier):
            place = as_tensor(places, ids.device).expand_as(ids)
            seen.append(feature.read(ids if feature.noisy else clean, known, place))
            x = feature.embed(x, seen[-1])
        x = self.dropout(x)
        first: list[Tensor] = []
        for layer, block in enumerate(self.blocks):
            x = block(x, self.position, layer, where, cache, first)
        for feature, its in zip(features, seen):
            x = feature.finish(x, its)
        return self.norm(x), seen

    def _where(
        self,
        ids: Tensor,
        positions: Positions | None,
        piece_ids: Tensor | None,
        cache: Cache | None,
    ) -> Where:
        """Where the tokens stand, and the keys that they look at."""
        count = ids.shape[1]
        order: Positions
        over: KeyPositions
        if cache is not None:
            order, over = cache.where(count)
            reach = cache.reach(count)
        else:
            order = over = Span(0, count) if positions is None else positions
            reach = _reach(order)
        places = order
        if piece_ids is not None and positions is None:
            places = _positions_in_piece(piece_ids)
        queries: tuple[Positions, ...] = (order, places)
        keys: tuple[KeyPositions, ...] = (over, places if cache is None else over)
        as_query = as_key = ids[:, None][:, :0]  # no coordinates (rows, 0, count)
        if self.position.further:
            last = None if cache is None else cache.last()
            as_query, as_key = self.position.coordinates(ids, places, last)
        if cache is not None:
            as_key = cache.note(ids, as_key)
        assert len(queries) == FURTHER
        queries, keys = (*queries, *as_query.unbind(1)), (*keys, *as_key.unbind(1))
        return Where(queries, keys, piece_ids, reach)

    def _check(
        self,
        ids: Tensor,
        positions: Positions | None,
        piece_ids: Tensor | None,
        cache: Cache | None,
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


def _pitches(size: int, feature: dict[str, Any]) -> dict[str, Any]:
    """Arguments of a feature, with ranges of pitches as a tensor of one pitch an id."""
    return {**feature, "pitches": ranges("pitches", size, feature["pitches"], -1)}


def _earlier(feature: Feature, ids: Tensor, cache: Cache | None) -> Tensor:
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


def _positions_in_piece(piece_ids: Tensor) -> Tensor:
    """Positions (B, T) that begin at 0 wherever the id changes along a row."""
    index = torch.arange(piece_ids.shape[1], device=piece_ids.device).expand_as(piece_ids)
    new = torch.ones_like(piece_ids, dtype=torch.bool)
    new[:, 1:] = piece_ids[:, 1:] != piece_ids[:, :-1]
    return index - torch.where(new, index, 0).cummax(1).values
