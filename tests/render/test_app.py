from unittest.mock import Mock

import pytest

from musictx import formats
from musictx.config import Limits
from musictx.errors import UserError, WriteError
from musictx.notes import Score
from musictx.render import app as render
from musictx.render.config import RenderConfig
from tests.musicxml.pages import CUE, HEAD, C, document, note
from tests.render import fonts as f

SONG = "in/My song no. 1.mid"
SCORE = Score(notes=[(0.0, 0.4, 60, 80, 0, False, 0), (0.5, 0.9, 64, 80, 0, False, 0)])


@pytest.fixture
def song(tmp_path):
    path = tmp_path / SONG
    path.parent.mkdir()
    formats.write(SCORE, path)
    return path


@pytest.fixture(autouse=True)
def coarse_sound(monkeypatch):
    monkeypatch.setattr("musictx.render.audio.RATE", 8000)


def names(folder):
    return sorted(p.name for p in folder.iterdir())


def run(**options):
    return render.run(RenderConfig(**options))


def test_sound_and_picture_are_written_to_the_requested_place_and_printed(song, tmp_path, capsys):
    paths = run(files=[str(song)])
    assert names(song.parent) == [f"My song no. 1.{e}" for e in ("mid", "png", "wav")]
    assert paths == [song.with_name(f"My song no. 1.{e}") for e in ("wav", "png")]
    assert capsys.readouterr().out.split("\n")[:2] == [str(path) for path in paths]
    out = tmp_path / "some" / "where"
    run(files=[str(song)], wav=False, out=str(out))
    assert names(out) == ["My song no. 1.png"]
    font = f.build(tmp_path / "tiny.sf2", [f.sine()])
    other = run(files=[str(song)], png=False, soundfont=str(font), out=str(out))[0]
    assert other.read_bytes() != paths[0].read_bytes()
    for name in ("a.wav", "b.png"):
        (path,) = run(files=[str(song)], out=str(tmp_path / "new" / name))
        assert path.name == name
    assert names(tmp_path / "new") == ["a.wav", "b.png"]
    with pytest.raises(UserError, match=r"^out=.*: expected a folder for 2 files"):
        run(files=[str(song), str(song)], out=str(tmp_path / "d.wav"))


def test_several_files_and_folders_are_all_rendered(song, tmp_path):
    formats.write(SCORE, tmp_path / "two.mid")
    formats.write(SCORE, song.with_name("three.MID"))
    paths = run(files=[str(tmp_path / "two.mid"), str(song.parent)], png=False)
    assert [p.name for p in paths] == ["two.wav", "My song no. 1.wav", "three.wav"]
    (song.parent / "a text.mid").write_text("no music")
    with pytest.raises(UserError, match=r"^1 of 3 files not rendered: .*a text\.mid"):
        run(files=[str(song.parent)], wav=False)
    assert (song.parent / "three.png").exists(), "the others are rendered"
    formats.write(SCORE, tmp_path / "three.mid")
    with pytest.raises(UserError, match="would both become"):
        run(files=[str(song.parent / "three.MID"), str(tmp_path / "three.mid")], out="o")


def test_a_full_disk_ends_the_command(song, monkeypatch):
    formats.write(SCORE, song.with_name("another.mid"))
    write = Mock(side_effect=WriteError("song.wav: no space left"))
    monkeypatch.setattr(render, "_write", write)
    with pytest.raises(WriteError, match=r"^song\.wav: no space left"):
        run(files=[str(song.parent)])
    assert write.call_count == 1


def test_signs_that_are_not_played_are_printed(tmp_path, capsys):
    music = note(C, 4) + note(C, 4, before=CUE)
    (tmp_path / "x.musicxml").write_bytes(document([HEAD.format(4) + music]))
    run(files=[str(tmp_path / "x.musicxml")], png=False)
    assert "cue notes" in capsys.readouterr().out.splitlines()[0]
    (tmp_path / "x.bin").write_bytes(formats.to_bytes(SCORE)[:-1])
    run(files=[str(tmp_path / "x.bin")], png=False)
    assert "x.bin: damaged, read as far as possible: truncated" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({}, "files:"),
        ({"files": ["none.mid"]}, "files="),
        ({"files": ["bare"]}, "files="),
        ({"files": ["empty.mid"]}, r".*empty\.mid: "),
        ({"files": ["text.mid"]}, r".*text\.mid: "),
        ({"files": [SONG], "wav": False, "soundfont": SONG}, "soundfont="),
        ({"files": [SONG], "out": "x.mp3"}, r"out=.*x\.mp3: .*\.wav or \.png"),
        ({"files": [SONG], "out": "x.wav", "wav": False}, r"out=.*x\.wav: .*\.png"),
        ({"files": [SONG], "soundfont": "text.mid"}, "soundfont="),
    ],
)
def test_wrong_input_is_one_sentence_and_writes_nothing(options, name, song, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "text.mid").write_text("no music")
    (tmp_path / "bare").mkdir()
    formats.write(Score(), tmp_path / "empty.mid")
    before = names(tmp_path)
    with pytest.raises(UserError, match=f"^{name}"):
        run(**{"out": "new/folder", **options})
    assert names(tmp_path) == before
    assert names(song.parent) == [song.name]


def test_the_length_of_sound_is_limited(song, tmp_path):
    formats.write(Score([(6 * 3600.0, 6 * 3600.0 + 1, 60, 80, 0, False, 0)]), tmp_path / "long.mid")
    with pytest.raises(UserError, match=r"21601 seconds of sound, more than limits\.wav"):
        run(files=[str(tmp_path / "long.mid")], png=False)
    assert names(tmp_path) == ["in", "long.mid"]
    run(files=[str(song)], limits=Limits(wav_seconds=1))
