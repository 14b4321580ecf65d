"""Tiny sound fonts of a few generators."""

import io
import struct
from pathlib import Path
from typing import NamedTuple

import numpy as np
import soundfile

from musictx.notes import Score
from musictx.render import audio
from musictx.render.soundfont import INCLUDED_FONT, SoundFont

Zone = dict[int, int]  # generator number -> amount; 53 names a sample, 41 an instrument

(START, END, LOOP_START, CUTOFF, RESONANCE, CUTOFF_ENVELOPE, PAN) = (0, 1, 2, 8, 9, 11, 17)
(MOD_ATTACK, MOD_DECAY, MOD_SUSTAIN) = (26, 28, 29)
(DELAY, ATTACK, HOLD, DECAY, SUSTAIN, RELEASE) = (33, 34, 35, 36, 37, 38)
(INSTRUMENT, KEYS, VELOCITIES, ATTENUATION) = (41, 43, 44, 48)
(COARSE, FINE, SAMPLE, LOOP, KEY_CENTS, ROOT) = (51, 52, 53, 54, 56, 58)


class Sound(NamedTuple):
    """A recording; ``loop`` is (first frame, frame after the last), or (0, 0) for none."""

    frames: np.ndarray  # -1 to 1
    rate: int = 22050
    root: int = 69
    loop: tuple[int, int] = (0, 0)
    kind: int = 1


def sine(hertz: float = 441.0, rate: int = 22050, seconds: float = 0.1) -> Sound:
    """A looped sine of whole periods: 441 Hz is 50 frames at 22050."""
    frames = np.arange(round(seconds * rate))
    wave = 0.5 * np.sin(2 * np.pi * hertz / rate * frames)
    period = round(rate / hertz)
    assert abs(period * hertz - rate) < 1e-6, "a loop must hold whole periods"
    last = len(frames) - len(frames) % period
    return Sound(wave, rate, 69, (last - 4 * period, last))


def span(low: int, high: int) -> int:
    return low | high << 8


def cents(seconds: float) -> int:
    return round(1200 * np.log2(seconds))


def build(
    path: Path,
    sounds: list[Sound],
    instruments: list[list[Zone]] | None = None,
    presets: dict[tuple[int, int], list[Zone]] | None = None,
    vorbis: bool = False,
) -> Path:
    """Write an SF2 file, or SF3 with ``vorbis``. By default: one instrument that loops sound 0, as
    bank 0 program 0."""
    instruments = [[{LOOP: 1, SAMPLE: 0}]] if instruments is None else instruments
    presets = {(0, 0): [{INSTRUMENT: 0}]} if presets is None else presets
    recording, headers = b"", b""
    for sound in sounds:
        if vorbis:
            first, body = len(recording), ogg(sound.frames, sound.rate)
            recording += body
            places, kind = (first, first + len(body), *sound.loop), sound.kind | 0x10
        else:
            first, kind = len(recording) // 2, sound.kind
            recording += np.round(sound.frames * 32767).astype("<i2").tobytes() + bytes(92)
            places = tuple(first + n for n in (0, len(sound.frames), *sound.loop))
        header = (*places, sound.rate, sound.root, 0, 0, kind)
        headers += struct.pack("<20sIIIIIBbHH", b"sound", *header)
    headers += struct.pack("<20sIIIIIBbHH", b"EOS", *[0] * 9)

    heads = [struct.pack("<20s", b"instrument")] * len(instruments)
    inst, ibag, igen = _tables(heads, instruments, struct.pack("<20s", b"EOI"))
    heads = [struct.pack("<20sHH", b"preset", program, bank) for bank, program in presets]
    phdr, pbag, pgen = _tables(heads, [*presets.values()], bytes(24), bytes(12))
    blocks = [(b"phdr", phdr), (b"pbag", pbag), (b"pmod", bytes(10)), (b"pgen", pgen)]
    blocks += [(b"inst", inst), (b"ibag", ibag), (b"imod", bytes(10)), (b"igen", igen)]
    blocks += [(b"shdr", headers)]
    body = b"sfbk"
    body += _list(b"INFO", [(b"ifil", struct.pack("<HH", 2, 4)), (b"INAM", b"tiny\0\0")])
    body += _list(b"sdta", [(b"smpl", recording)])
    body += _list(b"pdta", blocks)
    path.write_bytes(_chunk(b"RIFF", body))
    return path


def ogg(frames: np.ndarray, rate: int = 22050) -> bytes:
    """An Ogg Vorbis stream."""
    file = io.BytesIO()
    soundfile.write(file, frames, rate, format="OGG", subtype="VORBIS")
    return file.getvalue()


def _tables(
    heads: list[bytes], groups: list[list[Zone]], last: bytes, tail: bytes = b""
) -> tuple[bytes, bytes, bytes]:
    """The tables of groups, of their zones and of generators: a group is its head, the number of
    its first zone and a tail. The last records only close the tables."""
    table, bags, generators = b"", b"", b""
    for head, zones in zip([*heads, last], [*groups, []]):
        table += head + struct.pack("<H", len(bags) // 4) + tail
        for zone in zones:
            bags += struct.pack("<HH", len(generators) // 4, 0)
            # The specification wants ranges first and the sample or instrument last.
            order = (KEYS, VELOCITIES), (SAMPLE, INSTRUMENT)
            for number in sorted(zone, key=lambda g: (g not in order[0], g in order[1])):
                generators += struct.pack("<HH", number, zone[number] & 0xFFFF)
    return table, bags + struct.pack("<HH", len(generators) // 4, 0), generators + bytes(4)


def _chunk(name: bytes, body: bytes) -> bytes:
    return name + struct.pack("<I", len(body)) + body + bytes(len(body) % 2)


def _list(name: bytes, chunks: list[tuple[bytes, bytes]]) -> bytes:
    return _chunk(b"LIST", name + b"".join(_chunk(*c) for c in chunks))


def sound_of(
    score: Score, font: Path = INCLUDED_FONT, *, rate: int = 44100, reverb: bool = False, **options
) -> np.ndarray:
    """Return the whole sound, (n, 2) float32, unscaled, with or without reverb."""
    if not reverb:
        options["mix"] = dict.fromkeys(np.unique(score.notes["track"]).tolist(), (1.0, 0.0, 0.0))
    blocks = audio.blocks(score, SoundFont(font), sample_rate=rate, **options)
    sound = np.concatenate(list(blocks))
    return sound if reverb else sound[: len(sound) - round(audio.REVERB_SECONDS * rate)]
