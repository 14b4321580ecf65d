"""The order of tokens in a window with controls and given notes, in training and in generation.

::

    bos|cut  density loudness register polyphony  [known K]  stream P  [here M]

The controls describe the stream, P and M. K are the given notes from the time of ``here`` on; their
times count from there, so the silence before the first says how long a gap is. The stream has all
notes in the usual order, the given ones once more: P up to ``here``, M from there on. What sounds,
its loudness and the program go on across ``here``; K leaves nothing behind
(``features/sounding.py`` begins anew at ``known`` and ``stream``).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from musictx.tokens import events as ev
from musictx.tokens.controls import CONTROL_KINDS, CONTROLS, HERE, KNOWN, STREAM
from musictx.tokens.vocab import Vocabulary

#: Most ids of a window without K, P and M: its first id, the controls, the marks, ``eos``.
IDS_AROUND = 2 + len(CONTROL_KINDS)


class WindowParts(NamedTuple):
    """A window but for its first id and ``eos``: int64 ids.

    front  the controls, K and ``stream``;  past  P and ``here``;  rest  M
    """

    front: np.ndarray
    past: np.ndarray
    rest: np.ndarray


def parts(
    vocabulary: Vocabulary,
    levels: Sequence[int],
    past: np.ndarray,
    rest: np.ndarray | None = None,
    *,
    stop: int,
    here: int | None = None,
    known: np.ndarray | None = None,
    free: int | None = None,
) -> WindowParts:
    """Events (:data:`musictx.tokens.events.EVENT`), in order, as the parts of a window.

    levels  of the controls, 0 for any
    past    events before the step ``here``; all of them where there is none
    rest    events from ``here`` on;  stop  the step up to which time is written
    known   given events from ``here`` on; None leaves K out
    free    most ids of the three parts together; K loses its latest events
    """
    p = ev.write(past, vocabulary, stop if here is None else here).astype(np.int64)
    m = np.empty(0, np.int64)
    if here is not None:
        p = np.append(p, vocabulary.id(HERE))
        if rest is not None:
            m = _from(rest, here, vocabulary, stop, past)
    k = None
    if known is not None:
        room = None if free is None else free - len(p) - len(m) - len(CONTROLS) - 2
        k = whole(_from(known, here or 0, vocabulary), room, vocabulary)
    return WindowParts(front(vocabulary, levels, k), p, m)


def front(
    vocabulary: Vocabulary, levels: Sequence[int], given: np.ndarray | None = None
) -> np.ndarray:
    """What stands between the first id and the stream: (n,) int64; ``given`` are the ids of K."""
    ids = [vocabulary.id(name, value) for name, value in zip(CONTROLS, levels)]
    if given is not None:
        ids += [vocabulary.id(KNOWN), *given.tolist()]
    return np.array([*ids, vocabulary.id(STREAM)], np.int64)


def _from(
    events: np.ndarray,
    here: int,
    vocabulary: Vocabulary,
    stop: int | None = None,
    after: np.ndarray | None = None,
) -> np.ndarray:
    moved = events.copy()
    moved["step"] -= here
    last = None if stop is None else stop - here
    return ev.write(moved, vocabulary, last, after).astype(np.int64)


def whole(ids: np.ndarray, room: int | None, vocabulary: Vocabulary) -> np.ndarray:
    """The first ``room`` ids, but for what leads to an event that is no longer there."""
    if room is None or len(ids) <= room:
        return ids
    names = set(ev.KINDS) & set(vocabulary.kinds)
    kinds = [vocabulary.kinds.index(name) for name in names]
    last = np.flatnonzero(np.isin(vocabulary.kind_of[ids[: max(room, 0)]], kinds))
    return ids[: last[-1] + 1 if len(last) else 0]
