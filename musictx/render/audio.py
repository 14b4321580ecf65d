"""Score -> WAV: 16-bit stereo, without system packages.

The sampler of this package plays a sound font, in stereo with a light reverberation, and works
through a piece in blocks, so memory holds a few seconds of sound however long the piece is. The
same Score gives the same samples.
"""

from __future__ import annotations

import tempfile
import wave
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import BinaryIO

import numpy as np

from musictx.config.limits import Limits
from musictx.errors import UserError
from musictx.files import atomic
from musictx.notes import Score
from musictx.pedal import fold_sustain
from musictx.render.sampler import Sampler
from musictx.render.soundfont import OURS, SoundFont

#: The loudest sample of a file, of full scale: -1 dB. Quiet music is raised to it, but not by more
#: than MAX_GAIN: what is marked very soft may stay soft.
PEAK, MAX_GAIN = 0.89, 16.0
#: Reverberation: seconds until it is inaudible; its amplitude against sound from the middle, for
#: the frequencies most music is made of (hertz); the seed of its noise.
REVERB_SECONDS, REVERB_LEVEL, REVERB_BAND, REVERB_SEED = 1.4, 0.2, (200, 2000), 20180912
#: Samples that the reverberation takes in at a time; blocks are whole multiples of it.
HOP = 1 << 16
#: Seconds of sound that are computed at a time.
BLOCK_SECONDS = 10.0
#: Bytes that the length fields of a WAV file can count.
MAX_WAV_BYTES = 2**32 - 4096


def write(
    score: Score,
    path: str | Path,
    *,
    sample_rate: int = 44100,
    soundfont: str | Path | None = None,
    limits: Limits | None = None,
    on_block: Callable[[], None] | None = None,
    mix: Mapping[int, tuple[float, float, float]] | None = None,
) -> Path:
    """Write ``score`` as a WAV file, stereo, 16 bits; returns its path.

    ``sample_rate`` in hertz. ``soundfont`` is an SF2 or SF3 file, by default the one that comes
    with musictx. The piece is scaled as a whole so that its loudest sample is 1 dB under full
    scale; it never clips. The file appears whole or not at all. ``on_block`` is called after every
    :data:`BLOCK_SECONDS` of sound; what it raises ends the work. ``mix``: track -> how loud it is,
    how far to the right, -1 to 1, and how much of it goes into the room; 1, 0, 1 as usual.

    Raises :class:`UserError` for a Score without notes, a file that is no sound font and a piece
    longer than ``limits.wav_seconds``, :class:`WriteError` where the machine cannot write.
    """
    path = Path(path)
    limits = limits or Limits()
    if not len(score):
        raise UserError(f"{path.name}: nothing to render, the piece has no notes")
    most = min(limits.wav_seconds, MAX_WAV_BYTES / (4 * sample_rate))
    if score.duration > most:
        raise UserError(
            f"{path.name}: {score.duration:.0f} seconds of sound, more than {most:.0f} "
            f"(limits.wav_seconds={limits.wav_seconds})"
        )
    font = SoundFont(OURS if soundfont is None else soundfont, limits)
    sound = blocks(score, font, sample_rate=sample_rate, mix=mix)
    with atomic(path) as part, tempfile.TemporaryFile(dir=path.parent) as scratch:
        peak = _spool(sound, scratch, on_block)
        scale = min(PEAK / peak, MAX_GAIN) if peak > 0 else 0.0
        _wav(scratch, part, scale, sample_rate)
    return path


def blocks(
    score: Score,
    font: SoundFont,
    *,
    sample_rate: int = 44100,
    mix: Mapping[int, tuple[float, float, float]] | None = None,
) -> Iterator[np.ndarray]:
    """The sound of ``score`` by ``font``, block by block: (n, 2) float32, left and right; ``mix``
    as in :func:`write`.

    Sustain pedals are folded in first. The result is the same, to the bit, for every
    :data:`BLOCK_SECONDS`; memory grows with it. The scale is free: many notes may exceed 1.
    """
    size = max(1, round(BLOCK_SECONDS * sample_rate / HOP)) * HOP
    room = _Room(sample_rate)
    for block in _mixed(score, font, sample_rate, size, mix or {}):
        yield room.add_to(block).T
    yield room.rest().T


def _mixed(
    score: Score, font: SoundFont, rate: int, size: int, mix: Mapping[int, tuple[float, ...]]
) -> Iterator[np.ndarray]:
    """(3, n) blocks of ``size`` frames, the last one shorter: left, right, what goes to the room.

    A note is rendered whole when it begins; what reaches past the block waits in the buffer. So
    every sample is the same sum in the same order wherever blocks end.
    """
    sampler = Sampler(font, rate)
    notes = fold_sustain(score).notes
    buffer = np.zeros((3, 2 * size), np.float32)
    base = last = 0
    for start, end, pitch, velocity, program, drum, track in notes.tolist():
        gain, right, wet = mix.get(track, (1.0, 0.0, 1.0))
        first = round(start * rate)
        while first >= base + size:
            yield buffer[:, :size].copy()
            buffer = np.concatenate((buffer[:, size:], np.zeros((3, size), np.float32)), axis=1)
            base += size
        for zone in font.sounding(program, drum, pitch, velocity):
            sound = sampler.note(zone, pitch, velocity, end - start)
            a, b = first - base, first - base + len(sound)
            if b > buffer.shape[1]:
                more = np.zeros((3, b - buffer.shape[1] + size), np.float32)
                buffer = np.concatenate((buffer, more), axis=1)
            # Equal power: as loud in the middle as at the sides.
            angle = min(max(zone.pan + right / 2, 0.0), 1.0) * np.pi / 2
            shares = gain * np.array((np.cos(angle), np.sin(angle), 0.0), np.float32)
            shares[2] = wet * shares.sum()
            buffer[:, a:b] += shares[:, None] * sound
            last = max(last, base + b)
    while base < last:
        yield buffer[:, : min(size, last - base)].copy()
        buffer = buffer[:, size:]
        base += size


class _Room:
    """A light reverberation: what goes to the room convolved with decaying noise, one a side.

    Overlap-add with a fixed hop, so the blocks that come in may have any whole number of hops.
    """

    def __init__(self, rate: int) -> None:
        responses = _impulse_responses(rate)
        self._length = responses.shape[1]
        self._size = 1 << (HOP + self._length - 1).bit_length()
        self._spectra = np.fft.rfft(responses, self._size)
        self._tail = np.zeros((2, self._length), np.float32)

    def add_to(self, block: np.ndarray) -> np.ndarray:
        """The sides of a (3, n) block with the reverberation of it and of all before it."""
        out = block[:2].copy()
        for a in range(0, block.shape[1], HOP):
            piece = block[2, a : a + HOP]
            n = len(piece)
            spectra = np.fft.rfft(piece, self._size) * self._spectra
            wet = np.fft.irfft(spectra, self._size)[:, : n + self._length].astype(np.float32)
            wet[:, : self._length] += self._tail
            out[:, a : a + n] += wet[:, :n]
            self._tail = wet[:, n:]
        return out

    def rest(self) -> np.ndarray:
        """What still sounds after the last block."""
        return self._tail


def _impulse_responses(rate: int) -> np.ndarray:
    """(2, n) float32: sixty decibels of decay in about a second, treble sooner, no bass."""
    frames = round(REVERB_SECONDS * rate)
    random = np.random.default_rng(REVERB_SEED)
    time = np.arange(frames) / rate
    noise = random.standard_normal((2, frames))
    spectrum = np.fft.rfft(noise)
    hertz = np.arange(spectrum.shape[1]) / REVERB_SECONDS
    low = 1.0 / (1.0 + (hertz / 1800.0) ** 4)
    body = np.fft.irfft(spectrum * low * (hertz > 180), frames) * 10 ** (-3 * time / 1.2)
    air = np.fft.irfft(spectrum * (1 - low) * (hertz < 9000), frames) * 10 ** (-3 * time / 0.6)
    response = body + 0.7 * air
    arrival = np.clip((time - 0.008) / 0.012, 0.0, 1.0)  # the walls answer after some milliseconds
    leaving = np.clip((REVERB_SECONDS - time) / 0.1, 0.0, 1.0)
    response *= arrival * leaving
    power = np.abs(np.fft.rfft(response)) ** 2
    in_band = (hertz >= REVERB_BAND[0]) & (hertz <= REVERB_BAND[1])
    strength = np.sqrt(2 * power[:, in_band].mean(axis=1, keepdims=True))  # 2: both channels go in
    return (response * (REVERB_LEVEL / strength)).astype(np.float32)


def _spool(
    sound: Iterator[np.ndarray], scratch: BinaryIO, on_block: Callable[[], None] | None
) -> float:
    """Put float32 frames into a scratch file; returns their peak."""
    peak = 0.0
    for block in sound:
        peak = max(peak, float(np.abs(block).max(initial=0.0)))
        scratch.write(np.ascontiguousarray(block, "<f4").tobytes())
        if on_block is not None:
            on_block()
    return peak


def _wav(scratch: BinaryIO, path: Path, scale: float, rate: int) -> None:
    """Scratch frames times ``scale`` as 16-bit stereo."""
    scratch.seek(0)
    with path.open("wb") as file, wave.open(file, "wb") as out:
        out.setnchannels(2)
        out.setsampwidth(2)
        out.setframerate(rate)
        while data := scratch.read(1 << 22):
            frames = np.frombuffer(data, "<f4") * np.float32(scale * 32767)
            out.writeframesraw(np.round(frames).astype("<i2").tobytes())
