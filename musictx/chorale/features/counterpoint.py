"""What each voice sings, and how two voices move at once: from which interval to which.

That is how counterpoint is taught: a fifth may follow a sixth but not another fifth. The interval
embeddings score each interval of a candidate by itself; what makes a parallel fifth is two
intervals and two motions together, which a small network does not find in a few hundred pieces.
Here each such succession has a learned score, and so has each note in each voice: a network that
goes by intervals otherwise forgets where a soprano ends. No rule is built in: which successions and
notes are rare is read off the music.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from musictx.attention.positions.coordinates import ranges
from musictx.chorale.features import grid_of, lagged, of_each
from musictx.model.features.base import Feature, NativeForm, joined
from musictx.tokens.tokenizer import Tokenizer

#: Intervals count modulo the octave.
OCTAVE = 12
#: Successions: contrary or similar motion, the interval before, the interval now.
SUCCESSIONS = 2 * OCTAVE * OCTAVE


class Motion(NamedTuple):
    """voice (B, T): the next one. Pitches, -1 where there is none: last (B, T), its last note;
    others (voices - 1, B, T, 2), of the voice n + 1 above it the last note and that of this step.
    """

    voice: Tensor
    last: Tensor
    others: Tensor


class Counterpoint(Feature):
    """Scores of each candidate for the next note: in its voice, and of the successions of intervals
    that it would make.

    pitches   the pitch of each id, as ranges [first, stop, value]; others have none
    voices    written in turn, one token a step each; place i of a piece is voice (i - 1) mod voices

    A candidate that moves is compared with each voice that has moved in this step already: the
    number of the succession is added to its logit. ``scores`` (voices, voices - 1, SUCCESSIONS) has
    those of each voice and each distance to a voice above it, ``notes`` (voices, vocab) those of
    the candidates alone; both begin at zero. Numbers, not vectors that the state weighs: those
    overfit (``scripts/LOG.md``).
    """

    name = "counterpoint"
    pitches: Tensor

    def __init__(self, size: int, width: int, *, voices: int, pitches: list[list[int]]) -> None:
        super().__init__()
        self.voices = voices
        self.longest = 2 * voices
        self.keep(pitches=ranges("pitches", size, pitches, -1))
        self.scores = nn.Parameter(torch.zeros(voices, voices - 1, SUCCESSIONS))
        self.notes = nn.Parameter(torch.zeros(voices, size))

    @classmethod
    def of_tokens(cls, tokenizer: Tokenizer) -> dict[str, Any]:
        return grid_of(tokenizer, cls.name)

    def read(self, ids: Tensor, earlier: Tensor, places: Tensor) -> Motion:
        pitch = of_each(self.pitches, joined(ids, earlier, places)[0])
        voices, voice = self.voices, places % self.voices
        back = lagged(pitch, places, range(2 * voices - 1))
        # Of the next voice only those above it are written in this step.
        others = torch.stack([back[voices:], back[: voices - 1]], -1)
        above = torch.arange(1, voices, device=ids.device)[:, None, None]
        return Motion(voice, back[voices - 1], others.masked_fill((voice < above)[..., None], -1))

    def score(self, logits: Tensor, x: Tensor, seen: Motion) -> Tensor:
        logits = logits + F.embedding(seen.voice, self.notes)
        last, now = seen.last[..., None], self.pitches
        way = (now - last).masked_fill((now < 0) | (last < 0), 0)
        for table, others in zip(self.scores.unbind(1), seen.others):
            before, after = others[..., :1], others[..., 1:]
            motion = way * (after - before).masked_fill((before < 0) | (after < 0), 0)
            then, interval = (before - last).abs() % OCTAVE, (after - now).abs() % OCTAVE
            similar = seen.voice[..., None] * 2 + (motion > 0)
            row = (similar * OCTAVE + then) * OCTAVE + interval
            logits = logits + table.flatten()[row] * (motion != 0)
        return logits

    def native(self) -> NativeForm:
        tables = {"pitches": self.pitches, "moves": self.scores, "notes": self.notes}
        return NativeForm(
            Path(__file__).with_name("counterpoint.h"),
            "Counterpoint",
            {**tables, "voices": self.voices},
        )
