"""What a pianist's hands know: told to the network, for notes in seconds (tokens/groups.py).

A note that was played is placed by the time since the note before it, not by its place in a bar that
means nothing; its pitch lies so far from the pitches just struck and those that sound; and with the
pedal down it ends when they end. All three are differences between numbers that tokens say one by
one. So the network's scores are laid out by difference: one for each wait, which go to the places
that many steps on (and, for all that reach beyond the bar, to the bar line); one for each interval
from the last notes and from what sounds; one for each of the last notes, which go to the length
with which the new note ends as that one does. What is learned at one place and in one key holds
everywhere.

Related: :mod:`musictx.model.features.sounding` does the same for tokens of events.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from musictx.attention.positions.coordinates import ranges
from musictx.errors import ConfigError
from musictx.model.features import group_keys as keys
from musictx.model.features.pitches import by_interval, differences, precision
from musictx.tokens.bars import STEPS
from musictx.tokens.vocab import Tokenizer

#: Steps of a bar, and the longest wait that is told apart.
BAR_STEPS, LONGEST_WAIT = 8 * STEPS, 16 * STEPS
#: Waits that have scores of their own: 0 to the longest, and places that are past.
WAITS = LONGEST_WAIT + 2
#: How many of the last notes are looked at; intervals are scored from so many of them.
NOTES, NEAR = 16, 4
#: What is known of a pitch: it sounds, was struck at this place, was struck lately and is silent.
SOUNDS, NOW, LATELY, KINDS = 0, 1, 2, 3
#: What an end of the last notes is: that of one note alone, or of several.
ALONE, SHARED, ENDS = 0, 1, 2


class Seen(NamedTuple):
    """What is known after each of (B, T) ids.

    field   (B, T): which field of a group is next; -1 in a group that is no note
    base    (B, T): place of the last group in its bar;  since  (B, T): steps from the last note there
    wait    (B, T): where a place was just written, 1 + the steps since the last note; else 0
    pitch   (B, T, NOTES): of the last notes, the latest first, -1 where there is none
    state   (B, T, NOTES): of each, one of SOUNDS, NOW, LATELY, at the place that was written
    until   (B, T, NOTES): steps from that place to the end of each, 0 where it has ended
    shared  (B, T, NOTES): ALONE or SHARED
    """

    field: Tensor
    base: Tensor
    since: Tensor
    wait: Tensor
    pitch: Tensor
    state: Tensor
    until: Tensor
    shared: Tensor


class Played(keys.GroupFeature):
    """Embeddings and scores of waits, intervals and common ends.

    size   how many ids there are;  width  of the network
    length, pitch, place, bar   ranges of ids as in ``coordinates.ranges``
    chords  by how many weightings the pitches that sound are read
    kinds   further ones, of ``group_keys.table``
    """

    name = "played"
    further = ("length",)
    products = ("intervals",)
    steps: Tensor

    @classmethod
    def of_tokens(cls, tokenizer: Tokenizer) -> dict[str, Any]:
        if tokenizer.group == 1 or tokenizer.beats:
            raise ConfigError(
                "model.features=played: expected tokenizer=notes tokenizer.clock=seconds, whose "
                f"notes count seconds, not {tokenizer.name}"
            )
        found = super().of_tokens(tokenizer)
        for name in ("harmony", "meter", "section"):
            found.pop(name, None)
        return found

    def __init__(
        self,
        size: int,
        width: int,
        *,
        length: list[list[int]],
        pitch: list[list[int]],
        place: list[list[int]],
        bar: list[list[int]],
        chords: int = 8,
        **kinds: list[list[int]],
    ) -> None:
        super().__init__()
        named = {"known": [], **kinds, "pitch": pitch, "place": place, "bar": bar}
        self.keep(
            **keys.table(size, **named)._asdict(),
            steps=ranges("length", size, length, 0),
            apart=differences(pitch[0][1] - pitch[0][0]),
        )
        self.places, self.lengths, self.pitches = (
            slice(*rows[0][:2]) for rows in (place, length, pitch)
        )
        self.low, self.bar_id = pitch[0][2], bar[0][0]
        count = self.pitches.stop - self.pitches.start
        self.longest = self.lengths.stop - self.lengths.start
        self.waits = nn.Parameter(torch.zeros(LONGEST_WAIT + 2, width))
        self.sounds = nn.Parameter(torch.zeros(KINDS * count, width))
        self.of_wait = nn.Parameter(torch.zeros(WAITS, width))
        self.of_end = nn.Parameter(torch.zeros(NOTES * ENDS, width))
        self.of_interval = nn.Parameter(torch.zeros(NEAR * (2 * count - 1), width))
        self.wanted = nn.Parameter(torch.zeros(chords, width))
        self.intervals = nn.Parameter(0.1 * torch.randn(KINDS, chords, 2 * count - 1))

    @torch.no_grad()
    def read(self, ids: Tensor, earlier: Tensor, places: Tensor) -> Seen:
        """What is known after each of ``ids``; see :meth:`Feature.read` and :class:`Bars`."""
        laid = keys.rows(ids, earlier, places)
        rows, number, begins = laid.ids, laid.number, laid.begins
        of = self.table
        groups = keys.groups(rows, of)
        is_note = (of.place[groups.first] > 0) & (of.part[rows[:, :, 2]] > 0) & ~groups.other
        step = groups.bar * BAR_STEPS + (of.place[groups.first] - 1) * is_note
        end = step + self.steps[groups.ids[:, :, 3]]
        tone = of.tone[groups.ids[:, :, 2]] - self.low

        # The last group of each row, where it stands, and the notes before the row.
        last, some = (number - 1).clamp(min=0), number > begins
        bar = torch.where(some, groups.bar.gather(1, last), groups.bar - self.is_bar[groups.first].long())
        now = torch.where(some, step.gather(1, last), bar * BAR_STEPS)
        latest = F.pad(torch.where(is_note, number, -1).cummax(1).values, (1, 0), value=-1)
        each = [latest[:, :-1]]
        for _ in range(NOTES - 1):
            each.append(torch.where(each[-1] >= 0, latest.gather(1, each[-1].clamp(min=0)), -1))
        which = torch.stack(each, 2)
        valid = which >= begins[..., None]
        pitch = torch.where(valid, keys.at(tone, which), -1)
        begun, until = keys.at(step, which), keys.at(end, which)
        since = torch.where(valid[:, :, 0], now - begun[:, :, 0], 0)

        # The place that is written, where it is one.
        written = of.place[rows[:, :, 1]] > 0
        here = bar * BAR_STEPS + of.place[rows[:, :, 1]] - 1
        wait = (here - now + since).clamp(0, LONGEST_WAIT) + 1
        left = torch.where(valid & written[..., None], until - here[..., None], 0).clamp(min=0)
        same = until[..., None, :] == until[..., None]  # (B, n, NOTES, NOTES)
        same = same & (valid[..., None, :] & valid[..., None])
        shared = (same.sum(-1) > 1).long()
        state = torch.where(begun == here[..., None], NOW, torch.where(left > 0, SOUNDS, LATELY))

        note = written & ~groups.other
        field = torch.arange(keys.SIZE, device=ids.device).expand_as(rows).clone()
        field[:, :, 1:] = torch.where(note[..., None], field[:, :, 1:], -1)
        waits = torch.zeros_like(rows)
        waits[:, :, 1] = wait * note
        base = now - bar * BAR_STEPS

        def wide(x: Tensor) -> Tensor:
            return x[:, :, None].expand(-1, -1, keys.SIZE, *x.shape[2:]).flatten(1, 2)[:, laid.new]

        return Seen(
            field.flatten(1)[:, laid.new],
            wide(base),
            wide(since),
            waits.flatten(1)[:, laid.new],
            wide(pitch),
            wide(state),
            wide(left),
            wide(shared),
        )

    def embed(self, x: Tensor, seen: Seen) -> Tensor:
        """``x`` (B, T, width), with the wait and what sounds where a place was just written."""
        where = seen.wait > 0
        pitch, state = seen.pitch[where], seen.state[where]
        rows = torch.where(pitch >= 0, state * (len(self.sounds) // KINDS) + pitch, 0)
        told = F.embedding_bag(
            rows, self.sounds, mode="sum", per_sample_weights=(pitch >= 0).to(self.sounds.dtype)
        )
        told = told + F.embedding(seen.wait[where], self.waits)
        return x.index_put((where,), x[where] + told.to(x.dtype))

    def score(self, logits: Tensor, x: Tensor, seen: Seen) -> Tensor:
        """``logits`` (B, T, vocab) and what is added to those of places, pitches and lengths."""
        logits = logits.clone()
        for field, worth in ((0, self._places), (2, self._pitches), (3, self._lengths)):
            where = seen.field == field
            if where.any():
                of = Seen(*(each[where] for each in seen))
                logits[where] = worth(logits[where], x[where], of)
        return logits

    def _places(self, logits: Tensor, x: Tensor, seen: Seen) -> Tensor:
        """(n, vocab) logits, those of places by the wait that each means, and that of a bar line by
        all waits that reach beyond the bar."""
        worth = F.linear(x, self.of_wait).float()
        ahead = torch.arange(BAR_STEPS, device=x.device) - seen.base[:, None]
        wait = (ahead + seen.since[:, None]).clamp(max=LONGEST_WAIT)
        placed = worth.gather(1, torch.where(ahead < 0, WAITS - 1, wait))
        # Sums over all waits from each one on, the longest first.
        longer = worth[:, : WAITS - 1].flip(1).logcumsumexp(1).flip(1)
        beyond = (BAR_STEPS - seen.base + seen.since).clamp(max=LONGEST_WAIT)
        logits[:, self.places] += placed
        logits[:, self.bar_id] += longer.gather(1, beyond[:, None])[:, 0]
        return logits

    def _pitches(self, logits: Tensor, x: Tensor, seen: Seen) -> Tensor:
        """(n, vocab) logits, those of pitches by their intervals to the last notes."""
        count = self.pitches.stop - self.pitches.start
        near = seen.pitch[:, :NEAR]
        worth = F.linear(x, self.of_interval).float().unflatten(1, (NEAR, -1))
        apart = torch.arange(count, device=x.device) - near[..., None] + count - 1
        found = worth.gather(2, apart.clamp(0, 2 * count - 2)) * (near >= 0)[..., None]
        kinds = torch.zeros(len(x), KINDS, count + 1, device=x.device, dtype=precision(x))
        at = torch.where(seen.pitch >= 0, seen.pitch, count)
        kinds[torch.arange(len(x), device=x.device)[:, None], seen.state, at] = 1.0
        known = kinds[..., :-1].transpose(1, 2)
        around = by_interval(x[None], known[None], self.intervals, self.wanted, self.apart)[0]
        logits[:, self.pitches] += found.sum(1) + around
        return logits

    def _lengths(self, logits: Tensor, x: Tensor, seen: Seen) -> Tensor:
        """(n, vocab) logits, those of lengths with which the note ends as one of the last does."""
        each = torch.arange(NOTES, device=x.device) * ENDS + seen.shared
        worth = F.linear(x, self.of_end).float().gather(1, each) * (seen.until > 0)
        length = seen.until.clamp(1, self.longest) - 1 + self.lengths.start
        return logits.scatter_add(1, length, worth)
