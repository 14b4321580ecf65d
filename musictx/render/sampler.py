"""Compute the sound of one note of a sound font: :meth:`Sampler.note`.

A filter that changes from sample to sample is slow in numpy. So each recording is filtered once for
each cutoff of a grid, and a tone fades between these filtered recordings as its cutoff moves. Tones
are cached, since keys recur.
"""

from __future__ import annotations

import math
from collections.abc import Hashable
from itertools import pairwise

import numpy as np

from musictx.render.soundfont import Envelope, SoundFont, Zone

#: Cents between the cutoffs of the grid; a tone with a cutoff between two of them is a mixture.
LEVEL_CENTS = 300
#: Difference in cents between the cutoffs of the softest and the loudest note, in steps of
#: BRIGHTNESS_STEP_CENTS; a note of EVEN_VELOCITY has the cutoff of the font. These numbers are our
#: choice: in the specification the cutoff falls by up to 2400 cents, but many fonts switch this
#: off.
BRIGHTNESS_CENTS, BRIGHTNESS_STEP_CENTS, EVEN_VELOCITY = 1200.0, 200.0, 96
#: Recordings are first resampled to this multiple of their rate. Then linear interpolation is
#: clean: its images are below -60 dB and mostly above the audible range.
OVERSAMPLING = 4
#: Seconds after which the ringing of a filter is inaudible.
RING_SECONDS = 0.03
#: Seconds of the shortest note, so that notes of length 0 are audible, and of the shortest attack
#: and release, so that nothing clicks.
MIN_NOTE_SECONDS, MIN_ATTACK_SECONDS, MIN_RELEASE_SECONDS = 0.03, 0.0005, 0.01
#: Seconds of the longest note, so that no note takes gigabytes.
MAX_NOTE_SECONDS = 120.0
#: The share of a release that is computed: at its end the sound is 80 dB softer.
RELEASE_PART = 0.8
#: A recording is played at most this many cents above its pitch (ten octaves, inaudible); higher,
#: the positions in the recording would be too large for floats.
MAX_CENTS = 12_000
#: Bytes of the filtered recordings and tones that are kept, those that were used last.
CACHE_BYTES = 160_000_000


class Sampler:
    """Plays the zones of ``font`` at the output rate ``sample_rate`` (hertz)."""

    def __init__(self, font: SoundFont, sample_rate: int) -> None:
        self.font = font
        self.rate = sample_rate
        #: Filtered recordings and tones, the one that was used last at the end.
        self._cache: dict[Hashable, np.ndarray] = {}

    def note(self, zone: Zone, key: int, velocity: int, seconds: float) -> np.ndarray:
        """Return the sound of a key that is held for ``seconds``, with its release, before panning:
        (frames,) float32, where 1 is full scale."""
        release_start = round(min(max(seconds, MIN_NOTE_SECONDS), MAX_NOTE_SECONDS) * self.rate)
        release = max(zone.volume.release, MIN_RELEASE_SECONDS)
        frames = np.arange(math.ceil(release * RELEASE_PART * self.rate), dtype=np.float32)
        fade = _fall(frames / np.float32(release * self.rate))
        sound = self._envelope(zone.volume, release_start + len(fade))
        tone = self._tone(zone, key, velocity, len(sound))
        sound = sound[: len(tone)]
        if release_start < len(sound):
            sound[release_start:] = fade[: len(sound) - release_start] * sound[release_start]
        sound *= tone[: len(sound)]
        sound *= np.float32(zone.gain * (velocity / 127) ** 2)
        return sound

    def _envelope(self, volume: Envelope, frames: int) -> np.ndarray:
        """Return the loudness of a held key, 0 to 1, until it is inaudible or for ``frames``."""
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
        """Return at most ``frames`` of the recording at the pitch of the key and with the
        brightness of the velocity, without the envelope of loudness."""
        brightness = BRIGHTNESS_CENTS * (velocity - EVEN_VELOCITY) / 127
        brightness = round(brightness / BRIGHTNESS_STEP_CENTS) * BRIGHTNESS_STEP_CENTS
        cache_key, step = (id(zone), key, brightness), self.rate // 2
        tone = self._cache.pop(cache_key, None)
        # Tones are computed in multiples of half a second. A tone of another length has reached the
        # end of its recording and cannot become longer.
        if tone is None or (len(tone) < frames and len(tone) % step == 0):
            length = math.ceil(frames / step) * step
            tone = self._resampled(zone, key, zone.cutoff + brightness, length)
        return self._kept(cache_key, tone)[:frames]

    def _kept(self, key: Hashable, frames: np.ndarray) -> np.ndarray:
        """Put ``frames`` at the end of the cache, and return them."""
        self._cache[key] = frames
        while len(self._cache) > 1 and sum(f.nbytes for f in self._cache.values()) > CACHE_BYTES:
            del self._cache[next(iter(self._cache))]
        return frames

    def _resampled(self, zone: Zone, key: int, cutoff: float, frames: int) -> np.ndarray:
        """Return at most ``frames`` of the recording at the pitch of the key. Its low-pass filter
        has the ``cutoff`` in absolute cents, moved by the modulation envelope."""
        sample = zone.sample
        cents = min((key - zone.root) * zone.key_cents + zone.tuning, MAX_CENTS)
        # The recording is filtered before its pitch changes, so frequencies are as recorded.
        nyquist = 0.5 * self.rate / 2 ** (cents / 1200)
        speed = 2 ** (cents / 1200) * sample.rate * OVERSAMPLING / self.rate
        top_level = math.ceil(_cents(sample.rate) / LEVEL_CENTS)
        level = (cutoff - cents) / LEVEL_CENTS
        closed, opened = (
            min(max(level, 0.0), float(top_level))
            for level in (level, level + zone.cutoff_envelope / LEVEL_CENTS)
        )

        _, loop_start, end = self._recording(zone)
        position = np.arange(frames, dtype=np.float64) * speed
        beyond = np.searchsorted(position, end * OVERSAMPLING)
        if zone.looped:
            length = (end - loop_start) * OVERSAMPLING
            rounds = np.floor((position[beyond:] - loop_start * OVERSAMPLING) / length)
            position[beyond:] -= length * rounds
        else:
            position = position[:beyond]
        index = position.astype(np.int32)
        fraction = (position - index).astype(np.float32)

        def interpolated(level: int, begin: int, end: int) -> np.ndarray:
            frames = self._filtered(zone, level, nyquist)
            left, right = frames[index[begin:end]], frames[index[begin:end] + 1]
            between: np.ndarray = left + (right - left) * fraction[begin:end]
            return between

        count = len(position)
        if closed == opened or count == 0:
            return interpolated(round(closed), 0, count)
        time = np.arange(count, dtype=np.float64) / self.rate
        levels = closed + (opened - closed) * _modulation(zone.modulation, time)
        levels = levels.astype(np.float32)
        lower = np.minimum(levels.astype(np.int32), top_level - 1)
        edges = [0, *(np.flatnonzero(np.diff(lower)) + 1).tolist(), count]
        tone = np.empty(count, np.float32)
        for begin, end in pairwise(edges):
            level_below = int(lower[begin])
            dull, bright = (interpolated(level_below + n, begin, end) for n in (0, 1))
            tone[begin:end] = dull + (bright - dull) * (levels[begin:end] - level_below)
        return tone

    def _filtered(self, zone: Zone, level: int, nyquist: float) -> np.ndarray:
        """Return the recording of the zone, oversampled and filtered with a two-pole low-pass whose
        cutoff is ``level`` steps of the grid; at the top level there is no low-pass.

        Frequencies above ``nyquist`` (hertz, as recorded) would alias, so they are removed.
        """
        sample = zone.sample
        limit = math.floor(_cents(nyquist) / LEVEL_CENTS) if nyquist < sample.rate / 2 else None
        key = (sample, zone.looped, zone.resonance, level, limit)
        if (kept := self._cache.pop(key, None)) is not None:
            return self._kept(key, kept)
        sound, _, end = self._recording(zone)
        ring = math.ceil(RING_SECONDS * sample.rate)
        size = _fast_length(len(sound) + 2 * ring)
        spectrum = np.fft.rfft(sound.astype(np.float32) / 32768, size)
        hertz = np.arange(len(spectrum)) * (sample.rate / size)
        if level < math.ceil(_cents(sample.rate) / LEVEL_CENTS):
            spectrum = spectrum * _two_pole(hertz / _hertz(level * LEVEL_CENTS), zone.resonance)
        if limit is not None:
            edge = _hertz(limit * LEVEL_CENTS)
            spectrum = spectrum * np.clip((edge - hertz) / (0.15 * edge), 0, 1)
        # Faster than complex128 in numpy 2, and the result is float32 anyway.
        spectrum = (spectrum * OVERSAMPLING).astype(np.complex64)
        frames = np.fft.irfft(spectrum, size * OVERSAMPLING)[: (end + ring) * OVERSAMPLING]
        return self._kept(key, frames.astype(np.float32))

    def _recording(self, zone: Zone) -> tuple[np.ndarray, int, int]:
        """Return the recording of the zone, int16, the frame to which playing returns from the end,
        -1 without a loop, and the end, at which a loop or the ringing of a filter ends."""
        sample, sound = zone.sample, self.font.sound(zone.sample)
        ring = math.ceil(RING_SECONDS * sample.rate)
        if not zone.looped:
            return sound, -1, len(sound) + ring
        # The first round of the loop depends on the sound before it. So the loop is repeated until
        # the filter has settled, and the last round becomes the new loop.
        body = sound[: sample.loop_end - sample.start]
        loop = body[sample.loop_start - sample.start :]
        rounds = math.ceil(ring / len(loop))
        loop_start = len(body) + (rounds - 1) * len(loop)
        sound = np.concatenate((body, np.tile(loop, rounds), np.resize(loop, ring)))
        return sound, loop_start, loop_start + len(loop)


def _fast_length(shortest: int) -> int:
    """Return the smallest length of at least ``shortest`` whose Fourier transform is fast: 2^n
    times 1, 3, 5, 9 or 27."""
    return min(
        odd << max(0, math.ceil(math.log2(shortest / odd)))
        for odd in (1, 3, 5, 9, 27)
        if odd <= shortest
    )


def _fall(share: np.ndarray) -> np.ndarray:
    """Return the amplitude after a ``share`` of a fall by 100 dB: 1 at 0, 1e-5 at 1."""
    return np.exp(share.astype(np.float32) * np.float32(-5 * math.log(10)))


def _modulation(envelope: Envelope, time: np.ndarray) -> np.ndarray:
    """Return the modulation envelope of a held key, 0 to 1, with straight lines between its stages.

    The release is left out: after it, the tone only becomes softer.
    """
    start = envelope.delay
    top = start + max(envelope.attack, 1e-4)
    fall = top + envelope.hold
    low = fall + max(envelope.decay * envelope.sustain, 1e-4)
    return np.interp(time, [start, top, fall, low], [0.0, 1.0, 1.0, 1.0 - envelope.sustain])


def _two_pole(ratio: np.ndarray, resonance: float) -> np.ndarray:
    """Return the response of a second-order low-pass at ``ratio`` = frequency / cutoff.

    A ``resonance`` of 0 dB is the flattest filter (Butterworth). Half of the resonance is
    subtracted from the level (specification 8.1.3, initialFilterQ).
    """
    peak = 10 ** (resonance / 20)
    s = 1j * ratio
    return 1.0 / (1.0 + s * (math.sqrt(2) / peak) + s * s) / math.sqrt(peak)


def _cents(hertz: float) -> float:
    return 1200 * math.log2(hertz / 8.176)


def _hertz(cents: float) -> float:
    return 8.176 * 2 ** (cents / 1200)
