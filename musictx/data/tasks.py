"""Windows of pieces arranged as tasks: which notes are given, which are to be composed.

infill     a span is composed; what comes after it is given, and sometimes one voice of it
accompany  some voices are given from some point on, sometimes the chords, or chords alone
vary       some bars are composed as a variation of similar earlier bars, which are given
steer      only the controls are given

Controls are measured in the window itself and left out part of the time. There are two languages:
events in seconds (:mod:`.event_tasks`), where spans are some seconds and all that is given stands
ahead, and notes in bars (:mod:`musictx.songs.bar_tasks`), where it stands before each bar.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from musictx.data.windows import UNSCORED, Row
from musictx.notes import Score
from musictx.tokens import controls
from musictx.tokens.vocab import Vocabulary

#: The share of windows with controls in which each of them is left out; of gaps in which a voice is
#: given; of accompaniments that begin with their window.
DROPPED_SHARE, LOCKED_SHARE, FROM_THE_START_SHARE = 0.3, 0.3, 0.3


class Tasks:
    """Arranges windows for the tokens of ``tokenizer``, which has control tokens.

    weights  task -> share of the windows; the others are plain
    melody   the number of the program whose notes are given, always in accompaniments of events,
             else more often; "skyline": none
    """

    #: The share of windows in which no control is given.
    no_controls_share: float

    def __init__(
        self, tokenizer: Any, weights: Mapping[str, float], melody: str = "skyline"
    ) -> None:
        self.tokenizer, self.weights = tokenizer, dict(weights)
        self.melody = int(melody) if melody.isdigit() else None
        self.vocabulary: Vocabulary = tokenizer.vocabulary

    def row(
        self,
        task: str,
        ids: np.ndarray,
        random: np.random.Generator,
        *,
        begins: bool,
        ends: bool,
        budget: int,
        piece_id: int = 0,
    ) -> Row | None:
        """The window ``ids`` as a row of at most ``budget`` places; None where it does not suit.

        begins  a piece begins with it;  ends  a piece ends with it

        Targets are the tokens of the music, not controls nor what is given ahead.
        """
        arranged = self.arranged(task, ids, random, begins, ends, budget)
        if arranged is None:
            return None
        sequence, scored = arranged
        targets = np.where(scored, sequence, UNSCORED)[1:]
        return Row(sequence[:-1], targets, np.full(len(targets), piece_id, np.int64))

    def arranged(
        self,
        task: str,
        ids: np.ndarray,
        random: np.random.Generator,
        begins: bool,
        ends: bool,
        budget: int,
    ) -> tuple[np.ndarray, np.ndarray] | None:
        """(n,) int64 ids of the whole window, and which of them are targets; None if it does not
        suit."""
        raise NotImplementedError

    def _levels(self, music: Score, seconds: float, random: np.random.Generator) -> list[int]:
        """The levels of the controls of some ``music``; some of them left out."""
        levels = controls.levels(controls.measured(music.notes, seconds))
        dropped = random.random(len(levels)) < DROPPED_SHARE
        if random.random() < self.no_controls_share:
            dropped[:] = True
        return np.where(dropped, 0, levels).tolist()


def skyline(start: np.ndarray, stop: np.ndarray, pitch: np.ndarray) -> np.ndarray:
    """(n,) bool: the notes above which none sounds when they begin."""
    sounds = (start[:, None] <= start) & (stop[:, None] > start)  # (which, when)
    highest: np.ndarray = np.logical_not((sounds & (pitch[:, None] > pitch)).any(0))
    return highest


def voice_of_some(
    notes: np.ndarray,
    among: np.ndarray,
    stop: np.ndarray,
    skyline_share: float,
    random: np.random.Generator,
) -> np.ndarray:
    """(n,) bool: of the pitched notes ``among`` some, which end at ``stop``, the skyline, or those
    above or below a random pitch."""
    if not among.any():
        return among
    voice = np.zeros(len(notes), bool)
    if random.random() < skyline_share:
        some = notes[among]
        voice[among] = skyline(some["start"], stop[among], some["pitch"])
        return voice
    limit = np.quantile(notes["pitch"][among], random.uniform(0.25, 0.75))
    above = notes["pitch"] >= limit
    voice[among] = (above if random.random() < 0.5 else ~above)[among]
    return voice
