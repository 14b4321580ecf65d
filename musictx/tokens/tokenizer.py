"""The class that tokenizers derive from, and that of their grammars."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from musictx.grid import in_time
from musictx.notes import Score
from musictx.tokens.clock import Clock
from musictx.tokens.sounding import Change, Sounding
from musictx.tokens.vocab import BOS, CUT, Vocabulary

if TYPE_CHECKING:
    from musictx.config import SamplingConfig


@dataclass(frozen=True)
class NoteEvents:
    """What each id does to notes, where strikes and releases are tokens. Arrays (size,) of int64:

    strike   the pitch that an id strikes, -1 if none; released by another id later
    release  the pitch that an id releases, -1 if none
    program  the program that an id makes the current one, -1 if none
    lead     (bool) ids that stand for nothing but the strike that follows, such as a velocity
    wait     (float) by how much time passes, as a share of the longest such id; 0 for others
    longest_wait  seconds that this longest one takes; ``None`` where they depend on the tempo
    """

    strike: np.ndarray
    release: np.ndarray
    program: np.ndarray
    lead: np.ndarray
    wait: np.ndarray
    longest_wait: float | None = None


class GrammarState:
    """A half-written piece: what may follow, what sounds, and where in time it has come.

    Mutable and cheap: one a row while sampling. Starts before the first event (after bos/cut). A
    grammar writes what raises ``NotImplementedError`` here.
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary
        self._ids = {kind: slice(*vocabulary.range(kind)) for kind in vocabulary.kinds}
        #: Notes that wait for a release; always empty where notes are written with their length.
        self.sounding = Sounding()
        #: Notes struck so far.
        self.notes = 0
        self._mask: np.ndarray | None = None  # what may come next, where that has been asked

    @property
    def seconds(self) -> float:
        """Time from the start of the piece to the present moment of the writing."""
        raise NotImplementedError

    def end_of_bars(self, bars: int) -> float | None:
        """The time at which so many bars from the start of the piece end, if all to come are as
        long as the present one; ``None`` where no bar line is written."""
        return None

    def _allowed(self) -> np.ndarray:
        """What :meth:`allowed` gives."""
        raise NotImplementedError

    def _take(self, kind: str, value: int) -> Sequence[Change] | None:
        """What :meth:`advance` does with an id that may come, and gives."""
        raise NotImplementedError

    def _passes(self, token_id: int) -> bool:
        """Whether the next id of a prefix is a control, or known ahead; called once for each id."""
        return False

    def _cut(self) -> None:
        """The piece does not begin here: something stood before."""

    def _where(self) -> str:
        """Where the next id stands, for people."""
        return "here"

    def _may_come(self, token_id: int) -> bool:
        """``allowed()[token_id]``; a grammar may know it for one id alone at less cost."""
        return bool(self.allowed()[token_id])

    def allowed(self) -> np.ndarray:
        """(vocab,) bool, read-only: ids that may come next, at least one. ``pad``, ``bos``, ``cut``
        never; ``eos`` where the piece may end."""
        if self._mask is None:
            self._mask = self._allowed()
            self._mask.setflags(write=False)
        return self._mask

    def advance(self, token_id: int) -> Sequence[Change] | None:
        """Write one id, and give what it does to notes; ``None`` from tokens that show it only when
        a piece is whole. Raises ``ValueError`` if it is not allowed here."""
        table = self._vocabulary
        inside = 0 <= token_id < table.size
        if not inside or not self._may_come(token_id):
            name = table.describe(token_id) if inside else f"id {token_id} (of {table.size})"
            raise ValueError(f"{name} is not allowed {self._where()}")
        self._mask = None
        return self._take(*table.tokens[token_id])

    def read(self, prefix: np.ndarray | Sequence[int]) -> None:
        """Advance by all of ``prefix`` that is of the piece: one ``bos`` or ``cut`` before it, and
        what stands ahead, is passed over. Raises ``ValueError`` naming the place of the first id
        that cannot stand there."""
        for place, token_id in enumerate(np.asarray(prefix).reshape(-1).tolist()):
            if place == 0 and token_id in (BOS, CUT):
                if token_id == CUT:
                    self._cut()
            elif not self._passes(token_id):
                try:
                    self.advance(token_id)
                except ValueError as error:
                    raise ValueError(f"token {place}: {error}") from None

    def copy(self) -> Self:
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__)
        other.sounding = self.sounding.copy()
        return other


#: A penalty: (states of B rows, ids (B, n) so far, ``bos`` or ``cut`` first) -> float64
#: (B, V) or (V,): nats taken off the logit of each next id; negative ones favour an id, and an
#: infinite one forbids it as long as another id is left. ``None``: none of them costs anything.
Penalty = Callable[[Sequence[GrammarState], np.ndarray], np.ndarray | None]


class Tokenizer:
    """Score <-> ids. Everything after it (shards, model, sampling) knows ids only.

    ``encode`` and ``decode`` speak of bare events: no pad, bos, eos or cut. Those are added by
    whoever lays out windows (``data/windows.py``) or samples (``sampling/engine.py``). A tokenizer
    has a ``name`` and a ``vocabulary`` and writes what raises ``NotImplementedError`` here; the
    rest has defaults, or follows from the vocabulary.
    """

    #: Under which ``tokens.build`` makes it.
    name: str
    #: The table of its ids, from which the features of a network read what each says.
    vocabulary: Vocabulary
    #: To be raised when the same score would encode differently with the same vocabulary.
    rules: int = 1
    #: Ids that a network takes as one step, the fields of a note; windows begin with the first.
    group: int = 1
    #: Whether time is counted in beats; otherwise in seconds, and a bar means nothing.
    beats: bool = False
    #: How many voices take turns, a token each and step by step; 0: tokens are not voices in turn.
    voices: int = 0
    #: What ``sampling.top_p`` is unless it is given.
    top_p: float = 0.95
    #: Whether its penalties include rules of composition, such as voice leading;
    #: ``sampling.rules`` is the penalty for breaking one.
    has_rules: bool = False

    def encode_with_report(self, score: Score) -> tuple[np.ndarray, Mapping[str, int]]:
        """(n,) uint16 event ids of a whole piece; empty if nothing in it can be written. And what
        was left out: reason -> number of notes."""
        raise NotImplementedError

    def decode(self, ids: np.ndarray | Sequence[int]) -> Score:
        """Any ids -> a playable Score; specials are skipped, notes left open end with the piece.
        Notes stand in the order in which they were struck, so of ``prefix + more`` the first
        ``grammar(prefix).notes`` are the notes of ``prefix``."""
        raise NotImplementedError

    def state(self) -> GrammarState:
        """The grammar's state at the beginning of a piece."""
        raise NotImplementedError

    def augment(
        self, ids: np.ndarray, *, semitones: int = 0, stretch: float = 1.0
    ) -> np.ndarray | None:
        """A window of a piece, transposed and stretched in time (2.0 = twice as long); ``None`` if
        a note would leave the range. Identity settings return the ids unchanged. The result may be
        longer or shorter."""
        raise NotImplementedError

    def to_config(self) -> dict[str, Any]:
        """JSON-able description from which ``tokens.build(**config)`` makes an equal tokenizer."""
        raise NotImplementedError

    @property
    def events(self) -> Tokenizer:
        """The tokenizer of bare events, with which corpora are prepared: without control tokens.
        Its ids are the first of this one's, with the same meaning."""
        return self

    @property
    def note_events(self) -> NoteEvents | None:
        """Which ids strike and release; ``None`` where notes are written with their length."""
        return None

    def clock(self, score: Score) -> Clock:
        """The seconds of ``score`` for those that its ids count."""
        return Clock(score.beats)

    def in_time(self, score: Score) -> Score:
        """``score`` with the beats that its ids count, where they count beats."""
        return in_time(score) if self.beats else score

    def merged(self, score: Score) -> int:
        """How many tracks of ``score`` the ids no longer tell from another."""
        return 0

    def moved(self, score: Score) -> int:
        """How many notes of ``score`` begin off the grid on which the ids can write them."""
        return 0

    def opening(self, ids: np.ndarray, start: int) -> int:
        """Where to begin a window of the piece ``ids`` that was to begin at ``start``: there, or at
        a better place before it."""
        return start

    def soft_constraints(self, sampling: SamplingConfig) -> Sequence[Penalty]:
        """What these tokens add to sampling with these options, such as rules of voice leading."""
        return ()

    def grammar(self, prefix: np.ndarray | Sequence[int] = ()) -> Any:
        """The state after ``prefix`` (:meth:`GrammarState.read`)."""
        state = self.state()
        state.read(prefix)
        return state

    def encode(self, score: Score) -> np.ndarray:
        """The ids of :meth:`encode_with_report`."""
        return self.encode_with_report(score)[0]

    @property
    def align(self) -> int:
        """Windows of a piece begin at multiples of so many events."""
        return max(self.group, self.voices)

    @property
    def size(self) -> int:
        """How many ids, specials included."""
        return self.vocabulary.size

    @property
    def fingerprint(self) -> str:
        """16 hexadecimal digits of the vocabulary and every option that changes the encoding."""
        described = [self.rules, self.vocabulary.fingerprint, sorted(self.to_config().items())]
        return hashlib.sha256(json.dumps(described).encode()).hexdigest()[:16]

    @property
    def kinds(self) -> tuple[str, ...]:
        """The names of the kinds of ids, such as note_on."""
        return self.vocabulary.kinds

    @property
    def kind_of(self) -> np.ndarray:
        """(size,) int64: for each id the index of its kind in :attr:`kinds`."""
        return self.vocabulary.kind_of

    @cached_property
    def pitch_of(self) -> np.ndarray:
        """(size,) int64: the pitch that each id strikes or sounds (drums have none), -1 if none."""
        return self.vocabulary.values("pitch" if "pitch" in self.kinds else "note_on")
