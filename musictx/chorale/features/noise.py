"""Token noise: in training some notes are changed by one or two semitones, and others are hidden.

So the network never reads the same bar twice and learns not to rely on single notes, which helps
after a wrong note of its own. The targets have no noise.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from musictx.chorale.features import VoiceFeature
from musictx.config.checks import option
from musictx.model.features.base import NativeForm, Options
from musictx.tokens.vocab import PAD


@dataclass
class NoiseOptions(Options):
    prefix = "model.features.token_noise"

    share: float = option(
        0.0,
        "share of the notes that the network reads one or two semitones off in training, against "
        "overfitting; the targets stay as they are",
        low=0,
        below=1,
    )
    hidden: float = option(
        0.0,
        "hide a share of the notes of each training window, drawn between 0 and this, against "
        "overfitting",
        low=0,
        below=1,
    )


class TokenNoise(VoiceFeature):
    """In training, moves each note by 1 or 2 semitones, up or down, with probability ``share``, and
    replaces it with ``pad`` with a probability that is drawn for each row from 0 to ``hidden``.

    Successive pitches have successive ids. A note does not move if the new id is not a note.
    """

    name = "token_noise"
    options = NoiseOptions
    lookback = 0

    def __init__(
        self, size: int, width: int, *, share: float = 0.0, hidden: float = 0.0, **grid: Any
    ) -> None:
        super().__init__(size, **grid)
        self.share, self.hidden = share, hidden

    def disturb(self, ids: Tensor) -> Tensor:
        if not self.training:
            return ids
        choice = torch.randint(4, ids.shape, device=ids.device)
        semitones = torch.tensor([-2, -1, 1, 2], device=ids.device)[choice]
        moved = (ids + semitones).clamp(0, len(self.pitches) - 1)
        is_moved = torch.rand(ids.shape, device=ids.device) < self.share
        is_note = self.pitches[ids] >= 0
        is_moved &= is_note & (self.pitches[moved] >= 0)
        noisy = torch.where(is_moved, moved, ids)
        if self.hidden:
            rate = self.hidden * torch.rand(len(ids), 1, device=ids.device)
            noisy = noisy.masked_fill(
                is_note & (torch.rand(ids.shape, device=ids.device) < rate), PAD
            )
        return noisy

    def native(self) -> NativeForm:
        return self.native_form("TokenNoise", "")
