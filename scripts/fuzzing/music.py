"""Files of music and sound fonts: valid, damaged and hostile examples, and how they are used."""

from __future__ import annotations

import io
import json
import struct
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import strategies as st

from musictx import formats
from musictx.notes import NOTE, Score
from musictx.render import audio
from musictx.render.soundfont import SoundFont
from musictx.tokens.build import build
from scripts.fuzzing.damage import (
    MOST_BYTES,
    Draw,
    chance,
    damage,
    damaged_bytes,
    damaged_elements,
    damaged_text,
    pick,
    put,
)  # fmt: skip
from tests.data.helpers import song
from tests.render import fonts

SMALL = {"name": "performance", "low": 48, "high": 84, "max_shift_ms": 500, "velocity_bins": 4}
TOKENIZER = build(**SMALL)
MUSICXML = Path(__file__).with_name("parts.musicxml").read_text(encoding="utf-8")


def write_midi(folder: Path) -> None:
    formats.write(song(0), folder / "tune.mid")
    track = b"\0\xff\x51\3\x07\xa1\x20\0\xff\x58\4\3\2\x18\x08\0\xc0\x05\0\xb0\x40\x7f"
    track += b"\0\x90\x3c\x50\x60\x3e\x50\x60\x3c\0\0\x80\x3e\0\0\xf0\3abc\0\xb0\x40\0\0\xe0\0\x40"
    tracks = b"".join(_track(track + b"\0\xff\x2f\0") for _ in range(3))
    (folder / "made.mid").write_bytes(b"MThd" + struct.pack(">IHHH", 6, 1, 3, 96) + tracks)


def _track(events: bytes) -> bytes:
    return b"MTrk" + struct.pack(">I", len(events)) + events


def _random_midi(draw: Draw[Any]) -> bytes:
    """Well-formed chunks of random events."""
    tracks = []
    times = (b"\0", b"\1", b"\x60", b"\xff\x7f", b"\xff\xff\xff\x7f")
    for _ in range(pick(draw, (0, 1, 2, 40))):
        rng = draw(st.randoms(use_true_random=True))
        events = bytearray()
        for _ in range(rng.choice((0, 1, 30, 300))):
            events += rng.choice(times)
            status = rng.choice((0x80, 0x90, 0x90, 0x90, 0xB0, 0xC0, 0xE0, 0xF0, 0xFF))
            if status < 0xF0:
                events += bytes([status | rng.randrange(16), rng.randrange(128)])
                events += b"" if status == 0xC0 else bytes([rng.choice((0, 64, 127))])
            else:
                kind = bytes([rng.choice((1, 3, 0x21, 0x2F, 0x51, 0x54, 0x58, 0x59, 0x7F))])
                data = rng.randbytes(rng.choice((0, 1, 2, 3, 4, 100)))
                events += bytes([status]) + (kind if status == 0xFF else b"")
                events += bytes([rng.choice((len(data), 127))]) + data
        tracks.append(_track(bytes(events)) * rng.choice((1, 1, 1, 50)))
    count, division = pick(draw, (0, 1, len(tracks), 65535)), pick(draw, (0, 1, 96, 0xE728, 65535))
    head = struct.pack(">IHHH", 6, pick(draw, (0, 1, 2, 3, 65535)), count, division)
    return (b"MThd" + head + b"".join(tracks))[:MOST_BYTES]


def make_midi(draw: Draw[Any], folder: Path) -> Path:
    names = ["tune.mid", "made.mid"]
    data, other = ((folder / n).read_bytes() for n in draw(st.permutations(names)))
    is_random = chance(draw, 0.3)
    data = _random_midi(draw) if is_random else damaged_bytes(draw, data, other)
    return put(folder / "x.mid", data)


def make_marks(draw: Draw[Any], folder: Path) -> Path:
    """A MIDI file of up to tens of thousands of marks, texts and notes in unison."""
    tracks, kinds = [], [b"\xff\x51\3", b"\xff\x58\4", b"\xff\x59\2", b"\xff\6\2", b"\xff\5\2"]
    for _ in range(pick(draw, (1, 1, 3))):
        rng = draw(st.randoms(use_true_random=True))
        some, events = rng.sample(kinds, rng.choice((1, 2, 5))), bytearray()
        for _ in range(rng.choice((10, 1000, 40_000))):
            kind = rng.choice(some)
            events += bytes([rng.choice((0, 1, 100))]) + kind + rng.randbytes(kind[2])
            if rng.random() < 0.2:
                events += bytes([0, rng.choice((0x90, 0x91, 0x80, 0xC0)), 60, 64])
        tracks.append(_track(bytes(events)))
    head = b"MThd\0\0\0\6" + pick(draw, (b"\0\0", b"\0\1", b"\0\2")) + b"\0\3\1\xe0"
    return put(folder / "x.mid", head + b"".join(tracks))


def make_musicxml(draw: Draw[Any], folder: Path) -> Path:
    change = damaged_elements if chance(draw, 0.6) else damaged_text
    document = change(draw, MUSICXML).encode("utf-8", "replace")
    if chance(draw, 0.2):
        document = damaged_bytes(draw, document)
    if chance(draw, 0.6):
        return put(folder / "x.musicxml", document)
    container = '<container><rootfiles><rootfile full-path="a.xml"/></rootfiles></container>'
    if chance(draw, 0.2):
        container = damaged_text(draw, container)
    zipped = io.BytesIO()
    with zipfile.ZipFile(zipped, "w", pick(draw, (0, 8))) as archive:
        archive.writestr("META-INF/container.xml", container)
        archive.writestr("a.xml", document)
    data = zipped.getvalue()
    return put(folder / "x.mxl", damaged_bytes(draw, data) if chance(draw, 0.5) else data)


def read_and_encode(path: Path) -> object:
    return TOKENIZER.encode_with_report(formats.read(path)), read_and_write(path)


def read_and_write(path: Path) -> object:
    """Read a file, write every second note into it, and write all notes into a new file."""
    score = formats.read(path)
    edited = formats.to_bytes(score.with_notes(score.notes[::2]))
    if len(formats.read(edited)) != (len(score) + 1) // 2:
        raise KeyError("other notes are read from the file that was written")
    return formats.to_bytes(replace(score, file=b""))


def make_json(draw: Draw[Any], folder: Path) -> Path:
    steps = draw(st.lists(st.lists(st.integers(40, 79), min_size=4, max_size=4), min_size=4))
    corpus = {"train": [steps, steps[:3]], "valid": [steps], "test": [[[60, 55, 50, -1]]]}
    path = put(folder / "x.json", json.dumps(corpus).encode())
    damage(draw, path)
    return path


def write_font(folder: Path) -> None:
    sound = fonts.sine(seconds=0.02)
    zones = [
        {fonts.RELEASE: -2000, fonts.PAN: 100},
        {fonts.KEYS: fonts.span(0, 70), fonts.LOOP: 1, fonts.DECAY: -1000, fonts.SAMPLE: 0},
        {fonts.KEYS: fonts.span(60, 127), fonts.CUTOFF: 6000, fonts.SAMPLE: 1},
    ]
    presets = {(0, 0): [{fonts.INSTRUMENT: 0}], (128, 0): [{fonts.INSTRUMENT: 0, fonts.FINE: 5}]}
    for name, vorbis in (("font.sf2", False), ("font.sf3", True)):
        fonts.build(folder / name, [sound, sound], [zones], presets, vorbis=vorbis)


def make_font(draw: Draw[Any], folder: Path) -> Path:
    data = (folder / pick(draw, ("font.sf2", "font.sf3"))).read_bytes()
    at = data.index(b"pdta") if chance(draw, 0.8) else 0  # most of the rest is a recording
    return put(folder / "x.sf2", data[:at] + damaged_bytes(draw, data[at:], data))


def play(path: Path) -> object:
    table = np.zeros(3, NOTE)
    table["pitch"], table["velocity"] = (45, 65, 38), 90
    table["start"], table["end"], table["drum"] = (0, 0.05, 0.1), 0.2, (False, False, True)
    font = SoundFont(path)
    return sum(len(b) for b in audio.blocks(Score(notes=table), font, sample_rate=8000))
