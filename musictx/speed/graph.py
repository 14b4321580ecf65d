"""One step of decoding with fixed shapes, on CUDA recorded once and replayed for each token.

A pass through the network for one token is some hundred small kernels, and to start them takes the
CPU longer than the GPU needs to run them. Over a ``RingCache`` they are the same for every token: a
CUDA graph starts them all at once. Elsewhere the step runs as it stands.
"""

from __future__ import annotations

import torch
from torch import Tensor

from musictx.model.cache import KVCache
from musictx.model.transformer import MusicTransformer
from musictx.speed.ring import RingCache

_WARM_UP = 3


class RingStep:
    """Token after token through ``model``, ``rows`` sequences at once.

    cache     the tokens so far; of one row (for all) or of ``rows``
    capacity  tokens that are looked back on: when it is full, the window slides by one

    To be made and called without gradients; weights and shapes must stay as they are.
    """

    def __init__(
        self, model: MusicTransformer, cache: KVCache, *, rows: int, capacity: int
    ) -> None:
        self.model = model
        self.cache = RingCache(cache, rows=rows, capacity=capacity)
        device = model.embedding.weight.device
        self._ids = torch.zeros((rows, 1), dtype=torch.int64, device=device)
        self._graph: torch.cuda.CUDAGraph | None = None
        if device.type == "cuda":
            self._record(cache, device)

    @staticmethod
    def suits(model: MusicTransformer) -> bool:
        """Whether generation takes it for ``model`` where nothing else is asked for."""
        return model.embedding.weight.device.type == "cuda" and model.cascade is None

    def __call__(self, ids: Tensor) -> Tensor:
        """Logits (rows, vocab) after the tokens ``ids`` (rows,), one more each; on the device, in
        memory that the next call writes over."""
        self._ids[:, 0] = ids.to(self._ids.device)
        if self._graph is None:
            return self._step()
        self._graph.replay()
        return self._logits

    def load(self, cache: KVCache) -> None:
        """Go on after the tokens of ``cache``; what was held is forgotten."""
        self.cache.load(cache)

    def select(self, rows: Tensor) -> None:
        """Row i becomes a copy of what row ``rows[i]`` was; rows (rows,) int64."""
        self.cache.select(rows)

    def _step(self) -> Tensor:
        return self.model(self._ids, cache=self.cache)[:, -1]

    def _record(self, cache: KVCache, device: torch.device) -> None:
        """Runs the step a few times, records it, and forgets the tokens that it wrote."""
        with torch.cuda.device(device):
            side = torch.cuda.Stream()
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                for _ in range(_WARM_UP):
                    self._step()
            torch.cuda.current_stream().wait_stream(side)
            self._graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self._graph):
                self._logits = self._step()
        self.cache.load(cache)
