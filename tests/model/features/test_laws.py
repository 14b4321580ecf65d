"""Laws of every feature: pieces apart, the cache goes on, and how a model begins and is made."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from musictx.model.transformer import MusicTransformer
from tests.chorale.features import test_grid, test_intervals
from tests.model.features import test_conditions, test_motif_memory, test_sounding

#: Of each: a model, and a piece for a seed.
FEATURES: dict[str, tuple[Any, Any]] = {
    "sounding": (test_sounding.model, lambda seed: test_sounding.music(1, 60, seed)),
    "echoes": (test_motif_memory.model, lambda seed: test_motif_memory.music(1, 60, seed)),
    "intervals": (test_intervals.model, lambda seed: test_sounding.music(1, 60, seed) % 16),
    "conditions": (
        test_conditions.model,
        lambda seed: torch.tensor([test_conditions.window(seed)[:60]]),
    ),
    "grid": (test_grid.model, lambda seed: test_grid.music(1, seed)[:, :60]),
}
every_feature = pytest.mark.parametrize("feature", FEATURES)


@every_feature
@pytest.mark.parametrize("position", ["huang", "rotary", "none"])
@torch.no_grad()
def test_a_piece_knows_nothing_of_the_one_before_and_the_cache_goes_on(feature, position):
    make, piece = FEATURES[feature]
    found, one, two = make(position), piece(5)[:, :30], piece(6)
    whole = found(two)
    together = found(torch.cat([one, two], dim=1), piece_ids=torch.tensor([[0] * 30 + [1] * 60]))
    torch.testing.assert_close(together[:, 30:], whole)
    for cuts in ([40, 20], [1] * 60, [60], [59, 1]):
        cache, parts = found.new_cache(1, 64), two.split(cuts, dim=1)
        steps = torch.cat([found(part, cache=cache) for part in parts], dim=1)
        torch.testing.assert_close(steps, whole)


@every_feature
def test_the_configuration_makes_the_model_again(feature):
    make, piece = FEATURES[feature]
    found = make()
    again = MusicTransformer(**found.config.plain()).double()
    again.load_state_dict(found.state_dict())
    assert torch.equal(again.eval()(piece(1)), found(piece(1)))


def parts(model: MusicTransformer) -> dict[str, Tensor]:
    """Parameters of the features alone."""
    own = {id(p) for feature in model.features for p in feature.parameters()}
    return {name: p for name, p in model.state_dict(keep_vars=True).items() if id(p) in own}


@pytest.mark.parametrize("feature", ["sounding", "conditions", "echoes"])
def test_given_to_a_model_later_it_changes_nothing_at_first(feature):
    make, piece = FEATURES[feature]
    made = MusicTransformer(**make().config.plain()).double().eval()  # not drawn: as it begins
    plain = MusicTransformer(**made.config.plain() | {"features": []}).double()
    assert made.config.feature(feature) is not None
    plain.load_state_dict({k: v for k, v in made.state_dict().items() if k not in parts(made)})
    assert torch.equal(made(piece(7)), plain.eval()(piece(7)))


@every_feature
def test_scores_begin_without_effect(feature):
    make, piece = FEATURES[feature]
    made = MusicTransformer(**make().config.plain()).double().eval()
    ids, places = piece(2), torch.arange(60)[None]
    x, logits = torch.randn(1, 60, 16).double(), torch.randn(1, 60, made.config.vocab_size)
    for part in made.features:
        seen = part.read(ids, ids[:, :0], places)
        assert part.score(logits, x, seen).equal(logits)
        assert part.finish(x, seen).equal(x)
