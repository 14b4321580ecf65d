"""Notes in bars: the grid, bars and meters, chords, long notes; the grammar and its limits."""

from __future__ import annotations

import dataclasses
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from musictx.beats import Beats
from musictx.card import Habit
from musictx.notes import Score
from musictx.songs import part_limits
from musictx.songs.bar_codec import FIELDS_PER_NOTE
from musictx.songs.bars import Bars
from musictx.tokens.build import build
from musictx.tokens.stream import DRUM_PART, STEPS
from musictx.tokens.vocab import EOS
from tests.tokens.grids import gridded, on_ticks
from tests.tokens.test_spelling import BARS as TOKENIZERS

quick = settings(deadline=None, max_examples=60)


def words(tokenizer, ids):
    return [tokenizer.vocabulary.describe(int(i)) for i in ids]


@quick
@given(gridded())
def test_a_piece_on_its_grid_comes_back_to_the_tick(piece):
    tokenizer = TOKENIZERS[0]
    assert tokenizer.moved(piece) == 0
    heard = tokenizer.decode(tokenizer.encode(piece)).notes
    clock, begins = Beats(piece), tokenizer.clock(piece).begins
    first = round(float(clock.quarters(begins)) * STEPS)

    def table(notes, start, end):
        rows = zip(start, end, *(notes[c].tolist() for c in ("pitch", "program", "drum")))
        return sorted((s, 0 if row[-1] else e, *row) for s, e, *row in rows)

    found = [np.round(heard[name] * 48).astype(int).tolist() for name in ("start", "end")]
    were = [
        (np.round(clock.quarters(piece.notes[name]) * STEPS).astype(int) - first).tolist()
        for name in ("start", "end")
    ]
    assert table(heard, *found) == table(piece.notes, *were)


@quick
@given(st.sampled_from(TOKENIZERS[:3]), st.data())
def test_whatever_the_grammar_allows_can_be_read(tokenizer, data):
    state, ids = tokenizer.grammar(), []
    for _ in range(data.draw(st.integers(1, 60))):
        mask = state.allowed()
        assert mask.any()
        allowed = np.flatnonzero(mask)
        # Rather notes than bar after bar: the first and the last few ids of each kind.
        token = int(allowed[data.draw(st.integers(0, len(allowed) - 1))])
        with pytest.raises(ValueError, match="not allowed"):
            state.copy().advance(int(np.flatnonzero(~mask)[0]))
        state.advance(token)
        ids.append(token)
        if token == EOS:
            break
    score = tokenizer.decode(ids)
    assert len(score) == state.notes
    begun = ids[: len(ids) // FIELDS_PER_NOTE * FIELDS_PER_NOTE]
    assert tokenizer.decode(begun) == score


def test_a_bar_as_ids():
    piece = on_ticks(
        [(0, 480, 60, 64, 0, False, 0), (960, 1920, 36, 100, 0, True, 1)], meters=[(0, 3, 4)]
    )
    piece = dataclasses.replace(piece, markers=((0.0, "C:maj"),))
    assert " ".join(words(TOKENIZERS[0], TOKENIZERS[0].encode(piece))) == (
        "bar numerator:3 denominator:2 section:0 place:0 "
        "place:0 harmony root:0 quality:1 none "
        "place:0 program:0 pitch:60 length:24 velocity:4 "
        "place:48 drums drum:36 none velocity:7"
    )


def test_a_meter_that_begins_where_the_music_ends_is_that_of_the_next_bar():
    """In every tempo, though both are times in seconds."""
    for bpm in range(40, 241):
        for bars in (1, 2, 5):
            end = bars * 3 * (60 / bpm)
            score = Score(tempos=[(0.0, bpm)], meters=[(0.0, 3, 4), (bars * 180 / bpm, 5, 4)])
            lines = Bars(score, end).lines.tolist()
            assert lines[bars : bars + 2] == [bars * 72, bars * 72 + 120]


FEW = build("notes", low=60, high=66, velocity_bins=2)
WORDS = FEW.vocabulary
WINDOW = 30
LINE = [("bar", 0), ("numerator", 2), ("denominator", 2), ("section", 0), ("place", 0)]
TONES = st.lists(st.integers(60, 66), max_size=3, unique=True)


def is_among(some):
    return np.isin(np.arange(128), some)


def grid_places(steps):
    return [step for step in range(steps) if step % 3 == 0 or step % 4 == 0]


@patch.object(part_limits, "WINDOW", WINDOW)
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
    state = FEW.grammar([WORDS.id(*token) for token in LINE])
    habits = {
        part: Habit(voices.get(part, 99), 0, 127, densest=struck.get(part, np.inf))
        for part in {*voices, *struck}
    }
    tones = {part: is_among(some) for part, some in sets.items()}
    state.hold(tones, part_limits.PartLimits(habits))
    line, steps, group, last = 0, 48, [], (0, -2, -1)
    notes: list[tuple[int, int, int, int]] = []  # part, tone, begin, end
    begun: list[tuple[int, int]] = []  # part, begin

    def left(part, place):
        """Tones by loops."""
        at = line + place
        sounding = sum(of == part and begin <= at < end for of, _, begin, end in notes)
        recent = sum(of == part and begin > at - WINDOW for of, begin in begun)
        if sounding >= voices.get(part, 99) or recent >= struck.get(part, 99):
            return []
        if (place, part) < last[:2]:
            return []
        again = (place, part) == last[:2]
        return [tone for tone in sets.get(part, []) if not again or tone > last[2]]

    for _ in range(150):
        allowed = state.allowed()
        assert allowed.any()
        if not group:
            found = set(np.flatnonzero(allowed[slice(*WORDS.range("place"))]).tolist())
            empty = {0} if last == (0, -2, -1) else set()
            free = {p for p in grid_places(steps) if any(left(part, p) for part in sets)}
            ends = {end - line for _, _, _, end in notes}  # a tie may lie beside the grid
            expected = {p for p in free | empty if p >= last[0]}
            assert expected <= found <= expected | ends
        elif len(group) == 2 and group[1][0] in ("program", "drums"):
            kind, part = group[1]
            kind, part = ("pitch", part) if kind == "program" else ("drum", DRUM_PART)
            ids = np.flatnonzero(allowed[slice(*WORDS.range(kind))]) + WORDS.range(kind)[0]
            assert WORDS.value_of[ids].tolist() == sorted(left(part, group[0][1]))
        token = int(random.choice(np.flatnonzero(allowed)))
        if WORDS.token(token)[0] == "eos":
            return
        state.advance(token)
        group.append(WORDS.token(token))
        if len(group) < 5:
            continue
        (first, place), (kind, part), (_, tone), (_, length), _ = group
        if first == "bar":
            line, full = round(state.seconds * 48), 96 * part // 2**tone
            steps = min(group[4][1] or full, full)
            last = (0, -2, -1)
        else:
            part = {"harmony": -1, "drums": DRUM_PART}.get(kind, part)
            last = (place, part, tone)
            begun += [(part, line + place)] * (group[4][0] != "tie" and part >= 0)
            if kind == "program":
                notes.append((part, tone, line + place, line + place + length))
        group = []


def test_empty_bars_have_a_line_each_and_those_before_the_music_are_left_out():
    notes = [(1920, 2400, 60, 64, 0, False, 0), (1920 * 4, 1920 * 4 + 60, 60, 64, 0, False, 0)]
    tokenizer = TOKENIZERS[3]
    piece = on_ticks(notes, tempos=[(0, 60.0)])
    assert tokenizer.clock(piece).begins == 4.0
    line = ["bar", "numerator:4", "denominator:2", "section:0", "place:0"]
    ids = words(tokenizer, tokenizer.encode(piece))
    assert [ids[at : at + 5] for at in (0, 10, 15)] == [line] * 3
    assert [ids[at] for at in (5, 20, 25)] == ["place:0", "bar", "place:0"]


def test_meters_that_cannot_be_written_are_common_time():
    def of(numerator, denominator):
        return Bars(Score(meters=[(0.0, numerator, denominator)]), 1.0).rows[0].tolist()

    assert of(24, 16) == (24, 4, 0)
    assert of(6, 32) == (6, 5, 0)
    for meter in ((255, 4), (3, 64), (3, 3), (33, 32), (17, 8), (0, 4)):
        assert of(*meter) == (4, 2, 0)
