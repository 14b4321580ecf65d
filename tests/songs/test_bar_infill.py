"""Notes in bars composed around known ones: these stay, and new ones are where they may be."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from musictx.config import SamplingConfig
from musictx.model.features import with_tokens
from musictx.model.transformer import MusicTransformer
from musictx.sampling import composer
from musictx.sampling.constraints import Constraint
from musictx.sampling.strengths import MOST_ALIKE
from musictx.songs import infill_biases
from musictx.songs.bar_infill import BarInfill
from musictx.tokens.build import build
from musictx.tokens.stream import CHORD, DRUM_PART
from tests.sampling.test_events import begun_and_ended, listed
from tests.songs.test_grouped import song

TOKENS = build("notes", low=40, high=90, controls=True)
BAR = 1.5  # seconds of 3/4 at 120


def model(context=2400):
    torch.manual_seed(1)
    made = MusicTransformer(
        TOKENS.size,
        layers=1,
        width=16,
        heads=1,
        feedforward=32,
        context=context,
        group=TOKENS.group,
        features=with_tokens([{"name": "bars"}, {"name": "ahead"}], TOKENS),
    ).eval()
    for parameter in made.parameters():
        torch.nn.init.normal_(parameter, std=0.2)
    return made


NETWORK = model()


def versions(part, seeds=((0,),), sampling=None, **more):
    part.sampling = sampling or part.sampling
    return list(composer.versions(part, seeds, **more))


def as_counts(notes):
    return Counter(
        (round(a * 16), round(b * 16), p, prog, drum)
        for a, b, p, _, prog, drum, _ in notes.tolist()
    )


def gap(score, begin, end, parts=(0,), **more):
    kept = TOKENS.quantise(score)
    inside = (kept.notes["start"] >= begin - 1e-6) & (kept.notes["start"] < end - 1e-6)
    kept = kept.with_notes(kept.notes[~inside])
    options = {"is_gap": True, "parts": parts} | more
    return kept, BarInfill(NETWORK, TOKENS, kept, begin, end, **options)


@settings(max_examples=15, deadline=None)
@given(
    st.integers(0, 5),
    st.integers(0, 30),
    st.integers(2, 20),
    st.sampled_from([(0,), (33,), (0, DRUM_PART)]),
)
def test_what_is_known_comes_back_and_new_notes_begin_inside(seed, first, length, parts):
    begin, end = first * BAR / 6, (first + length) * BAR / 6
    kept, part = gap(song(seed=seed), begin, end, parts)
    (made,) = versions(part)
    assert made.done
    everything = TOKENS.decode(made.piece).notes
    old = everything[~np.array(made.is_new, bool)]
    before_end = kept.notes[kept.notes["start"] < end - 1e-6]
    assert as_counts(made.placed(old)) == as_counts(before_end)
    new = made.new
    assert ((new["start"] >= begin - 1e-6) & (new["start"] < end - 1e-6)).all()
    of = np.where(new["drum"], DRUM_PART, new["program"])
    assert set(of.tolist()) <= set(parts)
    for start, stop, pitch, _, program, drum, _ in new[~new["drum"]].tolist():
        same = kept.notes[(kept.notes["pitch"] == pitch) & (kept.notes["program"] == program)]
        same = same[~same["drum"]]
        over = (same["start"] < stop - 1e-6) & (same["end"] > start + 1e-6)
        assert not (over & (same["start"] >= begin)).any() or drum
    assert TOKENS.grammar(made.piece).notes == len(everything)


def test_versions_differ_where_each_would_come_out_the_same():
    """The likeliest notes are those of every seed; those of later versions tell others apart."""
    _, part = gap(song(), 3.0, 6.0)
    seeds, likeliest = [(0, n) for n in range(4)], SamplingConfig(temperature=0.0)
    made = [as_counts(one.new) for one in versions(part, seeds, likeliest)]
    assert all(made)
    for n, one in enumerate(made):
        for other in made[:n]:
            assert 2 * (one & other).total() <= MOST_ALIKE * (one.total() + other.total())
    assert [as_counts(one.new) for one in versions(part, seeds[:2], likeliest)] == made[:2]
    told = [[] for _ in seeds]
    tell = lambda number, event: told[number].append(event)  # noqa: E731
    again = versions(part, seeds, likeliest, on_event=tell)
    assert [as_counts(one.new) for one in again] == made
    for events, one in zip(told, again):
        assert begun_and_ended(events) == listed(one.new, "program")


def test_a_variation_shares_no_more_with_what_it_varies_than_versions_do(monkeypatch):
    """The likeliest notes, which come again, were it not for that."""
    was = TOKENS.quantise(song())
    kept, part = gap(song(), 3.0, 6.0, varied=was)
    assert as_counts(part.varied) == as_counts(was.notes) - as_counts(kept.notes)
    _, part = gap(song(), 3.0, 6.0)
    assert part.varied is None
    likeliest = SamplingConfig(temperature=0.0)
    (first,) = versions(part, sampling=likeliest)
    monkeypatch.setattr(BarInfill, "varied", first.new)
    told: list = []
    (made,) = versions(part, sampling=likeliest, on_event=lambda _, e: told.append(e))
    one, other = as_counts(first.new), as_counts(made.new)
    assert one
    assert other
    assert 2 * (one & other).total() <= MOST_ALIKE * (one.total() + other.total())
    assert begun_and_ended(told) == listed(made.new, "program")


def test_what_does_not_fit_is_composed_in_segments():
    """New notes are told as they are written; known ones, written again or ahead, are not."""
    score = song(bars=24)
    melody = score.with_notes(score.notes[score.notes["program"] == 33])
    options = {"is_gap": False, "parts": (0,)}
    part = BarInfill(model(context=600), TOKENS, melody, 0.0, 24 * BAR, **options)
    told: list = []
    (made,) = versions(part, on_event=lambda _, event: told.append(event))
    assert made.done
    old = TOKENS.decode(made.piece).notes[~np.array(made.is_new, bool)]
    assert as_counts(made.placed(old)) == as_counts(TOKENS.quantise(melody).notes)
    assert made.new["start"].max() > 20 * BAR
    assert begun_and_ended(told) == listed(made.new, "program")
    begins = [one.seconds for one in told if one.on]
    assert begins == sorted(begins)


def test_chords_of_the_file_are_known_and_others_are_composed():
    named = TOKENS.quantise(song())
    assert named.markers
    part = BarInfill(NETWORK, TOKENS, named, 3.0, 6.0, is_gap=True, parts=(0,))
    assert CHORD not in part.parts
    (made,) = versions(part)
    assert TOKENS.decode(made.piece).markers == tuple(
        one for one in named.markers if one[0] < 6.0 - 1e-6
    )
    unnamed = replace(named, markers=())
    assert CHORD in BarInfill(NETWORK, TOKENS, unnamed, 3.0, 6.0, is_gap=True, parts=(0,)).parts


@pytest.mark.parametrize("count", [1, 3])
def test_ids_that_are_sure_are_read_at_once(count, monkeypatch):
    _, part = gap(song(), 3.0, 6.0)
    seeds = [(0, n) for n in range(count)]
    at_once = [one.new.tolist() for one in versions(part, seeds)]
    monkeypatch.setattr(Constraint, "due", lambda self: None)
    assert at_once == [one.new.tolist() for one in versions(part, seeds)]


def test_bars_repeat_those_whose_given_notes_they_share():
    """A note less in each of two bars is no other bar, and chords say nothing."""
    random = np.random.default_rng(4)
    rows = [
        (bar * BAR + at / 4, bar * BAR + at / 4 + 0.2, int(pitch), 64, 33, False, 0)
        for bar in range(8)
        for at, pitch in enumerate(random.integers(50, 80, 6))
    ]
    rows += [(a + 8 * BAR, b + 8 * BAR, *rest) for a, b, *rest in rows]
    rows = [row for n, row in enumerate(rows) if n not in (5, 60)]
    tune = replace(song().with_notes(rows), markers=tuple((BAR * n, "C") for n in range(16)))
    stream = TOKENS.grid(tune, 0.0, 16 * BAR).stream
    assert infill_biases.repeated_bars(stream).tolist() == [0] * 8 + [8] * 8
