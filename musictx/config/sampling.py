"""How the next token is drawn."""

from __future__ import annotations

from dataclasses import dataclass

from musictx.config.checks import at_least, option, probability, require


@dataclass
class TokenSampling:
    """How the next token is drawn from the model's probabilities."""

    temperature: float = option(
        1.0, "below 1 safer, above 1 wilder; 0 = always the likeliest token"
    )
    top_k: int = option(0, "draw among the k likeliest tokens; 0 = all")
    top_p: float = option(
        0.95, "draw among the likeliest tokens that together have this probability; 1 = all"
    )
    min_p: float = option(
        0.0, "leave out tokens less likely than this share of the likeliest; 0 = none"
    )
    rules: float = option(
        3.0, "four voices: penalty for a fault of voice leading, nats; 0 = the model alone"
    )

    def __post_init__(self) -> None:
        at_least("sampling.temperature", self.temperature, 0)
        at_least("sampling.top_k", self.top_k, 0)
        require(0 < self.top_p <= 1, "sampling.top_p", self.top_p, "a number above 0, at most 1")
        probability("sampling.min_p", self.min_p)
        at_least("sampling.rules", self.rules, 0)


@dataclass
class SamplingConfig(TokenSampling):
    """How the next token is drawn, and which notes may sound."""

    restrike: bool = option(False, "let a pitch be struck again while it still sounds")
    longest_note: float | None = option(
        None, "longest note, seconds; null = as in the training corpus, 0 = any length"
    )
    most_notes: int | None = option(
        None, "most notes at once; null = as in the training corpus, 0 = any number"
    )
    release: float = option(
        0.8,
        "pull to its end on a note that sounds longer than is usual in its register, nats a "
        "second; 0 = none",
    )
    repetition: float = option(
        0.35,
        "penalty for striking a pitch again within half a second, nats for each such note of "
        "the last 32 beyond their share in the training corpus; 0 = none",
    )
    density: float | None = option(
        None, "notes a second to aim at; null = as in the primer, else as in the training corpus"
    )
    density_pull: float = option(
        0.1,
        "how strongly density is kept, nats for each note a second too many or too few; "
        "0 = not at all",
    )
    temperatures: dict[str, float] = option(
        {}, "temperature among the tokens of one kind, such as {note_on: 0.9}; their share stays"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least("sampling.longest_note", self.longest_note, 0)
        at_least("sampling.most_notes", self.most_notes, 0)
        for name in ("release", "repetition", "density", "density_pull"):
            at_least(f"sampling.{name}", getattr(self, name), 0)
        for kind, value in self.temperatures.items():
            require(value > 0, f"sampling.temperatures.{kind}", value, "a number above 0")
