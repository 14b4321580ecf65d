"""Notes in bars are held to tones and to notes at once, and no place is left without one."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from musictx.card import CorpusStats, Habit
from musictx.config import SamplingConfig
from musictx.notes import DRUMS, NOTE, Score
from musictx.sampling import idiom
from musictx.sampling.primer import NOTHING, encode_primer
from musictx.tokens.build import build
from musictx.tokens.stream import DRUM_PART

TOKENS = build("notes", low=60, high=66, velocity_bins=2)
TABLE = TOKENS.vocabulary
LINE = [("bar", 0), ("numerator", 2), ("denominator", 2), ("section", 0), ("place", 0)]
WINDOW = 30
TONES = st.lists(st.integers(60, 66), max_size=3, unique=True)


def is_among(some):
    return np.isin(np.arange(128), some)


def grid_places(steps):
    return [step for step in range(steps) if step % 3 == 0 or step % 4 == 0]


@settings(max_examples=40, deadline=None)
@given(
    st.dictionaries(st.sampled_from([0, 5, DRUM_PART]), TONES, min_size=1),
    st.dictionaries(st.sampled_from([0, 5]), st.integers(1, 2)),
    st.dictionaries(st.sampled_from([0, DRUM_PART]), st.integers(1, 3)),
    st.integers(0, 10_000),
)
def test_a_walk_keeps_what_it_is_held_to_and_may_go_wherever_a_note_is_left(
    sets, voices, struck, seed
):
    random = np.random.default_rng(seed)
    state = TOKENS.grammar([TABLE.id(*token) for token in LINE])
    state.hold({part: is_among(some) for part, some in sets.items()}, voices, struck, WINDOW)
    line, steps, group, last = 0, 48, [], (0, -2, -1)
    notes: list[tuple[int, int, int, int]] = []  # part, tone, begin, end
    begun: list[tuple[int, int]] = []  # part, begin

    def left(part, place):
        """Tones by loops."""
        at = line + place
        if sum(of == part and begin <= at < end for of, _, begin, end in notes) >= voices.get(
            part, 99
        ):
            return []
        if (place, part) < last[:2]:
            return []
        recent = sum(of == part and begin > at - WINDOW for of, begin in begun)
        if recent >= struck.get(part, 99):
            return []
        again = (place, part) == last[:2]
        return [tone for tone in sets.get(part, []) if not again or tone > last[2]]

    for _ in range(150):
        allowed = state.allowed()
        assert allowed.any()
        if not group:
            ids = slice(*TABLE.range("place"))
            expected = [p for p in grid_places(steps) if p >= last[0]]
            empty = last == (0, -2, -1)
            expected = [
                p for p in expected if any(left(part, p) for part in sets) or (empty and p == 0)
            ]
            ends = {end - line for _, _, _, end in notes}  # a tie may lie beside the grid
            found = set(np.flatnonzero(allowed[ids]).tolist())
            assert set(expected) <= found <= {*expected, *ends}
        elif len(group) == 1 and group[0][0] == "place":
            parts = [part for part in sets if left(part, group[0][1])]
            programs = np.flatnonzero(allowed[slice(*TABLE.range("program"))]).tolist()
            assert programs == sorted({*parts} - {DRUM_PART})
            assert allowed[TABLE.id("drums")] == (DRUM_PART in parts)
        token = int(random.choice(np.flatnonzero(allowed)))
        if TABLE.token(token)[0] == "eos":
            return
        state.advance(token)
        group.append(TABLE.token(token))
        if len(group) < 5:
            continue
        (first, place), (kind, part), (_, tone), (_, length), _ = group
        if first == "bar":
            line, full = round(state.seconds * 48), 96 * part // 2**tone
            steps = min(group[4][1] or full, full)
            last = (0, -2, -1)
        else:
            part = {"harmony": -1, "drums": DRUM_PART}.get(kind, part)
            if part >= 0:
                assert tone in left(part, place)
            last = (place, part, tone)
            begun += [(part, line + place)] * (group[4][0] != "tie" and part >= 0)
            if kind == "program":
                notes.append((part, tone, line + place, line + place + length))
        group = []


def test_parts_keep_to_the_corpus_and_to_what_the_primer_has_beyond_it():
    limits = CorpusStats(
        instruments=frozenset([0, 5, DRUMS]),
        parts={0: Habit(1, 61, 63), 5: Habit(2, 60, 66), DRUMS: Habit(3, 35, 50)},
    )
    rows = [(0.0, 1.0, 61, 64, 0, False, 0), (0.0, 1.0, 66, 64, 0, False, 0)]
    rows += [(1.0, 2.0, 62, 64, 9, False, 1)]
    primer = encode_primer(TOKENS, Score(np.array(rows, NOTE)))

    def held(primer, sampling=None, **values):
        state = primer.state(TOKENS)
        idiom.of(TOKENS).hold([state], [primer], sampling or SamplingConfig(), limits, [values])
        tones = {part: np.flatnonzero(some).tolist() for part, some in state._tones.items()}
        return tones, state._voices

    tones, voices = held(NOTHING)
    assert tones == {0: [61, 62, 63], 5: [*range(60, 67)], DRUMS: [*range(128)]}
    assert voices == {0: 1, 5: 2, DRUMS: 3}
    tones, voices = held(primer)
    assert tones == {0: [*range(61, 67)], 9: [*range(60, 67)]}, "its parts, 66 as in the primer"
    assert voices[0] == 2
    every = [*range(60, 67)]
    assert held(primer, SamplingConfig(habits=False))[0] == {0: every, 9: every}
    assert held(primer, polyphony=4.0)[1] == {0: DRUMS, 9: DRUMS}
    assert held(NOTHING, register=64.0)[0][0] == every
    assert held(NOTHING, SamplingConfig(low="65"))[0][0] == [65, 66]


@pytest.mark.parametrize(
    ("begun", "again"),
    [
        ([("place", 0), ("program", 0)], ("pitch", 61)),
        ([("place", 0), ("program", 1)], None),
        ([("place", 12), ("program", 0)], None),
    ],
)
def test_the_last_note_is_not_written_again(begun, again):
    note = [("place", 0), ("program", 0), ("pitch", 61), ("length", 12), ("velocity", 1)]
    state = TOKENS.grammar([TABLE.id(*token) for token in [*LINE, *note]])
    state.hold({part: np.ones(128, bool) for part in range(DRUMS + 1)}, {})
    for token in begun:
        state.advance(TABLE.id(*token))
    found = np.flatnonzero(state.allowed()[slice(*TABLE.range("pitch"))]) + 60
    assert found.tolist() == ([*range(62, 67)] if again else [*range(60, 67)])
