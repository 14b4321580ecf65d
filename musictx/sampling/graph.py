"""The sampling loop on the device alone: one recorded step a token, no waiting for the host.

``engine.generate`` brings the logits of every token to the CPU, where grammar and habits are kept.
Where none are asked for, the choice can be made on the device as well, and a whole step - network,
temperature, top-k, top-p, the draw - is one CUDA graph (or one compiled function) that is replayed
for each token. The host looks only now and then whether every row has ended.

The rules, the seeds and the order of draws are the engine's: the same ids come out, up to the
rounding of logits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import torch
from torch import Tensor

from musictx.model import static
from musictx.model.cache import KVCache
from musictx.model.static import StaticDecoder
from musictx.model.transformer import MusicTransformer
from musictx.sampling.engine import counts_positions, read_prompt
from musictx.sampling.processors import MinP, Processor, Temperature, TopK, TopP
from musictx.tokens.vocab import BOS, CUT, EOS, PAD

#: How a step is run: as it stands; recorded as a CUDA graph; compiled; compiled, then recorded.
WAYS = ("eager", "graph", "compile", "compile+graph")
#: Tokens between two looks of the host.
EVERY = 64
_RULES = (Temperature, TopK, TopP, MinP)
_WARM_UP = 3


def why_not(model: MusicTransformer, processors: Sequence[Processor] = ()) -> str | None:
    """Why this loop cannot do the job, or None if it can."""
    for rule in processors:
        if not isinstance(rule, _RULES):
            return (
                f"{rule!r} may look at earlier ids; on the device only temperature, top-k, top-p "
                "and min-p are known"
            )
    return static.why_not(model)


class Loop:
    """The state of one batch of rows on the device, and the step that moves it on.

    model, rows, capacity, kernel   as of ``StaticDecoder``
    max_tokens  ids a row can draw
    processors  rules of ``sampling/processors.py``, in their order
    way         one of :data:`WAYS`; graphs need CUDA

    ``begin`` starts from a cache and the logits after it, as often as wanted; each ``advance`` adds
    a token. ``out`` (rows, max_tokens) has the ids drawn so far, ``pad`` after ``eos``.
    """

    def __init__(
        self,
        model: MusicTransformer,
        *,
        rows: int,
        capacity: int,
        max_tokens: int,
        processors: Sequence[Processor] = (),
        way: str = "eager",
        backend: str = "inductor",
        kernel: bool | None = None,
    ) -> None:
        reason = why_not(model, processors)
        if reason:
            raise ValueError(f"generation on the device: {reason}")
        if way not in WAYS:
            raise ValueError(f"way={way}: expected one of " + ", ".join(WAYS))
        self.decoder = StaticDecoder(model, rows=rows, capacity=capacity, kernel=kernel)
        device = self.decoder.position.device
        if "graph" in way and device.type != "cuda":
            raise ValueError(f"way={way}: CUDA graphs need a CUDA GPU, not {device.type}")
        self.processors = tuple(processors)
        self.ids = torch.full((rows, 1), PAD, device=device)
        self.out = torch.full((rows, max_tokens), PAD, device=device)
        self.ended = torch.zeros(rows, dtype=torch.bool, device=device)
        self.broken = torch.zeros(1, dtype=torch.bool, device=device)
        self.drawn = torch.zeros(1, dtype=torch.int64, device=device)
        self.points = torch.zeros(rows, max_tokens, dtype=torch.float64, device=device)
        self._number = torch.arange(model.config["vocab_size"], device=device)
        self._never = (self._number == PAD) | (self._number == BOS) | (self._number == CUT)
        self.advance: Callable[[], None] = self._advance
        if "compile" in way:
            self.advance = torch.compile(self._advance, fullgraph=True, backend=backend)
        if "graph" in way:
            self.advance = self._recorded(self.advance)

    def begin(self, cache: KVCache, logits: Tensor, seeds: Sequence[int | Sequence[int]]) -> None:
        """Go on after ``cache`` (a ``KVCache``), whose last ids gave ``logits`` (1 or rows, V): the
        first id of each row is drawn at once. Row r draws from numpy's ``default_rng(seeds[r])``.
        """
        points = [np.random.default_rng(seed).random(self.out.shape[1]) for seed in seeds]
        self.points.copy_(torch.from_numpy(np.stack(points)))
        self._reset()
        self.decoder.load(cache)
        with torch.no_grad():
            self._choose(logits.expand(len(self.out), -1))

    def _reset(self) -> None:
        self.out.fill_(PAD)
        for flag in (self.ended, self.broken, self.drawn):
            flag.zero_()

    def _advance(self) -> None:
        with torch.no_grad():
            self._choose(self.decoder.step(self.ids))

    def _choose(self, logits: Tensor) -> None:
        """Draw an id for each row from ``logits`` (rows, V) and write it down."""
        choice = logits.double().masked_fill(self._never, -torch.inf)
        if self.processors and self.processors[0] == Temperature(0.0):
            found, good = self._likeliest(choice)
        else:
            for rule in self.processors:
                choice = rule(self.ids, choice)
            found, good = self._drawn(choice)
        ids = found.masked_fill(self.ended, PAD)[:, None]
        self.broken.logical_or_(~(good | self.ended).all())
        self.ids.copy_(ids)
        self.out.index_copy_(1, self.drawn, ids)
        self.ended.logical_or_(ids[:, 0] == EOS)
        self.drawn.add_(1)

    def _likeliest(self, choice: Tensor) -> tuple[Tensor, Tensor]:
        """The likeliest id of each row, of equal ones the smallest; which rows have one."""
        most = choice.amax(-1, keepdim=True)
        last = choice.shape[-1] - 1
        # masked_fill and not where: a number is no copy to the device, which a graph refuses.
        ids = self._number.expand_as(choice).masked_fill(choice != most, last)
        return ids.amin(-1), most[:, 0].isfinite()

    def _drawn(self, choice: Tensor) -> tuple[Tensor, Tensor]:
        """As ``engine.draw``: the first id whose cumulative sum lies above the row's point."""
        sums = choice.softmax(-1).cumsum(-1)
        total = sums[:, -1:]
        point = self.points.index_select(1, self.drawn) * total
        # The last sum can be met by rounding only; then it is the last id of any probability.
        found = torch.minimum((sums <= point).sum(-1), (sums < total).sum(-1))
        return found, total[:, 0] > 0

    def _recorded(self, step: Callable[[], None]) -> Callable[[], None]:
        """``step`` as a CUDA graph. What is drawn while it is recorded is forgotten."""
        device = self.decoder.position.device
        with torch.cuda.device(device):
            side = torch.cuda.Stream()
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                for _ in range(_WARM_UP):
                    self._reset()
                    step()
            torch.cuda.current_stream().wait_stream(side)
            self._reset()
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                step()
        return graph.replay


@torch.no_grad()
def generate(
    model: MusicTransformer,
    prompt: Tensor | np.ndarray | Sequence[int],
    *,
    rows: int,
    max_tokens: int,
    processors: Sequence[Processor] = (),
    seeds: Sequence[int | Sequence[int]],
    context: int | None = None,
    way: str | None = None,
) -> Iterator[Tensor]:
    """Yield the next id of each row, (rows,) int64 on the CPU, until the rows end.

    As ``engine.generate`` without a constraint, and with its ids, as long as the window is not
    full; from then on the window slides by one token at a time. Models that count positions cannot
    do that, and are refused if prompt and ``max_tokens`` are more than ``context``.

    way  one of :data:`WAYS`; default: a graph on CUDA, else eager

    Raises ``ValueError`` for what cannot be done, ``FloatingPointError`` if the model gives NaN.
    """
    read, capacity = read_prompt(model, prompt, rows=rows, seeds=seeds, context=context)
    read = read[:, -capacity:]
    if max_tokens < 1:
        return
    if counts_positions(model) and read.shape[1] + max_tokens > capacity:
        raise ValueError(
            f"max_tokens={max_tokens}: {read.shape[1]} ids of prompt and these are more than the "
            f"{capacity} positions of context, and a model with absolute positions cannot slide; "
            "use engine.generate"
        )
    device = next(model.parameters()).device
    if way is None:
        way = "graph" if device.type == "cuda" else "eager"
    training = model.training
    model.eval()
    try:
        capacity = min(capacity, read.shape[1] + max_tokens)
        loop = Loop(
            model, rows=rows, capacity=capacity, max_tokens=max_tokens, processors=processors,
            way=way,
        )  # fmt: skip
        cache = model.new_cache(rows=read.shape[0], capacity=read.shape[1])
        loop.begin(cache, model(read.to(device), cache=cache)[:, -1], seeds)
        ended = torch.zeros(rows, dtype=torch.bool)
        for first in range(0, max_tokens, EVERY):
            stop = min(first + EVERY, max_tokens)
            for _ in range(max(first, 1), stop):
                loop.advance()
            drawn = loop.out[:, first:stop].cpu()  # the host waits here
            if bool(loop.broken):
                raise FloatingPointError("the model gives logits that are not numbers (NaN)")
            for ids in drawn.unbind(1):
                yield ids
                ended |= ids == EOS
                if bool(ended.all()):
                    return
    finally:
        model.train(training)
