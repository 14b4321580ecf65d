"""Bar tokens: the grid, bars and meters, chords, long notes, the grammar and its limits."""

from unittest.mock import patch

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from musictx.data.statistics import Habit
from musictx.notes import DRUMS, Score
from musictx.sampling.infill import NewNoteLimits
from musictx.songs import bar_constraint
from musictx.songs.bars import Bars
from musictx.tokens.build import build
from musictx.tokens.stream import CHORD
from musictx.tokens.vocab import EOS
from tests.pieces import score
from tests.tokens.test_spelling import BARS as TOKENIZERS


def words(tokenizer, ids):
    return [tokenizer.vocabulary.describe(int(i)) for i in ids]


def test_a_bar_as_ids():
    notes = [(0.0, 0.5, 60), (1.0, 2.0, 36, 100, 0, True, 1)]
    piece = score(notes, meter=(3, 4), markers=((0.0, "C:maj"),))
    assert " ".join(words(TOKENIZERS[0], TOKENIZERS[0].encode(piece))) == (
        "bar numerator:3 denominator:2 section:0 place:0 "
        "place:0 harmony root:0 quality:1 none "
        "place:0 program:0 pitch:60 length:24 velocity:4 "
        "place:48 drums drum:36 none velocity:7"
    )


def test_a_meter_that_begins_where_the_music_ends_is_that_of_the_next_bar():
    """In every tempo, although both are in seconds."""
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


@patch.object(bar_constraint, "WINDOW_STEPS", WINDOW)
@settings(max_examples=40)
@given(
    st.dictionaries(st.sampled_from([CHORD, 0, 5, DRUMS]), TONES, min_size=1),
    st.dictionaries(st.sampled_from([0, 5]), st.integers(1, 2)),
    st.dictionaries(st.sampled_from([0, DRUMS]), st.integers(1, 3)),
    st.sampled_from([(), (0,)]),
    st.integers(0, 10_000),
)
def test_limits_of_parts_hold_and_allow_any_other_note(tones, voices, struck, shared, seed):
    random = np.random.default_rng(seed)
    state = FEW.grammar([WORDS.id(*token) for token in LINE])
    habits = {
        part: Habit(voices.get(part, 99), 0, 127, densest=struck.get(part, np.inf))
        for part in {*voices, *struck}
    }
    new = NewNoteLimits(WORDS, parts=tones, habits=habits)
    limits = bar_constraint.PartLimits(new, state, shared=shared)
    for part, pitches in tones.items():
        new.tones(part)[:] = np.isin(np.arange(128), pitches)
    new.tones(CHORD)[:12] = CHORD in tones
    line, steps, group, last = 0, 48, [], (0, -2, -1)
    sounding: list[tuple[int, int, int, int]] = []  # part, tone, begin, end
    begun: list[tuple[int, int]] = []  # part, begin

    def left(part, place):
        """Return the tones that may follow, by loops; of a chord, all roots."""
        if part == CHORD:
            return list(range(12)) if (place, part) > last[:2] else []
        step = line + place
        held = {tone for of, tone, begin, end in sounding if of == part and begin <= step < end}
        recent = sum(of == part and begin > step - WINDOW for of, begin in begun)
        if len(held) >= voices.get(part, 99) or recent >= struck.get(part, 99):
            return []
        taken = set() if part in shared else held
        return sorted(t for t in tones.get(part, []) if (place, part, t) > last and t not in taken)

    for _ in range(150):
        allowed = state.allowed().copy()
        limits.restrict(allowed)
        assert allowed.any()
        if not group:
            places = set(np.flatnonzero(allowed[slice(*WORDS.range("place"))]).tolist())
            grid = (place for place in range(steps) if place % 3 == 0 or place % 4 == 0)
            expected = {place for place in grid if any(left(part, place) for part in tones)}
            ends = {end - line for *_, end in sounding}  # a tied note may begin off the grid
            assert expected <= places <= expected | ends
        elif len(group) == 2 and group[1][0] in ("program", "drums"):
            kind, part = ("drum", DRUMS) if group[1][0] == "drums" else ("pitch", group[1][1])
            ids = np.flatnonzero(allowed[slice(*WORDS.range(kind))]) + WORDS.range(kind)[0]
            assert WORDS.value_of[ids].tolist() == left(part, group[0][1])
        token = int(random.choice(np.flatnonzero(allowed)))
        if token == EOS:
            return
        state.advance(token)
        group.append(WORDS.token(token))
        if len(group) < 5:
            continue
        (first, place), (kind, part), (_, tone), (_, length), (last_kind, last_value) = group
        if first == "bar":
            line, full = round(state.seconds * 48), 96 * part // 2**tone
            steps, last = min(last_value or full, full), (0, -2, -1)
        else:
            part = {"harmony": -1, "drums": DRUMS}.get(kind, part)
            last = (place, part, tone)
            begun += [(part, line + place)] * (last_kind != "tie" and part >= 0)
            sounding += [(part, tone, line + place, line + place + length)] * (kind == "program")
        group = []


def test_empty_bars_have_a_line_each_except_before_the_music():
    tokenizer, piece = TOKENIZERS[3], score([(4.0, 5.0), (16.0, 16.1)], bpm=60.0)
    assert tokenizer.clock(piece).offset == 4.0
    line = ["bar", "numerator:4", "denominator:2", "section:0", "place:0"]
    ids = words(tokenizer, tokenizer.encode(piece))
    assert [ids[at : at + 5] for at in (0, 10, 15)] == [line] * 3
    assert [ids[at] for at in (5, 20, 25)] == ["place:0", "bar", "place:0"]


def test_meters_outside_of_the_vocabulary_become_common_time():
    def row(meter):
        return Bars(Score(meters=[(0.0, *meter)]), 1.0).rows[0].tolist()

    assert (row((24, 16)), row((6, 32))) == ((24, 4, 0), (6, 5, 0))
    for meter in ((255, 4), (3, 64), (3, 3), (33, 32), (17, 8)):
        assert row(meter) == (4, 2, 0)
