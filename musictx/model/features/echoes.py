"""What followed the last time, in tokens of events: told to the network.

Music returns to what it has said, and a small network hardly ever finds the place. Here the pitches
struck so far are compared with themselves: each token is told how the longest run of pitches that
ends with the last note went on when it stood earlier in the piece: which pitch followed, how many
steps from now that would be, and how loud it was. Learned numbers by the length of the run say how
much more likely each of the three makes its own token.

Related: :mod:`musictx.chorale`'s ``repeats`` on a grid, ``bars`` for music in bars, the neural
cache (Grave et al. 2017).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from musictx.attention.positions.coordinates import ranges
from musictx.errors import ConfigError
from musictx.model.features.base import Feature, NativeForm, joined
from musictx.model.features.pitches import TIMES, class_of, time_classes
from musictx.tokens.vocab import Tokenizer

#: Runs count from three notes on. Their classes, by the lengths with which they begin; 0: no run.
LENGTHS = (3, 4, 6, 8, 12, 16, 32)
CLASSES = len(LENGTHS) + 1
#: Runs are not told apart beyond so many notes, and are looked for so many notes back.
MOST_NOTES, FARTHEST = 32, 1024


class Seen(NamedTuple):
    """What is known after each of (B, T) tokens, all int64.

    length  (B, T): the class of the run, 0 where there is none
    pitch   (B, T): which followed, counted from the lowest
    steps   (B, T): until it would follow, 0 if it is due or overdue
    level   (B, T): of loudness, 0 where it is not known
    """

    length: Tensor
    pitch: Tensor
    steps: Tensor
    level: Tensor


class Echoes(Feature):
    """Embeddings and scores of what followed.

    size      how many ids there are
    steps, starts, loudness   ranges of ids as in ``coordinates.ranges``: the time they take, the
              pitch that they strike, the loudness that they set for what follows

    Everything begins at zero.
    """

    name = "echoes"
    steps: Tensor
    starts: Tensor
    loud: Tensor
    time_class: Tensor
    on_id: Tensor
    step_id: Tensor
    loud_id: Tensor

    def __init__(
        self,
        size: int,
        width: int,
        *,
        steps: list[list[int]],
        starts: list[list[int]],
        loudness: list[list[int]],
    ) -> None:
        super().__init__()
        begun, time = ranges("starts", size, starts, -1), ranges("steps", size, steps, 0)
        loud = ranges("loudness", size, loudness, 0)
        self.low = int(begun[begun >= 0].min())
        self.pitches, self.levels = int(begun.max()) - self.low + 1, int(loud.max()) + 1
        self.most_steps = int(time.max())
        self.keep(
            steps=time,
            starts=torch.where(begun >= 0, begun - self.low, -1),
            loud=loud,
            time_class=time_classes(),
            # The id of each pitch, number of steps and level; 0 where there is none.
            on_id=_inverse(begun - self.low, self.pitches),
            step_id=_inverse(time, self.most_steps + 1),
            loud_id=_inverse(loud, self.levels),
        )
        self.in_length = nn.Parameter(torch.zeros(CLASSES, width))
        self.in_pitch = nn.Parameter(torch.zeros(self.pitches, width))
        self.in_steps = nn.Parameter(torch.zeros(TIMES, width))
        self.in_level = nn.Parameter(torch.zeros(self.levels, width))
        self.scores = nn.Parameter(torch.zeros(3 * CLASSES, width))

    @classmethod
    def of_tokens(cls, tokenizer: Tokenizer) -> dict[str, Any]:
        events = tokenizer.sounding()
        if events is None:
            raise ConfigError(
                "model.features=echoes: expected tokenizer=performance, whose notes start and end, "
                f"not {tokenizer.name}"
            )
        return {name: events[name] for name in ("steps", "starts", "loudness")}

    @torch.no_grad()
    def read(self, ids: Tensor, earlier: Tensor, places: Tensor) -> Seen:
        """What is known after each of ``ids``; see :meth:`Feature.read`."""
        every, place = joined(ids, earlier, places)
        every, new = every.clamp(min=0), slice(earlier.shape[1], None)  # id 0 does nothing
        index = torch.arange(every.shape[1], device=ids.device).expand_as(every)
        begins = (index - place).clamp(min=0)
        time, level = self.steps[every].cumsum(1), self.loud[every]
        set_at = torch.where(level > 0, index, 0).cummax(1).values
        level = level.gather(1, set_at) * (set_at >= begins)

        # The notes in their order: column n is note number n, and column 0 is none.
        struck = self.starts[every] >= 0
        number = struck.cumsum(1)
        # To look at one number would wait for a GPU, and torch.export cannot: there as many columns
        # as there may be notes.
        unseen = ids.is_cuda or torch.compiler.is_exporting()
        most = number.shape[1] + 1 if unseen else int(number[:, -1].max()) + 1
        at = index.new_zeros(len(every), most)
        at.scatter_(1, torch.where(struck, number, 0), index)
        pitch, begun = self.starts[every].gather(1, at), begins.gather(1, at)
        pitch = torch.where(at >= begun, pitch, -1)
        pitch[:, 0] = -1
        run, lag = _longest_runs(pitch, begun)

        last = number[:, new]
        in_piece = (last > 0) & (at.gather(1, last) >= begins[:, new])
        length = torch.bucketize(run.gather(1, last), _edges(ids), right=True) * in_piece
        then = (last + 1 - lag.gather(1, last)).clamp(min=0)
        when = time.gather(1, at)
        gap = when.gather(1, then) - when.gather(1, (then - 1).clamp(min=0))
        left = (gap - (time[:, new] - when.gather(1, last))).clamp(min=0)
        known = length > 0
        return Seen(
            length,
            pitch.gather(1, then) * known,
            left * known,
            level.gather(1, at).gather(1, then) * known,
        )

    def embed(self, x: Tensor, seen: Seen) -> Tensor:
        """``x`` (B, T, width) and the vectors of what followed."""
        told = F.embedding(seen.pitch, self.in_pitch) + F.embedding(seen.level, self.in_level)
        told = told + F.embedding(class_of(seen.steps, self.time_class), self.in_steps)
        told = told + F.embedding(seen.length, self.in_length)
        return x + (told * (seen.length > 0)[..., None]).to(x.dtype)

    def score(self, logits: Tensor, x: Tensor, seen: Seen) -> Tensor:
        """``logits`` (B, T, vocab) and what is added to those of the pitch that followed, of the
        time until then, and of its loudness."""
        worth = F.linear(x, self.scores).float().unflatten(-1, (3, CLASSES))
        worth = worth.gather(3, seen.length[..., None, None].expand(-1, -1, 3, 1))[..., 0]
        ids = torch.stack(
            [
                self.on_id[seen.pitch],
                self.step_id[seen.steps.clamp(max=self.most_steps)],
                self.loud_id[seen.level],
            ],
            2,
        )
        worth = worth * ((seen.length > 0)[..., None] & (ids > 0))
        return logits.scatter_add(2, ids, worth.to(logits.dtype))

    def native(self) -> NativeForm:
        names = ("steps", "starts", "loud", "time_class", "on_id", "step_id", "loud_id")
        tables = {name: getattr(self, name) for name in names}
        weights = ("in_length", "in_pitch", "in_steps", "in_level")
        return NativeForm(
            Path(__file__).with_name("echoes.h"),
            "Echoes",
            {
                **tables,
                **{name: getattr(self, name) for name in weights},
                "longest": self.most_steps,
                "times": len(self.time_class),
            },
            scores=self.scores,
        )


def _edges(like: Tensor) -> Tensor:
    return torch.tensor(LENGTHS, device=like.device)


def _inverse(values: Tensor, count: int) -> Tensor:
    """(count,): the first id that has each value, 0 where none has."""
    found = torch.zeros(count, dtype=torch.int64)
    for token_id, value in reversed([*enumerate(values.tolist())]):
        if 0 <= value < count:
            found[value] = token_id
    return found


def _longest_runs(pitch: Tensor, begun: Tensor) -> tuple[Tensor, Tensor]:
    """For each note (B, n) the length of the longest run of pitches that ends with it and stands
    earlier in the piece too, and how many notes earlier; of equally long ones the latest.

    begun  (B, n): where the piece of each note begins
    """
    pitch, begun = pitch.int(), begun.int()  # the table of all lags is large
    count = pitch.shape[1]
    number = torch.arange(count, device=pitch.device, dtype=torch.int32)
    lags = torch.arange(1, min(count, FARTHEST) + 1, device=pitch.device, dtype=torch.int32)
    back = (number - lags[:, None]).clamp(min=0)  # (lags, n)
    same = (pitch[:, back] == pitch[:, None]) & (begun[:, back] == begun[:, None])
    same &= (number >= lags[:, None]) & (pitch[:, None] >= 0)
    broken = torch.where(same, -1, number).cummax(2).values
    run = (number - broken).clamp(max=MOST_NOTES)
    nearer_first = torch.arange(len(lags), 0, -1, device=pitch.device)[:, None]
    best = (run * (len(lags) + 1) + nearer_first).argmax(1)
    return run.gather(1, best[:, None])[:, 0], lags[best]
