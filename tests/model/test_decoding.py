"""Decoding with a cache of keys and values equals the full forward pass."""

from __future__ import annotations

import pytest
import torch

from musictx.attention.terms import Span
from tests.model.models import build, close, every_scheme, random_ids


@every_scheme
@torch.no_grad()
def test_slide_drops_the_oldest_tokens_and_keeps_all_distances(scheme):
    """In one layer keys know nothing of other tokens, so sliding is exactly a shorter input."""
    model = build(scheme, layers=1)
    ids = random_ids(2, 40)
    cache = model.new_cache(2, 12)
    model(ids[:, :12], cache=cache)
    for t in range(12, 40):
        cache.slide(1)
        got = model(ids[:, t : t + 1], cache=cache)
        alone = model(ids[:, t - 11 : t + 1], positions=Span(t - 11, 12))
        close(got[:, 0], alone[:, -1])
    assert (cache.start, cache.length) == (28, 12)


@torch.no_grad()
def test_the_cache_is_refused_where_it_has_no_meaning():
    model = build()
    ids = random_ids(2, 4)
    with pytest.raises(ValueError, match="the cache knows the positions"):
        model(ids, cache=model.new_cache(2, 8), piece_ids=torch.zeros(2, 4).long())
    with pytest.raises(ValueError, match="cache has 1 rows and 2 layers, expected 2 and 2"):
        model(ids, cache=model.new_cache(1, 8))
    with pytest.raises(ValueError, match="do not fit a capacity of 3"):
        model(ids, cache=model.new_cache(2, 3))
    with pytest.raises(ValueError, match="ids have shape"):
        model(ids[0])
    with pytest.raises(ValueError, match="piece_ids have shape"):
        model(ids, piece_ids=torch.zeros(2, 3).long())
