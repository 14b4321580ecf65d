"""Options of ``musictx export``."""

from __future__ import annotations

from dataclasses import dataclass, field

from musictx.config.checks import check, option
from musictx.config.composing import ModelFolder


@dataclass
class ExportConfig:
    """musictx export: a model folder -> one step of decoding as an ONNX file."""

    model: ModelFolder = field(default_factory=ModelFolder)
    out: str | None = option(
        None, "the file to write; default: MODEL.onnx in the current folder", path=True
    )
    rows: int = option(1, "sequences that one step continues in parallel", low=1, high=4096)
    context: int | None = option(
        None, "tokens that the cache holds; default: as many as in training", low=2, high=65536
    )

    def __post_init__(self) -> None:
        check(self)
