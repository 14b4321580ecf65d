"""How the next token is drawn."""

from __future__ import annotations

from dataclasses import dataclass

from musictx.config.checks import at_least, option, probability, require


@dataclass
class SamplingConfig:
    """How the next token is drawn."""

    temperature: float = option(1.0, "below 1 safer, above 1 wilder; 0 = always the likeliest")
    top_k: int = option(0, "draw among the k likeliest; 0 = all")
    top_p: float = option(0.95, "draw among the likeliest that make up this probability; 1 = all")
    min_p: float = option(0.0, "drop tokens below this share of the likeliest; 0 = none")
    restrike: bool = option(False, "let a pitch be struck again while it still sounds")
    rules: float = option(
        3.0, "four voices: nats that a fault of voice leading costs; 0 = the model alone"
    )
    longest_note: float | None = option(
        None, "end notes that sound longer, seconds; null = as in the corpus, 0 = never"
    )
    most_notes: int | None = option(
        None, "notes that may sound at once; null = as in the corpus, 0 = any number"
    )

    def __post_init__(self) -> None:
        at_least("sampling.temperature", self.temperature, 0)
        at_least("sampling.top_k", self.top_k, 0)
        require(0 < self.top_p <= 1, "sampling.top_p", self.top_p, "a number above 0, at most 1")
        probability("sampling.min_p", self.min_p)
        at_least("sampling.rules", self.rules, 0)
        at_least("sampling.longest_note", self.longest_note, 0)
        at_least("sampling.most_notes", self.most_notes, 0)
