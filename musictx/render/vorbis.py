"""Ogg Vorbis -> frames, by libsndfile, which the package soundfile brings along."""

from __future__ import annotations

import io

import numpy as np

_BLOCK = 1 << 18


def decode(data: bytes, most: int) -> np.ndarray:
    """(n,) int16: the first channel of an Ogg Vorbis stream.

    Empty where ``data`` is no such stream, is damaged or holds more than ``most`` frames; never
    more than that is decoded, whatever the stream says of its length.
    """
    import soundfile

    blocks, frames = [], 0
    try:
        with soundfile.SoundFile(io.BytesIO(data)) as file:
            if file.format != "OGG" or file.subtype != "VORBIS":
                return np.zeros(0, np.int16)
            while len(block := file.read(_BLOCK, dtype="float32", always_2d=True)):
                frames += len(block)
                if frames > most:
                    return np.zeros(0, np.int16)
                # The int16 of libsndfile wraps around where Vorbis goes past full scale.
                blocks.append(np.clip(np.round(block[:, 0] * 32768), -32768, 32767).astype("i2"))
    except (soundfile.SoundFileError, ValueError):
        return np.zeros(0, np.int16)
    return np.concatenate([np.zeros(0, np.int16), *blocks])
