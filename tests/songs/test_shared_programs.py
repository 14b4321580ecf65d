"""Tracks that share a program are different parts for the model; their programs stay in files."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import musictx
from musictx.apps import generate, infill, parts
from musictx.apps.tasks import task_of
from musictx.config import AccompanyConfig, GenerateConfig
from musictx.data.statistics import notes_at_onsets
from musictx.notes import DRUMS, Score
from musictx.tokens import controls
from tests.pieces import line, of, together
from tests.songs.conftest import PARTS

PART = ["track", "program"]
PROGRAMS = {part for part, *_ in PARTS} - {DRUMS}
#: Rows of :func:`tracks`, also of programs that the model lacks.
rows_of_tracks = st.tuples(
    st.sampled_from([*sorted(PROGRAMS), 1, 49]), st.integers(30, 80), st.integers(1, 4)
)


def tracks(*rows, bars=8) -> Score:
    """Return a legato track in 4/4 at 120 for each (program, lowest pitch, notes a bar)."""
    pitches = ([low + n % 3 for n in range(count)] * bars for _, low, count in rows)
    return together(
        *(
            line(*notes, every=2.0 / count, program=program, track=track)
            for track, (notes, (program, _, count)) in enumerate(zip(pitches, rows))
        )
    )


@settings(max_examples=20)
@given(st.lists(rows_of_tracks, min_size=1, max_size=9), st.data())
def test_composed_tracks_share_no_program_with_given_tracks(songs, rows, data):
    music, every = tracks(*rows, bars=2), range(len(rows))
    composed = data.draw(st.sets(st.sampled_from(every), max_size=5))
    wanted = data.draw(st.sets(st.sampled_from([0, 33, 73]), max_size=0 if composed else 2))
    lent = parts.lend_programs(songs, music, first=composed, new_parts=wanted)
    before, after = (parts.with_model_programs(songs, music, lend) for lend in ({}, lent))

    def programs(score, among):
        return {int(p) for t, p in score.notes[["track", "program"]].tolist() if t in among}

    assert not programs(after, composed) & programs(after, {*every} - composed)
    assert not programs(after, every) & wanted
    assert programs(after, every) <= PROGRAMS
    if len(rows) + len(wanted) <= len(PROGRAMS):
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
    assert parts.lend_programs(songs, replace(music, names={1: "MELODY"}))[1] == 73
    assert parts.lend_programs(songs, music, melodies=[2])[2] == 73
    assert 73 not in parts.lend_programs(songs, music, new_parts=[73]).values()
    with_flute = tracks((0, 70, 4), (0, 36, 1), (73, 50, 3))
    assert set(parts.lend_programs(songs, with_flute)) == {0, 1}


@pytest.mark.parametrize("programs", [(0, 0), (48, 49)])
def test_neither_of_two_tracks_of_one_program_falls_silent(songs, programs):
    music = tracks((programs[0], 72, 4), (programs[1], 48, 1))
    (made,) = musictx.infill(music, songs, begin=5, end=6, tracks="1", seed=1)
    assert made.notes
    counts = Counter(made.score.notes[["track", "program"]].tolist())
    assert counts == {(0, programs[0]): 24 + made.notes, (1, programs[1]): 8}
    (both,) = musictx.infill(music, songs, begin=5, end=6, seed=1)
    assert (np.bincount(both.score.notes["track"]) > [24, 6]).all()


@pytest.mark.parametrize("rows", [[(0, 72, 4), (0, 60, 2), (0, 36, 2)], [(29, 60, 4), (30, 45, 4)]])
def test_each_track_of_one_program_is_continued(songs, rows):
    """Every part plays, since the weights are random, and keeps to one voice and its range."""
    music = tracks(*rows)
    primer = generate.make_primer(songs, music, GenerateConfig()).score
    assert len(set(primer.notes["program"].tolist())) == len(rows), "different parts for the model"
    (made,) = musictx.generate(songs, primer=music, bars=4, seed=3, end="cut")
    new = made.score.notes[made.score.notes["start"] > 16 - 1e-3]
    for track, (_, low, _) in enumerate(rows):
        notes = new[new["track"] == track]
        assert notes_at_onsets(notes).max() == 1
        assert low - 4 <= notes["pitch"].min() <= notes["pitch"].max() <= low + 6
    expected = {(track, program) for track, (program, *_) in enumerate(rows)}
    assert set(new[["track", "program"]].tolist()) == expected


@pytest.mark.parametrize("seconds", [None, 12, 6])
def test_given_notes_keep_programs_and_kit_and_new_notes_get_the_last(songs, seconds):
    rows = [(n / 2, n / 2 + 0.4, 60, 80, (6, 40, 5)[n // 8], False, 0) for n in range(24)]
    music = together(of(*rows, *((*row[:4], 1, True, 1) for row in rows)))
    options = {"include_primer": not seconds, "primer_seconds": seconds, "bars": 4, "seed": 3}
    counts = Counter(musictx.generate(songs, primer=music, **options)[0].score.notes[PART].tolist())
    counts.subtract([] if seconds else music.notes[PART].tolist())
    assert {part for part in counts if counts[part]} == {(0, 40 if seconds == 6 else 5), (1, 1)}


@pytest.mark.parametrize("count", [2, 4])
def test_a_gap_is_as_dense_as_the_music_around_it(songs, count):
    """Although a model with random weights writes long notes, or too many."""
    music = tracks((80, 72, count), (0, 48, 1), bars=16)
    usual = 4 * count
    for made in musictx.infill(music, songs, begin=7, end=10, tracks="1", samples=4, seed=1):
        assert usual / 2 <= made.notes <= usual
        new = made.score.notes[made.score.notes["track"] == 0]
        assert (new["end"] - new["start"]).max() <= 2 / count + 0.03, "as long as the given notes"
    options = {"tracks": "1", "polyphony": 4, "seed": 1}
    (free,) = musictx.infill(music, songs, begin=7, end=10, **options)
    new = free.score.notes[free.score.notes["track"] == 0]
    assert (new["end"] - new["start"]).max() > 2 / count + 0.03
    (last,) = musictx.infill(music, songs, begin=15, end=16, **options)
    assert last.score.duration <= music.duration + 1e-3, "the last bar line"


@pytest.mark.slow
def test_an_accompaniment_has_the_voices_the_range_and_the_density_of_the_corpus(songs):
    """Although the weights are random; unless the request asks for more."""
    tune = tracks((73, 72, 4))
    for music, more in ((tune, {}), (None, {"chords": "| C | Am | F | G | x2"})):
        for made in musictx.accompany(music, songs, samples=3, **more):
            new = made.score.notes[made.score.notes["track"] == made.score.notes["track"].max()]
            onsets, counts = np.unique(np.round(new["start"], 3), return_counts=True)
            assert counts.max() <= 4
            assert 36 <= new["pitch"].min() <= new["pitch"].max() <= 84
            windows = [(onsets >= onset) & (onsets < onset + 4 - 1e-3) for onset in onsets]
            assert max(counts[window].sum() for window in windows) <= 6 * 4
    (many,) = musictx.accompany(tune, songs, seed=1, density=30, polyphony="full")
    assert len(many.score) - len(tune) > 6 * 16


@pytest.mark.slow
def test_an_accompaniment_lies_below_a_tune_and_above_a_bass(songs):
    """Although the weights are random, and the corpus has the part from 36 to 84; a bass has
    pitches up to 50."""
    heights = []
    for pitch in (40, 60, 84):
        made = musictx.accompany(tracks((73, pitch, 4)), songs, samples=3)
        new = np.concatenate([m.score.notes[m.score.notes["track"] > 0] for m in made])
        heights.append(float(new["pitch"].mean()))
    assert heights[1] < min(60, heights[0] - 4, heights[2] - 4)


@pytest.mark.parametrize("options", [{}, {"add": "strings"}, {"chords": "| C | F | G | C |"}])
def test_an_accompaniment_begins_at_the_bar_line_before_a_pick_up(songs, options):
    tune = line(*[72] * 20, program=73)
    tune = together(tune.with_notes(tune.notes[7:]))  # from the fourth beat of the second bar on
    first = [
        np.min(made.score.notes["start"][made.score.notes["track"] > 0])
        for made in musictx.accompany(tune, songs, samples=4, **options)
    ]
    assert 2.0 - 1e-6 <= min(first) < 3.5


@pytest.mark.parametrize(("add", "voices"), [("bass", 1), ("bass,strings", 3.5)])
@pytest.mark.parametrize("more", ["", ",drums"])
@pytest.mark.parametrize("is_alone", [True, False])
def test_new_parts_have_the_usual_density_and_polyphony(songs, add, voices, more, is_alone):
    """They steer pitched parts; those have at most one note a voice."""
    request, pitched = AccompanyConfig(add=add + more), {33, 48} if "strings" in add else {33}
    task = task_of(request, Score(markers=((0.0, "Am7"),)) if is_alone else tracks((73, 72, 4)))
    _, brief = infill.arrange(songs, task, request, {"polyphony": 3.5})
    density = sum(brief.habits[part].density for part in pitched)
    assert brief.steering.usual_density == pytest.approx(density)
    assert brief.steering.usual_polyphony == voices
    assert "density" not in brief.steering.targets
    assert set(brief.steering.parts) == pitched
    described = sum(habit.density for habit in brief.habits.values())
    described += task.given_levels.get("density", 0.0)
    assert brief.steering.levels[0] == controls.control_levels({"density": described})[0] > 0
    asked = replace(request, polyphony=2.0, sampling=replace(request.sampling, density=3.0))
    _, brief = infill.arrange(songs, task, asked, {"density": 9.0, "polyphony": 3.5})
    assert brief.steering.targets["density"] == pytest.approx(3.0)
    assert brief.steering.targets["polyphony"] == 2.0
    assert brief.steering.usual_density is None


@pytest.mark.parametrize("bpm", [60, 180])
def test_densities_of_the_corpus_count_seconds_of_the_ids_at_any_tempo(songs, bpm):
    limits = songs.card["note_limits"] | {"density": 5.0}
    songs = replace(songs, card=songs.card | {"note_limits": limits})
    chart = Score(markers=((0.0, "Am7"),), tempos=[(0.0, bpm)])
    tune, request = replace(tracks((73, 72, 8)), tempos=chart.tempos), AccompanyConfig()
    for music, density in ((chart, 2 * 2.0), (tune, 5.0)):
        task = task_of(request, music)
        _, brief = infill.arrange(songs, task, request, infill.usual_levels(songs, task))
        assert brief.steering.usual_density == pytest.approx(density)


@pytest.mark.slow
def test_the_density_of_added_parts_does_not_count_given_notes(songs):
    """If it did, the new parts would fall silent. The weights of the model are random."""
    music = tracks((73, 72, 8), (0, 48, 4))  # six notes a second
    options = {"add": "bass,strings", "samples": 3}
    made = [musictx.accompany(music, songs, density=n, **options) for n in (0.5, 6.0)]
    few, many = (sum(sample.notes for sample in samples) for samples in made)
    assert 0 < few <= 1.5 * 3 * 8 < 3 * 8 * 4 <= many
