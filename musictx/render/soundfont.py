"""Read sound fonts (SF2, SF3): which samples sound for a key, and how they are played.

A font has presets (General MIDI programs; drum kits in bank 128). A preset lists instruments, and
an instrument lists zones. A zone is a sample with a range of keys and velocities and with settings,
called generators. :class:`SoundFont` converts them to :class:`Zone` objects in plain units.
Source: SoundFont Technical Specification 2.04, sections 7 (file) and 8 (generators).

In SF3 files each recording is an Ogg Vorbis stream; it is decoded at the first use of a preset that
needs it.

Not supported: modulators (loudness follows velocity as in the default modulator), vibrato and pitch
bends, exclusive classes, fixed keys, 24-bit extensions, ROM samples. Fonts are not trusted: files
that are too large are refused, and recordings and zones beyond limits are left out.
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
from musictx.errors import ReadError, UserError
from musictx.files import read_bytes

#: The font that comes with musictx (MIT license); the page of the studio plays it, too.
INCLUDED_FONT = Path(__file__).parents[1] / "studio" / "page" / "sound" / "musictx.sf3"
DRUM_BANK = 128
#: Fonts were made for hardware that attenuated by this many dB for each dB of their setting.
ATTENUATION_SCALE = 0.4

# Numbers of generators (specification 8.1.2). Each position in a recording is shifted by two of
# them, the first in frames, the second in multiples of 32768 frames.
_START, _END, _LOOP_START, _LOOP_END = (0, 4), (1, 12), (2, 45), (3, 50)
_CUTOFF, _RESONANCE, _CUTOFF_ENVELOPE, _PAN, _ATTENUATION = 8, 9, 11, 17, 48
_MODULATION, _VOLUME = 25, 33  # the first of an envelope's six generators
_INSTRUMENT, _KEYS, _VELOCITIES, _COARSE_TUNE, _FINE_TUNE, _SAMPLE = 41, 43, 44, 51, 52, 53
_LOOP_MODE, _KEY_CENTS, _ROOT = 54, 56, 58
_ONLY_IN_INSTRUMENTS = {*_START, *_END, *_LOOP_START, *_LOOP_END, _SAMPLE, _LOOP_MODE, _ROOT}
_DEFAULTS = {_CUTOFF: 13500, _KEY_CENTS: 100, _ROOT: -1} | dict.fromkeys(
    (first + n for first in (_MODULATION, _VOLUME) for n in (0, 1, 2, 3, 5)), -12000
)
#: Recordings with a rate outside RATES (hertz) or with more than LONGEST_SAMPLE frames are left
#: out, and so are zones of a preset beyond MOST_ZONES, and zones of a note beyond MOST_LAYERS.
RATES, LONGEST_SAMPLE, MOST_ZONES, MOST_LAYERS = (400, 200_000), 1 << 23, 4096, 16
#: Bits in the type of a sample: stored in the ROM of a sound card; compressed.
ROM, COMPRESSED = 0x8000, 0x10

#: Name of a table in the file -> the :mod:`struct` format of its records.
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
    """A stretch of a recording; positions are in frames from the start of the recording."""

    recording: int  # number of the recording; -1: the only one of an SF2 file
    start: int
    end: int
    loop_start: int
    loop_end: int
    rate: int  # hertz


class Envelope(NamedTuple):
    """The stages of an envelope in seconds, except ``sustain``. A fall of 1 is a fall by 100 dB in
    the volume envelope, and from the top to 0 in the modulation envelope."""

    delay: float
    attack: float
    hold: float
    decay: float  # seconds of a fall of 1
    sustain: float  # fall from the top to the held level, 0 to 1
    release: float  # seconds of a fall of 1


@dataclass(frozen=True)
class Zone:
    """A sample with its settings, for a range of keys and velocities."""

    keys: range
    velocities: range
    sample: FontSample
    looped: bool
    root: int  # the key that plays the sample at its recorded pitch
    tuning: float  # cents added to the pitch
    key_cents: int  # cents between neighbouring keys: usually 100; 0: all keys have one pitch
    gain: float
    pan: float  # 0 left, 1 right
    cutoff: float  # of the low-pass filter, absolute cents (6900 is 440 Hz)
    resonance: float  # of the low-pass filter, dB
    cutoff_envelope: int  # cents added to the cutoff at the top of the modulation envelope
    volume: Envelope
    modulation: Envelope


class SoundFont:
    """An SF2 or SF3 file. Raises :class:`UserError` for any other file.

    Decoded recordings stay in memory, up to ``limits.font_mb``; further recordings are left out.
    """

    def __init__(self, path: str | Path, limits: Limits | None = None) -> None:
        max_mb = (limits or Limits()).font_mb
        try:
            self._parse(read_bytes(path, max_mb, "limits.font_mb"))
        except ReadError as error:
            raise UserError(f"soundfont={error}") from None
        except (struct.error, IndexError, KeyError, ValueError) as error:
            raise UserError(f"soundfont={path}: expected an SF2 or SF3 file ({error})") from None
        self._zones: dict[tuple[int, int], tuple[Zone, ...]] = {}
        self._frames_left = max_mb * 500_000  # frames of two bytes that may still be decoded

    def zones(self, program: int, drum: bool = False) -> tuple[Zone, ...]:
        """Return the zones of a General MIDI program, or of the drum kit of that number. If the
        font lacks it: of the standard kit (for drums), else of the piano, else of the first preset.
        """
        presets = [(DRUM_BANK, program), (DRUM_BANK, 0)] if drum else [(0, program)]
        presets += [(0, 0), min(self._presets)]
        preset = next(preset for preset in presets if preset in self._presets)
        if preset not in self._zones:
            self._zones[preset] = tuple(islice(self._resolve(self._presets[preset]), MOST_ZONES))
        return self._zones[preset]

    def sounding(self, program: int, drum: bool, key: int, velocity: int) -> list[Zone]:
        """Return the zones that sound for a note."""
        zones = self.zones(program, drum)
        sounding = (zone for zone in zones if key in zone.keys and velocity in zone.velocities)
        return list(islice(sounding, MOST_LAYERS))

    def sound(self, sample: FontSample) -> np.ndarray:
        """Return the frames of ``sample``: (end - start,) int16."""
        return self._recordings[sample.recording][sample.start : sample.end]

    def _parse(self, data: bytes) -> None:
        """Read the recordings, samples, instruments and presets of the file ``data``."""
        if data[:4] != b"RIFF" or data[8:12] != b"sfbk":
            raise ValueError("it does not begin with RIFF ... sfbk")
        blocks: dict[bytes, bytes] = {}
        for name, body in _chunks(data, 12):
            if name == b"LIST":
                blocks.update(_chunks(body, 4))
        tables = {
            name: list(struct.iter_unpack(record_format, blocks[name]))
            for name, record_format in _RECORDS.items()
        }
        self._bytes = blocks[b"smpl"]
        frames = np.frombuffer(self._bytes, "<i2", len(self._bytes) // 2)
        self._recordings = {-1: frames}  # number -> frames
        self._samples = tables[b"shdr"]
        presets, instruments = tables[b"phdr"], tables[b"inst"]
        for bags in (tables[b"pbag"], tables[b"ibag"]):
            if any(bag[0] > following[0] for bag, following in pairwise(bags)):
                raise ValueError("its numbers of generators decrease")
        # The last record of a table only says where the record before it ends.
        self._instruments = [
            list(_zone_settings(tables[b"ibag"], tables[b"igen"], first, last, _SAMPLE))
            for (_, first), (_, last) in pairwise(instruments)
        ]
        self._presets: dict[tuple[int, int], list[dict[int, int]]] = {}
        for (_, program, bank, first, *_), (_, _, _, last, *_) in pairwise(presets):
            zones = _zone_settings(tables[b"pbag"], tables[b"pgen"], first, last, _INSTRUMENT)
            self._presets.setdefault((bank, program), list(zones))
        if not self._presets:
            raise ValueError("it has no presets")

    def _resolve(self, preset: list[dict[int, int]]) -> Iterator[Zone]:
        """Yield the zones of a preset. Its generators are added to those of its instruments, and
        its ranges of keys and velocities are intersected with theirs."""
        for preset_zone in preset:
            if not 0 <= preset_zone[_INSTRUMENT] < len(self._instruments):
                continue
            for instrument_zone in self._instruments[preset_zone[_INSTRUMENT]]:
                settings = _DEFAULTS | instrument_zone
                for number, amount in preset_zone.items():
                    if number not in _ONLY_IN_INSTRUMENTS:
                        settings[number] = settings.get(number, 0) + amount
                keys, velocities = (
                    _common_range(preset_zone.get(number), instrument_zone.get(number))
                    for number in (_KEYS, _VELOCITIES)
                )
                if zone := self._zone(settings, keys, velocities):
                    yield zone

    def _zone(self, settings: dict[int, int], keys: range, velocities: range) -> Zone | None:
        """Convert the ``settings`` of a zone to plain units; return ``None`` if it has no sound."""
        number = settings[_SAMPLE]
        if not 0 <= number < len(self._samples) - 1:
            return None
        _, *positions, rate, recorded_root, correction, _, kind = self._samples[number]
        recording = number if kind & COMPRESSED else -1
        if recording not in self._recordings:
            data = self._bytes[slice(*positions[:2])]
            frames = decode(data, min(LONGEST_SAMPLE, self._frames_left))
            self._recordings[recording] = frames
            self._frames_left -= len(frames)
        length = len(self._recordings[recording])
        if kind & COMPRESSED:
            # Start and end count bytes of the file, the loop counts frames of the recording.
            positions[:2] = 0, length
        start, end, loop_start, loop_end = (
            position + settings.get(fine, 0) + 32768 * settings.get(coarse, 0)
            for position, (fine, coarse) in zip(positions, (_START, _END, _LOOP_START, _LOOP_END))
        )
        end = min(end, length)
        if kind & ROM or not RATES[0] <= rate <= RATES[1]:
            return None
        if not 0 <= start < end <= start + LONGEST_SAMPLE:
            return None
        # Mode 3 (loop until the key is released) is played as mode 1 (endless loop).
        looped = settings.get(_LOOP_MODE, 0) & 1 == 1 and start <= loop_start < loop_end - 1 < end
        loop = (loop_start, loop_end) if looped else (start, start)
        root = settings[_ROOT]
        if not 0 <= root <= 127:
            root = recorded_root if recorded_root <= 127 else 60

        def setting(number: int, low: float, high: float) -> float:
            return min(max(settings.get(number, 0), low), high)

        tuning = settings.get(_COARSE_TUNE, 0) * 100.0 + settings.get(_FINE_TUNE, 0) + correction
        decibels = -ATTENUATION_SCALE * setting(_ATTENUATION, 0, 1440) / 10
        return Zone(
            keys=keys,
            velocities=velocities,
            sample=FontSample(recording, start, end, *loop, rate),
            looped=looped,
            root=root,
            tuning=min(max(tuning, -12000.0), 12000.0),
            key_cents=int(setting(_KEY_CENTS, 0, 1200)),
            gain=10.0 ** (decibels / 20),
            pan=min(max(settings.get(_PAN, 0) / 1000 + 0.5, 0.0), 1.0),
            cutoff=float(setting(_CUTOFF, 1500, 13500)),
            resonance=setting(_RESONANCE, 0, 960) / 10,
            cutoff_envelope=int(setting(_CUTOFF_ENVELOPE, -12000, 12000)),
            volume=_envelope(settings, _VOLUME),
            modulation=_envelope(settings, _MODULATION),
        )


def decode(data: bytes, max_frames: int) -> np.ndarray:
    """Decode a mono Ogg Vorbis stream with libsndfile: (frames,) int16. The result is empty if
    ``data`` has another format, is damaged or has more than ``max_frames`` frames."""
    import soundfile

    empty = np.zeros(0, np.int16)
    try:
        with soundfile.SoundFile(io.BytesIO(data)) as file:
            if (file.format, file.subtype, file.channels) != ("OGG", "VORBIS", 1):
                return empty
            frames = file.read(max_frames + 1, dtype="float32")
    except (soundfile.SoundFileError, ValueError):
        return empty
    if len(frames) > max_frames:
        return empty
    # libsndfile's own conversion to int16 wraps around beyond full scale.
    return np.clip(np.round(frames * 32768), -32768, 32767).astype(np.int16)


def _chunks(data: bytes, first: int) -> Iterator[tuple[bytes, bytes]]:
    """Yield (name, body) of the RIFF chunks from the byte ``first`` on. Raises ``ValueError`` if a
    chunk is truncated."""
    while first + 8 <= len(data):
        (size,) = struct.unpack_from("<I", data, first + 4)
        if first + 8 + size > len(data):
            raise ValueError("the file ends too early")
        yield data[first : first + 4], data[first + 8 : first + 8 + size]
        first += 8 + size + size % 2


def _zone_settings(
    bags: list[tuple], generators: list[tuple], first: int, last: int, target: int
) -> Iterator[dict[int, int]]:
    """Yield {generator number: amount} for each zone ``first`` to ``last`` - 1.

    A zone has the generator ``target``, which names its sample or instrument. If the first zone
    lacks it, its settings are the defaults of the others. Other zones without it are ignored.
    """
    if not 0 <= first <= last < len(bags):
        raise ValueError("its numbers of zones decrease")
    defaults: dict[int, int] = {}
    for number in range(first, last):
        settings = dict(generators[bags[number][0] : bags[number + 1][0]])
        if target in settings:
            yield defaults | settings
        elif number == first:
            defaults = settings


def _common_range(*ranges: int | None) -> range:
    """Return the intersection of ``ranges``, each the amount of a generator: its low byte is the
    lowest value, its high byte the highest one; ``None`` is 0 to 127."""
    low = max(0 if amount is None else amount & 0xFF for amount in ranges)
    return range(low, min(127 if amount is None else amount >> 8 & 0xFF for amount in ranges) + 1)


def _envelope(settings: dict[int, int], first: int) -> Envelope:
    """Return the envelope whose six generators begin at the number ``first``."""
    delay, attack, hold, decay, release = (_seconds(settings[first + n]) for n in (0, 1, 2, 3, 5))
    sustain = min(max(settings.get(first + 4, 0), 0), 1000) / 1000
    return Envelope(delay, attack, hold, decay, sustain, release)


def _seconds(timecents: int) -> float:
    return 0.0 if timecents <= -12000 else 2.0 ** (min(timecents, 8000) / 1200)
