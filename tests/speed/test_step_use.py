"""The C++ step: which models it supports, invalid arguments, changed weights and caches."""

import pytest
import torch

from musictx.model.features import Feature
from musictx.sampling import engine
from musictx.speed.step import NativeStep, why_not
from tests import compiler
from tests.speed.test_step import V, make, prefilled, round_weights, same

pytestmark = compiler.needed


class Silent(Feature):
    """Adds nothing, and has no C++ implementation."""

    name = "silent"

    def __init__(self, size: int, width: int) -> None:
        super().__init__()


def test_a_feature_without_a_cpp_implementation_is_not_supported_and_printed_once(capsys) -> None:
    model = make(features=[{"name": f"{__name__}:Silent"}])
    for _ in range(2):
        assert "silent has no C++ implementation" in str(why_not(model))
        assert engine.cache_name("auto", model) == "growing"
    assert capsys.readouterr().err.count("the feature silent has no C++ implementation") == 1


def test_invalid_numbers_of_rows_and_ids_are_refused() -> None:
    model = make()
    cache = prefilled(model, torch.ones(2, 2).long(), 4)
    for rows, capacity in ((0, 4), (3, 4), (2, 0)):
        message = f"rows={rows}, capacity={capacity} and a cache of 2 rows: expected"
        with pytest.raises(ValueError, match=message):
            NativeStep(model, cache, rows=rows, capacity=capacity)
    with pytest.raises(ValueError, match=r"expected \(2,\) int64"):
        NativeStep(model, cache, rows=2, capacity=4)(torch.ones(3).long())


def test_changed_weights_are_packed_again() -> None:
    model = round_weights(make("huang"))
    up, results = model.blocks[0].feedforward[0], []

    def in_place() -> None:
        with torch.no_grad():
            up.bias[3] += 1

    def without_version() -> None:  # torch does not count this change
        up.bias.data[3] += 1

    def replaced() -> None:
        up.bias = torch.nn.Parameter(up.bias.detach() + 1)

    for change in (lambda: None, in_place, without_version, replaced):
        change()
        steps = [
            NativeStep(model, prefilled(model, torch.ones(1, 2).long(), 9), rows=1, capacity=9)
            for _ in "ab"
        ]
        first, second = (step(torch.ones(1).long()).clone() for step in steps)
        assert torch.equal(first, second)
        assert not any(torch.equal(first, result) for result in results)
        results.append(first)


@pytest.mark.parametrize(("scheme", "capacity"), [("huang", 6), ("two_d", 13)])
@torch.no_grad()
def test_a_cache_that_has_slid_replaces_another(scheme: str, capacity: int) -> None:
    """Tokens go to the slots of their positions; if there are too many, the last remain."""
    model = make(scheme)
    ids = torch.randint(V, (2, 20))
    step = NativeStep(model, prefilled(model, ids[:1, :9], 9), rows=2, capacity=capacity)
    cache = prefilled(model, ids[:, :15], 20)
    cache.slide(4)  # positions 4..14
    step.load(cache)
    for token in ids[:, 15:].split(1, dim=1):
        cache.slide(max(0, cache.length - capacity + 1))
        same(step(token[:, 0]), model(token, cache=cache)[:, 0])
