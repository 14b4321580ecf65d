"""Compute the sound of one note of a sound font: :meth:`Sampler.note`.

A filter that changes from sample to sample is slow in NumPy. So each recording is filtered once for
each cutoff of a grid, and a tone fades between these filtered recordings as its cutoff moves. A
tone is a filtered recording at the pitch of a key, without the volume envelope. Tones are cached,
since pieces repeat their notes.
"""

from __future__ import annotations

import math
from collections.abc import Hashable
from itertools import pairwise

import numpy as np

from musictx.render.soundfont import Envelope, SoundFont, Zone

#: Cents between neighbouring cutoffs of the grid. Level n is the cutoff of n times LEVEL_CENTS.
LEVEL_CENTS = 300
#: Difference in cents between the cutoffs of the softest and the loudest note, rounded to steps of
#: BRIGHTNESS_STEP_CENTS; at EVEN_VELOCITY the cutoff is that of the font. Our choice: in the
#: specification the cutoff falls by up to 2400 cents, but many fonts switch this off.
BRIGHTNESS_CENTS, BRIGHTNESS_STEP_CENTS, EVEN_VELOCITY = 1200.0, 200.0, 96
#: Recordings are first resampled to this multiple of their rate, so that the images of the linear
#: interpolation are below -60 dB and mostly above the audible range.
OVERSAMPLING = 4
#: Seconds after which the ringing of a filter is inaudible.
RING_SECONDS = 0.03
#: Shorter notes last MIN_NOTE_SECONDS, so that notes of length 0 are audible; longer ones last
#: MAX_NOTE_SECONDS, so that no note takes gigabytes.
MIN_NOTE_SECONDS, MAX_NOTE_SECONDS = 0.03, 120.0
#: Seconds of the shortest attack and of the shortest release or decay, so that nothing clicks.
MIN_ATTACK_SECONDS, MIN_RELEASE_SECONDS = 0.0005, 0.01
#: The share of a release that is computed. There the sound is 80 dB softer.
RELEASE_SHARE = 0.8
#: A recording is played at most this many cents (ten octaves) above its pitch. Higher ones would be
#: inaudible, and their positions in the recording too large for floats.
MAX_CENTS = 12_000
#: Bytes of filtered recordings and tones in the cache; the least recently used are dropped.
CACHE_BYTES = 160_000_000


class Sampler:
    """Plays the zones of ``font`` at the output rate ``sample_rate`` (hertz)."""

    def __init__(self, font: SoundFont, sample_rate: int) -> None:
        self.font = font
        self.rate = sample_rate
        #: Filtered recordings and tones, the most recently used last.
        self._cache: dict[Hashable, np.ndarray] = {}

    def note(self, zone: Zone, key: int, velocity: int, seconds: float) -> np.ndarray:
        """Return the sound of a key that is held for ``seconds``, and its release, before panning:
        (frames,) float32, where 1 is full scale."""
        release_start = round(min(max(seconds, MIN_NOTE_SECONDS), MAX_NOTE_SECONDS) * self.rate)
        release = max(zone.volume.release, MIN_RELEASE_SECONDS)
        frames = np.arange(math.ceil(release * RELEASE_SHARE * self.rate), dtype=np.float32)
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
        """Return the amplitude of a held key, 0 to 1: (n,) with n at most ``frames``, fewer if it
        fades to silence."""
        attack = max(volume.attack, MIN_ATTACK_SECONDS)
        top = volume.delay + attack + volume.hold
        decay = max(volume.decay, MIN_RELEASE_SECONDS)
        if volume.sustain >= 1:
            frames = min(frames, math.ceil((top + decay) * self.rate) + 1)
        time = np.arange(frames, dtype=np.float32) / np.float32(self.rate)
        fall = np.clip((time - np.float32(top)) / np.float32(decay), 0, volume.sustain)
        amplitude = _fall(fall)
        rise_frames = min(frames, math.ceil((volume.delay + attack) * self.rate))
        rise = (time[:rise_frames] - np.float32(volume.delay)) / np.float32(attack)
        amplitude[:rise_frames] *= np.clip(rise, 0, 1)
        return amplitude

    def _tone(self, zone: Zone, key: int, velocity: int, frames: int) -> np.ndarray:
        """Return the tone of a key with the brightness of the velocity: (n,) with n at most
        ``frames``, fewer if the recording ends."""
        brightness = BRIGHTNESS_CENTS * (velocity - EVEN_VELOCITY) / 127
        brightness = round(brightness / BRIGHTNESS_STEP_CENTS) * BRIGHTNESS_STEP_CENTS
        cache_key, step = (id(zone), key, brightness), self.rate // 2
        tone = self._cache.pop(cache_key, None)
        # Tones are computed in multiples of half a second. A tone of another length has reached the
        # end of its recording and cannot become longer.
        if tone is None or (len(tone) < frames and len(tone) % step == 0):
            length = math.ceil(frames / step) * step
            tone = self._resample(zone, key, zone.cutoff + brightness, length)
        return self._store(cache_key, tone)[:frames]

    def _store(self, key: Hashable, frames: np.ndarray) -> np.ndarray:
        """Put ``frames`` at the end of the cache, and return them."""
        self._cache[key] = frames
        while len(self._cache) > 1 and sum(f.nbytes for f in self._cache.values()) > CACHE_BYTES:
            del self._cache[next(iter(self._cache))]
        return frames

    def _resample(self, zone: Zone, key: int, cutoff: float, frames: int) -> np.ndarray:
        """Return at most ``frames`` of the recording at the pitch of the key. Its low-pass filter
        has the ``cutoff`` in absolute cents, moved by the modulation envelope."""
        sample = zone.sample
        cents = min((key - zone.root) * zone.key_cents + zone.tuning, MAX_CENTS)
        # The recording is filtered before its pitch changes, so frequencies here are as recorded.
        nyquist = 0.5 * self.rate / 2 ** (cents / 1200)
        speed = 2 ** (cents / 1200) * sample.rate * OVERSAMPLING / self.rate
        top_level = math.ceil(_cents(sample.rate) / LEVEL_CENTS)
        level = (cutoff - cents) / LEVEL_CENTS
        start_level, peak_level = (  # at 0 and at the top of the modulation envelope
            min(max(level, 0.0), float(top_level))
            for level in (level, level + zone.cutoff_envelope / LEVEL_CENTS)
        )

        _, loop_start, end = self._recording(zone)
        position = np.arange(frames, dtype=np.float64) * speed
        past_end = np.searchsorted(position, end * OVERSAMPLING)  # the first position there
        if zone.looped:
            length = (end - loop_start) * OVERSAMPLING
            rounds = np.floor((position[past_end:] - loop_start * OVERSAMPLING) / length)
            position[past_end:] -= length * rounds
        else:
            position = position[:past_end]
        index = position.astype(np.int32)
        fraction = (position - index).astype(np.float32)

        def interpolate(level: int, first: int, stop: int) -> np.ndarray:
            filtered = self._filter(zone, level, nyquist)
            left, right = filtered[index[first:stop]], filtered[index[first:stop] + 1]
            result: np.ndarray = left + (right - left) * fraction[first:stop]
            return result

        count = len(position)
        if start_level == peak_level or count == 0:
            return interpolate(round(start_level), 0, count)
        time = np.arange(count, dtype=np.float64) / self.rate
        levels = start_level + (peak_level - start_level) * _modulation(zone.modulation, time)
        levels = levels.astype(np.float32)
        lower = np.minimum(levels.astype(np.int32), top_level - 1)
        edges = [0, *(np.flatnonzero(np.diff(lower)) + 1).tolist(), count]
        tone = np.empty(count, np.float32)
        for first, stop in pairwise(edges):
            level_below = int(lower[first])
            dull = interpolate(level_below, first, stop)
            bright = interpolate(level_below + 1, first, stop)
            tone[first:stop] = dull + (bright - dull) * (levels[first:stop] - level_below)
        return tone

    def _filter(self, zone: Zone, level: int, nyquist: float) -> np.ndarray:
        """Return the recording of the zone, oversampled and filtered with a two-pole low-pass whose
        cutoff is ``level``; at the top level there is no low-pass. (frames,) float32.

        Frequencies above ``nyquist`` (hertz, as recorded) would alias, so they are removed.
        """
        sample = zone.sample
        is_aliased = nyquist < sample.rate / 2
        highest_level = math.floor(_cents(nyquist) / LEVEL_CENTS) if is_aliased else None
        key = (sample, zone.looped, zone.resonance, level, highest_level)
        if (cached := self._cache.pop(key, None)) is not None:
            return self._store(key, cached)
        sound, _, end = self._recording(zone)
        ring = math.ceil(RING_SECONDS * sample.rate)
        size = _fast_length(len(sound) + 2 * ring)
        spectrum = np.fft.rfft(sound.astype(np.float32) / 32768, size)
        hertz = np.arange(len(spectrum)) * (sample.rate / size)
        if level < math.ceil(_cents(sample.rate) / LEVEL_CENTS):
            spectrum = spectrum * _two_pole(hertz / _hertz(level * LEVEL_CENTS), zone.resonance)
        if highest_level is not None:
            edge = _hertz(highest_level * LEVEL_CENTS)
            spectrum = spectrum * np.clip((edge - hertz) / (0.15 * edge), 0, 1)
        # Faster than complex128 in NumPy 2, and the result is float32 anyway.
        spectrum = (spectrum * OVERSAMPLING).astype(np.complex64)
        frames = np.fft.irfft(spectrum, size * OVERSAMPLING)[: (end + ring) * OVERSAMPLING]
        return self._store(key, frames.astype(np.float32))

    def _recording(self, zone: Zone) -> tuple[np.ndarray, int, int]:
        """Return the recording of the zone, (frames,) int16; the frame to which its loop returns,
        or -1; and the frame at which the loop or, without one, the ringing of the filter ends.
        """
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
    """Return the smallest length of at least ``shortest`` whose Fourier transform is fast: a power
    of 2 times 1, 3, 5, 9 or 27."""
    factors = [odd for odd in (1, 3, 5, 9, 27) if odd <= shortest]
    return min(odd << math.ceil(math.log2(shortest / odd)) for odd in factors)


def _fall(share: np.ndarray) -> np.ndarray:
    """Return the amplitude after a ``share`` of a fall by 100 dB: 1 at 0, 1e-5 at 1."""
    return np.exp(share.astype(np.float32) * np.float32(-5 * math.log(10)))


def _modulation(envelope: Envelope, time: np.ndarray) -> np.ndarray:
    """Return the modulation envelope of a held key, 0 to 1, linear in each stage. The release is
    left out, since the tone is fading then."""
    start = envelope.delay
    top = start + max(envelope.attack, 1e-4)
    fall = top + envelope.hold
    low = fall + max(envelope.decay * envelope.sustain, 1e-4)
    return np.interp(time, [start, top, fall, low], [0.0, 1.0, 1.0, 1.0 - envelope.sustain])


def _two_pole(ratio: np.ndarray, resonance: float) -> np.ndarray:
    """Return the complex response of a second-order low-pass at ``ratio`` = frequency / cutoff.

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
