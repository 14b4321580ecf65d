"""The order of tokens in a window of events with controls and given notes.

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

    prefix  the controls, K and ``stream``;  past  P and ``here``;  rest  M
    """

    prefix: np.ndarray
    past: np.ndarray
    rest: np.ndarray


def build_window(
    vocabulary: Vocabulary,
    levels: Sequence[int],
    past: np.ndarray,
    rest: np.ndarray | None = None,
    given: np.ndarray | None = None,
    *,
    budget: int | None = None,
) -> WindowParts:
    """The ids of P, M and K as the parts of a window, with the ``levels`` of the controls, 0 for
    any.

    rest    M; None leaves ``here`` out
    given   K; None leaves it out
    budget  most ids of the three parts together; K loses its last ones
    """
    past, later = past.astype(np.int64), np.empty(0, np.int64)
    if rest is not None:
        past, later = np.append(past, vocabulary.id(HERE)), rest.astype(np.int64)
    if given is not None and budget is not None:
        room = budget - len(past) - len(later) - len(CONTROLS) - 2
        given = truncated(given, room, vocabulary)
    return WindowParts(control_prefix(vocabulary, levels, given), past, later)


def control_prefix(
    vocabulary: Vocabulary, levels: Sequence[int], given: np.ndarray | None = None
) -> np.ndarray:
    """What stands between the first id and the stream: (n,) int64; ``given`` are the ids of K."""
    ids = [vocabulary.id(name, value) for name, value in zip(CONTROLS, levels)]
    if given is not None:
        ids += [vocabulary.id(KNOWN), *given.tolist()]
    return np.array([*ids, vocabulary.id(STREAM)], np.int64)


def truncated(ids: np.ndarray, room: int, vocabulary: Vocabulary) -> np.ndarray:
    """At most the first ``room`` ids, up to the last complete event: a velocity or time shift whose
    event is cut off is left out, too."""
    if len(ids) <= room:
        return ids
    kinds = [n for n, name in enumerate(vocabulary.kinds) if name in ev.KINDS]
    last = np.flatnonzero(np.isin(vocabulary.kind_of[ids[: max(room, 0)]], kinds))
    return ids[: last[-1] + 1 if len(last) else 0]
