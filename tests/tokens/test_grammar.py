"""The grammar takes all that the tokenizer writes and lets nothing through that is no music."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from musictx.tokens.performance import PerformanceTokenizer
from musictx.tokens.vocab import BOS, CUT, EOS, PAD
from tests.tokens.test_spelling import EVENTS

tokenizers = st.sampled_from(EVENTS)
quick = settings(deadline=None, max_examples=60)
PIANO = PerformanceTokenizer()


def ids(tokenizer: PerformanceTokenizer, *words: str) -> list[int]:
    pairs = (word.split(":") for word in words)
    return [tokenizer.vocabulary.id(kind, int(value)) for kind, value in pairs]


def kinds(tokenizer: PerformanceTokenizer, mask: np.ndarray) -> set[str]:
    return {tokenizer.vocabulary.token(int(i))[0] for i in np.flatnonzero(mask)}


def accepts(state, token_id: int) -> bool:
    """Whether ``advance`` takes an id; the state stays."""
    try:
        state.copy().advance(token_id)
    except ValueError:
        return False
    return True


@quick
@given(tokenizers, st.integers(0, 2**31))
def test_whatever_is_drawn_within_the_grammar_decodes_note_for_note(tokenizer, seed):
    generator = np.random.default_rng(seed)
    state = tokenizer.grammar()
    drawn: list[int] = []
    for _ in range(80):
        unasked = state.copy()  # knows no mask yet
        allowed = state.allowed()
        for one in tokenizer.vocabulary.kinds:
            token_id = int(generator.integers(*tokenizer.vocabulary.range(one)))
            assert accepts(unasked, token_id) == allowed[token_id]
        for pitch in state.sounding.here():
            token_id = tokenizer.vocabulary.id("note_off", pitch)
            assert accepts(unasked, token_id) == allowed[token_id]
        assert allowed.shape == (tokenizer.size,)
        assert not allowed[[PAD, BOS, CUT]].any()
        by_kind = sorted(kinds(tokenizer, allowed))
        assert by_kind
        kind = by_kind[generator.integers(len(by_kind))]  # kinds alike, else notes drown releases
        first, end = tokenizer.vocabulary.range(kind)
        token_id = first + int(generator.choice(np.flatnonzero(allowed[first:end])))
        state.advance(token_id)
        if kind == "eos":
            assert kinds(tokenizer, state.allowed()) == {"eos"}
            break
        drawn.append(token_id)
    piece = tokenizer.decode(drawn)
    assert len(piece) == state.notes
    assert piece.notes["start"].max(initial=0) <= state.seconds + 1e-9
    tokenizer.grammar(drawn)
    if state.notes:
        tokenizer.grammar(tokenizer.encode(piece))
    if state.allowed().sum() == 1 and state.allowed()[EOS]:  # ended: nothing was left sounding
        closed = [tokenizer.vocabulary.token(i)[0] for i in drawn]
        assert closed.count("note_on") == closed.count("note_off")


ENSEMBLE = PerformanceTokenizer(tracks="programs")
ON = ("velocity:9", "note_on:60")
IN_TWO = ("program:3", *ON, "time_shift:5", "program:4")

#: After these: the kinds that may come, some ids among them, and some of these kinds that may not.
RULES = [
    # A piece begins with its loudness and without silence.
    (ENSEMBLE, (), {"program", "velocity"}, (), ()),
    # No release after a strike in one step; no loudness that changes nothing.
    (PIANO, ON, {"note_on", "velocity", "time_shift"}, ("velocity:8",), ("velocity:9",)),
    # A release only of what sounds, as often as it sounds; the end only where nothing does.
    (PIANO, (*ON, "note_on:60", "time_shift:5", "note_off:60"),
     {"note_on", "note_off", "velocity", "time_shift"}, ("note_off:60",), ("note_off:61",)),
    (PIANO, (*ON, "time_shift:5", "note_off:60"),
     {"note_on", "velocity", "time_shift", "eos"}, (), ()),
    # Time goes on only after the longest shift.
    (PIANO, (*ON, "time_shift:99"), {"note_on", "note_off", "velocity"}, (), ()),
    (PIANO, (*ON, "time_shift:100"), {"note_on", "note_off", "velocity", "time_shift"}, (), ()),
    # A program is another, and is followed by something that it is for.
    (ENSEMBLE, IN_TWO, {"velocity", "note_on"}, (), ()),
    (ENSEMBLE, (*IN_TWO, "velocity:7"), {"note_on"}, (), ()),
    (ENSEMBLE, (*IN_TWO, "note_on:50", "time_shift:5"),
     {"note_on", "note_off", "velocity", "program", "drum"},
     ("note_off:50", "program:3"), ("note_off:60", "program:4")),
]  # fmt: skip


@pytest.mark.parametrize(("tokenizer", "prefix", "may", "some", "others"), RULES)
def test_the_rules(tokenizer, prefix, may, some, others):
    allowed = tokenizer.grammar(ids(tokenizer, *prefix)).allowed()
    assert kinds(tokenizer, allowed) == may
    assert allowed[ids(tokenizer, *some)].all()
    assert not allowed[ids(tokenizer, *others)].any()


def test_masks_cannot_be_written_and_ids_outside_are_refused():
    with pytest.raises(ValueError, match="read-only"):
        PIANO.grammar().allowed()[:] = True
    for token_id in (-1, PIANO.size, PAD):
        with pytest.raises(ValueError, match="is not allowed after start"):
            PIANO.grammar().advance(token_id)
