"""Figured bass against chords that are spelled out."""

import pytest

from musictx.chorale.figures import chord, read
from musictx.errors import UserError

LETTERS = {"C": 0, "D": 2, "E": 4, "F": 5, "G": 7, "A": 9, "B": 11}


def classes(names):
    return {(LETTERS[n[0]] + n.count("#") - n.count("b")) % 12 for n in names.split()}


@pytest.mark.parametrize(
    ("bass", "figures", "fifths", "allowed", "asked"),
    [
        ("C", "5", 0, "C E G", "G"),
        ("E", "6", 0, "E G C", "C"),
        ("G", "6/4", 0, "G C E", "C E"),
        ("G", "7", 0, "G B D F", "F"),
        ("B", "6/5", 0, "B D F G", "F G"),
        ("D", "4/3", 0, "D F G B", "F G"),
        ("F", "2", 0, "F G B D", "G"),
        ("F", "4/2", 0, "F G B D", "G B"),
        ("G", "4", 0, "G C D", "C"),
        ("D", "9", 0, "D F A E", "E"),
        ("E", "#", 0, "E G# B", "G#"),  # the dominant of A minor
        ("G#", "6", 0, "G# B E", "E"),  # its third in the bass
        ("D", "6#", 0, "D F B#", "B#"),
        ("G", "b", -1, "G Bbb D", "Bbb"),
        ("G", "n", -2, "G B D", "B"),
        ("F#", "7", 3, "F# A C# E", "E"),
        ("Bb", "6", -3, "Bb D G", "G"),
        ("D#", "6", 5, "D# F# B", "B"),
    ],
)
def test_figures_mean_these_notes(bass, figures, fifths, allowed, asked):
    (bass_class,) = classes(bass)
    found = chord(bass_class, figures, fifths)
    assert found.allowed == classes(allowed)
    assert found.needed == classes(asked)


@pytest.mark.parametrize("text", ["6 x", "6/ 5", "66", "1"])
def test_what_is_no_figure_is_refused(text):
    with pytest.raises(UserError, match="figures: "):
        read(text)
