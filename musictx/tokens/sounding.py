"""The notes that sound in a half-written piece: the one tracker of the grammars.

What a grammar allows to be released, what note limits end and what is left open at the end of a
piece are all read off this table.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

#: Drums that wait for a release sound at their pitch and so much.
DRUM = 128
#: Strikes that are remembered: more than four seconds of the densest music.
REMEMBERED = 128


class Change(NamedTuple):
    """A note that an id begins (``on``) or ends, in seconds of the ids.

    velocity  1 to 127; 0 where a note ends
    part      program, 128 for drums; the voice where voices take turns
    end       of a note that begins: when it ends, infinite where what follows may prolong it;
              ``None``: an id of its own ends it
    """

    seconds: float
    on: bool
    pitch: int
    velocity: int
    part: int
    end: float | None = None


class Sounding:
    """(program, pitch) -> the seconds at which its notes were struck that still sound.

    A release ends the oldest of them: first in, first out. ``program`` is the current one;
    ``struck`` says whether a note was struck since time last passed.
    """

    def __init__(self) -> None:
        self.notes: dict[tuple[int, int], list[float]] = {}
        self.program = 0
        self.struck = False
        self._count = 0
        self._recent: deque[tuple[float, int]] = deque(maxlen=REMEMBERED)
        self._listed: list[tuple[float, int]] | None = None  # the same, the last one first

    def __len__(self) -> int:
        """How many notes sound."""
        return self._count

    def __contains__(self, key: tuple[int, int]) -> bool:
        return key in self.notes

    def __iter__(self) -> Iterator[tuple[int, int]]:
        """(program, pitch) of every note that sounds."""
        return (key for key, struck in self.notes.items() for _ in struck)

    def here(self) -> list[int]:
        """The pitches that sound in the current program."""
        return [pitch for program, pitch in self.notes if program == self.program]

    def strike(self, pitch: int, seconds: float) -> None:
        """A note of the current program begins."""
        self.notes.setdefault((self.program, pitch), []).append(seconds)
        if pitch < DRUM:
            self._recent.append((seconds, pitch))
            self._listed = None
        self._count += 1
        self.struck = True

    def recent(self) -> list[tuple[float, int]]:
        """(seconds, pitch) of the last strikes but for drums, the last one first. It is not to be
        changed; until the next strike it is the same list."""
        if self._listed is None:
            self._listed = list(reversed(self._recent))
        return self._listed

    def release(self, pitch: int) -> bool:
        """The oldest such note of the current program ends; False if there is none."""
        struck = self.notes.get((self.program, pitch))
        if struck is None:
            return False
        struck.pop(0)
        if not struck:
            del self.notes[self.program, pitch]
        self._count -= 1
        return True

    def wait(self) -> None:
        """Time passes."""
        self.struck = False

    def copy(self) -> Sounding:
        other = Sounding()
        other.__dict__.update(self.__dict__)
        other._recent = self._recent.copy()
        other.notes = {key: struck.copy() for key, struck in self.notes.items()}
        return other
