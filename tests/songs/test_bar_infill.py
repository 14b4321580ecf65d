"""Infilling in bars: given notes stay, and new notes lie within the region."""

from collections import Counter
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from musictx.config import SamplingConfig
from musictx.model.features import complete_features
from musictx.notes import DRUMS
from musictx.sampling import composer
from musictx.sampling.constants import MOST_ALIKE
from musictx.sampling.constraints import Constraint
from musictx.sampling.infill import Brief
from musictx.songs.bar_infill import BarInfill
from musictx.tokens.build import build
from musictx.tokens.stream import CHORD
from tests.pieces import line
from tests.sampling.pieces import bundle_of
from tests.sampling.test_events import begun_and_ended, listed
from tests.songs.test_grouped import song
from tests.untrained import network

TOKENS = build("notes", low=40, high=90, controls=True)
BAR = 1.5  # seconds of 3/4 at 120


def model(context=2400):
    features = complete_features([{"name": "bars"}, {"name": "ahead"}], TOKENS)
    shape = {"width": 16, "heads": 1, "feedforward": 32, "context": context}
    return network(
        TOKENS.vocabulary.size, seed=1, std=0.2, group=TOKENS.group, features=features, **shape
    )


NETWORK = model()


def versions(part, seeds=((0,),), sampling=None):
    """Versions of a region; the events that are reported of each are its new notes, in order."""
    part.sampling = sampling or part.sampling
    events = [[] for _ in seeds]
    report = lambda number, event: events[number].append(event)  # noqa: E731
    made = [version for version, _ in composer.versions(part, seeds, on_event=report)]
    for reported, version in zip(events, made):
        assert begun_and_ended(reported, tracks=False) == listed(version.new, tracks=False)
        onsets = [event.seconds for event in reported if event.on]
        assert onsets == sorted(onsets)
    return made


def as_counts(notes):
    """How often each note occurs, without its velocity and track."""
    return Counter(
        (round(start * 16), round(end * 16), pitch, program, drum)
        for start, end, pitch, _, program, drum, _ in notes.tolist()
    )


def shared(notes, others):
    """The share of notes that two :func:`as_counts` have in common."""
    return 2 * (notes & others).total() / (notes.total() + others.total())


def given_notes(made):
    """The given notes of a composed piece, as counts."""
    notes = TOKENS.decode(made.piece).notes
    return as_counts(made.finish_notes(notes[~np.array(made.is_new, bool)]))


def part_of(music, begin, end, parts, is_gap=False, drummers=(), varied=None, **more):
    brief = Brief(music, begin, end, is_gap, parts, **more)
    return BarInfill(bundle_of(NETWORK, TOKENS), brief, drummers, varied)


def gap(score, begin, end, parts=(0,), is_gap=True, **more):
    kept = TOKENS.round_trip(score)
    inside = (kept.notes["start"] >= begin - 1e-6) & (kept.notes["start"] < end - 1e-6)
    kept = kept.with_notes(kept.notes[~inside])
    return kept, part_of(kept, begin, end, parts, is_gap, **more)


@settings(max_examples=15)
@given(
    st.integers(0, 5),
    st.integers(0, 30),
    st.integers(2, 20),
    st.sampled_from([(0,), (33,), (0, DRUMS)]),
)
def test_given_notes_stay_and_new_notes_begin_inside(seed, first, length, parts):
    begin, end = first * BAR / 6, (first + length) * BAR / 6
    kept, part = gap(song(seed=seed), begin, end, parts)
    (made,) = versions(part)
    assert made.done
    assert given_notes(made) == as_counts(kept.notes[kept.notes["start"] < end - 1e-6])
    new = made.new
    assert ((new["start"] >= begin - 1e-6) & (new["start"] < end - 1e-6)).all()
    new_parts = np.where(new["drum"], DRUMS, new["program"])
    assert set(new_parts.tolist()) <= set(parts)
    for start, stop, pitch, _, program, _, _ in new[~new["drum"]].tolist():
        later = kept.notes[~kept.notes["drum"] & (kept.notes["start"] >= begin)]
        same = later[(later["program"] == program) & (later["pitch"] == pitch)]
        assert not ((same["start"] < stop - 1e-6) & (same["end"] > start + 1e-6)).any()
    assert TOKENS.grammar(made.piece).notes == len(TOKENS.decode(made.piece))


def test_versions_differ_although_all_have_the_likeliest_notes():
    _, part = gap(song(), 3.0, 6.0)
    seeds, likeliest = [(0, n) for n in range(4)], SamplingConfig(temperature=0.0)
    notes = [as_counts(version.new) for version in versions(part, seeds, likeliest)]
    assert all(notes)
    for one, other in combinations(notes, 2):
        assert shared(one, other) <= MOST_ALIKE
    unreported = composer.versions(part, seeds[:2])
    assert [as_counts(new) for _, new in unreported] == notes[:2]


def test_a_variation_differs_from_the_notes_that_it_varies():
    """Although these are the likeliest notes."""
    old = TOKENS.round_trip(song())
    kept, part = gap(song(), 3.0, 6.0, varied=old)
    assert as_counts(part.variation_of) == as_counts(old.notes) - as_counts(kept.notes)
    _, part = gap(song(), 3.0, 6.0)
    assert part.variation_of is None
    likeliest = SamplingConfig(temperature=0.0)
    (first,) = versions(part, sampling=likeliest)
    part.variation_of = first.new
    (made,) = versions(part, sampling=likeliest)
    assert len(first.new)
    assert len(made.new)
    assert shared(as_counts(first.new), as_counts(made.new)) <= MOST_ALIKE


def test_a_long_region_is_composed_in_segments():
    score = song(bars=24)
    melody = score.with_notes(score.notes[score.notes["program"] == 33])
    bundle = bundle_of(model(context=600), TOKENS)
    part = BarInfill(bundle, Brief(melody, 0.0, 24 * BAR, False, (0,)))
    (made,) = versions(part)
    assert made.done
    assert given_notes(made) == as_counts(TOKENS.round_trip(melody).notes)
    assert made.new["start"].max() > 20 * BAR


def test_chords_of_the_file_are_given_and_others_are_composed():
    named = TOKENS.round_trip(song())
    assert named.markers
    part = part_of(named, 3.0, 6.0, (0,), is_gap=True)
    assert CHORD not in part.parts
    (made,) = versions(part)
    given_chords = tuple(chord for chord in named.markers if chord[0] < 6.0 - 1e-6)
    assert TOKENS.decode(made.piece).markers == given_chords
    unnamed = replace(named, markers=())
    assert CHORD in part_of(unnamed, 3.0, 6.0, (0,), is_gap=True).parts


@pytest.mark.parametrize("count", [1, 3])
def test_forced_ids_are_read_at_once(count, monkeypatch):
    """With the same notes as one by one."""
    _, part = gap(song(), 3.0, 6.0)
    seeds = [(0, n) for n in range(count)]
    at_once = [version.new.tolist() for version in versions(part, seeds)]
    monkeypatch.setattr(Constraint, "forced", lambda self: None)
    assert at_once == [version.new.tolist() for version in versions(part, seeds)]


def test_bars_repeat_those_whose_given_notes_they_share():
    """Also if a note is missing in two of them. Chords do not count."""
    pitches = np.random.default_rng(4).integers(50, 80, 48).tolist() * 2
    notes = np.delete(line(*pitches, every=BAR / 6, program=33).notes, (5, 60))
    tune = replace(song().with_notes(notes), markers=tuple((BAR * n, "C") for n in range(16)))
    part = part_of(tune, 0.0, 16 * BAR, (0,))
    assert part.bars_back().tolist() == [0] * 8 + [8] * 8
