"""Scripts that make corpora (scripts/reproduce), on small data."""

import csv

import numpy as np

import musictx
from musictx.beats import Beats
from musictx.notes import Score
from scripts.reproduce import bands, drummers, songs
from tests.pieces import score


def drummer(bars):
    """Return eighths on a hi-hat, a kick on each bar line and a backbeat, late and uneven."""
    random = np.random.default_rng(0)
    rows = []
    for number in range(8 * bars):
        at = max(number / 3 + 0.02 + random.normal(0, 0.005), 0.0)
        rows.append((at, at + 0.05, 22, 70 + number % 8, 0, True, 0))
        rows += [(at, at + 0.05, 36, 100, 0, True, 0)] * (number % 8 == 0)
        rows += [(at, at + 0.05, 38, 100, 0, True, 0)] * (number % 8 in (2, 6))
    return score(rows, bpm=90)


def test_a_groove_has_no_ghost_notes_and_swings_by_its_triplets():
    notes, played = drummer(18).notes, drummers.without_ghosts
    ghosts = notes[notes["pitch"] == 38].copy()
    ghosts["start"] += 1 / 6
    ghosts["velocity"] = 40
    kept = played(np.concatenate([notes, ghosts]))
    assert np.array_equal(kept, notes)
    quarters = np.arange(0.0, 40.0, 0.5)
    swung = quarters + np.where(quarters % 1, 1 / 6, 0)
    straight, swing = (drummers.strokes(at, np.full(len(at), 51)) for at in (quarters, swung))
    assert [drummers.swings(bars) for bars in (straight, swing)] == [False, True]
    both = drummers.strokes(np.array([0.0, 0.0, 1.0]), np.array([42, 44, 44]))
    assert not both[0, drummers.PEDAL, 0], "the foot rests while hats are struck"
    assert both[0, drummers.PEDAL, len(drummers.PLACES)]


def with_an_upbeat(bars=41):
    """Return an upbeat, then chords on quarters over a bass on bars; the tempo changes."""
    clock = Score(tempos=[(0.0, 100.0), (9.0, 110.0)], meters=[(0.0, 4, 4)])
    at = Beats(clock).seconds(np.arange(4 * bars + 6))
    rows = []
    for n in range(3, 4 * bars):
        rows += [(at[n], at[n + 1], 60 + tone, 64, 0, False, 0) for tone in (0, 4, 7)]
        rows += [(at[n], at[n + 5], 40, 64, 0, False, 0)] * (n % 4 == 0)
    return clock.with_notes(rows)


def test_drums_are_placed_on_the_bars_of_the_song():
    played, name = drummer(18), "7_rock_90_beat_4-4"
    once, _ = bands.snapped(played)
    assert bands.snapped(once)[0] == once
    no_backbeat = played.with_notes(played.notes[~np.isin(played.notes["pitch"], bands.SNARES)])
    for left_out in (drummer(12), no_backbeat):
        assert bands.performance(name, left_out) is None
    performance = bands.performance(name, played)
    assert performance.bars == 16
    given = with_an_upbeat()
    made = bands.drummed("001", given, [performance])
    kicks = made.notes[made.notes["pitch"] == 36]
    at = Beats(given).quarters(kicks["start"])
    assert np.allclose(at, 4 * np.arange(1, 41), atol=1e-6)
    assert np.array_equal(made.notes[~made.notes["drum"]], given.notes)
    assert made == bands.drummed("001", given, [performance])


def test_a_bass_sustains_its_notes_and_strikes_with_the_bass_drum():
    song = with_an_upbeat(9)
    alone = bands.with_bass(song, 0)
    bass = alone.notes[alone.notes["program"] == bands.BASS]
    starts = Beats(song).quarters(bass["start"])
    assert np.allclose(starts, 4 * np.arange(1, 9), atol=1e-6)
    assert (bass["pitch"] == 40).all()
    assert np.allclose(Beats(song).quarters(bass["end"]), starts + 4, atol=1e-6)
    # Kicks a sixteenth after the first beat and on the third: only the third strikes the bass.
    kicks = Beats(song).seconds(np.array([4.25, 6.0]))
    rows = [(at, at + 0.1, 36, 90, 0, True, 1) for at in kicks.tolist()]
    drums = Score(tempos=song.tempos, meters=song.meters).with_notes(rows).notes
    together = bands.with_bass(song.with_notes(np.concatenate([song.notes, drums])), 0)
    bass = together.notes[together.notes["program"] == bands.BASS]
    starts = Beats(song).quarters(bass["start"])
    assert np.allclose(starts, np.sort([*(4 * np.arange(1, 9)), 6.0]), atol=1e-6)
    assert np.allclose(bass["end"][:-1], bass["start"][1:], atol=1e-6)
    others = song.notes[song.notes["pitch"] > 40]
    assert np.array_equal(np.sort(together.notes[together.notes["pitch"] > 40]), np.sort(others))


def in_parts(programs, count=24):
    parts = [(n % len(programs), programs[n % len(programs)]) for n in range(count)]
    rows = [(0.5 * n, 0.5 * n + 0.4, 60 + n % 7, 64, program, False, track)
            for n, (track, program) in enumerate(parts)]  # fmt: skip
    return score(rows, meter=(3, 4), markers=((0.0, "C:maj"),))


def test_songs_of_all_sources_become_a_folder_with_a_split(tmp_path):
    sources = {
        "pop909": {"779": in_parts([0, 0, 0]), "780": in_parts([0, 0, 0])},
        "lieder": {"lc1": in_parts([0, 68])},
        "freedoom": {"b": in_parts([30, 34]), "short": in_parts([0], 5)},
    }
    for source, pieces in sources.items():
        (tmp_path / source).mkdir()
        for name, piece in pieces.items():
            musictx.write(piece, tmp_path / source / f"{name}.mid")
    songs.main(tmp_path / "out", **{name: tmp_path / name for name in sources})
    with open(tmp_path / "out" / "split.csv") as file:
        split = {row["midi_filename"]: row["split"] for row in csv.DictReader(file)}
    assert (split["pop909-779.mid"], split["pop909-780.mid"]) == ("train", "validation")
    expected = {"pop909-779": {0, 48, 73}, "pop909-780": {0, 48, 73}, "lieder-lc1": {0, 73}}
    expected["freedoom-b"] = {29, 33}
    assert {*split} == {f"{name}.mid" for name in expected}
    for name, programs in expected.items():
        made = musictx.read(tmp_path / "out" / f"{name}.mid")
        assert set(made.notes["program"].tolist()) == programs
        assert made.markers == ((0.0, "C:maj"),)
        assert made.meters["numerator"][0] == 3


def test_editions_of_a_work_are_on_one_side_of_the_split():
    names = [f"A__w{n}__{edition}" for n in range(200) for edition in ("x", "y__z-1")]
    sides = [songs.split("mutopia", name) for name in names]
    assert sides[::2] == sides[1::2]
    assert set(sides) == {"train", "validation"}
