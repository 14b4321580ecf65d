"""The options of ``musictx train``: batches, the network, the optimizer. The options of the corpus,
of position schemes and of the Trainer are in files of their own."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field, replace
from typing import Any

from musictx import registry
from musictx.config.checks import LARGEST_SEED, CheckedOptions, option
from musictx.config.corpus import CorpusConfig, TokenizerConfig
from musictx.config.position import checked
from musictx.config.sampling import SamplingConfig
from musictx.config.trainer import TrainerConfig

#: Implementations of attention: those of the core, then those of optional components.
IMPLEMENTATIONS = ("auto", "reference", "skew", "sdpa", *registry.ATTENTION)
#: The built-in optimizers.
OPTIMIZERS = ("adamw", "muon")
#: The tasks for which training windows can be arranged.
TASKS = ("infill", "accompany", "vary", "steer")


@dataclass
class DataConfig(CheckedOptions, prefix="data"):
    """Batches for training and validation."""

    batch_size: int = option(8, "number of windows in a batch on each device", low=1, high=65_536)
    num_workers: int = option(
        0, "processes that prepare batches ahead; 0 = the training process", low=0, high=128
    )
    validation_windows: int = option(
        64, "number of windows of held-out pieces to measure at each validation; 0 = all", low=0
    )
    growing_windows: list[list[int]] = option(
        [],
        "[[batches,tokens],...]: up to this number of batches, train on windows of this number of "
        "tokens, with proportionally more windows in a batch; afterwards of model.context tokens",
    )
    tasks: dict[str, float] = option(
        {},
        "shares of the training windows to arrange as tasks, such as {infill: 0.2, accompany: 0.2, "
        "steer: 0.1}, for notes tokens also vary; needs tokenizer.controls=true",
        low=0,
    )
    melody: str = option(
        "skyline",
        "melody in windows of the task accompany: skyline (the highest notes, or those above or "
        "below a pitch) or the part with this program number",
        pattern=(r"skyline|1[01]\d|12[0-7]|\d\d?", "skyline, or a program from 0 to 127"),
    )

    def check(self) -> None:
        are_shares = set(self.tasks) <= set(TASKS) and sum(self.tasks.values()) <= 1
        self.require("tasks", are_shares, f"shares of {', '.join(TASKS)} that add up to 1 at most")
        pairs = self.growing_windows
        are_growing = all(len(pair) == 2 and min(pair) >= 1 for pair in pairs) and all(
            a[0] < b[0] and a[1] < b[1] for a, b in itertools.pairwise(pairs)
        )
        expected = "pairs of batches and tokens that both grow, such as [[2000,256],[8000,512]]"
        self.require("growing_windows", are_growing, expected)


@dataclass
class ModelConfig(CheckedOptions, prefix="model"):
    """The size and the parts of the network. ``conf/model`` has presets. The bounds are far above
    any useful size, but low enough that a typo does not fill the memory."""

    layers: int = option(6, "number of transformer blocks", low=1, high=1000)
    width: int = option(256, "channels of the residual stream", low=1, high=2**15)
    heads: int = option(4, "number of attention heads, a divisor of width", low=1, high=2**12)
    feedforward: int = option(1024, "hidden channels of the feed-forward layers", low=1, high=2**18)
    context: int = option(1024, "length of a training window, tokens", low=8, high=2**20)
    dropout: float | None = option(
        None, "dropout on embeddings, attention, branches; default: 0.1, or init's", low=0, below=1
    )
    attention: str = option(
        "auto",
        "implementation of attention; auto = the fastest usable one: " + ", ".join(IMPLEMENTATIONS),
        choices=IMPLEMENTATIONS,
    )
    gates: bool = option(
        False, "multiply the output of each attention head by a gate computed from its input"
    )
    first_values: bool = option(
        False, "let each layer mix the attention values of the first layer into its own"
    )
    features: list[Any] = option(
        [],
        "further inputs of the network, computed from the ids so far; each is a name, or a name "
        "with options, such as [{name: sounding, recent: 8}, conditions]",
    )

    def check(self) -> None:
        expected = f"a divisor of model.width={self.width} that leaves an even size for each head"
        self.require("heads", self.width % (2 * self.heads) == 0, expected)
        self.features = [{"name": f} if isinstance(f, str) else f for f in self.features]
        names = [f.get("name") if isinstance(f, dict) else None for f in self.features]
        expected = "names, each alone or with its options: [{name: sounding, recent: 8}]"
        are_names = all(isinstance(name, str) and name for name in names)
        self.require("features", are_names, expected)


@dataclass
class OptimConfig(CheckedOptions, prefix="optim"):
    """The optimizer and its learning-rate schedule."""

    name: str = option(
        "adamw",
        "adamw, muon (for the hidden matrices, adamw for the rest), or a class of your own: "
        "optim._target_=package.module.Class",
    )
    lr: float | None = option(
        None,
        "highest learning rate; default: 1e-3 * sqrt(512 / width), or a fifth of that with init=",
        above=0,
        below=10,
    )
    adamw_lr: float = option(
        1.0,
        "muon: multiplier of lr for the weights that AdamW trains (all but the hidden matrices)",
        above=0,
        high=10,
    )
    table_lr: float = option(
        1.0,
        "further multiplier of lr for the tables of relative positions and intervals",
        above=0,
        high=10,
    )
    betas: list[float] = option([0.9, 0.98], "the two decay rates of AdamW", low=0, below=1)
    weight_decay: float = option(0.01, "decay of matrices, not of biases, norms, embeddings", low=0)
    schedule: str = option(
        "cosine",
        "course of lr after warmup: cosine (to zero), rsqrt (inverse square root) or constant",
        choices=("cosine", "rsqrt", "constant"),
    )
    warmup: int = option(100, "number of steps at the start in which lr rises linearly", low=0)
    params: dict[str, Any] = option(
        {}, "arguments of a class of your own, each written optim.NAME=VALUE"
    )
    ema: float = option(
        0.0,
        "decay of an exponential moving average of the weights, saved as the model; 0 = none",
        low=0,
        below=1,
    )

    def check(self) -> None:
        if ":" not in self.name:
            expected = f"one of {', '.join(OPTIMIZERS)}, or module:Class"
            self.require("name", self.name in OPTIMIZERS, expected)
        self.require("betas", len(self.betas) == 2, "two numbers such as [0.9,0.98]")


@dataclass
class TrainConfig(CheckedOptions):
    """The options of ``musictx train``: a corpus becomes a model folder."""

    corpus: CorpusConfig = field(default_factory=CorpusConfig)
    tokenizer: TokenizerConfig = field(default_factory=TokenizerConfig)
    model: ModelConfig = field(default_factory=ModelConfig)
    position: dict[str, Any] = option(
        {"name": "huang"}, "position scheme; position=NAME --help=all lists its options"
    )
    data: DataConfig = field(default_factory=DataConfig)
    optim: OptimConfig = field(default_factory=OptimConfig)
    trainer: TrainerConfig = field(default_factory=TrainerConfig)
    sampling: SamplingConfig = field(default_factory=SamplingConfig)
    callbacks: dict[str, Any] = option(
        {},
        "Lightning callbacks, each by its _target_: callbacks=none, or +callbacks.mine._target_=",
        rare=True,
    )
    logger: dict[str, Any] = option({}, "Lightning loggers, each named by its _target_", rare=True)
    init: str | None = option(
        None,
        "fine-tuning: model to start from, a model folder or a model that comes with musictx",
        path="models",
    )
    freeze: int = option(
        0,
        "fine-tuning: number of layers, from the first, that keep their weights from init",
        low=0,
        high=1000,
    )
    out: str | None = option(
        None,
        "run folder; default: runs/CORPUS-MODEL-seedSEED-KEY; an existing run is resumed",
        path="out",
    )
    seed: int = option(0, "seed of all random draws", low=0, high=LARGEST_SEED)

    def check(self) -> None:
        self.position = checked(self.position)
        expected = "init=MODEL with it: a new model has no trained layers"
        self.require("freeze", self.init is not None or not self.freeze, expected)
        if self.init is None and self.model.dropout is None:
            self.model = replace(self.model, dropout=0.1)
