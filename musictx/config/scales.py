"""Parse the names of pitches, keys and scales."""

from __future__ import annotations

import re

from musictx.errors import ConfigError, shown

#: Scale -> semitones above the keynote.
SCALES: dict[str, tuple[int, ...]] = {
    "major": (0, 2, 4, 5, 7, 9, 11),
    "minor": (0, 2, 3, 5, 7, 8, 10, 11),  # natural, and the leading note of harmonic minor
    "pentatonic": (0, 2, 4, 7, 9),
    "minor_pentatonic": (0, 3, 5, 7, 10),
    "blues": (0, 3, 5, 6, 7, 10),
    "dorian": (0, 2, 3, 5, 7, 9, 10),
    "phrygian": (0, 1, 3, 5, 7, 8, 10),
    "lydian": (0, 2, 4, 6, 7, 9, 11),
    "mixolydian": (0, 2, 4, 5, 7, 9, 10),
    "whole_tone": (0, 2, 4, 6, 8, 10),
}
_LETTERS = {"c": 0, "d": 2, "e": 4, "f": 5, "g": 7, "a": 9, "b": 11}
_NAME = r"([a-g])([#b♯♭]*)"
_ACCIDENTALS = {"#": 1, "♯": 1, "b": -1, "♭": -1}


def key(name: str, option: str) -> tuple[int, str]:
    """Parse ``C``, ``F#m`` or ``Bb major`` into (pitch class 0 to 11, "major" or "minor"). Raises
    :class:`ConfigError` naming ``option`` for another text."""
    text = shown(name).strip().lower()
    match = re.fullmatch(_NAME + r"[ _-]?(m|min|minor|maj|major)?", text)
    if match is None:
        raise ConfigError(f"{option}={shown(name)}: expected a key such as C, F#m or Bb, or auto")
    minor = (match[3] or "").removesuffix("or").removesuffix("in") == "m"
    return _semitones(match) % 12, "minor" if minor else "major"


def pitch(name: str, option: str) -> int:
    """Parse ``C4`` (middle C, 60) or a number from 0 to 127 into a MIDI pitch. Raises
    :class:`ConfigError` naming ``option`` for another text."""
    text = shown(name).strip().lower()
    match = re.fullmatch(_NAME + r"(-?[0-9])", text)
    number = -1
    if match is not None:
        number = _semitones(match) + 12 * (int(match[3]) + 1)
    elif re.fullmatch(r"[0-9]{1,3}", text):
        number = int(text)
    if not 0 <= number < 128:
        raise ConfigError(f"{option}={shown(name)}: expected a pitch such as C4 (middle C) or 60")
    return number


def _semitones(match: re.Match[str]) -> int:
    """Return the semitones above C of the letter and accidentals in ``match``."""
    return _LETTERS[match[1]] + sum(_ACCIDENTALS[sign] for sign in match[2])
