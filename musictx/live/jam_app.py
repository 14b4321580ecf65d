"""``musictx jam``: it listens to a MIDI port and answers in the pauses."""

from __future__ import annotations

from musictx.apps import generate
from musictx.apps.results import say
from musictx.config import GenerateConfig
from musictx.live import ports
from musictx.live.app import has_programs, prepared
from musictx.live.config import JamConfig
from musictx.live.jam import jam
from musictx.notes import Score
from musictx.sampling.stream import Stream


def run(config: JamConfig) -> int:
    """Listen and answer until the port is closed or Ctrl-C; the number of answers."""
    with prepared(config) as (bundle, output, seed):
        source = ports.open_input(config.input)
        request = GenerateConfig(seconds=config.answer, sampling=config.sampling)

        def compose(primer: Score, number: int) -> Stream:
            return generate.stream(bundle, request, primer, seed=[seed, number])

        say("listening; play, and pause for an answer (Ctrl-C ends)")
        try:
            return jam(
                source,
                output,
                compose,
                pause=config.pause,
                control=config.control,
                programs=has_programs(bundle),
                say=say,
            )
        finally:
            source.close()
