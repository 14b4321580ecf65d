import numpy as np
import pytest
from PIL import Image

from musictx.render import pianoroll
from musictx.render.pianoroll import DRUM_ROW, TOP, Layout
from tests.pieces import of


def colours(score, **options):
    """Return a function of (second, pitch, drum) for the colour in the middle of a pitch's line."""
    layout, picture = Layout(score), pianoroll.image(score, **options)

    def colour(second, pitch, drum=False):
        system = int(second // layout.system_seconds)
        middle = layout.y(pitch, drum) + (DRUM_ROW if drum else layout.row_height) / 2
        x, y = round(layout.x(second, system)), int(TOP + system * layout.system_height + middle)
        return np.array(picture.getpixel((x, y)), int)

    return colour


def is_paper(colour):
    return colour.min() > 220  # or a line of the grid


def test_the_file_is_a_png_of_the_layouts_size_and_repeats_to_the_byte(tmp_path):
    score = of((0, 1, 60), (1, 2, 67))
    paths = [pianoroll.draw(score, tmp_path / name, title="x") for name in ("a.png", "b.png")]
    with Image.open(paths[0]) as picture:
        picture.load()
        assert (picture.format, picture.size) == ("PNG", Layout(score).size)
    assert paths[0].read_bytes() == paths[1].read_bytes()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.png", "b.png"]


def test_notes_stand_at_their_time_and_pitch_and_nowhere_else():
    shortest = [(8, 8 + seconds, pitch) for pitch in (0, 127) for seconds in (0.0, 0.02)]
    score = of((1, 2, 60), (3, 3.5, 72), (3, 6, 40), *shortest)
    colour, edge = colours(score), 8 + 1 / Layout(score).second_width
    for place in ((1.05, 60), (1.95, 60), (3.05, 72), (4.5, 40), (edge, 0), (edge, 127)):
        assert not is_paper(colour(*place)), place
    for place in ((0.9, 60), (2.1, 60), (1.5, 61), (1.5, 59), (3.6, 72), (6.1, 40)):
        assert is_paper(colour(*place)), place


def test_long_pieces_wrap_and_notes_continue_on_the_next_line_but_strokes_of_drums_do_not():
    score = of((30, 95, 64), (99, 100, 60))
    edge = Layout(score).system_seconds
    colour = colours(of(*score.notes.tolist(), (edge - 1, edge + 1, 36, 90, 0, True)))
    for second in (31, 34.5, 50, 67, 69, 94):
        assert not is_paper(colour(second, 64)), second
    assert is_paper(colour(29, 64))
    assert is_paper(colour(96, 64))
    assert not is_paper(colour(edge - 1, 36, True))
    assert is_paper(colour(edge + 0.05, 36, True))


@pytest.mark.parametrize("hours", [0.1, 10])
def test_pages_of_short_and_long_pieces_have_a_viewable_size(hours):
    score = of((0, 1, 21), (hours * 3600 - 1, hours * 3600, 108))
    assert max(Layout(score).size) < 6000
    assert not is_paper(colours(score)(hours * 3600 - 0.5, 108))


def test_louder_notes_are_darker_and_tracks_have_different_colours():
    notes = [(i, i + 0.9, 60, v) for i, v in enumerate((20, 50, 80, 110))]
    notes += [(5, 6, 60, 80, 40, False, 1), (7, 8, 60, 80, 0, False, 2)]
    colour = colours(of(*notes))
    assert all(np.diff([colour(i + 0.4, 60).sum() for i in range(4)]) < -20)
    three = [colour(second, 60) for second in (2.4, 5.5, 7.5)]
    for a, b in ((0, 1), (0, 2), (1, 2)):
        assert np.abs(three[a] - three[b]).sum() > 60


def test_drums_have_a_lane_below_and_no_pitch_and_alone_no_keyboard():
    drums = [(0.5, 0.6, 36, 90, 0, True), (1.5, 1.6, 42, 90, 0, True)]
    score = of((1, 2, 60), *drums)
    layout, colour = Layout(score), colours(score)
    assert layout.y(36, drum=True) > layout.y(42, drum=True) >= layout.pitch_height
    assert not is_paper(colour(0.5, 36, True))
    assert not is_paper(colour(1.5, 42, True))
    assert is_paper(colour(1.5, 36, True))
    assert layout.low > 42  # drum numbers do not stretch the pitch axis
    assert Layout(of(*drums)).pitch_height == 0
    assert not is_paper(colours(of(*drums))(1.5, 42, True))


@pytest.mark.parametrize("end", [None, 7.0])
def test_lines_mark_the_beginning_and_end_of_new_music_and_given_music_is_tinted(end):
    score = of((0, 10, 60))
    marked, plain = colours(score, seam=4.0, end=end), colours(score)
    for second in (4.0, 7.0):
        red, green, blue = marked(second, 65)
        assert (red > 180 > 160 > max(green, blue)) == (second in (4.0, end))
        assert is_paper(plain(second, 65))
    for second, is_tinted in ((3.2, True), (6.2, False), (8.2, end is not None)):
        assert (marked(second, 65) != plain(second, 65)).any() == is_tinted


def test_music_on_beats_has_numbered_bars_after_a_pick_up_and_other_music_has_seconds():
    rows = [(n / 2, n / 2 + 0.4, 60) for n in range(25)]
    score = of(*rows, meters=[(0.0, 4, 4), (0.5, 3, 4)], tempos=[(0.0, 120.0)])
    lines = Layout(score).times
    assert lines[:3] == [(0.0, ""), (0.5, "bar 1"), (2.0, "bar 2")]
    assert np.diff([second for second, _ in lines[1:]]) == pytest.approx(1.5)
    colour = colours(score)
    assert colour(2.0, 75).sum() < colour(2.1, 75).sum(), "a line across the roll"
    starts = np.random.default_rng(0).uniform(0, 3600, 400)
    played = of(*((start, start + 0.4, 60) for start in [*np.sort(starts), 3600]))
    assert {(60.0, "0:01:00"), (3600.0, "1:00:00")} <= {*Layout(played).times}
