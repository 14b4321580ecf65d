"""Notes in bars composed around known ones: these stay, and new ones are where they may be."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from musictx.card import CorpusStats, Habit
from musictx.config import SamplingConfig
from musictx.model.features import with_tokens
from musictx.model.transformer import MusicTransformer
from musictx.sampling import composer
from musictx.sampling.infill_constraint import GivenNotes
from musictx.sampling.strengths import MOST_ALIKE
from musictx.songs import bar_layout, infill_biases
from musictx.songs.bar_codec import REPEAT_FIELD, REPEATS
from musictx.songs.bar_constraint import FREE, BarRow
from musictx.songs.bar_infill import BarInfill
from musictx.tokens.build import build
from musictx.tokens.stream import CHORD, DRUM_PART
from tests.sampling.test_events import begun_and_ended, listed
from tests.songs.test_grouped import song

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
        composer.versions(part, seeds, sampling=sampling or SamplingConfig(), stats=CorpusStats())
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
    asked = {"sampling": likeliest, "stats": CorpusStats()}
    tell = lambda number, event: told[number].append(event)  # noqa: E731
    again = list(composer.versions(part, seeds, on_event=tell, **asked))
    assert [as_counts(one.new) for one in again] == made
    for events, one in zip(told, again):
        assert begun_and_ended(events) == listed(one.new, "program")


def test_new_notes_are_told_as_they_are_written():
    """In segments, too: known notes, written again or ahead, are not told."""
    melody = TOKENS.quantise(song(bars=24))
    options = {"closes": False, "parts": (0, DRUM_PART)}
    part = BarInfill(model(context=600), TOKENS, melody, 0.0, 8 * BAR, **options)
    told: list = []
    asked = {"sampling": SamplingConfig(), "stats": CorpusStats()}
    (made,) = composer.versions(part, [(0,)], on_event=lambda _, event: told.append(event), **asked)
    assert len(made.new) > 10
    assert begun_and_ended(told) == listed(made.new, "program")
    begins = [one.seconds for one in told if one.on]
    assert begins == sorted(begins)


def test_what_is_varied_is_told_and_need_not_come_back():
    was = TOKENS.quantise(song())
    kept, part = gap(song(), 3.0, 6.0, varied=was)
    prompt = part.prompt((0, 0, 0, 0))
    count = len(part.bars)
    sections = np.array(
        [bar_layout.VARIED if bar in (2, 3) else bar_layout.WHOLE for bar in range(count)]
    )
    varied, stream = (TOKENS.grid(one, 3.0, 6.0).stream for one in (was, kept))
    inside = np.isin(varied.bar, [2, 3])
    known = [stream.notes[stream.bar < 2], varied.notes[inside], stream.notes[stream.bar > 3]]
    told = np.concatenate(known)
    ahead = bar_layout.Lookahead(2, min(4 + 8, count), count, told, sections, part.parts)
    past = stream.only(stream.in_bars(0, 2).notes)
    ids, _ = bar_layout.interleaved(past, ahead, TABLE, stop=3)
    assert prompt.tolist() == [
        1,
        *bar_layout.control_prefix(TABLE, (0, 0, 0, 0)).tolist(),
        *ids.tolist(),
    ]
    (made,) = versions(part)
    lost = as_counts(was.notes) - as_counts(kept.notes)
    assert as_counts(part.varied) == lost
    assert lost - as_counts(made.new), "a network that has learnt nothing writes other notes"


def test_a_variation_shares_no_more_with_what_it_varies_than_versions_do(monkeypatch):
    """The likeliest notes, which come again, were it not for that."""
    _, part = gap(song(), 3.0, 6.0)
    likeliest = SamplingConfig(temperature=0.0)
    (first,) = versions(part, sampling=likeliest)
    monkeypatch.setattr(BarInfill, "varied", first.new)
    told: list = []
    asked = {"sampling": likeliest, "stats": CorpusStats()}
    (other,) = composer.versions(part, [(0,)], on_event=lambda _, e: told.append(e), **asked)
    one, other_notes = as_counts(first.new), as_counts(other.new)
    assert one
    assert other_notes
    most = MOST_ALIKE * (one.total() + other_notes.total())
    assert 2 * (one & other_notes).total() <= most
    assert begun_and_ended(told) == listed(other.new, "program")


def test_the_lines_of_a_variation_say_what_it_varies_and_others_are_drawn():
    was = TOKENS.quantise(song())
    kept, part = gap(song(), 3.0, 6.0, varied=was)
    lines = np.stack([bar[0] for bar in by_line(TOKENS.encode(was))])
    back = lines[:, REPEAT_FIELD] - TABLE.id("section") - REPEATS + 1
    (row,) = part.rows(1, SamplingConfig())
    assert (back[2:4] > 0).any()
    np.testing.assert_array_equal(row.given.openings[2:4], lines[2:4])
    plain = BarInfill(model(), TOKENS, kept, 3.0, 6.0, closes=True, parts=(0,))
    (row,) = plain.rows(1, SamplingConfig())
    assert (row.given.openings[:, REPEAT_FIELD] == FREE).all()


def by_line(ids):
    return bar_layout.by_bar(ids, TABLE.id("bar"))


def test_what_does_not_fit_is_composed_in_segments():
    score = song(bars=24)
    melody = score.with_notes(score.notes[score.notes["program"] == 33])
    small = model(context=600)
    options = {"closes": False, "parts": (0,)}
    part = BarInfill(small, TOKENS, melody, 0.0, 24 * BAR, **options)
    (made,) = versions(part)
    assert made.done
    old = TOKENS.decode(made.piece).notes[~np.array(made.is_new, bool)]
    assert as_counts(made.placed(old)) == as_counts(TOKENS.quantise(melody).notes)
    assert made.new["start"].max() > 20 * BAR


def test_chords_of_the_file_are_known_and_others_are_composed():
    named = TOKENS.quantise(song())
    assert named.markers
    part = BarInfill(NETWORK, TOKENS, named, 3.0, 6.0, closes=True, parts=(0,))
    assert CHORD not in part.parts
    (made,) = versions(part)
    assert TOKENS.decode(made.piece).markers == tuple(
        one for one in named.markers if one[0] < 6.0 - 1e-6
    )
    unnamed = replace(named, markers=())
    assert CHORD in BarInfill(NETWORK, TOKENS, unnamed, 3.0, 6.0, closes=True, parts=(0,)).parts


def test_a_part_that_is_asked_for_is_not_silent():
    """The more of its usual notes it lacks, the likelier a new one."""
    kept = TOKENS.quantise(song())
    counts = []
    for density in (0.0, 2.0, 20.0):
        habits = {DRUM_PART: Habit(128, 36, 51, density)}
        part = BarInfill(
            NETWORK, TOKENS, kept, 0.0, 9.0, closes=False, parts=(DRUM_PART,), habits=habits
        )
        made = versions(part, [(seed,) for seed in range(4)])
        assert all(one.new["drum"].all() for one in made)
        counts.append([len(one.new) for one in made])
    assert sum(counts[0]) < sum(counts[2])
    assert min(counts[2]) >= 0.8 * infill_biases.PART_SHARE * 20.0 * 9.0


@pytest.mark.parametrize("count", [1, 3])
def test_ids_that_are_sure_are_read_at_once(count, monkeypatch):
    _, part = gap(song(), 3.0, 6.0)
    seeds = [(0, n) for n in range(count)]
    at_once = [one.new.tolist() for one in versions(part, seeds)]
    monkeypatch.setattr(GivenNotes, "due", lambda self: None)
    assert at_once == [one.new.tolist() for one in versions(part, seeds)]


def phrases(count=16):
    """A tune of eight bars of 3/4 that no two bars of are alike, and begins again after them."""
    random = np.random.default_rng(4)
    rows = [
        (bar * BAR + at / 4, bar * BAR + at / 4 + 0.2, int(pitch), 64, 33, False, 0)
        for bar in range(8)
        for at, pitch in enumerate(random.integers(50, 80, 6))
    ]
    again = [(a + 8 * BAR, b + 8 * BAR, *rest) for a, b, *rest in rows]
    return song().with_notes([*rows, *again][: 6 * count])


def test_bars_repeat_those_whose_given_notes_they_share():
    """A note less in each of two bars is no other bar, and chords say nothing."""
    tune = phrases()
    rows = [row for n, row in enumerate(tune.notes.tolist()) if n not in (5, 60)]
    tune = replace(tune.with_notes(rows), markers=tuple((BAR * n, "C") for n in range(16)))
    stream = TOKENS.grid(tune, 0.0, 16 * BAR).stream
    assert infill_biases.repeated_bars(stream) == {bar: bar - 8 for bar in range(8, 16)}


def test_what_came_next_in_the_bars_that_come_again_is_drawn_where_it_may_come(monkeypatch):
    """With a strong pull; at each place, part and tone, and the bar line after the last of them."""
    tune, drawn, wide = TOKENS.quantise(phrases()), [], model(context=15000)
    monkeypatch.setattr(infill_biases, "REPEAT_GAIN", 60.0)
    advance = BarRow.advance

    def watched(row, token):
        if row.bar >= 8 and not (row.done or row.queue):
            group, piece = row.group, [*row.given.openings[0].tolist(), *row.piece]
            piece = np.array(piece[: len(piece) - len(group)])
            there = bar_layout.by_bar(piece, TABLE.id("bar"))[row.bar - 8]
            then = following(there, row.last, row.leaves())
            if len(group) < 3 and then[: len(group)] == group and row.allowed()[then[len(group)]]:
                drawn.append((token, then[len(group)]))
        advance(row, token)

    def following(bar, last, onward):
        for ids in bar[1:].tolist():
            (_, place), (kind, value), (_, tone) = (TABLE.token(one) for one in ids[:3])
            if (place, {"harmony": CHORD, "drums": DRUM_PART}.get(kind, value), tone) > last:
                return ids
        return [onward]

    monkeypatch.setattr(BarRow, "advance", watched)

    def made(habits):
        part = BarInfill(wide, TOKENS, tune, 0.0, 16 * BAR, closes=False, parts=(0,))
        return versions(part, sampling=SamplingConfig(habits=habits))

    made(True)
    assert len(drawn) > 100
    assert all(one == then for one, then in drawn)
    drawn.clear()
    made(False)
    assert any(one != then for one, then in drawn), "the model alone"
