"""Chords are printed, written to files, and followed by accompaniments."""

import shutil
from dataclasses import replace

import numpy as np
import pytest

import musictx
from musictx import cli, shipped
from musictx.apps import infill, tasks
from musictx.beats import Beats
from musictx.config import AccompanyConfig
from musictx.errors import UserError
from musictx.notes import Score
from musictx.songs.chord_sheet import chord_bars, loop_markers, sheet, sheet_text
from tests.pieces import of


def test_a_sheet_is_printed_and_written(tmp_path, capsys):
    tune = musictx.read(shipped.examples()["ode_to_joy"])
    bars = sheet("| G | D7 G | C D | G |")
    source, out = tmp_path / "tune.mid", tmp_path / "named.mid"
    musictx.write(replace(tune, markers=loop_markers(bars, Beats(tune), 0, 16)), source)
    assert cli.main(["chords", str(source), f"out={out}"]) == 0
    printed = capsys.readouterr().out
    assert sheet_text(chord_bars(musictx.read(source))) in printed
    assert "Sections, by their bars: A 1-4, A 5-8, B 9-12, A 13-16" in printed
    late = tune.shifted(0.5)
    late = replace(late, meters=[(0, 1, 4), (0.5, 4, 4)], tempos=tune.tempos)
    musictx.write(late, source)
    assert cli.main(["chords", str(source)]) == 0
    assert "Sections, by their bars: A 0-4, A 5-8, B 9-12, A 13-16" in capsys.readouterr().out
    assert chord_bars(musictx.read(out)) == (bars * 4)[:16]


def test_the_file_that_is_read_is_not_replaced(tmp_path, capsys):
    source, copy = tmp_path / "tune.mid", tmp_path / "tune-2.mid"
    shutil.copy(shipped.examples()["ode_to_joy"], source)
    before = source.read_bytes()
    assert cli.main(["chords", str(source), f"out={source}"]) == 0
    assert source.read_bytes() == before
    assert str(copy) in capsys.readouterr().out
    assert chord_bars(musictx.read(copy))


def test_drums_have_no_chords(tmp_path, capsys):
    musictx.write(Score([(0.0, 0.1, 36, 80, 0, True, 0)]), tmp_path / "drums.mid")
    assert cli.main(["chords", str(tmp_path / "drums.mid")]) == 2
    assert "no chords and no pitched notes" in capsys.readouterr().err


def test_a_file_of_chords_is_followed_in_its_tempo(counting, tmp_path, capsys):
    song = tmp_path / "song.cho"
    song.write_text("{tempo: 60}\n[C]Words [Am7/G]and\n{soc}\n[F]more")
    for options in ({"chords": str(song)}, {"melody": song}):
        (made,) = musictx.accompany(model=counting, seed=3, **options)
        assert [name for _, name in made.score.markers[1:4]] == ["A:min7/b7", "Chorus", "F:maj"]
        assert made.score.tempos["bpm"].tolist() == [60]
        assert made.score.notes["end"].max() <= 12 + 1e-6
    tune = musictx.read(shipped.examples()["ode_to_joy"])
    made = musictx.accompany(tune, counting, chords=str(song), seed=3)[0]
    assert made.score.markers[1][1] == "A:min7/b7"
    request = AccompanyConfig(chords="irealb://A=B==Swing=C==1r34LbKcu7T44C  |A-7  Z=Jazz=90=3")
    markers = tasks.task_of(request, Score()).given.markers
    assert [name for _, name in markers] == ["C:maj", "A:min7"]
    for missing in ("song.txt", "~/song.mid"):
        with pytest.raises(UserError, match=rf"^chords=.*{missing[-4:]}: .*No such file"):
            tasks.task_of(AccompanyConfig(chords=missing), tune)
    song.write_text("| C | Foo |")
    next(infill.results(AccompanyConfig(chords=str(song), out=str(tmp_path)), print))
    assert "song.cho: not played as written: words among chords" in capsys.readouterr().out
    song.write_text("no music")
    with pytest.raises(UserError, match=r"^chords=.*song\.cho"):
        musictx.accompany(model=counting, chords=str(song))


@pytest.mark.parametrize(("meter", "pickup"), [((3, 4), 1.0), ((6, 8), 0.5), ((4, 4), 0.0)])
def test_chords_of_a_sheet_are_placed_on_the_bars_of_the_file_after_a_pick_up(meter, pickup):
    """Also with a change of tempo; they replace the chords of the file."""

    def seconds(quarter):
        return 0.6 * quarter if quarter < 6 else 3.6 + 0.4 * (quarter - 6)

    notes = ((seconds(n / 2), seconds(n / 2 + 0.45), 60 + n % 7) for n in range(24))
    meters = [(0.0, 1, meter[1])] * (pickup > 0) + [(seconds(pickup), *meter)]
    chords = ((0.0, "Am7"), (1.2, "D"), (2.4, "E:min"))
    tune = of(*notes, tempos=[(0, 100), (3.6, 150)], meters=meters, markers=chords)
    placed = tasks.task_of(AccompanyConfig(chords="| C | G/B Am7 | N.C. |"), tune).given.markers
    bar = 4 * meter[0] / meter[1]
    places = [(0, "C:maj"), (1, "G:maj/3"), (1.5, "A:min7"), (2, "N")]
    expected = [(seconds(pickup + bar * n), name) for n, name in places]
    assert [name for _, name in placed[:4]] == [name for _, name in expected]
    assert [time for time, _ in placed[:4]] == pytest.approx([time for time, _ in expected])


def test_a_chart_without_notes_is_printed_and_accompanied_as_its_sheet(counting, tmp_path, capsys):
    text = "| C | F G | C |"
    slow, source = Score(tempos=[(0.0, 60.0)], meters=[(0.0, 4, 4)]), tmp_path / "chart.musicxml"
    musictx.write(replace(slow, markers=loop_markers(sheet(text), Beats(slow), 0, 3)), source)
    for out in ("chart.mid", "again.musicxml"):
        assert cli.main(["chords", str(source), f"out={tmp_path / out}"]) == 0
        assert sheet_text(sheet(text)) in capsys.readouterr().out
        assert chord_bars(musictx.read(tmp_path / out)) == sheet(text)
    made, again, usual = (
        musictx.accompany(music, counting, chords=chords, seed=3)[0].score
        for music, chords in ((source, None), (tmp_path / "chart.mid", None), (None, text))
    )
    assert made.tempos["bpm"].tolist() == [60]
    assert made.markers[:2] == ((0.0, "C:maj"), (4.0, "F:maj"))
    assert made.notes["pitch"].tolist() == again.notes["pitch"].tolist()
    assert made.notes["pitch"].tolist() == usual.notes["pitch"].tolist()
    assert np.allclose(made.notes["start"], 2 * usual.notes["start"])
