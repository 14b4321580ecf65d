"""One note of a sound font, as an array: pitch, brightness and loudness over time.

Filters that change with time are slow sample by sample in numpy, so each recording is low-passed
once for every cutoff on a grid (a low-passed sample is again a sample, looped like the first) and a
tone fades from one to the next as its cutoff moves. Tones are cached, since the same keys recur.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Hashable
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from musictx.render.soundfont import Envelope, SoundFont, Zone

#: Cents between the cutoffs of low-passed recordings; a cutoff between two of them is a mixture.
LEVEL_CENTS = 300
#: Cents by which the cutoff of the softest note is below that of the loudest, in steps of
#: BRIGHTNESS_STEP_CENTS; at EVEN_VELOCITY it is that of the font. These numbers are our choice: by
#: the specification the cutoff falls by up to 2400 cents, but many fonts switch that off.
BRIGHTNESS_CENTS, BRIGHTNESS_STEP_CENTS, EVEN_VELOCITY = 1200.0, 200.0, 96
#: Recordings are resampled to this many times their rate first: linear interpolation is then clean
#: (its images lie 60 dB down and mostly above hearing).
OVERSAMPLING = 4
#: Seconds after which the ringing of a filter is inaudible.
RING_SECONDS = 0.03
#: The shortest note sounds this long, so that notes of length 0 are audible; the steepest attack
#: and release last this long, so that nothing clicks.
MIN_NOTE_SECONDS, MIN_ATTACK_SECONDS, MIN_RELEASE_SECONDS = 0.03, 0.0005, 0.01
#: The longest note sounds this long, seconds, so that none takes gigabytes.
MAX_NOTE_SECONDS = 120.0
#: A release fades by 100 dB; its last fifth is not worth computing.
RELEASE_PART = 0.8
#: Cents above the recorded pitch at which nothing is left to hear, ten octaves; beyond it positions
#: in the recording would be too large for floats.
MAX_CENTS = 12_000
#: Memory for low-passed recordings, and for tones.
FILTERED_BYTES, TONE_BYTES = 64_000_000, 96_000_000


class _LruCache:
    """The values used last, up to a number of bytes."""

    def __init__(self, limit: int) -> None:
        self._limit, self._bytes = limit, 0
        self._values: OrderedDict[Hashable, tuple[Any, int]] = OrderedDict()

    def get(self, key: Hashable) -> Any:
        """``None`` if it is not there."""
        if key not in self._values:
            return None
        self._values.move_to_end(key)
        return self._values[key][0]

    def put(self, key: Hashable, value: Any, size: int) -> None:
        self._bytes += size - self._values.pop(key, (None, 0))[1]
        self._values[key] = value, size
        while self._bytes > self._limit and len(self._values) > 1:
            self._bytes -= self._values.popitem(last=False)[1][1]


class Filtered(NamedTuple):
    """A low-passed recording; positions in its frames, ``loop_start`` below 0 where it is not
    looped."""

    frames: np.ndarray  # float32, a zero or more frames longer than ``end``
    loop_start: int
    end: int


class Sampler:
    """Plays the zones of one font at one output rate (hertz)."""

    def __init__(self, font: SoundFont, sample_rate: int) -> None:
        self.font = font
        self.rate = sample_rate
        self._filtered, self._tones = _LruCache(FILTERED_BYTES), _LruCache(TONE_BYTES)

    def note(self, zone: Zone, key: int, velocity: int, seconds: float) -> np.ndarray:
        """(n,) float32: the sound of a key held for ``seconds``, with its release, before panning.
        Full scale is 1."""
        held = round(min(max(seconds, MIN_NOTE_SECONDS), MAX_NOTE_SECONDS) * self.rate)
        release = max(zone.volume.release, MIN_RELEASE_SECONDS)
        frames = np.arange(math.ceil(release * RELEASE_PART * self.rate), dtype=np.float32)
        fade = _fall(frames / np.float32(release * self.rate))
        loudness = self._envelope(zone.volume, held + len(fade))
        tone = self._tone(zone, key, velocity, len(loudness))
        loudness = loudness[: len(tone)]
        if held < len(loudness):
            loudness[held:] = fade[: len(loudness) - held] * loudness[held]
        loudness *= tone[: len(loudness)]
        loudness *= np.float32(zone.gain * (velocity / 127) ** 2)
        return loudness

    def _envelope(self, volume: Envelope, frames: int) -> np.ndarray:
        """Loudness of a held key, 0 to 1; ends where it has died away."""
        attack = max(volume.attack, MIN_ATTACK_SECONDS)
        top = volume.delay + attack + volume.hold
        decay = max(volume.decay, MIN_RELEASE_SECONDS)
        if volume.sustain >= 1:
            frames = min(frames, math.ceil((top + decay) * self.rate) + 1)
        time = np.arange(frames, dtype=np.float32) / np.float32(self.rate)
        fallen = np.clip((time - np.float32(top)) / np.float32(decay), 0, volume.sustain)
        loudness = _fall(fallen)
        rising = min(frames, math.ceil((volume.delay + attack) * self.rate))
        rise = (time[:rising] - np.float32(volume.delay)) / np.float32(attack)
        loudness[:rising] *= np.clip(rise, 0, 1)
        return loudness

    def _tone(self, zone: Zone, key: int, velocity: int, frames: int) -> np.ndarray:
        """The first ``frames`` of the recording at the pitch of the key and the brightness of the
        velocity, without the envelope of loudness."""
        brighter = BRIGHTNESS_CENTS * (velocity - EVEN_VELOCITY) / 127
        brighter = round(brighter / BRIGHTNESS_STEP_CENTS) * BRIGHTNESS_STEP_CENTS

        key_of_tone, step = (id(zone), key, brighter), self.rate // 2
        tone: np.ndarray | None = self._tones.get(key_of_tone)
        # Tones are made in multiples of half a second. One of another length has reached the end of
        # its recording, so it cannot become longer.
        if tone is None or (len(tone) < frames and len(tone) % step == 0):
            tone = self._played(zone, key, zone.cutoff + brighter, math.ceil(frames / step) * step)
            self._tones.put(key_of_tone, tone, tone.nbytes)
        return tone[:frames]

    def _played(self, zone: Zone, key: int, cutoff: float, frames: int) -> np.ndarray:
        sample = zone.sample
        cents = min((key - zone.root) * zone.key_cents + zone.tuning, MAX_CENTS)
        # Filters work on the recording, so their frequencies are those of the recorded pitch.
        band = 0.5 * self.rate / 2 ** (cents / 1200)
        speed = 2 ** (cents / 1200) * sample.rate * OVERSAMPLING / self.rate
        highest = math.ceil(_cents(sample.rate) / LEVEL_CENTS)
        low = (cutoff - cents) / LEVEL_CENTS
        low, high = (
            min(max(level, 0.0), float(highest))
            for level in (low, low + zone.cutoff_envelope / LEVEL_CENTS)
        )

        shape = self._low_passed(zone, highest, band)
        position = np.arange(frames, dtype=np.float64) * speed
        if shape.loop_start < 0:
            position = position[: np.searchsorted(position, shape.end)]
        else:
            wrapped = position[np.searchsorted(position, shape.end) :]
            length = shape.end - shape.loop_start
            wrapped -= length * np.floor((wrapped - shape.loop_start) / length)
        index = position.astype(np.int32)
        part = (position - index).astype(np.float32)

        def at(level: int, a: int, b: int) -> np.ndarray:
            frames = self._low_passed(zone, level, band).frames
            left, right = frames[index[a:b]], frames[index[a:b] + 1]
            mixed: np.ndarray = left + (right - left) * part[a:b]
            return mixed

        n = len(position)
        if low == high or n == 0:
            return at(round(low), 0, n)
        time = np.arange(n, dtype=np.float64) / self.rate
        opened = _modulated(zone.modulation, time)
        level = (low + (high - low) * opened).astype(np.float32)
        lower = np.minimum(level.astype(np.int32), highest - 1)
        edges = [0, *(np.flatnonzero(np.diff(lower)) + 1).tolist(), n]
        tone = np.empty(n, np.float32)
        for a, b in pairwise(edges):
            k = int(lower[a])
            dull, bright = at(k, a, b), at(k + 1, a, b)
            tone[a:b] = dull + (bright - dull) * (level[a:b] - k)
        return tone

    def _low_passed(self, zone: Zone, level: int, band: float) -> Filtered:
        """The zone's recording through a two-pole low-pass at ``level`` steps of the grid.

        ``band`` is the highest frequency (hertz, as recorded) that the output can hold; frequencies
        above it would alias, so they are removed. At the highest level there is no low-pass.
        """
        sample = zone.sample
        limit = math.floor(_cents(band) / LEVEL_CENTS) if band < sample.rate / 2 else None
        key = (sample, zone.looped, zone.resonance, level, limit)
        filtered: Filtered | None = self._filtered.get(key)
        if filtered is None:
            filtered = self._filter(zone, level, limit)
            self._filtered.put(key, filtered, filtered.frames.nbytes)
        return filtered

    def _filter(self, zone: Zone, level: int, limit: int | None) -> Filtered:
        sample = zone.sample
        ring = math.ceil(RING_SECONDS * sample.rate)
        sound = self.font.sound(sample).astype(np.float32) / 32768
        loop_start = -1
        if zone.looped:
            # The first round through the loop still depends on what came before it. So the loop is
            # played until the filter has settled, and the last round becomes the new loop.
            body = sound[: sample.loop_end - sample.start]
            loop = body[sample.loop_start - sample.start :]
            rounds = math.ceil(ring / len(loop))
            sound = np.concatenate((body, np.tile(loop, rounds), np.resize(loop, ring)))
            loop_start = len(body) + (rounds - 1) * len(loop)
            end = loop_start + len(loop)
        else:
            end = len(sound) + ring
        size = _fast_length(len(sound) + 2 * ring)
        spectrum = np.fft.rfft(sound, size)
        hertz = np.arange(len(spectrum)) * (sample.rate / size)
        if level < math.ceil(_cents(sample.rate) / LEVEL_CENTS):
            spectrum = spectrum * _two_pole(hertz / _hertz(level * LEVEL_CENTS), zone.resonance)
        if limit is not None:
            edge = _hertz(limit * LEVEL_CENTS)
            spectrum = spectrum * np.clip((edge - hertz) / (0.15 * edge), 0, 1)
        # The result is float32, so the inverse transform may be, too (faster in numpy 2).
        spectrum = (spectrum * OVERSAMPLING).astype(np.complex64)
        frames = np.fft.irfft(spectrum, size * OVERSAMPLING)[: (end + ring) * OVERSAMPLING]
        frames = frames.astype(np.float32)
        return Filtered(frames, loop_start * OVERSAMPLING, end * OVERSAMPLING)


def _fast_length(least: int) -> int:
    """The least size from ``least`` on that is quick to transform: 2^a times 1, 3, 5, 9 or 27."""
    return min(
        odd << max(0, math.ceil(math.log2(least / odd))) for odd in (1, 3, 5, 9, 27) if odd <= least
    )


def _fall(share: np.ndarray) -> np.ndarray:
    """1 at 0, down by 100 dB at 1."""
    return np.exp(share.astype(np.float32) * np.float32(-5 * math.log(10)))


def _modulated(envelope: Envelope, time: np.ndarray) -> np.ndarray:
    """The modulation envelope of a held key, 0 to 1, straight from stage to stage.

    Its release is left out: the tone of a key that was let go stays what it was, and fades.
    """
    start = envelope.delay
    top = start + max(envelope.attack, 1e-4)
    fall = top + envelope.hold
    low = fall + max(envelope.decay * envelope.sustain, 1e-4)
    return np.interp(time, [start, top, fall, low], [0.0, 1.0, 1.0, 1.0 - envelope.sustain])


def _two_pole(ratio: np.ndarray, resonance: float) -> np.ndarray:
    """Response at frequency / cutoff of a second-order low-pass; ``resonance`` in dB.

    0 dB is the flattest (Butterworth). Half of the peak is taken off the level, as the
    specification asks (8.1.3, initialFilterQ).
    """
    peak = 10 ** (resonance / 20)
    s = 1j * ratio
    return 1.0 / (1.0 + s * (math.sqrt(2) / peak) + s * s) / math.sqrt(peak)


def _cents(hertz: float) -> float:
    return 1200 * math.log2(hertz / 8.176)


def _hertz(cents: float) -> float:
    return 8.176 * 2 ** (cents / 1200)
