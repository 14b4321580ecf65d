"""What every feature of the ids so far has in common."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn


class Feature(nn.Module):
    """Reads something off the ids so far, and says what it means at both ends of the network.

    A feature follows from the ids alone: it gives the network no new information, but what would
    take many layers or much training to find. It never looks ahead, nor beyond the beginning of a
    piece, so packed pieces, causality and decoding with a cache hold as they do without it.
    """

    #: How many ids before the first new one :meth:`read` looks at; ``None``: all that are known.
    longest: int | None = None
    #: Whether a row of its tables meets few tokens of a step, so that it wants a higher learning
    #: rate (``optim``'s multiplier for tables).
    sparse: bool = True
    #: Whether it reads the ids with token noise, as the embedding does, or those that were given.
    noisy: bool = False

    def read(self, ids: Tensor, earlier: Tensor, places: Tensor) -> Any:
        """What is known after each of ``ids`` (B, T) int64.

        ``earlier`` (B, N) are the ids before the first of them, as many as are known and at most
        ``longest``, -1 for one that is not; ``places`` (B, T) are places in pieces: place 0 opens a
        piece, and what came before it is not looked at.
        """
        raise NotImplementedError

    def embed(self, x: Tensor, seen: Any) -> Tensor:
        """Embeddings ``x`` (B, T, width) and what this feature adds to them."""
        return x

    def finish(self, x: Tensor, seen: Any) -> Tensor:
        """``x`` (B, T, width) after the last layer, before its norm, and what is added to it."""
        return x

    def score(self, logits: Tensor, x: Tensor, seen: Any) -> Tensor:
        """``logits`` (B, T, vocab) in float32 of the next id, and what is added to them; ``x``
        (B, T, width) is what the output matrix reads."""
        return logits


def joined(ids: Tensor, earlier: Tensor, places: Tensor) -> tuple[Tensor, Tensor]:
    """All ids known (B, N + T) and their places; negative ones are before the piece's beginning."""
    back = torch.arange(-earlier.shape[1], 0, device=ids.device)
    return torch.cat([earlier, ids], 1), torch.cat([places[:, :1] + back, places], 1)
