"""Music by a model that is being trained."""

from __future__ import annotations

from musictx.bundle import Bundle
from musictx.config import GenerateConfig, TrainConfig
from musictx.notes import Score
from musictx.sampling.composer import continuations
from musictx.sampling.primer import NOTHING
from musictx.sampling.steer import Steering, controls_of

#: The token limit per second of a sample; a model that reaches it writes no time shifts.
TOKENS_PER_SECOND = 60


def compose(model: Bundle, config: TrainConfig, seconds: float) -> Score:
    """Compose a piece with the same seed each time, so that samples show the effect of training."""
    tokens = int(seconds * TOKENS_PER_SECOND) + 100
    request = GenerateConfig(seconds=seconds, tokens=tokens, sampling=config.sampling, end="cut")
    # A model that is being trained does not know its control tokens.
    steering = Steering(targets=controls_of(request))
    seeds = [(config.seed, 0)]
    ((_, piece),) = continuations(model, [NOTHING], request, seeds=seeds, steering=steering)
    return piece.score
