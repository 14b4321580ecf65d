"""Drummers of a style: what is said of the next stroke, one after the other, is what they play."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from musictx.errors import UserError
from musictx.songs import drummers
from musictx.songs.bar_infill import BarInfill
from musictx.songs.drummers import Drummer
from musictx.tokens.build import build
from musictx.tokens.stream import DRUM_PART
from tests.songs.test_bar_infill import NETWORK, TOKENS, as_counts, gap, versions
from tests.songs.test_bar_infill import song as waltz

#: One drum of each kind: kick, snare, hat, crash.
FOUR = np.array([36, 38, 42, 49])
TABLE = TOKENS.vocabulary


def normalised(nats):
    return nats - np.log(np.exp(nats).sum())


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from([1.0, 2.0]))
def test_stroke_by_stroke_they_say_what_a_bar_of_theirs_says(seed, weight):
    """Oracle: strokes of each kind at each step come or not, whatever the others do."""
    random = np.random.default_rng(seed)
    rates = random.uniform(0.05, 0.9, (4, 6))
    played, drummer = random.random((4, 6)) < rates, Drummer(rates, weight, FOUR)
    said, step, after = 0.0, 0, -1
    for at, kind in sorted((at, kind) for kind, at in np.argwhere(played).tolist()):
        nats = drummer.log_prob_onset(step, after)
        nats[step:-1] += [
            drummer.log_prob_hit(n, after if n == step else -1) for n in range(step, 6)
        ]
        said += nats[at]
        if weight == 1:  # the ways to go on are all there are
            ways = nats[step + (after == FOUR[-1]) :]
            assert np.exp(ways).sum() == pytest.approx(1.0)
        after = after if at == step else -1
        may = np.where(after < FOUR, drummer.log_prob_drum(at, after), -np.inf)
        said += may[kind] - drummer.log_prob_hit(at, after)
        if weight == 1:
            assert normalised(may)[kind] == pytest.approx(
                may[kind] - drummer.log_prob_hit(at, after)
            )
        step, after = at, int(FOUR[kind])
    said += drummer.log_prob_onset(step, after)[-1]
    assert said == pytest.approx(weight * np.log(np.where(played, rates, 1 - rates)).sum())


def test_new_drums_are_those_of_the_drummer_and_all_else_is_as_it_was():
    rates = np.zeros((4, 96))
    rates[0, ::48], rates[1, 24::48], rates[2, ::12] = 0.95, 0.95, 0.95
    tones = np.asarray(TABLE.value_of[slice(*TABLE.range("drum"))])
    kept = TOKENS.quantise(common(waltz(bars=16)))
    table = np.zeros((2, 4, 96))
    for number, some in enumerate(([], [Drummer(rates, 4.0, tones)])):
        options = {"closes": False, "parts": (DRUM_PART,), "drummers": some}
        (made,) = versions(BarInfill(NETWORK, TOKENS, kept, 0.0, 16.0, **options))
        assert made.done
        old = TOKENS.decode(made.piece).notes[~np.array(made.is_new, bool)]
        assert as_counts(old) == as_counts(kept.notes[kept.notes["start"] < 16.0 - 1e-6])
        at = np.round(made.new["start"] * 48).astype(int) % 96
        np.add.at(table[number], (drummers.kind_of(made.new["pitch"]), at), 1)
    on = (table * (rates > 0)).sum((1, 2)) / table.sum((1, 2))
    assert on[1] > 0.9 > on[0]
    assert min(table[1, 0, 0], table[1, 1, 24]) >= 7, "of 8 bars"


def common(score):
    """The notes of a score in bars of 4/4 instead."""
    meters = score.meters[:1].copy()
    meters["numerator"], meters["denominator"] = 4, 4
    return replace(score, meters=meters)


def test_each_version_has_another_drummer():
    rates = [np.zeros((4, 96)), np.zeros((4, 96))]
    rates[0][0, ::24], rates[1][0, 12::24] = 0.95, 0.95
    tones = np.asarray(TABLE.value_of[slice(*TABLE.range("drum"))])
    both = [Drummer(one, 4.0, tones) for one in rates]
    _, part = gap(common(waltz(bars=8)), 0.0, 8.0, (DRUM_PART,), closes=False, drummers=both)
    for number, made in enumerate(versions(part, [(0, 0), (0, 1)])):
        kicks = made.new[np.isin(made.new["pitch"], drummers.KINDS["kick"])]
        off = np.round(kicks["start"] * 48).astype(int) % 24
        assert (off == 12 * number).mean() > 0.8


def test_a_style_is_written_and_read():
    rates = np.round(np.random.default_rng(0).random((4, 24)) * 9) / 9
    back = drummers.from_text(drummers.to_text(rates))
    assert back.shape == (4, 96)
    at = [24 * quarter + place for quarter in range(4) for place in drummers.PLACES]
    np.testing.assert_allclose(back[:, at], rates)
    assert back.sum() == pytest.approx(rates.sum())


def test_a_style_that_is_not_known_is_refused_with_those_that_are():
    styles = {"usual": [drummers.to_text(np.zeros((4, 24)))], "rock": [], "jazz": []}
    with pytest.raises(UserError, match="style=polka: expected one of rock, jazz"):
        drummers.of_style(styles, "polka", TABLE)
    with pytest.raises(UserError, match="this model knows no styles"):
        drummers.of_style({}, "rock", TABLE)
    assert len(drummers.of_style(styles, None, TABLE)) == 1
    assert drummers.of_style({}, None, build("notes").vocabulary) == []


@pytest.mark.parametrize("marked", [True, False])
def test_a_fill_ends_a_section_and_another_drum_begins_the_next(marked):
    """Sections are marked from the third and the seventh bar on, or are of eight bars."""
    rates, fill = np.zeros((4, 96)), np.zeros((4, 96))
    rates[2, ::12], fill[1, ::12] = 0.95, 0.95
    score = TOKENS.quantise(common(waltz(bars=16)))  # 12 bars of 4/4, two seconds each
    if marked:
        score = replace(score, markers=((4.0, "verse"), (12.0, "chorus"), (13.0, "C:maj")))
    tones = np.asarray(TABLE.value_of[slice(*TABLE.range("drum"))])
    some = [Drummer(rates, 2.0, tones, fill)]
    options = {"closes": False, "parts": (DRUM_PART,), "drummers": some}
    (made,) = versions(BarInfill(NETWORK, TOKENS, score, 0.0, 24.0, **options))
    bar, step = np.divmod(np.round(made.new["start"] * 48).astype(int), 96)
    begins = {2, 6} if marked else {8}
    kinds = drummers.kind_of(made.new["pitch"])
    fills = np.isin(bar + 1, [*begins])
    assert (kinds[fills] == 1).mean() > 0.8 > 0.2 > (kinds[~fills] == 1).mean()
    assert begins <= set(bar[(step == 0) & (kinds == 3)].tolist())
