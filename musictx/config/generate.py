"""Options of ``musictx generate``."""

from __future__ import annotations

from dataclasses import dataclass

from musictx.config.checks import DAY, option
from musictx.config.composing import Steered


@dataclass
class GenerateConfig(Steered):
    """musictx generate: a model folder -> new music."""

    primer: str | None = option(
        None,
        "MIDI or MusicXML file to continue, or an example that comes with musictx",
        path="in",
        names="examples",
        also="prompt input file midi tune",
    )
    primer_seconds: float | None = option(
        None, "use only the first seconds of the primer", above=0, high=DAY
    )
    primer_tokens: int | None = option(None, "use only the first tokens of the primer", low=1)
    include_primer: bool = option(True, "write the primer before its continuation")
    seconds: float | None = option(
        None,
        "length of the new music, seconds; default, if bars and tokens are not given either: 30, "
        "or as long as a chorale takes",
        above=0,
        high=DAY,
        also="duration length",
    )
    bars: int | None = option(
        None,
        "length of the new music, bars of the primer's meter, from its next bar line",
        low=1,
        high=1_000_000,
    )
    tokens: int | None = option(
        None,
        "length of the new music, tokens; of several lengths, the one reached first counts",
        low=1,
        also="steps",
    )
    end: str | None = option(
        None,
        "how the piece ends: cut (stop at the length given), natural (come to a close by then) or "
        "model (also earlier, where the model ends it); default: cut, for new chorales model",
        choices=("cut", "natural", "model"),
    )
    context: int | None = option(
        None,
        "tokens that the model looks back on; default: as many as in training",
        low=2,
        high=2**20,
        also="max_len seq_len",
    )
