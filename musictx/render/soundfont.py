"""Reading sound fonts, SF2 and SF3: which recorded samples sound for a key, and how they are to be
treated.

A font holds presets (General MIDI programs; drum kits in bank 128), a preset lists instruments, an
instrument lists zones, and a zone is a sample with a range of keys and velocities and a handful of
settings, called generators. Here all of that is resolved into :class:`Zone` values in plain units.
Source: SoundFont Technical Specification 2.04, sections 7 (file) and 8 (generators, additivity).

SF3 is the same with each recording in Ogg Vorbis, decoded when a preset that has it is first used.

Not read: modulators (loudness follows velocity as in the default one), vibrato and bends of pitch,
exclusive classes, fixed keys, 24-bit extensions, ROM samples. Fonts are not trusted: what would
make one file or one note cost minutes or gigabytes is refused or left out.
"""

from __future__ import annotations

import io
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice, pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np

from musictx.config.limits import Limits
from musictx.errors import UserError
from musictx.files import read_bytes

#: The font that comes with musictx (MIT), which the studio's page plays too.
OURS = Path(__file__).parents[1] / "studio" / "page" / "sound" / "musictx.sf3"
DRUM_BANK = 128
#: An attenuation of 1 dB in a font means this many dB, as on the hardware that fonts were made for.
ATTENUATION_SCALE = 0.4

# Generators by number (specification 8.1.2) that a preset may not change, with their defaults.
_START, _END, _LOOP_START, _LOOP_END = (0, 4), (1, 12), (2, 45), (3, 50)
_INSTRUMENT, _KEYS, _VELOCITIES, _SAMPLE = 41, 43, 44, 53
_LOOP_MODE, _ROOT = 54, 58
_ONLY_IN_INSTRUMENTS = {*_START, *_END, *_LOOP_START, *_LOOP_END, _SAMPLE, _LOOP_MODE, _ROOT}
_DEFAULTS = {8: 13500, 56: 100, _ROOT: -1} | dict.fromkeys(
    (25, 26, 27, 28, 30, 33, 34, 35, 36, 38), -12000
)
#: Recordings outside of these rates (hertz) or longer than this (frames) are left out, and no more
#: zones than these are read for a preset, nor sound for one key.
RATES, LONGEST_SAMPLE, MOST_ZONES, MOST_LAYERS = (400, 200_000), 1 << 23, 4096, 16
#: Frames of a Vorbis stream that are decoded at a time.
_VORBIS_BLOCK = 1 << 18
#: Bits in the type of a sample: it is in the ROM of a sound card; it is compressed.
ROM, COMPRESSED = 0x8000, 0x10

_RECORDS = {
    b"phdr": "<20sHHHIII",
    b"pbag": "<HH",
    b"pgen": "<Hh",
    b"inst": "<20sH",
    b"ibag": "<HH",
    b"igen": "<Hh",
    b"shdr": "<20sIIIIIBbHH",
}


class FontSample(NamedTuple):
    """A stretch of one of the font's recordings; positions are frames in it."""

    recording: int  # its number; -1: the one recording that an SF2 file consists of
    start: int
    end: int
    loop_start: int
    loop_end: int
    rate: int  # hertz


class Envelope(NamedTuple):
    """Seconds of each stage; ``sustain`` is the fall from full to the held level, 0 to 1.

    For loudness 1 is a fall of 100 dB, for the modulation envelope a fall to nothing.
    """

    delay: float
    attack: float
    hold: float
    decay: float  # for the whole way from full to nothing
    sustain: float
    release: float  # likewise


@dataclass(frozen=True)
class Zone:
    """One sample as it sounds for a range of keys and velocities (both ends included)."""

    keys: tuple[int, int]
    velocities: tuple[int, int]
    sample: FontSample
    looped: bool
    root: int  # key at which the sample sounds as recorded
    tuning: float  # cents added to that
    key_cents: int  # cents for each key: 100, or 0 where every key sounds alike
    gain: float
    pan: float  # 0 left, 1 right
    cutoff: float  # of the low-pass filter, absolute cents (6900 is 440 Hz)
    resonance: float  # its peak, dB
    cutoff_envelope: int  # cents at the modulation envelope's top
    volume: Envelope
    modulation: Envelope

    def covers(self, key: int, velocity: int) -> bool:
        low, high = self.keys
        soft, loud = self.velocities
        return low <= key <= high and soft <= velocity <= loud


class SoundFont:
    """An SF2 or SF3 file. Raises :class:`UserError` for anything else.

    Recordings that are decoded stay in memory, ``limits.font_mb`` of them at most, as many as an
    SF2 file can hold; what goes beyond that is left out.
    """

    def __init__(self, path: str | Path, limits: Limits | None = None) -> None:
        most = (limits or Limits()).font_mb
        try:
            data = read_bytes(path, most, "limits.font_mb")
        except UserError as error:
            raise UserError(f"soundfont={path}: expected an SF2 or SF3 file ({error})") from None
        try:
            self._parse(data)
        except (struct.error, IndexError, KeyError, ValueError) as error:
            raise UserError(f"soundfont={path}: is no SF2 or SF3 sound font ({error})") from None
        self._zones: dict[tuple[int, int], tuple[Zone, ...]] = {}
        self._decoded: dict[int, np.ndarray] = {}
        self._frames_left = most * 500_000  # of two bytes

    def zones(self, program: int, drum: bool = False) -> tuple[Zone, ...]:
        """The zones of a General MIDI program, or of the drum kit of that number.

        If the font lacks it: those of the standard kit for drums, else of the piano, else of the
        first preset.
        """
        wanted = ((DRUM_BANK, program), (DRUM_BANK, 0)) if drum else ((0, program),)
        first = min(self._presets)
        key = next(key for key in (*wanted, (0, 0), first) if key in self._presets)
        if key not in self._zones:
            self._zones[key] = tuple(islice(self._resolved(*self._presets[key]), MOST_ZONES))
        return self._zones[key]

    def sounding(self, program: int, drum: bool, key: int, velocity: int) -> list[Zone]:
        """The zones that one stroke of a key sets off."""
        zones = (zone for zone in self.zones(program, drum) if zone.covers(key, velocity))
        return list(islice(zones, MOST_LAYERS))

    def sound(self, sample: FontSample) -> np.ndarray:
        """(end - start,) int16: what was recorded."""
        recording = self._frames if sample.recording < 0 else self._decoded[sample.recording]
        return recording[sample.start : sample.end]

    def _parse(self, data: bytes) -> None:
        if data[:4] != b"RIFF" or data[8:12] != b"sfbk":
            raise ValueError("it does not begin with RIFF ... sfbk")
        blocks: dict[bytes, bytes] = {}
        for name, body in _chunks(data, 12, len(data)):
            if name == b"LIST":
                blocks.update(_chunks(body, 4, len(body)))
        for name in (b"smpl", *_RECORDS):
            if name not in blocks:
                raise ValueError(f"its {name.decode()} block is missing")
        tables = {
            name: list(struct.iter_unpack(form, _whole(blocks[name], struct.calcsize(form), name)))
            for name, form in _RECORDS.items()
        }
        self._bytes = blocks[b"smpl"]
        self._frames = np.frombuffer(self._bytes, "<i2", len(self._bytes) // 2)
        self._samples = tables[b"shdr"]
        presets, instruments = tables[b"phdr"], tables[b"inst"]
        for bags in (tables[b"pbag"], tables[b"ibag"]):
            if any(one[0] > after[0] for one, after in pairwise(bags)):
                raise ValueError("its ranges of generators cross")
        # Each table ends with a record that only says where the one before ends.
        self._instruments = [
            list(_zone_lists(tables[b"ibag"], tables[b"igen"], one[1], after[1], _SAMPLE))
            for one, after in pairwise(instruments)
        ]
        self._presets: dict[tuple[int, int], tuple[dict[int, int], ...]] = {}
        for one, after in pairwise(presets):
            zones = _zone_lists(tables[b"pbag"], tables[b"pgen"], one[3], after[3], _INSTRUMENT)
            self._presets.setdefault((one[2], one[1]), tuple(zones))
        if not self._presets:
            raise ValueError("it has no presets")

    def _resolved(self, *preset_zones: dict[int, int]) -> Iterator[Zone]:
        """The zones of a preset: its generators are added to those of its instruments, and its
        ranges of keys and velocities are intersected with theirs."""
        for outer in preset_zones:
            if not 0 <= outer[_INSTRUMENT] < len(self._instruments):
                continue
            for inner in self._instruments[outer[_INSTRUMENT]]:
                settings = _DEFAULTS | inner
                for number, amount in outer.items():
                    if number not in _ONLY_IN_INSTRUMENTS:
                        settings[number] = settings.get(number, 0) + amount
                keys, velocities = (
                    _common(outer.get(which), inner.get(which)) for which in (_KEYS, _VELOCITIES)
                )
                if zone := self._zone(settings, keys, velocities):
                    yield zone

    def _zone(
        self, settings: dict[int, int], keys: tuple[int, int], velocities: tuple[int, int]
    ) -> Zone | None:
        """Generators in plain units; ``None`` if there is no sound to play."""
        number, g = settings[_SAMPLE], settings.get
        if not 0 <= number < len(self._samples) - 1:
            return None
        _, start, end, loop_start, loop_end, rate, recorded, correction, _, kind = self._samples[
            number
        ]
        recording, frames = -1, self._frames
        if kind & COMPRESSED:
            recording, frames = number, self._recording(number)
            start, end = 0, len(frames)  # in bytes before; the loop is in frames from the start
        start, end, loop_start, loop_end = (
            position + g(fine, 0) + 32768 * g(coarse, 0)
            for position, (fine, coarse) in zip(
                (start, end, loop_start, loop_end), (_START, _END, _LOOP_START, _LOOP_END)
            )
        )
        end = min(end, len(frames))
        if kind & ROM or not (RATES[0] <= rate <= RATES[1] and 0 <= start < end):
            return None
        if end - start > LONGEST_SAMPLE:
            return None
        # Mode 3, which loops until the key is released, is taken as 1, which loops on.
        looped = g(_LOOP_MODE, 0) & 1 == 1 and start <= loop_start < loop_end - 1 < end
        loop = (loop_start, loop_end) if looped else (start, start)
        root = g(_ROOT, -1)
        if not 0 <= root <= 127:
            root = recorded if recorded <= 127 else 60
        return Zone(
            keys=keys,
            velocities=velocities,
            sample=FontSample(recording, start, end, *loop, rate),
            looped=looped,
            root=root,
            tuning=min(max(g(51, 0) * 100.0 + g(52, 0) + correction, -12000.0), 12000.0),
            key_cents=min(max(g(56, 100), 0), 1200),
            gain=_decibels(-ATTENUATION_SCALE * min(max(g(48, 0), 0), 1440) / 10),
            pan=min(max(g(17, 0) / 1000 + 0.5, 0.0), 1.0),
            cutoff=float(min(max(g(8, 13500), 1500), 13500)),
            resonance=min(max(g(9, 0), 0), 960) / 10,
            cutoff_envelope=min(max(g(11, 0), -12000), 12000),
            volume=_envelope(settings, 33),
            modulation=_envelope(settings, 25),
        )

    def _recording(self, number: int) -> np.ndarray:
        """The Vorbis recording of that number; empty where it is damaged or too much."""
        if number not in self._decoded:
            start, end = self._samples[number][1:3]
            most = min(LONGEST_SAMPLE, self._frames_left)
            frames = decode(self._bytes[start:end], most) if start < end else decode(b"", 0)
            self._decoded[number] = frames
            self._frames_left -= len(frames)
        return self._decoded[number]


def decode(data: bytes, most: int) -> np.ndarray:
    """(n,) int16: the first channel of an Ogg Vorbis stream, by libsndfile.

    Empty where ``data`` is no such stream, is damaged or holds more than ``most`` frames; never
    more than that is decoded, whatever the stream says of its length.
    """
    import soundfile

    blocks, frames = [], 0
    try:
        with soundfile.SoundFile(io.BytesIO(data)) as file:
            if file.format != "OGG" or file.subtype != "VORBIS":
                return np.zeros(0, np.int16)
            while len(block := file.read(_VORBIS_BLOCK, dtype="float32", always_2d=True)):
                frames += len(block)
                if frames > most:
                    return np.zeros(0, np.int16)
                # The int16 of libsndfile wraps around where Vorbis goes past full scale.
                blocks.append(np.clip(np.round(block[:, 0] * 32768), -32768, 32767).astype("i2"))
    except (soundfile.SoundFileError, ValueError):
        return np.zeros(0, np.int16)
    return np.concatenate([np.zeros(0, np.int16), *blocks])


def _chunks(data: bytes, first: int, last: int) -> Iterator[tuple[bytes, bytes]]:
    """(name, body) of the RIFF chunks between two positions; a last one cut short is refused."""
    while first + 8 <= last:
        (size,) = struct.unpack_from("<I", data, first + 4)
        if first + 8 + size > last:
            raise ValueError("the file ends too early")
        yield data[first : first + 4], data[first + 8 : first + 8 + size]
        first += 8 + size + size % 2


def _whole(block: bytes, size: int, name: bytes) -> bytes:
    if len(block) % size or len(block) < 2 * size:
        raise ValueError(f"its {name.decode()} block has {len(block)} bytes")
    return block


def _zone_lists(
    bags: list[tuple], generators: list[tuple], first: int, last: int, target: int
) -> Iterator[dict[int, int]]:
    """Generator number -> amount of each zone, the global zone's settings underneath.

    The first zone is global if it does not end in ``target`` (a sample, an instrument); any other
    zone without one is ignored.
    """
    if not 0 <= first <= last < len(bags):
        raise ValueError("its ranges of zones cross")
    common: dict[int, int] = {}
    for i in range(first, last):
        settings = dict(generators[bags[i][0] : bags[i + 1][0]])
        if target in settings:
            yield common | settings
        elif i == first:
            common = settings


def _common(one: int | None, other: int | None) -> tuple[int, int]:
    """The lowest and the highest value in two ranges, each two bytes of a number or unlimited."""
    ranges = [
        (0, 127) if both is None else (both & 0xFF, both >> 8 & 0xFF) for both in (one, other)
    ]
    return max(low for low, _ in ranges), min(high for _, high in ranges)


def _envelope(settings: dict[int, int], first: int) -> Envelope:
    """The six generators from ``first`` on, in the order of :class:`Envelope`."""
    delay, attack, hold, decay, _, release = (
        _seconds(settings.get(first + i, -12000)) for i in range(6)
    )
    sustain = min(max(settings.get(first + 4, 0), 0), 1000) / 1000
    return Envelope(delay, attack, hold, decay, sustain, release)


def _seconds(timecents: int) -> float:
    return 0.0 if timecents <= -12000 else 2.0 ** (min(timecents, 8000) / 1200)


def _decibels(level: float) -> float:
    return float(10.0 ** (level / 20))
