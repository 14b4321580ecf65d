from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

from musictx.errors import UserError
from musictx.midi.names import part_names
from musictx.notes import Score
from musictx.render import pianoroll
from musictx.render.pianoroll import AXIS, GAP, LEFT, PLOT_WIDTH, RIGHT, TOP, Layout


def note(start, end, pitch, velocity=90, program=0, drum=False, track=0):
    return (start, end, pitch, velocity, program, drum, track)


def pixel(picture, layout, seconds, pitch, drum=False):
    """Colour at the middle of a pitch's line."""
    system = int(seconds // layout.system_seconds)
    height = pianoroll.DRUM_LINE if drum else layout.semitone
    y = TOP + system * layout.system_height + layout.y(pitch, drum) + height / 2
    return np.array(picture.getpixel((int(layout.x(seconds, system)), int(y))), int)


def is_paper(colour):
    return colour.min() > 230


def test_the_file_is_a_png_of_the_layout_s_size_and_repeats_to_the_byte(tmp_path):
    score = Score(notes=[note(0, 1, 60), note(1, 2, 67)])
    paths = [pianoroll.draw(score, tmp_path / n, title="x") for n in ("a.png", "b.png")]
    with Image.open(paths[0]) as picture:
        picture.load()
        assert picture.format == "PNG"
        assert picture.size == Layout.of(score).size
        assert picture.size[0] == LEFT + PLOT_WIDTH + RIGHT
    assert paths[0].read_bytes() == paths[1].read_bytes()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.png", "b.png"]


def test_notes_stand_at_their_time_and_pitch_and_nowhere_else():
    score = Score(notes=[note(1, 2, 60), note(3, 3.5, 72), note(3, 6, 40)])
    layout, picture = Layout.of(score), pianoroll.image(score)
    for seconds, pitch in ((1.05, 60), (1.95, 60), (3.05, 72), (3.45, 72), (4.5, 40)):
        assert not is_paper(pixel(picture, layout, seconds, pitch)), (seconds, pitch)
    for seconds, pitch in ((0.9, 60), (2.1, 60), (1.5, 61), (1.5, 59), (3.6, 72), (6.1, 40)):
        assert is_paper(pixel(picture, layout, seconds, pitch)), (seconds, pitch)


def test_long_pieces_wrap_and_a_note_over_the_end_of_a_line_goes_on_in_the_next():
    score = Score(notes=[note(0, 1, 60), note(30, 95, 64), note(99, 100, 60)])
    layout, picture = Layout.of(score), pianoroll.image(score)
    assert layout.systems == 3
    assert layout.systems * layout.system_seconds >= 100
    for seconds in (31, 34.5, 50, 67, 69, 94):
        assert not is_paper(pixel(picture, layout, seconds, 64))
    assert is_paper(pixel(picture, layout, 29, 64))
    assert is_paper(pixel(picture, layout, 96, 64))
    assert not is_paper(pixel(picture, layout, 99.5, 60))


@pytest.mark.parametrize("hours", [0.1, 1, 10])
def test_the_page_stays_of_a_size_to_look_at(hours):
    score = Score(notes=[note(0, 1, 21), note(hours * 3600 - 1, hours * 3600, 108)])
    width, height = Layout.of(score).size
    assert width == LEFT + PLOT_WIDTH + RIGHT
    assert height < 12 * (400 + AXIS + GAP) + TOP + 50
    assert not is_paper(pixel(pianoroll.image(score), Layout.of(score), hours * 3600 - 0.5, 108))


def test_louder_is_fuller_and_tracks_have_their_own_colours():
    score = Score(
        notes=[note(i, i + 0.9, 60, v) for i, v in enumerate((20, 50, 80, 110))]
        + [note(5, 6, 60, 80, program=40, track=1), note(7, 8, 60, 80, program=0, track=2)]
    )
    layout, picture = Layout.of(score), pianoroll.image(score)
    brightness = [pixel(picture, layout, i + 0.4, 60).sum() for i in range(4)]
    assert all(np.diff(brightness) < -20)
    three = [pixel(picture, layout, s, 60) for s in (2.4, 5.5, 7.5)]
    for a, b in ((0, 1), (0, 2), (1, 2)):
        assert np.abs(three[a] - three[b]).sum() > 60


def test_drums_have_a_lane_below_and_no_pitch():
    score = Score(
        notes=[note(1, 2, 60), note(0.5, 0.6, 36, drum=True), note(1.5, 1.6, 42, drum=True)]
    )
    layout, picture = Layout.of(score), pianoroll.image(score)
    assert layout.drums == (36, 42)
    assert layout.y(36, drum=True) > layout.y(42, drum=True) >= layout.pitch_height
    assert not is_paper(pixel(picture, layout, 0.5, 36, drum=True))
    assert not is_paper(pixel(picture, layout, 1.5, 42, drum=True))
    assert is_paper(pixel(picture, layout, 1.5, 36, drum=True))
    assert layout.low > 42  # drum numbers do not stretch the pitch axis
    drums_only = Score(notes=[note(0, 1, 36, drum=True)])
    assert pianoroll.image(drums_only).size == Layout.of(drums_only).size


def test_the_seam_is_a_line_where_the_primer_ends():
    score = Score(notes=[note(0, 10, 60)])
    layout = Layout.of(score)
    with_seam, without = pianoroll.image(score, seam=4.0), pianoroll.image(score)
    x, y = round(layout.x(4.0)), TOP + round(layout.pitch_height) - 5
    red, green, blue = with_seam.getpixel((x, y))
    assert red > 180
    assert max(green, blue) < 160
    assert is_paper(np.array(without.getpixel((x, y))))
    assert with_seam.getpixel((x + 100, y)) == without.getpixel((x + 100, y))
    assert with_seam.getpixel((x - 100, y)) != without.getpixel((x - 100, y))  # tinted


def test_an_empty_score_is_a_page_that_says_so(tmp_path):
    path = pianoroll.draw(Score(), tmp_path / "empty.png")
    with Image.open(path) as picture:
        middle = np.array(picture.convert("L"))[:, 700:900]
    assert middle[TOP:].min() < 180  # words


@pytest.mark.parametrize("pitch", [0, 1, 126, 127])
@pytest.mark.parametrize("seconds", [0.0, 1e-4, 0.02])
def test_the_edges_of_the_keyboard_and_the_shortest_notes_are_seen(pitch, seconds):
    score = Score(notes=[note(1.0, 1.0 + seconds, pitch)])
    layout, picture = Layout.of(score), pianoroll.image(score)
    x = layout.x(1.0) + 1
    y = TOP + layout.y(pitch) + layout.semitone / 2
    assert not is_paper(np.array(picture.getpixel((int(x), int(y)))))


def test_many_parts_and_long_titles_stay_on_the_page():
    score = Score(notes=[note(i, i + 1, 60 + i, program=i * 5, track=i) for i in range(20)])
    picture = pianoroll.image(score, title="A very long title " * 20)
    assert picture.size == Layout.of(score).size
    right = np.array(picture.crop((picture.width - 10, 0, picture.width, TOP)))
    assert right.min() > 250


@pytest.mark.parametrize("title", ["a" * 100_000, "a\nb", " "])
def test_any_text_is_a_title_at_once(title):  # the first took more than ten minutes
    score = Score(notes=[note(0, 1, 60)])
    assert pianoroll.image(score, title=title).size == Layout.of(score).size


def test_a_place_that_cannot_be_written_gets_one_sentence(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match=r"a\.png: cannot be written"):
        pianoroll.draw(Score(), tmp_path / "file" / "a.png")


def test_parts_are_called_by_their_tracks_names_where_those_tell_them_apart():
    parts = [(0, 0, False), (1, 0, False), (2, 0, False), (3, 40, False), (4, 0, True)]
    names = {0: "Soprano", 1: "Alto", 2: "Alto", 3: "a" * 50}
    named = list(part_names(parts, names).values())
    assert named == ["Soprano", "piano 2", "piano 3", "a" * 19 + "…", "drums"]


def test_an_hour_is_an_hour_when_it_is_rounded():
    assert [pianoroll._clock(t, t) for t in (59.4, 61, 3599.4, 3599.6)] == [
        "59.4 s", "1:01", "59:59", "1:00:00",
    ]  # fmt: skip


def test_music_on_its_beats_has_bar_lines_and_music_beside_them_seconds():
    """A pick-up of a quarter note and eight bars of 3/4, at 120."""
    rows = [note(0.5 * n, 0.5 * n + 0.4, 60 + n % 5) for n in range(25)]
    meters, tempos = [(0.0, 4, 4), (0.5, 3, 4)], [(0.0, 120.0)]
    score = Score(notes=rows, meters=meters, tempos=tempos)
    times = Layout.of(score).times(score)
    assert times[:3] == [(0.0, ""), (0.5, "bar 1"), (2.0, "bar 2")]  # no room for "bar 0"
    assert np.diff([at for at, _ in times[1:]]) == pytest.approx(1.5)
    long = Score(notes=[*rows, note(900, 901, 60)], meters=meters, tempos=tempos)
    labels = [label for _, label in Layout.of(long).times(long)]
    assert "" in labels
    assert "bar 1" in labels, "some bars have a number"
    random = np.random.default_rng(0)
    free = Score(
        notes=[note(at, at + 0.4, 60) for at in np.sort(random.uniform(0, 12, 40))],
        meters=meters, tempos=tempos,
    )  # fmt: skip
    assert Layout.of(free).times(free)[:2] == [(0.0, "0 s"), (1.0, "1 s")]
    layout, page = Layout.of(score), pianoroll.image(score)
    line, beside = (pixel(page, layout, at, 75).sum() for at in (2.0, 2.1))
    assert line < beside, "seen across the roll"
