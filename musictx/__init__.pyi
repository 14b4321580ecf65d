"""Written by scripts/stub.py from the dataclasses of musictx/config: not to be edited."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from musictx.api import Model, Music
from musictx.config import CorpusConfig, TokenSampling
from musictx.evaluate.comparison import Comparison
from musictx.evaluate.nll import Evaluation
from musictx.sampling.events import OnEvent
from musictx.sampling.processors import Processor
from musictx.sampling.constraints import Penalty

_Text = str | int | Sequence[str | int]  # a sequence is joined by commas
from musictx.bundle import Bundle as Bundle
from musictx.sampling.stream import Event as Event
from musictx.config import Limits as Limits
from musictx.sampling.sample import Sample as Sample
from musictx.config import SamplingConfig as SamplingConfig
from musictx.notes import Score as Score
from musictx.sampling.stream import Stream as Stream
from musictx.errors import UserError as UserError
from musictx.bundle import load as load
from musictx.api import log_likelihood as log_likelihood
from musictx.formats import read as read
from musictx.render.app import render as render
from musictx.formats import to_bytes as to_bytes
from musictx.api import train as train
from musictx.formats import write as write

__version__: str
__all__: list[str]

def generate(
    model: Model = ...,
    *,
    primer: Music | list[Music] | None = ...,
    seed: int | Sequence[int] | None = ...,
    penalties: Sequence[Penalty] = ...,
    processors: Sequence[Processor] = ...,
    progress: Callable[[int, float], None] | None = ...,
    on_event: OnEvent | None = ...,
    samples: int = ...,
    sampling: TokenSampling | Mapping[str, Any] | str | None = ...,
    temperature: float = ...,
    top_p: float | None = ...,
    rules: float = ...,
    habits: bool = ...,
    key: _Text | None = ...,
    scale: Literal['major', 'minor', 'pentatonic', 'minor_pentatonic', 'blues', 'dorian', 'phrygian', 'lydian', 'mixolydian', 'whole_tone'] | None = ...,
    low: _Text | None = ...,
    high: _Text | None = ...,
    density: float | str | None = ...,
    temperatures: Mapping[str, float] = ...,
    loudness: float | str | None = ...,
    register: float | str | None = ...,
    polyphony: float | str | None = ...,
    loop: bool = ...,
    quantise: Literal['16', '8', '8t', 'none', 16, 8] = ...,
    tempo: float | None = ...,
    meter: _Text | None = ...,
    primer_seconds: float | None = ...,
    include_primer: bool = ...,
    seconds: float | None = ...,
    bars: int | None = ...,
    tokens: int | None = ...,
    instruments: _Text | None = ...,
    form: _Text | None = ...,
    end: Literal['cut', 'natural', 'model'] | None = ...,
    candidates: int = ...,
) -> list[Sample]: ...

def stream(
    model: Model = ...,
    *,
    primer: Music | None = ...,
    seed: int | None = ...,
    penalties: Sequence[Penalty] = ...,
    processors: Sequence[Processor] = ...,
    sampling: TokenSampling | Mapping[str, Any] | str | None = ...,
    temperature: float = ...,
    top_p: float | None = ...,
    rules: float = ...,
    habits: bool = ...,
    key: _Text | None = ...,
    scale: Literal['major', 'minor', 'pentatonic', 'minor_pentatonic', 'blues', 'dorian', 'phrygian', 'lydian', 'mixolydian', 'whole_tone'] | None = ...,
    low: _Text | None = ...,
    high: _Text | None = ...,
    density: float | str | None = ...,
    temperatures: Mapping[str, float] = ...,
    primer_seconds: float | None = ...,
    seconds: float | None = ...,
) -> Stream: ...

def infill(
    music: Music,
    model: Model = ...,
    *,
    begin: float | str | None = ...,
    end: float | str | None = ...,
    seed: int | None = ...,
    progress: Callable[[float], None] | None = ...,
    on_event: OnEvent | None = ...,
    samples: int = ...,
    sampling: TokenSampling | Mapping[str, Any] | str | None = ...,
    temperature: float = ...,
    top_p: float | None = ...,
    rules: float = ...,
    habits: bool = ...,
    key: _Text | None = ...,
    scale: Literal['major', 'minor', 'pentatonic', 'minor_pentatonic', 'blues', 'dorian', 'phrygian', 'lydian', 'mixolydian', 'whole_tone'] | None = ...,
    low: _Text | None = ...,
    high: _Text | None = ...,
    density: float | str | None = ...,
    temperatures: Mapping[str, float] = ...,
    loudness: float | str | None = ...,
    register: float | str | None = ...,
    polyphony: float | str | None = ...,
    loop: bool = ...,
    quantise: Literal['16', '8', '8t', 'none', 16, 8] = ...,
    tracks: _Text | None = ...,
) -> list[Sample]: ...

def accompany(
    melody: Music | None = ...,
    model: Model = ...,
    *,
    chords: str | None = ...,
    seed: int | None = ...,
    progress: Callable[[float], None] | None = ...,
    on_event: OnEvent | None = ...,
    samples: int = ...,
    sampling: TokenSampling | Mapping[str, Any] | str | None = ...,
    temperature: float = ...,
    top_p: float | None = ...,
    rules: float = ...,
    habits: bool = ...,
    key: _Text | None = ...,
    scale: Literal['major', 'minor', 'pentatonic', 'minor_pentatonic', 'blues', 'dorian', 'phrygian', 'lydian', 'mixolydian', 'whole_tone'] | None = ...,
    low: _Text | None = ...,
    high: _Text | None = ...,
    density: float | str | None = ...,
    temperatures: Mapping[str, float] = ...,
    loudness: float | str | None = ...,
    register: float | str | None = ...,
    polyphony: float | str | None = ...,
    loop: bool = ...,
    quantise: Literal['16', '8', '8t', 'none', 16, 8] = ...,
    tempo: float | None = ...,
    meter: _Text | None = ...,
    melody_track: _Text | None = ...,
    add: _Text | None = ...,
    style: _Text | None = ...,
) -> list[Sample]: ...

def harmonise(
    melody: Music,
    model: Bundle | str | Path | None = ...,
    *,
    seed: int | None = ...,
    progress: Callable[[float], None] | None = ...,
    samples: int = ...,
    particles: int = ...,
    sampling: TokenSampling | Mapping[str, Any] | str | None = ...,
    temperature: float = ...,
    top_p: float | None = ...,
    rules: float = ...,
    voices: str | Sequence[str] = ...,
    phrase_ends: int | Sequence[int] = ...,
) -> list[Sample]: ...

def evaluate(
    *words: str,
    device: _Text = ...,
    model: str | Path | None = ...,
    corpus: CorpusConfig | Mapping[str, Any] | str | None = ...,
    split: Literal['train', 'validation', 'test'] = ...,
    window: int | None = ...,
    windows: int | None = ...,
    out: str | Path | None = ...,
) -> Evaluation: ...

def compare(
    *words: str,
    device: _Text = ...,
    model: str | Path | None = ...,
    corpus: CorpusConfig | Mapping[str, Any] | str | None = ...,
    split: Literal['train', 'validation', 'test'] = ...,
    particles: int = ...,
    samples: str | Path | None = ...,
    against: str | Path | None = ...,
    sampling: TokenSampling | Mapping[str, Any] | str | None = ...,
    temperature: float = ...,
    top_p: float | None = ...,
    rules: float = ...,
    habits: bool = ...,
    key: _Text | None = ...,
    scale: Literal['major', 'minor', 'pentatonic', 'minor_pentatonic', 'blues', 'dorian', 'phrygian', 'lydian', 'mixolydian', 'whole_tone'] | None = ...,
    low: _Text | None = ...,
    high: _Text | None = ...,
    density: float | str | None = ...,
    temperatures: Mapping[str, float] = ...,
    pieces: int = ...,
    task: Literal['free', 'continue', 'infill', 'vary', 'accompany', 'harmonise'] = ...,
    seconds: float = ...,
    primer_seconds: float = ...,
    out: str | Path | None = ...,
    seed: int = ...,
) -> Comparison: ...
