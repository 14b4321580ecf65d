from __future__ import annotations

import importlib.util

import numpy as np
import pytest

from musictx.chorale import bach, voice_leading
from musictx.errors import UserError
from tests.chorale.parts import of_score

installed = pytest.mark.skipif(
    importlib.util.find_spec("music21") is None, reason="needs the extra bach"
)


def voice(score, track):
    return score.notes[score.notes["track"] == track]


@installed
def test_chorales_in_four_parts_are_kept_by_name():
    names = [name for name, _ in bach.chorales()]
    # music21 9 and 10 hold the same 410 files; should that change, the number may.
    assert 340 <= len(names) <= 380
    assert names == sorted(set(names))
    assert "bwv1.6" not in names  # two horns play along


@installed
def test_bwv_66_6_begins_as_it_is_sung():
    """BWV 66.6 in F sharp minor, with its pickup of two eighths."""
    score = dict(bach.chorales())["bwv66.6"]
    soprano = voice(score, 0)
    # C#5 B4 A4 B4 C#5 E5 C#5 | quarters are 0.6 s
    assert soprano["pitch"][:7].tolist() == [73, 71, 69, 71, 73, 76, 73]
    assert np.round(soprano["start"][:7], 6).tolist() == [0, 0.3, 0.6, 1.2, 1.8, 2.4, 3.0]
    first = score.notes[score.notes["start"] == 0]
    assert sorted(first["pitch"].tolist(), reverse=True) == [73, 64, 57, 57]  # A major
    assert [int(voice(score, t)["pitch"][0]) for t in range(4)] == [73, 64, 57, 57]
    assert score.duration == pytest.approx(36 * 0.6)


@installed
def test_four_voices_in_singable_ranges_one_note_at_a_time_on_thirty_seconds():
    ranges = {0: (57, 83), 1: (50, 77), 2: (43, 74), 3: (33, 67)}
    for name, score in bach.chorales():
        for track, (low, high) in ranges.items():
            notes = voice(score, track)
            assert len(notes) > 10, name
            assert low <= notes["pitch"].min() <= notes["pitch"].max() <= high, (name, track)
            assert np.all(notes["start"][1:] >= notes["end"][:-1] - 1e-9), (name, track)
        steps = score.notes["start"] / 0.075
        assert np.abs(steps - np.round(steps)).max() < 1e-6, name


@installed
def test_bach_keeps_the_rules_nearly_always():
    """Rates with a margin: a wrong definition is off by far more."""
    rates = voice_leading.rates(
        voice_leading.assess(*of_score(score)) for _, score in bach.chorales()
    )
    assert 0.5 < rates["parallel fifths / 100 bars"] < 1.5
    assert 0.2 < rates["parallel octaves / 100 bars"] < 1
    assert rates["outside its range / 100 bars"] < 3
    assert rates["leap / 100 bars"] < 8
    assert rates["doubled leading note / 100 bars"] < 4
    assert rates["spacing / 100 bars"] < 8
    assert rates["crossing / 100 bars"] < 12
    assert rates["ends on a triad in root position, %"] > 98
    assert rates["bass ends a fourth up or a fifth down, %"] > 85


def test_without_music21_the_error_names_what_to_install(monkeypatch):
    monkeypatch.setattr(bach.importlib.util, "find_spec", lambda name: None)
    bach.chorales.cache_clear()
    with pytest.raises(UserError, match=r'pip install "musictx\[bach\]"'):
        bach.chorales()
