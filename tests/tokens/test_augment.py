"""Stretched windows of events: exactly, and never out of grammar."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from musictx.notes import Score
from musictx.tokens.performance import PerformanceTokenizer
from musictx.tokens.vocab import BOS, EOS
from tests.strategies import scores
from tests.tokens import loops

TOKENIZERS = [
    PerformanceTokenizer(low=10, high=120),
    PerformanceTokenizer(tracks="programs", max_shift_ms=150),
]
tokenizers = st.sampled_from(TOKENIZERS)
factors = st.sampled_from([0.5, 0.95, 0.975, 1.0, 1.025, 1.05, 2.0])
quick = settings(deadline=None, max_examples=60)


@quick
@given(tokenizers, scores(), factors)
def test_stretching_a_piece_is_encoding_the_stretched_piece(tokenizer, piece, factor):
    piece = tokenizer.quantise(piece)
    step = tokenizer.step_ms / 1000
    notes = piece.notes.copy()
    start = np.floor(np.round(notes["start"] / step) * factor + 0.5)
    end = np.floor(np.round(notes["end"] / step) * factor + 0.5)
    notes["start"], notes["end"] = start * step, np.maximum(end, start + 1) * step
    result = tokenizer.augment(tokenizer.encode(piece), stretch=factor)
    assert np.array_equal(result, tokenizer.encode(Score(notes=notes)))


@quick
@given(tokenizers, scores(min_notes=8, max_notes=40), factors, st.data())
def test_a_window_from_inside_a_piece_keeps_every_strike_and_release(
    tokenizer, piece, factor, data
):
    ids = tokenizer.encode(piece)
    assume(len(ids) > 4)
    start = data.draw(st.integers(0, len(ids) - 2))
    window = ids[start : data.draw(st.integers(start + 1, len(ids)))]
    result = tokenizer.augment(window, stretch=factor)

    def events(array: np.ndarray) -> Counter[str]:
        words = loops.describe(tokenizer, array)
        return Counter(w for w in words if w.split(":")[0] in ("note_on", "note_off", "drum"))

    def moments(array: np.ndarray, factor: float) -> list[int]:
        now, strikes = 0, []
        for word in loops.describe(tokenizer, array):
            kind, value = word.split(":")
            now += int(value) if kind == "time_shift" else 0
            if kind in ("note_on", "drum"):
                strikes.append(int(np.floor(now * factor + 0.5)))
        return sorted(strikes)

    def sounds(array: np.ndarray) -> Counter[tuple]:
        notes = tokenizer.decode(array).notes
        return Counter(notes[["pitch", "velocity", "program", "drum"]].tolist())

    assert events(result) == events(window)
    slack = 1 if tokenizer.tracks == "programs" else 0
    assert (
        np.abs(np.subtract(moments(result, 1.0), moments(window, factor))).max(initial=0) <= slack
    )
    assert sounds(result) == sounds(window)


#: A stretch that moves nothing: all that happens is reading and writing.
HARDLY = 1 + 1e-9
plain = scores(
    min_notes=8, max_notes=40, tracks=1, drums=False, pedals=False, overlaps=False, grid=0.01
)


@quick
@given(plain, st.booleans(), st.data())
def test_a_window_written_anew_is_the_same_ids_in_the_same_order(piece, programs, data):
    tokenizer = PerformanceTokenizer(tracks="programs" if programs else "piano")
    notes = piece.notes.copy()
    notes["program"] = notes["pitch"] % 3
    ids = tokenizer.encode(Score(notes=notes))
    assume(len(ids) > 4)
    start = data.draw(st.integers(0, len(ids) - 2))
    window = ids[start : data.draw(st.integers(start + 1, len(ids)))]
    kinds = [word.split(":")[0] for word in loops.describe(tokenizer, window)]
    while kinds and kinds[-1] in ("program", "velocity"):  # not kept, as documented
        kinds.pop()
    assert np.array_equal(tokenizer.augment(window, stretch=HARDLY), window[: len(kinds)])


@pytest.mark.parametrize(
    "window",
    [
        "time_shift:1 note_on:60 time_shift:1 program:3 note_off:70",
        "time_shift:1 program:5 note_on:60 time_shift:1 program:2 velocity:9 note_on:61",
    ],
)
def test_what_a_window_has_not_said_yet_is_not_taken_from_what_it_says_later(window):
    # Squeezed into one step, the later event would sort first and lend its program or loudness.
    tokenizer = TOKENIZERS[1]
    pairs = (word.split(":") for word in window.split())
    ids = np.array([tokenizer.vocabulary.id(kind, int(value)) for kind, value in pairs])
    fields = ["pitch", "program", "velocity"]
    squeezed = tokenizer.decode(tokenizer.augment(ids, stretch=0.5))
    assert squeezed.notes[fields].tolist() == tokenizer.decode(ids).notes[fields].tolist()


@pytest.mark.parametrize("change", [{"semitones": 1}, {"semitones": 1, "stretch": 2.0}])
def test_a_release_of_an_older_note_may_not_leave_the_range(change):
    v = TOKENIZERS[0].vocabulary
    window = np.array([v.id("note_off", 120), v.id("note_on", 60)], np.uint16)
    assert TOKENIZERS[0].augment(window, **change) is None


def test_special_ids_at_the_ends_stay_and_a_pause_at_the_end_is_stretched():
    tokenizer = TOKENIZERS[0]
    v = tokenizer.vocabulary
    window = np.array([BOS, v.id("velocity", 9), v.id("note_on", 60), v.id("time_shift", 50), EOS])
    result = tokenizer.augment(window, semitones=2, stretch=2.5)
    assert [v.describe(i) for i in result] == [
        "bos", "velocity:9", "note_on:62", "time_shift:100", "time_shift:25", "eos",
    ]  # fmt: skip
    assert tokenizer.augment(np.array([BOS, EOS]), stretch=2.0).tolist() == [BOS, EOS]
