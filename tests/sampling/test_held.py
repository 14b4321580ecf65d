"""Notes that sound: not struck twice, not held for ever, and the grammar always has its way."""

import numpy as np
import pytest
import torch

from musictx.sampling.constraints import All, GrammarConstraint
from musictx.sampling.held import HeldNotes
from musictx.tokens.performance import PerformanceTokenizer

PIANO = PerformanceTokenizer(low=60, high=65, velocity_bins=1)
BAND = PerformanceTokenizer(low=60, high=65, velocity_bins=1, tracks="programs")


def ids(tokenizer, *tokens):
    return [tokenizer.vocabulary.id(kind, value) for kind, value in tokens]


def random_walk(tokenizer, steps, seed, **wishes):
    """Uniform draws among what is allowed, as the engine would make them."""
    rng = np.random.default_rng(seed)
    law = GrammarConstraint([tokenizer.grammar()], may_end=False)
    held = HeldNotes(tokenizer.vocabulary, rows=1, step_seconds=0.01, **wishes)
    rules, written = All(law, held), []
    for _ in range(steps):
        token_id = int(rng.choice(np.flatnonzero(rules.allowed()[0].numpy())))
        rules.advance(torch.tensor([token_id]))
        written.append(token_id)
    return tokenizer.decode(written)


@pytest.mark.parametrize("tokenizer", [PIANO, BAND], ids=["piano", "programs"])
def test_no_pitch_is_struck_while_it_sounds(tokenizer):
    def overlaps(score):
        notes = score.notes[~score.notes["drum"]]
        same = [(a, b) for i, a in enumerate(notes) for b in notes[i + 1 :]]
        return sum(
            a["pitch"] == b["pitch"]
            and a["program"] == b["program"]
            and b["start"] < a["end"] - 1e-9
            for a, b in same
        )

    wished = [overlaps(random_walk(tokenizer, 150, seed)) for seed in range(4)]
    assert sum(wished) == 0
    if tokenizer is PIANO:  # the walk does find them when it may
        assert sum(overlaps(random_walk(PIANO, 150, s, restrike=True)) for s in range(4)) > 0


@pytest.mark.parametrize("tokenizer", [PIANO, BAND], ids=["piano", "programs"])
def test_notes_end_soon_after_the_longest_time(tokenizer):
    longest, one_shift = 2.0, 1.0
    for seed in range(4):
        score = random_walk(tokenizer, 400, seed, longest=longest)
        notes = score.notes[~score.notes["drum"]]
        lengths = notes["end"] - notes["start"]
        # Noticed at the first step after it is due, and several notes may be due at once.
        assert lengths.max() <= longest + one_shift + 1e-9
    free = random_walk(PIANO, 400, 0)
    assert (free.notes["end"] - free.notes["start"]).max() > longest + one_shift


@pytest.mark.parametrize("tokenizer", [PIANO, BAND], ids=["piano", "programs"])
def test_no_more_notes_sound_at_once_than_may(tokenizer):
    def most_at_once(score):
        notes = score.notes[~score.notes["drum"]]
        return max(sum((notes["start"] <= n["start"]) & (notes["end"] > n["start"])) for n in notes)

    assert max(most_at_once(random_walk(tokenizer, 200, seed, most=3)) for seed in range(4)) == 3
    assert max(most_at_once(random_walk(tokenizer, 200, seed)) for seed in range(4)) > 3


def test_a_note_held_by_the_past_counts():
    past = ids(PIANO, ("velocity", 1), ("note_on", 60), ("time_shift", 100))
    held = HeldNotes(PIANO.vocabulary, past, rows=2, step_seconds=0.01, longest=0.5)
    off = PIANO.vocabulary.id("note_off", 60)
    for row in held.allowed().numpy():
        assert np.flatnonzero(row).tolist() == [off]
    held.advance(torch.tensor([off, PIANO.vocabulary.id("time_shift", 1)]))
    free, late = held.allowed().numpy()
    assert free.all()
    assert np.flatnonzero(late).tolist() == [off]


def test_other_vocabularies_are_refused():
    from musictx.tokens.vocab import Vocabulary

    with pytest.raises(ValueError, match="no note_on, note_off, time_shift, velocity"):
        HeldNotes(Vocabulary.of(("pitch", 0, 9)), rows=1, step_seconds=0.01)
