"""The folder of songs: a program for each part, the split, chords and ticks as they were."""

import csv

import numpy as np

import musictx
from musictx.notes import Score
from scripts.reproduce import songs


def song(programs, count=24):
    notes = [
        (
            0.5 * i,
            0.5 * i + 0.4,
            60 + i % 7,
            64,
            programs[i % len(programs)],
            False,
            i % len(programs),
        )
        for i in range(count)
    ]
    return Score(
        notes=notes,
        tempos=[(0.0, 120.0)],
        meters=[(0.0, 3, 4)],
        ticks_per_quarter=480,
        markers=((0.0, "C:maj"),),
    )


def test_a_folder_is_made(tmp_path):
    for folder, name, programs in (
        ("pop", "779", [0, 0, 0]),
        ("pop", "780", [0, 0, 0]),
        ("songs", "lc1", [0, 68]),
        ("bands", "b", [30, 34]),
    ):
        (tmp_path / folder).mkdir(exist_ok=True)
        musictx.write(song(programs), tmp_path / folder / f"{name}.mid")
    musictx.write(song([0], 5), tmp_path / "bands" / "short.mid")
    words = {"pop909": "pop", "lieder": "songs", "freedoom": "bands"}
    songs.main(tmp_path / "out", **{name: tmp_path / folder for name, folder in words.items()})
    with open(tmp_path / "out" / "split.csv") as file:
        split = {row["midi_filename"]: row["split"] for row in csv.DictReader(file)}
    assert sorted(split) == sorted(p.name for p in (tmp_path / "out").glob("*.mid"))
    assert split["pop909-779.mid"] == "train"
    assert split["pop909-780.mid"] == "validation"
    assert "freedoom-short.mid" not in split
    expected = {"pop909-779": {0, 48, 73}, "lieder-lc1": {0, 73}, "freedoom-b": {29, 33}}
    for name, programs in expected.items():
        score = musictx.read(tmp_path / "out" / f"{name}.mid")
        assert set(np.unique(score.notes["program"]).tolist()) == programs
        assert score.ticks_per_quarter == 480
        assert score.markers == ((0.0, "C:maj"),)
        assert score.meters["numerator"][0] == 3


def scales(tracks, seed, count=40):
    """A score whose tracks are random walks, each note alone in its track."""
    random = np.random.default_rng(seed)
    notes = []
    for track, program in enumerate(tracks):
        pitches = 60 + np.cumsum(random.integers(-2, 3, count)).clip(-20, 20)
        notes += [
            (0.5 * i, 0.5 * i + 0.4, int(pitch) - 12 * track, 64, program, False, track)
            for i, pitch in enumerate(pitches)
        ]
    return Score(notes=notes, tempos=[(0.0, 120.0)], ticks_per_quarter=480)


def test_scores_of_mutopia(tmp_path):
    files = {
        "lieder/lc1": scales([0, 68], 1),
        "mutopia/pd/voices/A__w1__w1": scales([0, 0, 0], 2),
        "mutopia/pd/voices/A__w2__edition": scales([0, 68], 1),  # the song of the other folder
        "mutopia/by/ensemble/B__w3__x__score": scales([40, 68], 3),
        "mutopia/by/ensemble/B__w3__x__viola": scales([41], 4),
        "mutopia/by/ensemble/C__solo__solo": scales([41], 5),
        "mutopia/by-sa/keyboard/D__w4__w4": scales([0, 0], 6),
        "mutopia/pd/keyboard/D__w5__w5": scales([6, 6], 7),
    }
    for name, score in files.items():
        path = tmp_path / f"{name}.mid"
        path.parent.mkdir(parents=True, exist_ok=True)
        musictx.write(score, path)
    songs.main(tmp_path / "out", lieder=tmp_path / "lieder", mutopia=tmp_path / "mutopia")
    made = {path.stem: musictx.read(path) for path in (tmp_path / "out").glob("*.mid")}
    programs = {name: set(score.notes["program"].tolist()) for name, score in made.items()}
    assert programs == {
        "lieder-lc1": {0, 73},
        "mutopia-A__w1__w1": {48, 73},
        "mutopia-B__w3__x__score": {40, 65},
        "mutopia-C__solo__solo": {41},
        "mutopia-D__w5__w5": {0},
    }
    # The highest voice is the melody.
    melody = made["mutopia-A__w1__w1"].notes
    assert melody["pitch"][melody["program"] == 73].mean() > melody["pitch"].mean()


def test_editions_of_a_work_are_on_one_side_of_the_split():
    names = [f"A__w{n}__{edition}" for n in range(200) for edition in ("x", "y__z-1")]
    sides = [songs.split("mutopia", name) for name in names]
    assert sides[::2] == sides[1::2]
    assert set(sides) == {"train", "validation"}
