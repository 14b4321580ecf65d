"""Music of any format: read by content, write by ending, limits that say what they are."""

from __future__ import annotations

import io
import os

import mido
import pretty_midi
import pytest

import musictx
from musictx import formats, midi
from musictx.config import Limits
from musictx.errors import MidiError, MusicXmlError, ReadError, UserError
from musictx.notes import Score
from tests.midi.midi_bytes import END, file
from tests.musicxml.test_document import GOOD, mxl

ONE = Score([(0.0, 1.0, 60, 80, 0, False, 0)])


def test_files_are_read_by_what_they_hold_whatever_their_name(tmp_path) -> None:
    score = musictx.read(GOOD)
    for name, data in {
        "a.musicxml": GOOD,
        "a.mid": GOOD,
        "a.mxl": mxl({"x.xml": GOOD}),
        "b.mid": mxl({"x.xml": GOOD}),
        "c.xml": GOOD.decode().replace("UTF-8", "UTF-16").encode("utf-16"),
    }.items():
        (tmp_path / name).write_bytes(data)
        assert musictx.read(tmp_path / name) == score
        assert musictx.read(data) == score
    (tmp_path / "d.xml").write_bytes(midi.to_bytes(ONE))
    assert len(musictx.read(str(tmp_path / "d.xml"))) == 1


def test_objects_of_other_libraries_are_read() -> None:
    file = mido.MidiFile(file=io.BytesIO(midi.to_bytes(ONE)))
    expected = ONE.notes.tolist()
    pretty = ONE.to_pretty_midi()
    assert isinstance(pretty, pretty_midi.PrettyMIDI)
    for source in (file, pretty, ONE, bytearray(midi.to_bytes(ONE))):
        assert musictx.read(source).notes.tolist() == expected
    pretty.instruments[0].notes[0].pitch = 128
    with pytest.raises(UserError, match="PrettyMIDI"):
        musictx.read(pretty)


def test_errors_of_files_name_the_file_and_carry_a_reason(tmp_path) -> None:
    for name, data, kind, reason in [
        ("a.mid", b"hello", MidiError, "not a MIDI file"),
        ("a.xml", b"hello", MusicXmlError, "not MusicXML"),
        ("b.mid", b"<html/>", MusicXmlError, "not MusicXML"),
        ("c.mid", b"", MidiError, "empty file"),
    ]:
        (tmp_path / name).write_bytes(data)
        with pytest.raises(kind, match=name) as caught:
            musictx.read(tmp_path / name)
        assert caught.value.reason == reason
        assert "\n" not in str(caught.value)
    for path in (tmp_path / "none.mid", tmp_path, "/dev/null"):
        with pytest.raises(ReadError, match="cannot be opened"):
            musictx.read(path)


def test_a_recording_is_to_be_transcribed_first(tmp_path):
    wave = b"RIFF\x24\0\0\0WAVEfmt "
    for name, content in (("song.wav", wave), ("song", wave), ("song.MP3", b"\xff\xfb\x90d" * 99)):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(ReadError, match="a recording; transcribe it to MIDI first") as caught:
            musictx.read(tmp_path / name)
        assert name in str(caught.value)
        assert "\n" not in str(caught.value)


def test_writing_goes_by_the_ending_and_refuses_the_others(tmp_path) -> None:
    for name, begins in [
        ("a.mid", b"MThd"),
        ("a.MIDI", b"MThd"),
        ("a.wav", b"RIFF"),
        ("a.png", b"\x89PNG"),
    ]:
        assert musictx.write(ONE, tmp_path / name).read_bytes().startswith(begins)

    class Sample:
        score = ONE

    musictx.write(Sample(), tmp_path / "b.mid")
    before = sorted(os.listdir(tmp_path))
    for name in ("s.ogg", "s.mp3", "s", "s.pdf"):
        with pytest.raises(UserError, match=r"cannot write .*\.mid"):
            musictx.write(ONE, tmp_path / name)
    assert sorted(os.listdir(tmp_path)) == before


def test_find_takes_every_ending_in_any_case_at_any_depth_and_no_dot_files(tmp_path) -> None:
    wanted = ["B.MID", "a.midi", "deep/er/c.Kar", "deep/d.rmi", "deep.mid/e.mid", "f.mxl"]
    for name in [*wanted, "._B.MID", ".hidden/f.mid", "g.txt", "deep/mid", "h.mid.gz"]:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b"")
    found = formats.find(tmp_path)
    assert found == sorted(tmp_path / name for name in wanted)
    assert formats.find(str(tmp_path)) == found
    for wrong in (tmp_path / "a.midi", tmp_path / "none"):
        with pytest.raises(UserError, match=wrong.name):
            formats.find(wrong)


EMPTY, NOTE = b"\0\xff\x2f\0", bytes([0, 0x90, 60, 64, 96, 60, 0]) + b"\0\xff\x2f\0"


def many(*tracks: bytes) -> bytes:
    """A file of many tracks, of which it can state 65,535."""
    return file(*tracks, count=min(len(tracks), 65535))


def test_many_small_tracks_are_read() -> None:
    """Empty ones, of a note each, and of pedals of every channel."""
    pedals = b"".join(bytes([0, 0xB0 | c, 64, 127]) for c in range(16))
    assert len(midi.read(many(*[EMPTY] * 60_000))) == 0
    assert len(midi.read(many(*[NOTE] * 65_000))) == 65_000
    assert len(midi.read(many(*[pedals] * 30_000, NOTE))) == 1


@pytest.mark.parametrize(
    ("data", "limit"),
    [  # tracks; the pedals of one without notes, for a thousand parts
        (many(*[EMPTY] * 100_000), "limits.tracks=65534"),
        (many(b"\0\xb0\x40\x7f" * 100_000 + EMPTY, *[NOTE] * 1000), "limits.events=4000000"),
    ],
    ids=["tracks", "pedals"],
)
def test_what_would_fill_the_memory_is_refused(data: bytes, limit: str) -> None:
    with pytest.raises(MidiError, match=limit) as caught:
        midi.read(data)
    assert caught.value.reason == "too large"


def test_more_parts_than_a_file_can_have_are_refused() -> None:
    score = Score([(0.0, 1.0, 60, 80, 0, False, track) for track in range(33_000)])
    with pytest.raises(UserError, match="32766"):
        midi.to_bytes(score)


@pytest.mark.parametrize(
    ("limits", "data"),
    [
        ({"tracks": 1}, file(f"00 90 3C 40 {END}", f"00 90 3C 40 {END}")),
        ({"notes": 1}, file(f"00 90 3C 40 00 90 3E 40 {END}")),
        ({"events": 3}, file(f"00 B0 40 7F 00 B0 40 00 00 90 3C 40 {END}")),
        ({"seconds": 1}, file(f"00 90 3C 40 97 40 80 3C 00 {END}")),
        ({"xml_tags": 5}, GOOD),
        (
            {"notes": 1},
            GOOD.replace(
                b"</measure>",
                GOOD[GOOD.index(b"<note>") : GOOD.index(b"</measure>")] + b"</measure>",
            ),
        ),
    ],
)
def test_every_limit_is_one_sentence_with_its_name(limits: dict, data: bytes) -> None:
    assert len(musictx.read(data))
    with pytest.raises(ReadError) as caught:
        musictx.read(data, limits=Limits(**limits))
    assert caught.value.reason in ("too large", "absurd times")
    assert "\n" not in str(caught.value)


def test_a_large_file_is_refused_before_it_is_read(tmp_path) -> None:
    for name, head in [("a.mid", b"MThd"), ("a.xml", b"<x")]:
        with (tmp_path / name).open("wb") as big:
            big.write(head)
            big.truncate(10**10)  # sparse: no disk, but ten gigabytes to read
        with pytest.raises(ReadError, match=r"larger than limits\..*_mb=") as caught:
            musictx.read(tmp_path / name)
        assert caught.value.reason == "too large"


def test_bytes_and_file_objects_do_what_files_do(tmp_path):
    score = Score([(0.0, 1.0, 60, 80, 0, False, 0)], tempos=[(0.0, 120.0)])
    for suffix in (".mid", ".musicxml"):
        data = musictx.to_bytes(score, suffix)
        path = musictx.write(score, tmp_path / f"x{suffix}")
        assert data == path.read_bytes()
        assert musictx.read(io.BytesIO(data)) == musictx.read(path)
        with path.open("rb") as file:
            assert musictx.read(file) == musictx.read(path)
    for wrong in (".wav", 5, True):
        with pytest.raises(UserError, match="suffix="):
            musictx.to_bytes(score, wrong)
    with pytest.raises(UserError, match="binary"):
        musictx.read(io.StringIO("x"))
    for name in (None, "\0.mid", 5):
        with pytest.raises(UserError, match="name of a file"):
            musictx.write(Score(), name)
