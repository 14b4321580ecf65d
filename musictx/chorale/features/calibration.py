"""Calibration of the logits: a temperature and a bias for held notes, fitted on held-out pieces.

A network that was trained for fifteen epochs on a few hundred pieces is overconfident, and its
voices move slightly too often. Temperature scaling (Guo et al. 2017) and the bias correct that
without changing other weights. Each voice has parameters of its own at each step of a beat, since
voices behave differently on the beat and between beats. They are part of the model.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from musictx.chorale.features import VoiceFeature
from musictx.config.checks import option
from musictx.model.features.base import NativeForm, Options
from musictx.tokens.vocab import EOS


class NextToken(NamedTuple):
    """What is known of the token after each of (B, T) ids, int64.

    kind  its voice and step of the beat, as a number from 0 to voices x phases - 1
    last  the last id of its voice; -1: none
    """

    kind: Tensor
    last: Tensor


@dataclass
class CalibrationOptions(Options):
    prefix = "model.features.calibration"

    phases: int = option(4, "steps in a beat, each with parameters of its own", low=1, high=64)


class Calibration(VoiceFeature):
    """Calibrates the logits, for each voice at each of ``phases`` steps of a beat.

    The logits are multiplied by ``scale``; ``hold`` is added to the logit of the last id of the
    voice, and ``end`` (1,) to that of ``eos``, which scaling alone would make more likely.
    ``scale`` and ``hold`` have an entry for each voice and step of the beat. This feature must be
    the last one. It has no effect until it is fitted
    (``scripts/reproduce/calibrate.py``).
    """

    name = "calibration"
    options = CalibrationOptions
    sparse = False

    def __init__(self, size: int, width: int, *, phases: int, **grid: Any) -> None:
        super().__init__(size, **grid)
        self.lookback = voices = self.voices
        self.scale = nn.Parameter(torch.ones(phases * voices))
        self.hold = nn.Parameter(torch.zeros(phases * voices))
        self.end = nn.Parameter(torch.zeros(1))

    def read(self, ids: Tensor, previous_ids: Tensor, positions: Tensor) -> NextToken:
        return NextToken(positions % len(self.scale), self.last_notes(ids, previous_ids, positions))

    def score(self, logits: Tensor, x: Tensor, state: NextToken) -> Tensor:
        kind, last = state
        hold = (self.hold[kind] * (last >= 0)).to(logits.dtype)
        scaled = logits * self.scale[kind].to(logits.dtype)[..., None]
        scaled = scaled.scatter_add(-1, last.clamp(min=0)[..., None], hold[..., None])
        is_eos = torch.arange(logits.shape[-1], device=logits.device) == EOS
        return scaled + is_eos * self.end.to(logits.dtype)

    def native(self) -> NativeForm:
        return self.native_form("Calibration", "scale hold end voices", kinds=len(self.scale))
