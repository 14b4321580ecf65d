"""Write a Score as a WAV file, 16-bit stereo: :func:`write`. No system packages are needed.

The notes are played with a sound font (``sampler.py``), in stereo with a light reverb. The sound is
computed in blocks of a few seconds, so memory does not grow with the length of the piece.
The same Score always gives the same samples.
"""

from __future__ import annotations

import tempfile
import wave
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

import numpy as np

from musictx.config.limits import Limits
from musictx.errors import UserError
from musictx.files import atomic
from musictx.notes import Score
from musictx.pedal import fold_sustain
from musictx.render.sampler import Sampler
from musictx.render.soundfont import INCLUDED_FONT, SoundFont

#: Frames per second; a frame is a sample for each channel.
RATE = 44_100
#: Amplitude of the loudest sample of a file, where 1 is full scale: -1 dB.
PEAK = 0.89
#: Quiet music is amplified to PEAK, but by at most this factor, so that very soft music stays soft.
MAX_GAIN = 16.0
#: Length of the reverb in seconds, and the seed of its noise.
REVERB_SECONDS, REVERB_SEED = 1.4, 20180912
#: Amplitude of the reverb relative to that of a note panned to the middle, in the frequency band
#: REVERB_BAND (hertz), where most music lies.
REVERB_LEVEL, REVERB_BAND = 0.2, (200, 2000)
#: Frames per step of the overlap-add convolution; the length of a block is a multiple of it.
HOP = 1 << 16
#: Seconds of sound in a block.
BLOCK_SECONDS = 10.0


def write(
    score: Score,
    path: str | Path,
    *,
    soundfont: str | Path | None = None,
    limits: Limits | None = None,
    on_block: Callable[[], None] | None = None,
    mix: Mapping[int, tuple[float, float, float]] | None = None,
) -> Path:
    """Write ``score`` as a WAV file, 16-bit stereo; return its path.

    soundfont  an SF2 or SF3 file; by default the font that comes with musictx
    on_block   called after every :data:`BLOCK_SECONDS` of sound; an exception that it raises stops
               the rendering
    mix        track -> (gain, pan from -1 (left) to 1 (right), reverb gain); default (1, 0, 1)

    The whole piece is scaled so that its loudest sample is 1 dB below full scale, but amplified at
    most by :data:`MAX_GAIN`. No partly written file is left. Raises :class:`UserError` for a Score
    without notes, an invalid sound font, and a piece that is longer than ``limits.wav_seconds``;
    raises :class:`WriteError` if the file cannot be written.
    """
    path = Path(path)
    limits = limits or Limits()
    if not len(score):
        raise UserError(f"{path.name}: nothing to render, the piece has no notes")
    if score.duration > limits.wav_seconds:
        raise UserError(
            f"{path.name}: {score.duration:.0f} seconds of sound, more than "
            f"limits.wav_seconds={limits.wav_seconds}"
        )

    font = SoundFont(INCLUDED_FONT if soundfont is None else soundfont, limits)
    peak = 0.0
    with atomic(path) as temporary, tempfile.TemporaryFile(dir=path.parent) as frames:
        for block in blocks(score, font, sample_rate=RATE, mix=mix):
            peak = max(peak, float(np.abs(block).max(initial=0.0)))
            frames.write(np.ascontiguousarray(block, "<f4").tobytes())
            if on_block is not None:
                on_block()
        frames.seek(0)
        gain = min(PEAK / peak, MAX_GAIN) if peak > 0 else 0.0
        with temporary.open("wb") as file, wave.open(file, "wb") as wav:
            wav.setnchannels(2)
            wav.setsampwidth(2)
            wav.setframerate(RATE)
            while data := frames.read(1 << 22):
                samples = np.frombuffer(data, "<f4") * np.float32(gain * 32767)
                wav.writeframesraw(np.round(samples).astype("<i2").tobytes())
    return path


def blocks(
    score: Score,
    font: SoundFont,
    *,
    sample_rate: int,
    mix: Mapping[int, tuple[float, float, float]] | None = None,
) -> Iterator[np.ndarray]:
    """Yield the sound of ``score`` with ``font`` in blocks, (frames, 2) float32: left and right.
    ``mix`` is as in :func:`write`.

    Notes last as long as the sustain pedal holds them. Samples are not scaled: the sum of many
    notes may exceed 1. They do not depend on :data:`BLOCK_SECONDS`.
    """
    dry = _dry_blocks(score, font, sample_rate, mix or {})
    return (block.T for block in _add_reverb(dry, sample_rate))


def _dry_blocks(
    score: Score, font: SoundFont, rate: int, mix: Mapping[int, tuple[float, ...]]
) -> Iterator[np.ndarray]:
    """Yield (3, frames) blocks of equal length, the last one shorter: left, right, reverb input.

    A whole note is rendered when it starts; its frames beyond the block stay in the buffer. So
    every sample is the same sum in the same order, wherever the blocks end.
    """
    sampler = Sampler(font, rate)
    notes = fold_sustain(score).notes
    size = max(1, round(BLOCK_SECONDS * rate / HOP)) * HOP
    buffer = np.zeros((3, 2 * size), np.float32)
    block_start = end_of_sound = 0  # frames of the piece
    for start, end, pitch, velocity, program, drum, track in notes.tolist():
        gain, pan, reverb_gain = mix.get(track, (1.0, 0.0, 1.0))
        first = round(start * rate)
        while first >= block_start + size:
            yield buffer[:, :size].copy()
            buffer = np.pad(buffer[:, size:], ((0, 0), (0, size)))
            block_start += size
        for zone in font.sounding(program, drum, pitch, velocity):
            sound = sampler.note(zone, pitch, velocity, end - start)
            begin, stop = first - block_start, first - block_start + len(sound)
            if stop > buffer.shape[1]:
                buffer = np.pad(buffer, ((0, 0), (0, stop - buffer.shape[1] + size)))
            # Equal-power panning: as loud in the middle as at the sides.
            angle = min(max(zone.pan + pan / 2, 0.0), 1.0) * np.pi / 2
            gains = gain * np.array((np.cos(angle), np.sin(angle), 0.0), np.float32)
            gains[2] = reverb_gain * gains.sum()
            buffer[:, begin:stop] += gains[:, None] * sound
            end_of_sound = max(end_of_sound, block_start + stop)
    while block_start < end_of_sound:
        yield buffer[:, : min(size, end_of_sound - block_start)].copy()
        buffer = buffer[:, size:]
        block_start += size


def _add_reverb(blocks: Iterable[np.ndarray], rate: int) -> Iterator[np.ndarray]:
    """Yield each (3, frames) block as (2, frames) stereo with a light reverb, then its tail.

    The reverb is the third row convolved with decaying noise, which differs between left and right.
    The convolution is computed by overlap-add in steps of :data:`HOP` frames.
    """
    responses = _impulse_responses(rate)
    length = responses.shape[1]
    size = 1 << (HOP + length - 1).bit_length()
    response_spectra = np.fft.rfft(responses, size)
    tail = np.zeros((2, length), np.float32)
    for block in blocks:
        stereo = block[:2].copy()
        for first in range(0, block.shape[1], HOP):
            dry = block[2, first : first + HOP]
            spectra = np.fft.rfft(dry, size) * response_spectra
            wet = np.fft.irfft(spectra, size)[:, : len(dry) + length].astype(np.float32)
            wet[:, :length] += tail
            stereo[:, first : first + len(dry)] += wet[:, : len(dry)]
            tail = wet[:, len(dry) :]
        yield stereo
    yield tail


def _impulse_responses(rate: int) -> np.ndarray:
    """Return the impulse responses of the reverb, (2, frames) float32: noise without bass that
    decays by 60 dB in 1.2 seconds, its treble in 0.6 seconds."""
    frames = round(REVERB_SECONDS * rate)
    random = np.random.default_rng(REVERB_SEED)
    time = np.arange(frames) / rate
    noise = random.standard_normal((2, frames))
    spectrum = np.fft.rfft(noise)
    hertz = np.arange(spectrum.shape[1]) / REVERB_SECONDS
    low_pass = 1.0 / (1.0 + (hertz / 1800.0) ** 4)
    body = np.fft.irfft(spectrum * low_pass * (hertz > 180), frames) * 10 ** (-3 * time / 1.2)
    treble = spectrum * (1 - low_pass) * (hertz < 9000)
    air = np.fft.irfft(treble, frames) * 10 ** (-3 * time / 0.6)
    response = body + 0.7 * air
    fade_in = np.clip((time - 0.008) / 0.012, 0.0, 1.0)  # the first reflections come after 8 ms
    fade_out = np.clip((REVERB_SECONDS - time) / 0.1, 0.0, 1.0)
    response *= fade_in * fade_out
    power = np.abs(np.fft.rfft(response)) ** 2
    in_band = (hertz >= REVERB_BAND[0]) & (hertz <= REVERB_BAND[1])
    # Factor 2: the input, left + right, has twice the power of a note in the middle.
    amplitude = np.sqrt(2 * power[:, in_band].mean(axis=1, keepdims=True))
    return (response * (REVERB_LEVEL / amplitude)).astype(np.float32)
