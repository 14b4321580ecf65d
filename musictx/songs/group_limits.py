"""The tones that new notes in bars may have: what is asked for, and what is usual in the corpus.

A penalty forbids single ids. In bars the place is drawn before the part, and the part
before the pitch, so that a forbidden pitch can be the only one left. Here the grammar knows the
pitches (:meth:`musictx.songs.bar_grammar.BarState.hold`): it allows no place and no part that
leaves none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from musictx.apps.habits import ANY, asked
from musictx.card import WINDOW_SECONDS, CorpusStats, Habit
from musictx.config import SamplingConfig
from musictx.data.statistics import at_once, densest, habit, parts_of
from musictx.notes import DRUMS
from musictx.sampling import pitches
from musictx.sampling.primer import Primer
from musictx.songs.bar_grammar import BarState
from musictx.songs.bar_tokens import BarTokenizer
from musictx.songs.bars import PER_SECOND
from musictx.tokens.tokenizer import GrammarState, Tokenizer


def hold(
    tokenizer: Tokenizer,
    states: Sequence[GrammarState],
    primers: Sequence[Primer],
    sampling: SamplingConfig,
    stats: CorpusStats,
    values: Sequence[Mapping[str, float]],
) -> None:
    """Hold each of ``states``, of tokens in groups, to the parts of its primer or, for a new piece,
    of the corpus; to the pitches that ``sampling`` leaves; and, unless it leaves habits out, to the
    notes at once and the pitches that a part has in the corpus, or in the primer if these are more.
    In a few seconds no part of a primer begins more notes than the densest of its seconds have, or
    than is usual in the corpus.

    values  what is asked of the controls of each
    """
    if not isinstance(tokenizer, BarTokenizer):
        return
    for state, primer, of, inside in zip(
        states, primers, values, pitches.pitch_sets(sampling, primers)
    ):
        assert isinstance(state, BarState)
        habits = _habits(tokenizer, primer, stats)
        if not sampling.habits:
            habits = dict.fromkeys(habits, ANY)
        habits = asked(habits, sampling, of)
        numbers = np.arange(128)
        inside &= (numbers >= tokenizer.low) & (numbers <= tokenizer.high)
        tones = {
            part: inside & (numbers >= one.low) & (numbers <= one.high)
            for part, one in habits.items()
            if part != DRUMS
        }
        if DRUMS in habits:
            tones[DRUMS] = np.ones(128, bool)
        voices = {part: one.voices for part, one in habits.items()}
        struck = {p: int(one.densest) for p, one in habits.items() if np.isfinite(one.densest)}
        state.hold(tones, voices, struck, round(WINDOW_SECONDS * PER_SECOND))


def _habits(tokenizer: BarTokenizer, primer: Primer, stats: CorpusStats) -> dict[int, Habit]:
    """Part -> what is usual in it; of parts in the primer at least what they do there."""
    usual = stats.parts
    if not len(primer.ids):
        parts = primer.plan.parts or stats.instruments or range(DRUMS + 1)
        return {part: usual.get(part, ANY) for part in parts}
    found = {}
    for part, notes in parts_of(tokenizer.decode(primer.ids).notes).items():
        most, low, high, _ = habit([at_once(notes)], [notes["pitch"]], [0.0])
        one = usual.get(part, ANY)
        low, high = min(int(low), one.low), max(int(high), one.high)
        most_struck = max(densest(notes, WINDOW_SECONDS), WINDOW_SECONDS * one.density)
        found[part] = Habit(max(int(most), one.voices), low, high, densest=most_struck)
    return found
