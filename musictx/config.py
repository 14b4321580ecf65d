"""Every option of every command: name, type, default, unit, check. No torch, no Hydra.

The YAML files under ``conf/`` give combinations of these; a value that is not declared here cannot
be set. A dataclass checks itself when it is made and raises :class:`ConfigError` with the option's
dotted name, what came and what would be right - before anything heavy starts. The text after each
field is its help: ``musictx train --help`` prints it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from musictx.checks import at_least, one_of, option, probability, require, whole_seed

IMPLEMENTATIONS = ("auto", "reference", "skew", "chunked", "sdpa", "native", "fused")
POSITIONS = (
    "huang",
    "huang_local",
    "shaw",
    "transformer_xl",
    "t5",
    "alibi",
    "rotary",
    "sinusoidal",
    "learned",
    "two_d",
    "none",
)
AXES = ("time", "pitch", "voice")


@dataclass
class AugmentConfig:
    """Changes made to training windows as they are drawn; validation never sees them."""

    transpose: int = option(3, "semitones up and down; 3 means one of -3..+3 for each window")
    whole: bool = option(False, "training windows begin where pieces begin, never inside")
    align: int = option(1, "training windows begin at multiples of so many tokens of a piece")
    stretch: list[float] = option(
        [0.95, 0.975, 1.0, 1.025, 1.05], "factors of time, one drawn for each window"
    )
    velocity: int = option(0, "MIDI velocity units up and down, one shift for each window")
    misheard: float = option(
        0.0, "chorales: share of the notes read wrong by one or two semitones; targets stay right"
    )

    def __post_init__(self) -> None:
        require(0 <= self.transpose <= 24, "augment.transpose", self.transpose, "0 to 24 semitones")
        require(
            bool(self.stretch) and all(0.5 <= s <= 2.0 for s in self.stretch),
            "augment.stretch",
            self.stretch,
            "a list of factors between 0.5 and 2, such as [0.95,1.0,1.05]",
        )
        at_least("augment.align", self.align, 1)
        require(0 <= self.velocity <= 64, "augment.velocity", self.velocity, "0 to 64")
        probability("augment.misheard", self.misheard)


@dataclass
class CorpusConfig:
    """Where the music comes from and how it is split."""

    name: str = option(
        "folder", "folder (your MIDI files), bach (chorales inside music21), jsb (a JSON file)"
    )
    path: str | None = option(None, "the folder of MIDI files, searched at any depth", path=True)
    validation: float = option(0.1, "share of the pieces held out to measure progress")
    test: float = option(0.0, "share of the pieces held out and never used by train")
    min_notes: int = option(2, "pieces with fewer notes are left out")
    shards: str | None = option(
        None, "folder for the prepared tokens; default data/shards/NAME-KEY", path=True
    )
    workers: int = option(0, "processes that read files; 0 = one for each core")
    augment: AugmentConfig = field(default_factory=AugmentConfig)

    def __post_init__(self) -> None:
        one_of("corpus.name", self.name, ("folder", "bach", "jsb"))
        probability("corpus.validation", self.validation)
        probability("corpus.test", self.test)
        require(
            self.validation + self.test < 1.0,
            "corpus.validation + corpus.test",
            self.validation + self.test,
            "less than 1, so that something is left to train on",
        )
        at_least("corpus.min_notes", self.min_notes, 1)
        at_least("corpus.workers", self.workers, 0)


@dataclass
class TokenizerConfig:
    """How music becomes tokens."""

    name: str = option(
        "performance",
        "performance, chorale (four voices), or a MidiTok one: remi, tsd, midilike, ...",
    )
    tracks: str = option("piano", "piano (pitched instruments merged, no drums) or programs (all)")
    low: int = option(0, "lowest MIDI pitch kept (piano: 21)")
    high: int = option(127, "highest MIDI pitch kept (piano: 108)")
    step_ms: int = option(10, "time grid, milliseconds")
    max_shift_ms: int = option(1000, "longest single time shift, milliseconds")
    velocity_bins: int = option(32, "loudness levels")
    sustain: bool = option(True, "fold the sustain pedal into note ends")
    ties: bool = option(False, "chorale only: write held notes as ties, not as their pitch again")
    params: dict[str, Any] = option({}, "MidiTok only: TokenizerConfig parameters")

    def __post_init__(self) -> None:
        one_of("tokenizer.tracks", self.tracks, ("piano", "programs"))
        require(0 <= self.low <= 127, "tokenizer.low", self.low, "a MIDI pitch, 0 to 127")
        require(
            self.low <= self.high <= 127,
            "tokenizer.high",
            self.high,
            f"a MIDI pitch from tokenizer.low={self.low} to 127",
        )
        require(1 <= self.step_ms <= 1000, "tokenizer.step_ms", self.step_ms, "1 to 1000 ms")
        require(
            self.max_shift_ms >= self.step_ms and self.max_shift_ms % self.step_ms == 0,
            "tokenizer.max_shift_ms",
            self.max_shift_ms,
            f"a multiple of tokenizer.step_ms={self.step_ms}",
        )
        require(
            1 <= self.velocity_bins <= 127,
            "tokenizer.velocity_bins",
            self.velocity_bins,
            "1 to 127",
        )


@dataclass
class PositionConfig:
    """How the model knows order: a scheme of musictx/attention/positions."""

    name: str = option("huang", "scheme: " + ", ".join(POSITIONS))
    max_distance: int | None = option(
        None,
        "distances beyond it share one embedding, tokens; default: half the context (shaw 16, "
        "t5 128); learned: positions with a row, default: the context",
    )
    shared: bool = option(False, "one table of distances for all heads instead of one each")
    block: int | None = option(
        None, "huang_local: tokens in a block; default: a quarter of the context"
    )
    buckets: int | None = option(None, "t5: entries for all distances; default 32")
    features: int | None = option(
        None, "transformer_xl: sinusoids (sines and cosines); default: the model's width"
    )
    first_layers: int | None = option(
        None, "two_d: how many layers also measure the further axes; default 1"
    )
    axes: list[str] | None = option(
        None, "two_d: further axes, some of time, pitch, voice; default: all that the tokens have"
    )
    cycles: list[int] = option(
        [], "any scheme: add a learned vector for place mod n, for each n; 4: the chorale's voice"
    )
    sinusoids: int = option(
        0, "any scheme: sinusoids of the place set beside the embedding, channels; 0 = none"
    )
    max_time: int | None = option(
        None, "two_d: distances in time with an entry of their own, time steps; default 512"
    )

    def __post_init__(self) -> None:
        one_of("position.name", self.name, POSITIONS)
        at_least("position.max_distance", self.max_distance, 1)
        for name, (scheme, low) in {
            "block": ("huang_local", 1),
            "buckets": ("t5", 2),
            "features": ("transformer_xl", 2),
            "first_layers": ("two_d", 1),
            "max_time": ("two_d", 1),
        }.items():
            value = getattr(self, name)
            at_least(f"position.{name}", value, low)
            require(
                value is None or self.name == scheme,
                f"position.{name}",
                value,
                f"position={scheme} with it, not position={self.name}",
            )
        require(
            self.axes is None or self.name == "two_d",
            "position.axes",
            self.axes,
            f"position=two_d with it, not position={self.name}",
        )
        require(
            self.axes is None or (bool(self.axes) and set(self.axes) <= set(AXES)),
            "position.axes",
            self.axes,
            "one or more of " + ", ".join(AXES) + ", such as [pitch]",
        )
        require(
            self.features is None or self.features % 2 == 0,
            "position.features",
            self.features,
            "an even number: sines and cosines",
        )


@dataclass
class ModelConfig:
    """The network's shape; the sizes are files under conf/model."""

    name: str = option("paper", "label of the size")
    layers: int = option(6, "blocks of attention and feed-forward")
    width: int = option(512, "size of the residual stream")
    heads: int = option(8, "attention heads; width must be a multiple of it")
    feedforward: int = option(2048, "hidden size of the feed-forward part")
    context: int = option(2048, "length of a training window, tokens")
    dropout: float = option(0.1, "on embeddings, attention weights and each residual branch")
    tied: bool = option(True, "use the token embedding as output matrix too")
    attention: str = option("auto", "implementation: " + ", ".join(IMPLEMENTATIONS))
    heard: list[int] = option(
        [], "notes come with their intervals to those so many tokens before; chorales: [1,2,3,4]"
    )
    asked: list[int] = option(
        [], "candidates for the next note are judged by their intervals to those so many before"
    )
    heard_dropout: float = option(
        0.0,
        "in training, share of the heard intervals withheld: few pieces are soon known by heart",
    )

    def __post_init__(self) -> None:
        for name in ("layers", "width", "heads", "feedforward"):
            at_least(f"model.{name}", getattr(self, name), 1)
        at_least("model.context", self.context, 8)
        require(
            self.width % self.heads == 0 and (self.width // self.heads) % 2 == 0,
            "model.heads",
            self.heads,
            f"a divisor of model.width={self.width} that leaves an even size for each head",
        )
        probability("model.dropout", self.dropout)
        probability("model.heard_dropout", self.heard_dropout)
        for name in ("heard", "asked"):
            lags = getattr(self, name)
            require(
                all(lag >= 1 for lag in lags) and len(set(lags)) == len(lags),
                f"model.{name}",
                lags,
                "different numbers of tokens from 1, such as [1,2,3,4]",
            )
        one_of("model.attention", self.attention, IMPLEMENTATIONS)


@dataclass
class OptimConfig:
    """The optimizer and the course of its learning rate."""

    name: str = option("adamw", "adamw, or muon (for the hidden matrices, adamw for the rest)")
    lr: float | None = option(
        None, "highest learning rate; default: 1e-3 * sqrt(512 / width), a fifth of it with init="
    )
    rest: float = option(
        1.0, "muon: learning rate of all but the hidden matrices, as a share of lr"
    )
    tables: float = option(
        1.0, "learning rate of the tables of distances and intervals, times that of their like"
    )
    betas: list[float] = option([0.9, 0.98], "AdamW's two decay rates")
    weight_decay: float = option(0.01, "on matrices; never on biases, norms and embeddings")
    clip: float = option(1.0, "largest norm of the gradient; 0 = no clipping")
    schedule: str = option("cosine", "cosine (to min_lr), rsqrt (inverse square root) or constant")
    warmup: int = option(100, "steps of linear rise at the start")
    min_lr: float = option(0.0, "cosine: the last learning rate, as a share of lr")
    ema: float = option(0.0, "decay of the running mean of weights that is kept; 0 = none")

    def __post_init__(self) -> None:
        one_of("optim.name", self.name, ("adamw", "muon"))
        if self.lr is not None:
            require(0 < self.lr < 10, "optim.lr", self.lr, "a positive number below 10")
        require(
            len(self.betas) == 2 and all(0 <= b < 1 for b in self.betas),
            "optim.betas",
            self.betas,
            "two numbers from 0 up to 1, such as [0.9,0.98]",
        )
        for name in ("rest", "tables"):
            share = getattr(self, name)
            require(0 < share <= 10, f"optim.{name}", share, "a share above 0, at most 10")
        at_least("optim.weight_decay", self.weight_decay, 0)
        at_least("optim.clip", self.clip, 0)
        one_of("optim.schedule", self.schedule, ("cosine", "rsqrt", "constant"))
        at_least("optim.warmup", self.warmup, 0)
        require(0 <= self.min_lr <= 1, "optim.min_lr", self.min_lr, "a share from 0 to 1")
        probability("optim.ema", self.ema)


@dataclass
class TrainerConfig:
    """How long, on what, how often to look."""

    steps: int = option(2000, "optimizer steps")
    minutes: float | None = option(None, "stop by the clock instead, schedule fitted to it")
    batch: int = option(8, "windows a step and device")
    accumulate: int = option(1, "batches added up before each step")
    validate_every: int = option(200, "steps between validations, checkpoints and samples")
    validation_windows: int = option(64, "windows of validation data used each time; 0 = all")
    precision: str = option("auto", "auto (bf16 on GPUs that have it), 32 or bf16")
    accelerator: str = option("auto", "auto, cpu, gpu, mps, ... as Lightning names them")
    devices: str = option("auto", "how many devices: auto or a number")
    strategy: str = option("auto", "Lightning strategy: auto, ddp, fsdp, ...")
    workers: int = option(0, "data-loader processes")
    sample_seconds: float = option(10.0, "length of the sample at each checkpoint; 0 = none")
    tensorboard: bool = option(True, "log for TensorBoard too if it is installed")

    def __post_init__(self) -> None:
        at_least("trainer.steps", self.steps, 1)
        if self.minutes is not None:
            require(self.minutes > 0, "trainer.minutes", self.minutes, "a positive number")
        at_least("trainer.batch", self.batch, 1)
        at_least("trainer.accumulate", self.accumulate, 1)
        at_least("trainer.validate_every", self.validate_every, 1)
        at_least("trainer.validation_windows", self.validation_windows, 0)
        one_of("trainer.precision", self.precision, ("auto", "32", "bf16"))
        at_least("trainer.workers", self.workers, 0)
        at_least("trainer.sample_seconds", self.sample_seconds, 0)


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


@dataclass
class PrepareConfig:
    """musictx prepare: a folder of MIDI -> token shards."""

    corpus: CorpusConfig = field(default_factory=CorpusConfig)
    tokenizer: TokenizerConfig = field(default_factory=TokenizerConfig)


@dataclass
class TrainConfig:
    """musictx train: a corpus -> a model folder."""

    corpus: CorpusConfig = field(default_factory=CorpusConfig)
    tokenizer: TokenizerConfig = field(default_factory=TokenizerConfig)
    model: ModelConfig = field(default_factory=ModelConfig)
    position: PositionConfig = field(default_factory=PositionConfig)
    optim: OptimConfig = field(default_factory=OptimConfig)
    trainer: TrainerConfig = field(default_factory=TrainerConfig)
    sampling: SamplingConfig = field(default_factory=SamplingConfig)
    init: str | None = option(None, "model folder to start from (fine-tuning)", path=True)
    out: str | None = option(
        None, "run folder; default runs/CORPUS-KEY, resumed if it is there", path=True
    )
    fresh: bool = option(False, "start again even if the run folder holds a checkpoint")
    seed: int = option(0, "of every random draw")

    def __post_init__(self) -> None:
        whole_seed(self.seed)
        require(
            not self.corpus.augment.misheard
            or self.init is not None
            or self.tokenizer.name == "chorale",
            "corpus.augment.misheard",
            self.corpus.augment.misheard,
            f"0 with tokenizer={self.tokenizer.name}; only in tokenizer=chorale is a token a note",
        )


@dataclass
class ModelFolder:
    """Which trained model to use."""

    path: str | None = option(
        None,
        "model folder, or one that comes along: piano, chorale; default: the newest under runs/, "
        "else one of those, as suits what is asked for",
        path=True,
    )


@dataclass
class GenerateConfig:
    """musictx generate: a model folder -> new music."""

    model: ModelFolder = field(default_factory=ModelFolder)
    sampling: SamplingConfig = field(default_factory=SamplingConfig)
    primer: str | None = option(
        None, "MIDI file to continue, or mozart_k545, which comes along", path=True
    )
    primer_seconds: float | None = option(None, "use only its first seconds")
    primer_tokens: int | None = option(None, "use only its first tokens")
    melody: str | None = option(
        None, "MIDI or MusicXML melody to harmonise, for models of four voices", path=True
    )
    particles: int = option(24, "melody: harmonisations written side by side; more: better, slower")
    include_primer: bool = option(True, "write the primer before the continuation")
    seconds: float | None = option(30.0, "length of the new music, seconds")
    tokens: int | None = option(
        None, "length of the new music, tokens; the first limit reached ends"
    )
    may_end: bool = option(False, "let the model end the piece before that length")
    samples: int = option(1, "how many pieces")
    context: int | None = option(None, "tokens the model looks back on; default: its own context")
    render: bool = option(False, "write .wav and .png beside each .mid")
    out: str = option("generated", "folder for the results", path=True)
    name: str | None = option(None, "file name without ending; default: from primer or model, seed")
    device: str = option("auto", "auto, cpu, cuda, mps")
    seed: int = option(0, "of every random draw; sample i of seed s is always the same")

    def __post_init__(self) -> None:
        whole_seed(self.seed)
        for name in ("primer_seconds", "seconds"):
            value = getattr(self, name)
            if value is not None:
                require(0 < value < 1e6, name, value, "a positive number of seconds")
        at_least("primer_tokens", self.primer_tokens, 1)
        at_least("tokens", self.tokens, 1)
        at_least("samples", self.samples, 1)
        at_least("particles", self.particles, 1)
        require(
            self.melody is None or self.primer is None,
            "melody",
            self.melody,
            "nothing beside primer: a melody is harmonised, a primer continued",
        )
        at_least("context", self.context, 2)
        require(
            self.seconds is not None or self.tokens is not None,
            "seconds",
            self.seconds,
            "a length: give seconds, tokens or both",
        )


@dataclass
class EvaluateConfig:
    """musictx evaluate: a model folder and a corpus -> nats per token."""

    model: ModelFolder = field(default_factory=ModelFolder)
    corpus: CorpusConfig = field(default_factory=CorpusConfig)
    split: str = option("validation", "train, validation or test")
    window: int | None = option(None, "tokens in a window; default: the model's context")
    stride: int | None = option(None, "tokens between windows; default: window (no overlap)")
    batch: int = option(8, "windows at a time")
    out: str | None = option(None, "also write the result to this JSON file", path=True)
    device: str = option("auto", "auto, cpu, cuda, mps")

    def __post_init__(self) -> None:
        one_of("split", self.split, ("train", "validation", "test"))
        at_least("window", self.window, 2)
        at_least("stride", self.stride, 1)
        at_least("batch", self.batch, 1)


@dataclass
class RenderConfig:
    """musictx render: any MIDI file -> WAV and piano-roll PNG."""

    midi: str | None = option(None, "the MIDI file", path=True)
    wav: bool = option(True, "write sound")
    png: bool = option(True, "write a piano roll")
    out: str | None = option(
        None, "folder for the results; default: beside the MIDI file", path=True
    )
    sample_rate: int = option(44100, "of the WAV file, hertz")
    soundfont: str | None = option(
        None, "SF2 file; default: the one pretty_midi installs", path=True
    )
    engine: str = option("auto", "sampler (built in), fluidsynth, or auto: fluidsynth if installed")

    def __post_init__(self) -> None:
        require(
            8000 <= self.sample_rate <= 192000, "sample_rate", self.sample_rate, "8000 to 192000"
        )
        one_of("engine", self.engine, ("auto", "sampler", "fluidsynth"))
