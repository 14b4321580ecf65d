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


def test_editions_of_a_work_are_on_one_side_of_the_split():
    names = [f"A__w{n}__{edition}" for n in range(200) for edition in ("x", "y__z-1")]
    sides = [songs.split("mutopia", name) for name in names]
    assert sides[::2] == sides[1::2]
    assert set(sides) == {"train", "validation"}
