"""Drum styles: drummers, with the probability of a hit of each kind at each position in a bar.

A model card may contain drummers by style (``scripts/ships/song.yaml``). A drum part is steered
towards one of them: the log-probabilities that this drummer gives to the next hit, and to the
silence before it, are added to the logits of the model.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Mapping, Sequence

import numpy as np

from musictx.bundle import Bundle
from musictx.config.checks import require
from musictx.notes import DRUMS
from musictx.sampling.constants import SECTION_BARS
from musictx.songs.bars import STEP_SECONDS
from musictx.songs.constants import GREATEST_PROBABILITY, LEAST_PROBABILITY, STYLE_WEIGHT
from musictx.tokens.stream import STEPS_PER_QUARTER

#: The drums of a kit by kind, with their numbers in General MIDI; drummers play no other drums.
KINDS = {
    "kick": (36,),
    "snare": (38,),
    "hat": (42, 46),
    "tom": (43, 45, 47, 48, 50),
    "crash": (49, 57),
    "ride": (51, 53, 59),
    "side stick": (37,),
    "pedal hat": (44,),
}
KICK, HAT, CRASH = (list(KINDS).index(kind) for kind in ("kick", "hat", "crash"))
#: The steps of a quarter note at which a drummer may hit a drum: sixteenths and triplet eighths.
PLACES = (0, 6, 8, 12, 16, 18)
#: Quarter notes in a bar of a drummer: 4/4.
QUARTERS = 4
#: The entries of the card with the default style, and with the fills at the end of a section.
USUAL, FILLS = "usual", "fills"

#: (128,) the number of the kind of each drum; len(KINDS) for a drum of no kind.
KIND_OF = np.full(128, len(KINDS))
for _number, _kind in enumerate(KINDS.values()):
    KIND_OF[[*_kind]] = _number
#: (128,) whether drummers play each drum.
IN_KIT = np.isin(np.arange(128), [*itertools.chain(*KINDS.values())])


def to_text(rates: np.ndarray) -> str:
    """A drummer as text for the card. ``rates`` (kinds, quarters * places) are the shares of bars
    that have a hit of each kind at each place; the text has a digit for each: 9 times the share."""
    return " ".join("".join(map(str, row)) for row in np.round(9 * rates.clip(0, 1)).astype(int))


def from_text(drummer: str) -> np.ndarray:
    """(kinds, steps of a bar) the probability of a hit of each kind at each step, from the text of
    :func:`to_text`. Cards of version 1.0 have no rows for the side stick and the pedal hat."""
    rows = np.array([[int(digit) for digit in row] for row in drummer.split()]) / 9
    rows = rows.clip(0.0, GREATEST_PROBABILITY)
    steps = [STEPS_PER_QUARTER * quarter + at for quarter in range(QUARTERS) for at in PLACES]
    rates = np.zeros((len(KINDS), QUARTERS * STEPS_PER_QUARTER))
    rates[: len(rows), steps] = rows
    return rates


def beats_of(numerator: int, denominator: int) -> tuple[int, bool]:
    """The number of beats in a bar of a meter, and whether they are dotted quarter notes. The
    number is 0 if drummers do not play this meter: they play bars of 2 to 4 beats."""
    is_dotted = denominator == 8 and numerator % 3 == 0
    beats = numerator / 3 if is_dotted else 4 * numerator / denominator
    return (int(beats) if beats in (2, 3, 4) else 0), is_dotted


def in_meter(rates: np.ndarray, beats: int, is_dotted: bool) -> np.ndarray:
    """The ``rates`` (K, 96) of a bar of 4/4 in a bar of :func:`beats_of` a meter: those of its
    first beats and of its last, so that 3/4 has a kick and two snares. A hit in a dotted beat is on
    the nearest of its three eighths (of two, the later); hats on the third are also on the
    second."""
    rates = rates.reshape(len(rates), QUARTERS, -1)[:, [*range(beats - 1), QUARTERS - 1]]
    if is_dotted:
        eighths = np.maximum.reduceat(rates, [0, 4, 12], axis=2)
        eighths[HAT, :, 1] = eighths[HAT, :, 2]
        rates = np.zeros((*eighths.shape, STEPS_PER_QUARTER // 2))
        rates[..., 0] = eighths
    return rates.reshape(len(rates), -1)


class Drummer:
    """The probabilities that one drummer gives to the next hit in an unfinished bar.

    rates   (K, S) the probability of a hit of each of K kinds at each of S steps
    weight  the factor of all log-probabilities
    drums   (n,) the drums of the vocabulary, as MIDI numbers in ascending order
    fill    (K, S) replaces ``rates`` in the last bar of a section, from the first hit of the fill
            on, if it has any; the next section then begins with a kick and a crash cymbal

    closing, opening  this drummer in the last and the first bar of a section
    """

    def __init__(
        self, rates: np.ndarray, weight: float, drums: np.ndarray, fill: np.ndarray | None = None
    ) -> None:
        self.steps, self.weight = rates.shape[1], weight
        self.closing = self.opening = self
        if fill is not None:
            opening = rates.copy()
            opening[:, 0] = 0.0  # with a hat, a crash would be a soft stroke
            opening[[KICK, CRASH], 0] = 1.0  # certain, whatever the model prefers
            begin = next(iter(np.flatnonzero(fill.any(0))), self.steps)
            closing = np.concatenate([rates[:, :begin], fill[:, begin:]], axis=1)
            self.closing = Drummer(closing, STYLE_WEIGHT, drums)
            self.opening = Drummer(opening, STYLE_WEIGHT, drums)
        self.kinds = KIND_OF[drums]
        extended = np.append(rates, np.zeros((1, self.steps)), axis=0)  # for drums of no kind
        self._log_hit = weight * np.log(extended.clip(LEAST_PROBABILITY, 1.0))
        self._log_rest = weight * np.log1p(-rates.clip(0.0, 1.0 - np.finfo(float).eps))
        #: ln p of no hit from the beginning of the bar to before each step.
        self._log_silence = np.append(0.0, self._log_rest.sum(0).cumsum())
        #: The highest drum of each kind. Drums of one step come in the order of their numbers, so
        #: after a higher one the kind cannot come.
        kinds = range(len(KINDS))
        self._last = np.array([np.append(drums[self.kinds == n], -1).max() for n in kinds])
        self._drums, self._rates, self._fill = drums, rates, fill

    def in_meter(self, numerator: int, denominator: int) -> Drummer | None:
        """This drummer of 4/4 in bars of a meter; ``None``: drummers do not play it. Other meters
        than 4/4, in which the model has seen few drums, have the weight ``STYLE_WEIGHT``."""
        beats, is_dotted = beats_of(numerator, denominator)
        if not beats or (beats, is_dotted) == (QUARTERS, False):
            return self if beats else None
        fill = None if self._fill is None else in_meter(self._fill, beats, is_dotted)
        return Drummer(in_meter(self._rates, beats, is_dotted), STYLE_WEIGHT, self._drums, fill)

    def _possible(self, struck: Sequence[int]) -> np.ndarray:
        """(K,) bool: the kinds that may still be struck at a step after the drums ``struck``. Drums
        of one step are written in the order of their numbers, at most one of each kind."""
        possible: np.ndarray = self._last > max(struck, default=-1)
        possible[[kind for kind in KIND_OF[[*struck]] if kind < len(KINDS)]] = False
        return possible

    def log_prob_silence(self, step: int, struck: Sequence[int]) -> np.ndarray:
        """(S + 1,) ln p that no further hit comes before each step; the last entry is for the
        end of the bar, those before ``step`` are undefined. ``struck``: the drums of ``step``."""
        nats = self._log_silence - self._log_silence[step]
        # Of this step, only the kinds that may still be struck count.
        still = self._log_rest[self._possible(struck), step].sum()
        nats[step + 1 :] += still - self._log_rest[:, step].sum()
        nats[step] = 0.0
        return nats

    def log_prob_hit(self, step: int, struck: Sequence[int]) -> float:
        """ln p of at least one further hit at ``step``, after the drums ``struck``."""
        log_rest = float(self._log_rest[self._possible(struck), step].sum()) / self.weight
        return self.weight * float(np.log(max(-np.expm1(log_rest), LEAST_PROBABILITY)))

    def log_prob_drum(self, step: int, struck: Sequence[int]) -> np.ndarray:
        """(n,) ln p of each drum as the next one at ``step``, after the drums ``struck``."""
        nats, possible = self._log_hit[self.kinds, step].copy(), self._possible(struck)
        nats[~np.append(possible, False)[self.kinds]] = self.weight * np.log(LEAST_PROBABILITY)
        for kind in np.flatnonzero(possible):
            later = (self._drums > self._last[kind]) & (self.kinds != kind)
            nats[later] += self._log_rest[kind, step]
        return nats


def section_begins(first: int, stop: int, section_bars: Collection[int]) -> set[int]:
    """The numbers of the bars after ``first``, up to ``stop``, that begin a section: those in
    ``section_bars``, and each bar :data:`SECTION_BARS` after the last such bar or ``first``."""
    begins, last_begin = set(), first
    for bar in range(first + 1, stop + 1):
        if bar in section_bars or bar - last_begin == SECTION_BARS:
            begins.add(bar)
            last_begin = bar
    return begins


def choose_drummers(
    bundle: Bundle, named_parts: Mapping[str, int], style: str | None, density: float
) -> list[Drummer]:
    """The drummers of ``style``, or for ``None`` the usual drummers; empty if drums are not among
    the ``named_parts`` to compose. They hit at most ``density`` drums per second of the ids, apart
    from fills; 0: any number. Raises ``UserError`` for a style that the model does not have."""
    drummers = bundle.card.get("drummers") or {}
    styles = [name for name in drummers if name not in (USUAL, FILLS)]
    if DRUMS not in named_parts.values():
        require(style is None, "style", style, "add=drums with it")
        return []
    expected = f"one of {', '.join(styles)}" if styles else "none, since this model has no styles"
    require(style is None or style in styles, "style", style, expected)
    drums = bundle.tokenizer.vocabulary.values_in("drum")
    weight = 1.0 if style is None else STYLE_WEIGHT
    grooves = [*map(from_text, drummers.get(style or USUAL, ()))]
    if density:
        most = density * QUARTERS * STEPS_PER_QUARTER * STEP_SECONDS  # in a bar
        grooves = [rates * most / max(rates.sum(), most) for rates in grooves]
    fills: list[np.ndarray | None] = [*map(from_text, drummers.get(FILLS, ()))] or [None]
    grooves *= math.ceil(len(fills) / max(len(grooves), 1))  # so that every fill is played
    return [
        Drummer(rates, weight, drums, fill) for rates, fill in zip(grooves, itertools.cycle(fills))
    ]
