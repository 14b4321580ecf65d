"""The network's shape."""

from __future__ import annotations

from dataclasses import dataclass

from musictx.config.checks import check, option, require

IMPLEMENTATIONS = ("auto", "reference", "skew", "chunked", "sdpa", "native", "fused")


@dataclass
class ModelConfig:
    """The network's shape; the sizes are files under conf/model.

    The bounds are far above what anybody trains, far below what would be built until the memory is
    full.
    """

    name: str = option("small", "name of the size, for the model card")
    layers: int = option(6, "number of transformer blocks", low=1, high=1000)
    width: int = option(256, "channels of the residual stream", low=1, high=2**15)
    heads: int = option(4, "attention heads; they divide the width", low=1, high=2**12)
    feedforward: int = option(1024, "hidden channels of the feed-forward layers", low=1, high=2**18)
    context: int = option(1024, "length of a training window, tokens", low=8, high=2**20)
    dropout: float = option(
        0.1, "on embeddings, attention weights and each residual branch", low=0, below=1
    )
    tied: bool = option(True, "share the token embedding with the output layer")
    attention: str = option(
        "auto",
        "implementation of attention; auto = the fastest that can: " + ", ".join(IMPLEMENTATIONS),
        choices=IMPLEMENTATIONS,
    )
    input_intervals: list[int] = option(
        [],
        "add to each note an embedding of its interval to the note n tokens earlier, for each n; "
        "[1,2,3,4]: to the other voices of a chorale and the last note of its own",
        low=1,
    )
    output_intervals: list[int] = option(
        [],
        "add to the logit of each candidate a learned score of its interval to the note n tokens "
        "earlier, for each n",
        low=1,
    )
    interval_dropout: float = option(
        0.0,
        "input_intervals: share of the embeddings left out in training, against overfitting",
        low=0,
        below=1,
    )
    gates: bool = option(
        False, "multiply the output of each attention head by a gate computed from the token"
    )
    first_values: bool = option(
        False, "let each layer mix the attention values of the first layer into its own"
    )
    note_ages: bool = option(
        False, "chorales: tell the network for how many sixteenths each voice has held its note"
    )
    repeats: bool = option(
        False,
        "chorales: tell the network how the longest passage that ends here continued where it "
        "occurred earlier in the piece",
    )
    repeat_dropout: float = option(
        0.0,
        "repeats: share of the passages left out in training, against overfitting",
        low=0,
        below=1,
    )
    counterpoint: bool = option(
        False,
        "chorales: score each candidate also by how its interval to every voice that moves with it "
        "follows the interval before",
    )
    token_noise: float = option(
        0.0,
        "chorales: share of the notes that the network reads one or two semitones off in "
        "training, against overfitting; what it is to predict stays right",
        low=0,
        below=1,
    )
    hidden_notes: float = option(
        0.0,
        "chorales: hide a share of the notes of each training window, drawn between 0 and this, "
        "against overfitting",
        low=0,
        below=1,
    )
    sounding: bool = option(
        False,
        "performance tokens: tell the network which pitches sound, how loud and for how long, and "
        "score candidates by it",
    )
    sounding_recent: int = option(
        0,
        "sounding: how many of the last notes are told one by one, with pitch and loudness",
        low=0,
    )
    sounding_intervals: int = option(
        0,
        "sounding: number of learned weightings by which a candidate is scored for its intervals "
        "to what sounds",
        low=0,
    )
    conditions: bool = option(
        False,
        "tokenizer.controls=true: tell the network at every token which controls are asked for and "
        "what is known of the music ahead, and score candidates by it",
    )

    def __post_init__(self) -> None:
        check(self, "model")
        require(
            self.width % self.heads == 0 and (self.width // self.heads) % 2 == 0,
            "model.heads",
            self.heads,
            f"a divisor of model.width={self.width} that leaves an even size for each head",
        )
        for name in ("sounding_recent", "sounding_intervals"):
            require(
                self.sounding or not getattr(self, name),
                f"model.{name}",
                getattr(self, name),
                "model.sounding=true with it",
            )
        for name in ("input_intervals", "output_intervals"):
            lags = getattr(self, name)
            require(
                len(set(lags)) == len(lags),
                f"model.{name}",
                lags,
                "different numbers of tokens, such as [1,2,3,4]",
            )
