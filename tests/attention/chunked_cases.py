"""What the tests of the chunked attention share."""

from __future__ import annotations

from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from musictx.attention.terms import Span


def causal(queries: int, keys: int, start: int = 0) -> dict[str, Span]:
    """The queries are the last of the keys."""
    return {
        "query_positions": Span(start + keys - queries, queries),
        "key_positions": Span(start, keys),
    }


class Largest(TorchDispatchMode):
    """The size in numbers of the largest memory that any tensor in sight lies in."""

    def __init__(self) -> None:
        super().__init__()
        self.numbers = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        for x in result if isinstance(result, tuple | list) else (result,):
            if isinstance(x, Tensor):
                size = x.untyped_storage().nbytes() // x.element_size()
                self.numbers = max(self.numbers, size)
        return result
