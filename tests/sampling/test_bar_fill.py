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
from musictx.sampling import fill, known_groups
from musictx.sampling.bar_fill import BarPart
from musictx.sampling.known_groups import KnownGroups
from musictx.sampling.soft import Habit, NoteLimits
from musictx.sampling.steer import Steering
from musictx.tokens import ahead
from musictx.tokens.build import build
from musictx.tokens.group_ids import CHORD, DRUM_PART
from tests.model.test_grouped import song
from tests.sampling.test_events import listed, told_of

TOKENS = build("notes", low=40, high=90, controls=True)
TABLE = TOKENS.vocabulary
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


def versions(part, seeds=((0,),), sampling=None):
    return list(
        fill.compose(part, seeds, sampling=sampling or SamplingConfig(), limits=NoteLimits.of(None))
    )


def as_counts(notes):
    return Counter(
        (round(a * 16), round(b * 16), p, prog, drum)
        for a, b, p, _, prog, drum, _ in notes.tolist()
    )


def gap(score, begin, end, parts=(0,), **more):
    kept = TOKENS.quantise(score)
    inside = (kept.notes["start"] >= begin - 1e-6) & (kept.notes["start"] < end - 1e-6)
    kept = kept.with_notes(kept.notes[~inside])
    options = {"closes": True, "parts": parts} | more
    return kept, BarPart(NETWORK, TOKENS, kept, begin, end, **options)


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


def test_each_version_is_what_it_is_alone():
    _, part = gap(song(), 3.0, 6.0)
    both = versions(part, [(0, 0), (0, 1)])
    alone = [versions(part, [seed])[0] for seed in [(0, 0), (0, 1)]]
    assert [one.new.tolist() for one in both] == [one.new.tolist() for one in alone]
    assert both[0].new.tolist() != both[1].new.tolist()


def test_new_notes_are_told_as_they_are_written():
    """In segments, too: known notes, written again or ahead, are not told."""
    melody = TOKENS.quantise(song(bars=24))
    options = {"closes": False, "parts": (0, DRUM_PART)}
    part = BarPart(model(context=600), TOKENS, melody, 0.0, 8 * BAR, **options)
    told: list = []
    asked = {"sampling": SamplingConfig(), "limits": NoteLimits.of(None)}
    (made,) = fill.compose(part, [(0,)], on_event=lambda _, event: told.append(event), **asked)
    assert len(made.new) > 10
    assert told_of(told) == listed(made.new, "program")
    begins = [one.seconds for one in told if one.on]
    assert begins == sorted(begins)


def test_the_prompt_is_a_training_window_that_stops_where_something_is_to_be_composed():
    kept = replace(gap(song(), 3.0, 6.0)[0], markers=())
    part = BarPart(NETWORK, TOKENS, kept, 3.0, 6.0, closes=True, parts=(0,))
    prompt, later = part.prompt((1, 2, 3, 4))
    placed = TOKENS.grid(kept, 3.0, 6.0).placed
    placed = placed[(placed["part"] != CHORD) | (placed["line"] < 2) | (placed["line"] >= 4)]
    count = len(part.bars)
    sections = np.array([0 if bar in (2, 3) else ahead.WHOLE for bar in range(count)])
    told = ahead.Ahead(2, min(4 + 8, count), count, placed, sections, part.parts)
    ids, _ = ahead.woven(part.bars, placed[placed["line"] < 2], told, TABLE, stop=3)
    assert prompt.tolist() == [1, *ahead.front(TABLE, (1, 2, 3, 4)).tolist(), *ids.tolist()]
    assert not any(later.values())


def test_what_is_varied_is_told_and_need_not_come_back():
    was = TOKENS.quantise(song())
    kept, part = gap(song(), 3.0, 6.0, varied=was)
    prompt, _ = part.prompt((0, 0, 0, 0))
    count = len(part.bars)
    sections = np.array([ahead.VARIED if bar in (2, 3) else ahead.WHOLE for bar in range(count)])
    placed, before = (TOKENS.grid(one, 3.0, 6.0).placed for one in (was, kept))
    placed = np.concatenate(
        [before[before["line"] < 2], placed[np.isin(placed["line"], [2, 3])],
         before[before["line"] > 3]]
    )  # fmt: skip
    told = ahead.Ahead(2, min(4 + 8, count), count, placed, sections, part.parts)
    ids, _ = ahead.woven(part.bars, before[before["line"] < 2], told, TABLE, stop=3)
    assert prompt.tolist() == [1, *ahead.front(TABLE, (0, 0, 0, 0)).tolist(), *ids.tolist()]
    (made,) = versions(part)
    lost = as_counts(was.notes) - as_counts(kept.notes)
    assert lost - as_counts(made.new), "a network that has learnt nothing writes other notes"


def test_what_does_not_fit_is_composed_in_segments():
    score = song(bars=24)
    melody = score.with_notes(score.notes[score.notes["program"] == 33])
    small = model(context=600)
    options = {"closes": False, "parts": (0,)}
    part = BarPart(small, TOKENS, melody, 0.0, 24 * BAR, **options)
    (made,) = versions(part)
    assert made.done
    old = TOKENS.decode(made.piece).notes[~np.array(made.is_new, bool)]
    assert as_counts(made.placed(old)) == as_counts(TOKENS.quantise(melody).notes)
    assert made.new["start"].max() > 20 * BAR


def test_chords_of_the_file_are_known_and_others_are_composed():
    named = TOKENS.quantise(song())
    assert named.markers
    part = BarPart(NETWORK, TOKENS, named, 3.0, 6.0, closes=True, parts=(0,))
    assert CHORD not in part.parts
    (made,) = versions(part)
    assert TOKENS.decode(made.piece).markers == tuple(
        one for one in named.markers if one[0] < 6.0 - 1e-6
    )
    unnamed = replace(named, markers=())
    assert CHORD in BarPart(NETWORK, TOKENS, unnamed, 3.0, 6.0, closes=True, parts=(0,)).parts


def test_a_part_that_is_asked_for_is_not_silent():
    """The more of its usual notes it lacks, the likelier a new one."""
    kept = TOKENS.quantise(song())
    counts = []
    for density in (0.0, 2.0, 20.0):
        habits = {DRUM_PART: Habit(128, 36, 51, density)}
        part = BarPart(
            NETWORK, TOKENS, kept, 0.0, 9.0, closes=False, parts=(DRUM_PART,), habits=habits
        )
        (made,) = versions(part)
        assert made.new["drum"].all()
        counts.append(len(made.new))
    assert counts[0] < counts[2]
    assert counts[2] >= 0.8 * known_groups.LEAST * 20.0 * 9.0


def test_guidance_asks_twice():
    _, part = gap(song(), 3.0, 4.5, steering=Steering((3, 0, 0, 0), guidance=2.0))
    (made,) = versions(part)
    assert made.done


@pytest.mark.parametrize("count", [1, 3])
def test_ids_that_are_sure_are_read_at_once(count, monkeypatch):
    _, part = gap(song(), 3.0, 6.0)
    seeds = [(0, n) for n in range(count)]
    at_once = [one.new.tolist() for one in versions(part, seeds)]
    monkeypatch.setattr(KnownGroups, "due", lambda self: None)
    assert at_once == [one.new.tolist() for one in versions(part, seeds)]
