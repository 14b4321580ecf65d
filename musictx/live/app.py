"""``musictx play``: send music to a MIDI port while it is composed. ``musictx jam``: listen to a
MIDI port and answer in the pauses."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator
from types import FrameType
from typing import Any

from musictx.apps import generate
from musictx.apps.results import choose_model, fresh_seed, print_line, read_music
from musictx.bundle import Bundle, load
from musictx.config import GenerateConfig
from musictx.live import ports
from musictx.live.config import JamConfig, LiveConfig, PlayConfig
from musictx.live.jam import jam
from musictx.live.player import PlayReport, play
from musictx.notes import Score
from musictx.sampling.stream import Stream


def run(config: PlayConfig) -> PlayReport:
    """Compose and play music to its end. Print a report, even after an interrupt, and return it."""
    score = None
    if config.primer is not None:
        score = read_music(config.primer, "primer", config.limits)
    with _open(config) as (bundle, output, seed):
        request = GenerateConfig(
            primer_seconds=config.primer_seconds, seconds=config.seconds, sampling=config.sampling
        )
        stream = generate.stream(bundle, request, score, seed=seed)
        report = PlayReport()
        try:
            play(stream, output, programs=_has_programs(bundle), report=report)
        finally:
            print_line(str(report))
    return report


def run_jam(config: JamConfig) -> int:
    """Listen and answer until the input port is closed; return the number of answers."""
    source = ports.open_port("input", config.input)
    with contextlib.closing(source), _open(config) as (bundle, output, seed):
        request = GenerateConfig(seconds=config.answer, sampling=config.sampling)

        def compose(primer: Score | None, answer_number: int) -> Stream:
            return generate.stream(bundle, request, primer, seed=[seed, answer_number])

        compose(None, 0)  # an unsuitable model fails here, not at the first answer
        print_line("listening; play, and pause for an answer (Ctrl-C ends)")
        return jam(source, output, compose, config, programs=_has_programs(bundle))


def _has_programs(bundle: Bundle) -> bool:
    """Whether the tracks of the model's events are General MIDI programs."""
    return "program" in bundle.tokenizer.vocabulary.kinds


@contextlib.contextmanager
def _open(config: LiveConfig) -> Iterator[tuple[Bundle, Any, int]]:
    """Open the output port first, since that fails fastest, then load the model; yield (bundle,
    output port, seed). In the ``with`` block SIGTERM acts like Ctrl-C, so that all notes are ended
    and the port is closed."""

    def interrupt(signal_number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    previous_handler = signal.signal(signal.SIGTERM, interrupt)
    try:
        with contextlib.closing(ports.open_port("output", config.output)) as output:
            bundle = load(choose_model(config.model, config.tokenizer), config.device)
            seed = fresh_seed() if config.seed is None else config.seed
            if config.seed is None:
                print_line(f"seed: {seed}")
            yield bundle, output, seed
    finally:
        signal.signal(signal.SIGTERM, previous_handler)
