"""The network's shape."""

from __future__ import annotations

from dataclasses import dataclass

from musictx.config.checks import at_least, one_of, option, probability, require

#: Far above what anybody trains, far below what would be built until the memory is full.
MOST = {"layers": 1000, "width": 2**15, "heads": 2**12, "feedforward": 2**18, "context": 2**20}
IMPLEMENTATIONS = ("auto", "reference", "skew", "chunked", "sdpa", "native", "fused")


@dataclass
class ModelConfig:
    """The network's shape; the sizes are files under conf/model."""

    name: str = option("paper", "name of the size, for the model card")
    layers: int = option(6, "number of transformer blocks")
    width: int = option(512, "channels of the residual stream")
    heads: int = option(8, "attention heads; they divide the width")
    feedforward: int = option(2048, "hidden channels of the feed-forward layers")
    context: int = option(2048, "length of a training window, tokens")
    dropout: float = option(0.1, "on embeddings, attention weights and each residual branch")
    tied: bool = option(True, "share the token embedding with the output layer")
    attention: str = option(
        "auto",
        "implementation of attention; auto = the fastest that can: " + ", ".join(IMPLEMENTATIONS),
    )
    input_intervals: list[int] = option(
        [],
        "add to each note an embedding of its interval to the note n tokens earlier, for each n; "
        "[1,2,3,4]: to the other voices of a chorale and the last note of its own",
    )
    output_intervals: list[int] = option(
        [],
        "add to the logit of each candidate a learned score of its interval to the note n tokens "
        "earlier, for each n",
    )
    interval_dropout: float = option(
        0.0, "input_intervals: share of the embeddings left out in training, against overfitting"
    )

    gates: bool = option(
        False, "weigh what each attention head found by a number that its token asks for"
    )
    first_values: bool = option(
        False, "let each layer mix the attention values of the first layer into its own"
    )
    note_ages: bool = option(
        False, "chorales: tell the network for how many sixteenths each voice has held its note"
    )
    repeats: bool = option(
        False,
        "chorales: tell the network how the longest passage that ends here went on when it was "
        "heard earlier in the piece",
    )
    repeat_dropout: float = option(
        0.0, "repeats: share of the passages left out in training, against overfitting"
    )
    token_noise: float = option(
        0.0,
        "chorales: share of the notes that the network reads one or two semitones off in "
        "training, against overfitting; what it is to predict stays right",
    )
    hidden_notes: float = option(
        0.0,
        "chorales: each training window draws from 0 to this the share of its notes that the "
        "network does not see, against overfitting",
    )
    sounding: bool = option(
        False,
        "performance tokens: tell the network which pitches sound, how loud and for how long, and "
        "score candidates by it",
    )
    sounding_recent: int = option(
        0, "sounding: how many of the last notes are told one by one, with pitch and loudness"
    )
    sounding_intervals: int = option(
        0,
        "sounding: number of learned weightings by which a candidate is scored for its intervals "
        "to what sounds",
    )

    def __post_init__(self) -> None:
        for name, most in MOST.items():
            value = getattr(self, name)
            require(1 <= value <= most, f"model.{name}", value, f"1 to {most}")
        at_least("model.context", self.context, 8)
        require(
            self.width % self.heads == 0 and (self.width // self.heads) % 2 == 0,
            "model.heads",
            self.heads,
            f"a divisor of model.width={self.width} that leaves an even size for each head",
        )
        probability("model.dropout", self.dropout)
        for name in ("interval_dropout", "repeat_dropout", "token_noise", "hidden_notes"):
            probability(f"model.{name}", getattr(self, name))
        for name in ("sounding_recent", "sounding_intervals"):
            at_least(f"model.{name}", getattr(self, name), 0)
            require(
                self.sounding or not getattr(self, name),
                f"model.{name}",
                getattr(self, name),
                "model.sounding=true with it",
            )
        for name in ("input_intervals", "output_intervals"):
            lags = getattr(self, name)
            require(
                all(lag >= 1 for lag in lags) and len(set(lags)) == len(lags),
                f"model.{name}",
                lags,
                "different numbers of tokens from 1, such as [1,2,3,4]",
            )
        one_of("model.attention", self.attention, IMPLEMENTATIONS)
