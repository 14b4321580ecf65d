"""Tracks of one program are parts of their own while music is composed, and get theirs back."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import musictx
from musictx.apps import generate, parts
from musictx.config import GenerateConfig
from musictx.notes import DRUMS, Score
from tests.pieces import score
from tests.untrained import saved

ROWS = [[0, 4, 36, 84, 6.0], [33, 1, 28, 52, 1.0], [40, 2, 56, 91, 5.0], [48, 3, 47, 91, 2.0]]
ROWS += [[73, 1, 57, 81, 2.0], [80, 2, 40, 84, 2.0], [128, 3, 35, 56, 9.0]]


@pytest.fixture(scope="module")
def songs(tmp_path_factory):
    """A model of notes in bars, by random weights."""
    limits = {"instruments": [row[0] for row in ROWS], "parts": ROWS}
    card = {"corpus": {"tasks": {"melody": "73"}}, "note_limits": limits}
    tokens = {"name": "notes", "low": 21, "high": 108, "controls": True}
    where = tmp_path_factory.mktemp("songs") / "m"
    return musictx.load(saved(where, card, tokens=tokens, group=5, context=1500))


def tracks(*of, bars=8) -> Score:
    """One track for each (program, lowest pitch, notes a bar), legato, in 4/4 at 120."""
    return score(
        [
            (2.0 * (bar + n / count), 2.0 * (bar + (n + 1) / count), pitch + n % 3, 80, program,
             False, track)
            for track, (program, pitch, count) in enumerate(of)
            for bar in range(bars)
            for n in range(count)
        ]
    )  # fmt: skip


def by_track(music: Score) -> Counter:
    return Counter(music.notes["track"].tolist())


@settings(max_examples=40, deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from([0, 1, 33, 40, 48, 49, 73, 80]), st.integers(30, 80),
                  st.integers(1, 4)),
        min_size=1, max_size=9,
    ),
    st.data(),
)  # fmt: skip
def test_what_is_composed_shares_its_program_with_nothing_that_stays(songs, some, data):
    music = tracks(*some, bars=2)
    every = range(len(some))
    first = data.draw(st.sets(st.sampled_from(every), max_size=5))
    wanted = data.draw(st.sets(st.sampled_from([0, 33, 73]), max_size=2)) if not first else set()
    lent = parts.lent(songs, music, first=first, wanted=wanted)
    was, now = parts.as_trained(songs, music), parts.as_trained(songs, music, lent)

    def programs(of, among):
        return {int(p) for t, p in of.notes[["track", "program"]].tolist() if t in among}

    assert not programs(now, first) & programs(now, {*every} - first)
    assert not programs(now, every) & wanted
    assert programs(now, every) <= {row[0] for row in ROWS} - {DRUMS}
    if len(some) + len(wanted) <= len(ROWS) - 1:
        assert len(programs(now, every)) == len(some), "each is a part of its own"
    count = Counter(int(*programs(was, {track})) for track in every)
    for track in every:
        (program,) = programs(was, {track})
        if count[program] == 1 and program not in wanted:
            assert track not in lent, "what is a part of its own keeps its program"
    assert parts.as_given(songs, now, music).notes.tolist() == music.notes.tolist()


def test_the_tune_gets_the_program_of_tunes(songs):
    music = tracks((0, 70, 4), (0, 36, 1), (0, 50, 3))
    assert parts.lent(songs, music)[0] == 73
    named = tracks((0, 70, 4), (0, 36, 1), (0, 50, 3))
    named.names[1] = "MELODY"
    assert parts.lent(songs, named)[1] == 73
    assert parts.lent(songs, music, tunes=[2])[2] == 73
    assert 73 not in parts.lent(songs, music, wanted=[73]).values()
    taken = tracks((0, 70, 4), (0, 36, 1), (73, 50, 3))
    assert set(parts.lent(songs, taken)) == {0, 1}


@pytest.mark.parametrize("programs", [(0, 0), (48, 49)])
def test_one_of_two_like_tracks_is_not_silent(songs, programs):
    music = tracks((programs[0], 72, 4), (programs[1], 48, 1))
    (made,) = musictx.infill(music, songs, begin=5, end=6, tracks="1", seed=1)
    assert made.notes
    assert by_track(made.score) == {0: 24 + made.notes, 1: 8}
    rows = made.score.notes[["track", "program"]].tolist()
    assert {*rows} == {(0, programs[0]), (1, programs[1])}
    (both,) = musictx.infill(music, songs, begin=5, end=6, seed=1)
    assert by_track(both.score)[0] > 24
    assert by_track(both.score)[1] > 6


@pytest.mark.parametrize("of", [[(0, 72, 4), (0, 60, 2), (0, 36, 2)], [(29, 60, 4), (30, 45, 4)]])
def test_tracks_of_one_program_are_continued_each(songs, of):
    """By random weights each part comes up."""
    music = tracks(*of)
    read = generate.primer_of(songs, music, GenerateConfig()).score
    assert len(set(read.notes["program"].tolist())) == len(of), "to the model they are parts"
    (made,) = musictx.generate(songs, primer=music, bars=4, seed=3)
    new = made.score.notes[made.score.notes["start"] > 16 - 1e-3]
    assert set(new[["track", "program"]].tolist()) == {(n, one[0]) for n, one in enumerate(of)}


@pytest.mark.parametrize("count", [2, 4])
def test_a_gap_is_as_dense_as_what_surrounds_it(songs, count):
    """By random weights too, which hold notes for bars and crowd others."""
    music = tracks((80, 72, count), (0, 48, 1), bars=16)
    usual = 4 * count
    for seed in range(4):
        (made,) = musictx.infill(music, songs, begin=7, end=10, tracks="1", seed=seed)
        assert usual / 2 <= made.notes <= usual
        new = made.score.notes[made.score.notes["track"] == 0]
        assert (new["end"] - new["start"]).max() <= 2 / count + 0.03, "notes as long as its own"
    (free,) = musictx.infill(music, songs, begin=7, end=10, tracks="1", polyphony=4, seed=1)
    new = free.score.notes[free.score.notes["track"] == 0]
    assert (new["end"] - new["start"]).max() > 2 / count + 0.03


def test_an_accompaniment_keeps_to_what_the_corpus_has(songs):
    """By random weights: no towers, no floods; unless they are asked for."""
    tune = tracks((73, 72, 4))
    for music, more in ((tune, {}), (None, {"chords": "| C | Am | F | G | x2"})):
        for seed in range(3):
            (made,) = musictx.accompany(music, songs, seed=seed, **more)
            new = made.score.notes[made.score.notes["track"] == made.score.notes["track"].max()]
            at, times = np.unique(np.round(new["start"], 3), return_counts=True)
            assert times.max() <= 4
            assert 36 <= new["pitch"].min() <= new["pitch"].max() <= 84
            windows = [((at >= begin) & (at < begin + 4 - 1e-3)) for begin in at]
            assert max(times[one].sum() for one in windows) <= 6 * 4
    (many,) = musictx.accompany(tune, songs, seed=1, density=30, polyphony="full")
    assert len(many.score) - len(tune) > 6 * 16


def test_a_density_beside_what_stays_is_that_of_the_new_parts(songs):
    """By random weights. Once it was that of all music, so that parts fell silent for it."""
    music = tracks((73, 72, 8), (0, 48, 4))  # six notes a second
    counts = []
    for density in (1.0, 3.0, 9.0):
        made = [
            musictx.accompany(music, songs, add="bass,strings", density=density, seed=seed)[0]
            for seed in range(3)
        ]
        counts.append(np.mean([(len(one.score) - len(music)) / 16 for one in made]))
    assert counts == sorted(counts)
    assert counts[1] >= 1.8
