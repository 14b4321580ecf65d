"""Beats estimated from notes: of played music, whose true beats are given, and of random onsets."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import musictx
from musictx.beats import Beats
from musictx.grid import grid_of, in_time
from musictx.notes import METER, TEMPO, Score
from musictx.songs.bars import round_to_grid
from musictx.tokens.build import build
from tests.data.helpers import run
from tests.pieces import of, score

NOTES = build(name="notes")


def song(seed=0, bars=24, beats=4):
    """Return a bass on bars, chords on beats and a melody in eighths, on the grid at 120."""
    rng, rows = np.random.default_rng(seed), []
    for first in range(0, bars * beats, beats):
        root = 36 + int(rng.choice([0, 5, 7, 9]))
        rows.append((first, beats, root, 90))
        for beat in range(beats):
            rows += [(first + beat, 1, root + 12 + third, 60) for third in (0, 4, 7)]
        for eighth in range(2 * beats):
            if rng.random() < 0.85:
                rows.append((first + eighth / 2, 0.5, 72 + int(rng.integers(0, 12)), 80))
    notes = ((beat / 2, (beat + length) / 2, *rest) for beat, length, *rest in rows)
    return score(notes, meter=(beats, 4))


def swung(quarters, swing):
    """Move eighths between beats to the share ``swing`` of the quarter note."""
    whole, rest = np.divmod(quarters + 1e-9, 1.0)
    return whole + np.interp(rest, (0, 0.5, 1), (0, swing, 1))


def played(score, bpm=90.0, sway=0.1, jitter=0.008, begin=3.0, seed=0):
    """Return the score at a tempo that varies by the share ``sway``, unmarked, and its beats."""
    rng = np.random.default_rng(seed)
    quarters = np.arange(2 * score.duration + 2)
    tempo = bpm * (1 + sway * np.sin(2 * np.pi * quarters / 40))
    beats = begin + np.concatenate([[0], np.cumsum(60 / tempo)[:-1]])
    notes = score.notes.copy()
    for name in ("start", "end"):
        notes[name] = np.interp(2 * notes[name], quarters, beats)
    notes["start"] += (off := rng.normal(0, jitter, len(notes)))
    notes["end"] = np.maximum(notes["end"] + off, notes["start"] + 0.05)
    return Score(notes=notes), beats


@settings(max_examples=6)
@given(st.floats(70, 100), st.floats(0.03, 0.1), st.integers(0, 9), st.sampled_from([3, 4]))
def test_beats_of_played_music_are_found(bpm, sway, seed, in_a_bar):
    """At usual tempi: in faster music half the tempo may be the likeliest."""
    music, beats = played(song(seed, beats=in_a_bar), bpm, sway, seed=seed)
    assert grid_of(music).kind == "free"
    timed = in_time(music)
    there, size = timed.pulse.tempos["time"] + timed.pulse.late, timed.pulse.meters["numerator"][0]
    inside = beats[(beats > music.notes["start"][0] + 1) & (beats < music.notes["start"].max())]
    assert (np.abs(inside[:, None] - there).min(axis=1) < 0.05).mean() > 0.95
    assert len(there[(there > inside[0]) & (there < inside[-1])]) < 1.05 * len(inside)
    assert size == in_a_bar
    bars = beats[::in_a_bar]
    bars = bars[(bars > inside[0]) & (bars < inside[-1])]
    assert (np.abs(bars[:, None] - there[::size]).min(axis=1) < 0.05).mean() > 0.9


def test_music_on_beats_is_unchanged_and_late_music_gets_its_delay():
    written = song()
    assert in_time(written) is written
    late = replace(written.shifted(0.04), tempos=written.tempos, meters=written.meters)
    assert grid_of(late).kind == "shifted"
    timed = in_time(late, tracking=False)
    assert timed.pulse.late == pytest.approx(0.04, abs=0.002)
    np.testing.assert_array_equal(NOTES.encode(timed), NOTES.encode(written))
    thirds = np.arange(60) // 2 + np.where(np.arange(60) % 2, 2 / 3, 0)
    triplets = of(*((third / 2, third / 2 + 0.1) for third in thirds))
    assert grid_of(triplets) == grid_of(in_time(triplets)), "triplets are no swing"


@pytest.mark.parametrize("swing", [0.57, 0.62])
def test_music_that_swings_is_read_straight(swing):
    written = song(3)
    notes = written.notes.copy()
    for name in ("start", "end"):
        jitter = np.random.default_rng(0).normal(0, 0.003, len(notes))
        notes[name] = swung(2 * notes[name], swing) / 2 + jitter
    notes["start"] = np.maximum(notes["start"], 0)
    swinging = written.with_notes(notes)
    assert grid_of(swinging).swing == pytest.approx(swing, abs=0.01)
    assert grid_of(swinging).on_beats
    assert (NOTES.encode(in_time(swinging)) == NOTES.encode(written)).all()
    assert grid_of(written).swing == 0.5


def on_beats(onsets, timed):
    """Whether all ``onsets`` in seconds are on the grid of the estimated bars of ``timed``."""
    steps = Beats(timed).quarters(onsets) * 24
    return len(steps) and np.abs(steps - round_to_grid(steps)).max() < 0.15  # ticks are coarse


def test_played_music_is_continued_and_filled_on_its_beats(counting, tmp_path):
    """The file keeps its tempos, and new notes are on the beats of the music."""
    music, _ = played(song(5, bars=8))
    path = musictx.write(replace(music, ticks_per_quarter=960), tmp_path / "played.mid")
    file = musictx.read(path)
    timed = in_time(file)
    assert timed.pulse is not None
    whole = musictx.generate(counting, primer=path, tokens=100, seed=5)[0].score
    onsets = whole.notes["start"]
    assert on_beats(onsets[onsets > file.notes["start"].max() + 0.05], timed)
    gap = {"begin": "8s", "end": "12s", "quantise": "none"}
    (filled,) = musictx.infill(path, counting, seed=1, **gap)
    onsets = filled.score.notes["start"]
    assert on_beats(onsets[(onsets > 8) & (onsets < 12)], timed)
    for made in (whole, filled.score):
        assert made.pulse is None
        np.testing.assert_array_equal(made.tempos, file.tempos)


def swinging_with_changes(swing):
    """Return swinging music on ticks, with a pick-up of a beat and changes of tempo and meter."""
    tempos = np.array([(0.0, 120.0), (16.0, 96.0), (36.0, 138.0)], TEMPO)
    meters = np.array([(0.0, 4, 4), (22.0, 3, 4)], METER)  # after eleven bars
    written = song(3, bars=16)
    notes = written.notes[written.notes["start"] >= 1.5].copy()
    clock = Beats(Score(tempos=tempos))
    meters["time"] = clock.seconds(2 * meters["time"])
    for name in ("start", "end"):
        notes[name] = clock.seconds(swung(2 * notes[name], swing))
    return replace(written.with_notes(notes), tempos=tempos, meters=meters, ticks_per_quarter=480)


def late():
    """Return a note at 0, before the first beat, and eighths of which each is 40 ticks late."""
    starts = [0, *(240 * n + 40 for n in range(1, 48))]
    return score((at / 960, at / 960 + 1 / 6, 72 + n * 7 % 24) for n, at in enumerate(starts))


@pytest.mark.parametrize(
    "music", [swinging_with_changes(0.5), swinging_with_changes(0.6), late()], ids=range(3)
)
@pytest.mark.slow
def test_given_notes_and_marks_of_a_sequencers_file_are_unchanged(music, counting, tmp_path):
    """Although there are swing, a pick-up, changes of tempo and meter, or a note before the first
    bar. New notes are on the grid of the music."""
    path = musictx.write(music, tmp_path / "song.mid")
    file = musictx.read(path)
    timed = in_time(file)
    assert (NOTES.clock(timed).offset < 0) == (len(music) == 48)
    musictx.write(file.with_notes(file.notes[file.notes["pitch"] >= 72]), tmp_path / "tune.mid")
    results = {
        # One bar, since an untrained network may end a bar early, which moves the next bars.
        "continued": musictx.generate(counting, primer=path, bars=1, seed=1)[0],
        "filled": musictx.infill(path, counting, seed=1, begin=5, end=6)[0],
        "accompanied": musictx.accompany(tmp_path / "tune.mid", counting, seed=1)[0],
    }
    first, last = (float(Beats(file).seconds(q)) for q in (16, 24))
    for way, made in results.items():
        back = musictx.read(musictx.write(made.score, tmp_path / f"{way}.mid"))
        np.testing.assert_array_equal(back.tempos, file.tempos)
        np.testing.assert_array_equal(back.meters, file.meters)
        was, now = ({*music.notes[["start", "end", "pitch"]].tolist()} for music in (file, back))
        if way == "filled":
            was = {note for note in was if not first - 1e-6 <= note[0] < last - 1e-6}
        elif way == "accompanied":
            was = {note for note in was if note[2] >= 72}
        assert was <= now
        # A beat before the file is at its beginning.
        assert on_beats([start for start, *_ in now - was if start > 0], timed)


def test_prepare_estimates_beats_and_leaves_out_music_without_beats(tmp_path):
    """The report has a line about estimated beats and a reason for random onsets."""
    folder = tmp_path / "midi"
    folder.mkdir()
    musictx.write(song(1), folder / "a.mid")
    musictx.write(played(song(2))[0], folder / "b.mid")
    starts = np.cumsum(np.random.default_rng(0).gamma(2, 0.2, 60))
    musictx.write(of(*((start, start + 0.2) for start in starts)), folder / "c.mid")
    report = run(folder, tmp_path / "shards", tokenizer=NOTES)
    assert [item.reason for item in report.left_out] == ["no beats"]
    assert "beats estimated from the notes" in str(report)
