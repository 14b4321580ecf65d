"""The content of a file determines how it is read, the ending of its name how it is written. The
error for a file above a limit names the limit."""

import io
import os

import pytest

import musictx
from musictx import formats, midi
from musictx.config import Limits
from musictx.errors import MidiError, MusicXmlError, ReadError, UserError
from musictx.notes import Score
from tests.midi.midi_bytes import END, file
from tests.musicxml.pages import HEAD, C, document, note
from tests.musicxml.test_document import GOOD, mxl
from tests.pieces import of

ONE = of((0, 1, 60), tempos=[(0.0, 120.0)])


def test_files_are_read_by_their_content_whatever_their_name(tmp_path) -> None:
    score = musictx.read(GOOD)
    packed = mxl({"x.xml": GOOD})
    utf16 = GOOD.decode().replace("UTF-8", "UTF-16").encode("utf-16")
    files = {"a.musicxml": GOOD, "a.mid": GOOD, "a.mxl": packed, "b.mid": packed, "c.xml": utf16}
    for name, data in files.items():
        (tmp_path / name).write_bytes(data)
        assert musictx.read(tmp_path / name) == musictx.read(data) == score
    (tmp_path / "d.xml").write_bytes(midi.to_bytes(ONE))
    assert len(musictx.read(str(tmp_path / "d.xml"))) == 1


def test_errors_of_files_name_the_file_and_have_a_reason(tmp_path) -> None:
    wave, mp3 = b"RIFF\x24\0\0\0WAVEfmt ", b"\xff\xfb\x90d" * 99
    for name, data, kind, words, reason in [
        ("a.mid", b"hello", MidiError, "", "not a MIDI file"),
        ("a.xml", b"hello", MusicXmlError, "", "not MusicXML"),
        ("b.mid", b"<html/>", MusicXmlError, "", "not MusicXML"),
        ("c.mid", b"", MidiError, "", "empty file"),
        *((name, wave, ReadError, "transcribe it to MIDI first", "") for name in ("s.wav", "s")),
        ("s.MP3", mp3, ReadError, "transcribe it to MIDI first", ""),
    ]:
        (tmp_path / name).write_bytes(data)
        with pytest.raises(kind, match=rf"{name}\b.*{words}") as caught:
            musictx.read(tmp_path / name)
        assert reason in ("", caught.value.reason)
        assert "\n" not in str(caught.value)
    for path in (tmp_path / "none.mid", tmp_path, "/dev/null", f"{tmp_path}/a\0b.mid"):
        with pytest.raises(ReadError, match="cannot be opened") as caught:
            musictx.read(path)
        assert caught.value.reason == "cannot be opened"


def test_the_ending_decides_the_format_that_is_written_and_others_are_refused(tmp_path) -> None:
    kinds = {"a.MIDI": b"MThd", "a.mid": b"MThd", "a.png": b"\x89PNG", "a.wav": b"RIFF"}
    for name, beginning in kinds.items():
        assert musictx.write(ONE, tmp_path / name).read_bytes().startswith(beginning)
    for name in ("s.ogg", "s.mp3", "s", "s.pdf"):
        with pytest.raises(UserError, match=r"cannot write .*\.mid"):
            musictx.write(ONE, tmp_path / name)
    assert sorted(os.listdir(tmp_path)) == [*kinds]


def test_find_takes_every_ending_in_any_case_at_any_depth_and_no_dot_files(tmp_path) -> None:
    music = ["B.MID", "a.midi", "deep/er/c.Kar", "deep/d.rmi", "deep.mid/e.mid", "f.mxl"]
    for name in [*music, "._B.MID", ".hidden/f.mid", "g.txt", "deep/mid", "h.mid.gz"]:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b"")
    for folder in (tmp_path, str(tmp_path)):
        assert formats.find_music(folder) == sorted(tmp_path / name for name in music)
    for wrong in (tmp_path / "a.midi", tmp_path / "none"):
        with pytest.raises(UserError, match=wrong.name):
            formats.find_music(wrong)


EMPTY, NOTE = b"\0\xff\x2f\0", bytes([0, 0x90, 60, 64, 96, 60, 0]) + b"\0\xff\x2f\0"
PEDALS = b"".join(bytes([0, 0xB0 | channel, 64, 127]) for channel in range(16))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("tracks", "read"),
    [
        ([NOTE] * 65_000, 65_000),
        ([*[PEDALS] * 30_000, NOTE], 1),
        ([EMPTY] * 100_000, "limits.tracks=65534"),
        ([b"\0\xb0\x40\x7f" * 100_000 + EMPTY, *[NOTE] * 1000], "limits.events=4000000"),
    ],
    ids=["notes", "pedals", "tracks", "pedals of a thousand parts"],
)
def test_many_small_tracks_are_read_and_too_many_events_are_refused(tracks, read) -> None:
    data = file(*tracks, count=min(len(tracks), 65535))  # as many as a file can state
    if isinstance(read, int):
        assert len(midi.read(data)) == read
    else:
        with pytest.raises(MidiError, match=read):
            midi.read(data)


@pytest.mark.parametrize(
    ("limits", "data"),
    [
        ({"tracks": 1}, file(f"00 90 3C 40 {END}", f"00 90 3C 40 {END}")),
        ({"notes": 1}, file(f"00 90 3C 40 00 90 3E 40 {END}")),
        ({"events": 3}, file(f"00 B0 40 7F 00 B0 40 00 00 90 3C 40 {END}")),
        ({"seconds": 1}, file(f"00 90 3C 40 97 40 80 3C 00 {END}")),
        ({"xml_tags": 5}, GOOD),
        ({"notes": 1}, document([HEAD.format(1) + note(C, 1) * 2])),
    ],
)
def test_a_file_above_a_limit_is_refused_in_a_sentence(limits: dict, data: bytes) -> None:
    assert len(musictx.read(data))
    with pytest.raises(ReadError) as caught:
        musictx.read(data, limits=Limits(**limits))
    assert caught.value.reason in ("too large", "absurd times")
    assert "\n" not in str(caught.value)


def test_a_large_file_is_refused_before_it_is_read(tmp_path) -> None:
    sources = [io.BytesIO(midi.to_bytes(ONE) + bytes(1_000_000))]
    for name, head in [("a.mid", b"MThd"), ("a.xml", b"<x")]:
        with (tmp_path / name).open("wb") as big:
            big.write(head)
            big.truncate(10**10)  # sparse: no disk, but ten gigabytes to read
        sources.append(tmp_path / name)
    for source in sources:
        with pytest.raises(ReadError, match=r"larger than .*limits") as caught:
            musictx.read(source, limits=Limits(midi_mb=1, xml_mb=1))
        assert caught.value.reason == "too large"


class Trickle(io.BytesIO):
    """A file object that returns at most three bytes a call, as a pipe or a socket may."""

    def read(self, size: int | None = -1) -> bytes:
        return super().read(min(size or 0, 3))


def test_bytes_and_file_objects_are_read_and_written_as_files_are(tmp_path):
    for suffix in (".mid", ".musicxml"):
        data = musictx.to_bytes(ONE, suffix)
        path = musictx.write(ONE, tmp_path / f"x{suffix}")
        assert data == path.read_bytes()
        assert musictx.read(io.BytesIO(data)) == musictx.read(path)
        with path.open("rb") as file:
            assert musictx.read(file) == musictx.read(path)
    assert musictx.read(bytearray(musictx.to_bytes(ONE, ".MID"))) == ONE
    assert musictx.read(Trickle(musictx.to_bytes(ONE))) == ONE
    pretty = ONE.to_pretty_midi()
    for pitch in (128, 60.0):
        pretty.instruments[0].notes[0].pitch = pitch
        with pytest.raises(UserError, match="PrettyMIDI"):
            musictx.read(pretty)
    with pytest.raises(UserError, match="suffix="):
        musictx.to_bytes(ONE, ".wav")
    with pytest.raises(UserError, match="binary"):
        musictx.read(io.StringIO("x"))
    for name in (None, "\0.mid", 5):
        with pytest.raises(UserError, match="name of a file"):
            musictx.write(Score(), name)
