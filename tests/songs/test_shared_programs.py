"""Tracks of one program are different parts for the model, and get their program back."""

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


def tracks(*rows, bars=8) -> Score:
    """A track for each (program, lowest pitch, notes per bar), legato, in 4/4 at 120."""
    return score(
        [
            (2.0 * (bar + n / count), 2.0 * (bar + (n + 1) / count), pitch + n % 3, 80, program,
             False, track)
            for track, (program, pitch, count) in enumerate(rows)
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
def test_composed_tracks_share_no_program_with_given_tracks(songs, rows, data):
    music = tracks(*rows, bars=2)
    every = range(len(rows))
    composed = data.draw(st.sets(st.sampled_from(every), max_size=5))
    wanted = set()
    if not composed:
        wanted = data.draw(st.sets(st.sampled_from([0, 33, 73]), max_size=2))
    lent = parts.lend_programs(songs, music, first=composed, new_parts=wanted)
    before, after = (
        parts.with_model_programs(songs, music),
        parts.with_model_programs(songs, music, lent),
    )

    def programs(score, among):
        return {int(p) for t, p in score.notes[["track", "program"]].tolist() if t in among}

    assert not programs(after, composed) & programs(after, {*every} - composed)
    assert not programs(after, every) & wanted
    assert programs(after, every) <= {row[0] for row in ROWS} - {DRUMS}
    if len(rows) + len(wanted) <= len(ROWS) - 1:
        assert len(programs(after, every)) == len(rows), "each track has a different program"
    count = Counter(int(*programs(before, {track})) for track in every)
    for track in every:
        (program,) = programs(before, {track})
        if count[program] == 1 and program not in wanted:
            assert track not in lent, "the only track of a program keeps it"
    assert parts.with_file_programs(songs, after, music).notes.tolist() == music.notes.tolist()


def test_the_melody_gets_the_program_of_melodies(songs):
    music = tracks((0, 70, 4), (0, 36, 1), (0, 50, 3))
    assert parts.lend_programs(songs, music)[0] == 73
    named = tracks((0, 70, 4), (0, 36, 1), (0, 50, 3))
    named.names[1] = "MELODY"
    assert parts.lend_programs(songs, named)[1] == 73
    assert parts.lend_programs(songs, music, melodies=[2])[2] == 73
    assert 73 not in parts.lend_programs(songs, music, new_parts=[73]).values()
    with_flute = tracks((0, 70, 4), (0, 36, 1), (73, 50, 3))
    assert set(parts.lend_programs(songs, with_flute)) == {0, 1}


@pytest.mark.parametrize("programs", [(0, 0), (48, 49)])
def test_neither_of_two_tracks_of_one_program_falls_silent(songs, programs):
    music = tracks((programs[0], 72, 4), (programs[1], 48, 1))
    (made,) = musictx.infill(music, songs, begin=5, end=6, tracks="1", seed=1)
    assert made.notes
    assert by_track(made.score) == {0: 24 + made.notes, 1: 8}
    rows = made.score.notes[["track", "program"]].tolist()
    assert {*rows} == {(0, programs[0]), (1, programs[1])}
    (both,) = musictx.infill(music, songs, begin=5, end=6, seed=1)
    assert by_track(both.score)[0] > 24
    assert by_track(both.score)[1] > 6


@pytest.mark.parametrize("rows", [[(0, 72, 4), (0, 60, 2), (0, 36, 2)], [(29, 60, 4), (30, 45, 4)]])
def test_each_track_of_one_program_is_continued(songs, rows):
    """With random weights every part plays."""
    music = tracks(*rows)
    primer = generate.make_primer(songs, music, GenerateConfig()).score
    assert len(set(primer.notes["program"].tolist())) == len(rows), "different parts for the model"
    (made,) = musictx.generate(songs, primer=music, bars=4, seed=3)
    new = made.score.notes[made.score.notes["start"] > 16 - 1e-3]
    expected = {(track, program) for track, (program, *_) in enumerate(rows)}
    assert set(new[["track", "program"]].tolist()) == expected


@pytest.mark.parametrize("count", [2, 4])
def test_a_gap_is_as_dense_as_the_music_around_it(songs, count):
    """Although a model with random weights writes long notes, or too many."""
    music = tracks((80, 72, count), (0, 48, 1), bars=16)
    usual = 4 * count
    for seed in range(4):
        (made,) = musictx.infill(music, songs, begin=7, end=10, tracks="1", seed=seed)
        assert usual / 2 <= made.notes <= usual
        new = made.score.notes[made.score.notes["track"] == 0]
        assert (new["end"] - new["start"]).max() <= 2 / count + 0.03, "as long as the given notes"
    (free,) = musictx.infill(music, songs, begin=7, end=10, tracks="1", polyphony=4, seed=1)
    new = free.score.notes[free.score.notes["track"] == 0]
    assert (new["end"] - new["start"]).max() > 2 / count + 0.03


def test_an_accompaniment_has_the_voices_the_range_and_the_density_of_the_corpus(songs):
    """Although the weights are random; unless the request asks for more."""
    tune = tracks((73, 72, 4))
    for music, more in ((tune, {}), (None, {"chords": "| C | Am | F | G | x2"})):
        for seed in range(3):
            (made,) = musictx.accompany(music, songs, seed=seed, **more)
            new = made.score.notes[made.score.notes["track"] == made.score.notes["track"].max()]
            onsets, counts = np.unique(np.round(new["start"], 3), return_counts=True)
            assert counts.max() <= 4
            assert 36 <= new["pitch"].min() <= new["pitch"].max() <= 84
            windows = [(onsets >= onset) & (onsets < onset + 4 - 1e-3) for onset in onsets]
            assert max(counts[window].sum() for window in windows) <= 6 * 4
    (many,) = musictx.accompany(tune, songs, seed=1, density=30, polyphony="full")
    assert len(many.score) - len(tune) > 6 * 16


def test_the_density_of_added_parts_does_not_count_given_notes(songs):
    """If it did, the new parts would fall silent."""
    music = tracks((73, 72, 8), (0, 48, 4))  # six notes a second
    counts = []
    for density in (1.0, 3.0, 9.0):
        made = [
            musictx.accompany(music, songs, add="bass,strings", density=density, seed=seed)[0]
            for seed in range(3)
        ]
        counts.append(np.mean([(len(sample.score) - len(music)) / 16 for sample in made]))
    assert counts == sorted(counts)
    assert counts[1] >= 1.8
