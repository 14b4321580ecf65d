"""Movies of the docs: as long as the music, with picture and sound."""

import subprocess

import pytest

import musictx
from musictx import shipped
from scripts.docs import movie


def test_a_movie_is_as_long_as_its_music(tmp_path):
    ffmpeg = pytest.importorskip("imageio_ffmpeg").get_ffmpeg_exe()
    score = musictx.read(shipped.examples()["frere_jacques"])
    musictx.write(score, tmp_path / "short.mid")
    movie.main(str(tmp_path / "short.mid"), out=tmp_path / "movies")
    description = subprocess.run(
        [ffmpeg, "-i", tmp_path / "movies" / "short.mp4", "-f", "null", "-"],
        capture_output=True,
        text=True,
        check=True,
    ).stderr
    assert "Video: h264" in description
    assert "Audio: aac" in description
    _, minutes, seconds = description.split("Duration: ")[1].split(",")[0].split(":")
    assert score.duration <= float(seconds) + 60 * float(minutes) < score.duration + 8
