"""scripts/reproduce/steering.py: ranks by hand, and a run with a model that was never trained."""

from types import SimpleNamespace

import numpy as np
import pytest

from musictx.notes import Score
from scripts.reproduce import steering


def test_ranks_and_their_correlation():
    assert steering.ranks(np.array([3.0, 1.0, 3.0, 9.0])).tolist() == [2.5, 1, 2.5, 4]
    up = np.array([1.0, 2, 3, 4])
    assert steering.rank_correlation(up, up**3) == pytest.approx(1)
    assert steering.rank_correlation(up, -up) == pytest.approx(-1)
    # 1 - 6 (1 + 1) / (4 (16 - 1)), by the formula for ranks without ties
    assert steering.rank_correlation(up, np.array([2.0, 1, 3, 4])) == pytest.approx(0.8)


@pytest.mark.parametrize("follows", [True, False])
def test_each_control_is_requested_and_measured(follows, monkeypatch, capsys):
    """Of a model that plays the pitch that is requested, or its mirror image about 60."""
    requested = []

    def generate(model, *, samples, register, **options):
        requested.append((samples, register))
        pitch = round(register if follows else 120 - register)
        rows = [(0.25 * i, 0.25 * i + 0.2, pitch, 80, 0, False, 0) for i in range(12)]
        return [SimpleNamespace(score=Score(rows))] * samples

    monkeypatch.setattr(steering.musictx, "generate", generate)
    results = steering.main(samples=16, seconds=3, controls=["register"])
    assert requested == [(2, value) for value in steering.values("register")]
    assert results == {"register": 1.0 if follows else -1.0}
    lines = capsys.readouterr().out.splitlines()
    measured = np.array(lines[2].split()[1:], float)
    wanted = np.array(steering.values("register"))
    assert measured == pytest.approx(wanted if follows else 120 - wanted, abs=0.6)
    assert "over 16 pieces" in lines[3]
