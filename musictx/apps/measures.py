"""What ``registry.MEASURES`` names: measures of one kind of music for compare."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from musictx.bundle import Bundle
from musictx.config import SamplingConfig
from musictx.data.shards import Piece, Shards
from musictx.evaluate.comparison import Comparison
from musictx.sampling.folder import SampleFolder


class Measures(Protocol):
    """Measures of samples of one kind of music beside real pieces. Pieces are opaque objects to the
    caller.

    tokenizer  the name of the tokens that such music is kept in; a model with them is measured so
    corpora    and so are samples beside these
    """

    tokenizer: str
    corpora: tuple[str, ...]

    def of_folder(self, folder: str | Path, option: str) -> list[Any]:
        """Every piece in a folder that the command's ``option`` names."""
        ...

    def of_shards(self, shards: Shards, tokenizer: Any, pieces: Iterable[Piece]) -> list[Any]:
        """Pieces of a corpus."""
        ...

    def perform(
        self,
        out: SampleFolder,
        bundle: Bundle,
        pieces: Sequence[Any],
        *,
        particles: int,
        sampling: SamplingConfig,
        seed: int,
        progress: Callable[[int, int], None],
    ) -> None:
        """The task of these measures: make one sample for each piece."""
        ...

    def compare(
        self,
        sets: Mapping[str, Sequence[Any]],
        training: Sequence[Any],
        seed: int,
        progress: Callable[[int, int], None],
    ) -> Comparison:
        """Measure every set; in ``training`` copies are looked for."""
        ...
