"""Takes: those kept are the nearest by the stated measures, whatever their order."""

import itertools

import numpy as np
import pytest

from musictx.evaluate import musical
from musictx.notes import Score
from musictx.sampling.music import Sample
from musictx.sampling.primer import NOTHING, Primer
from musictx.sampling.takes import Likeness, nearest
from tests.sampling.pieces import score


def take(every, pitches, seconds=12.0):
    starts = np.arange(0, seconds - 0.05, every)
    music = score(*((s, s + 0.1, pitches[i % len(pitches)]) for i, s in enumerate(starts)))
    return Sample(music, 0.0, np.empty(0, np.uint16), len(music), seconds, "seconds")


C = [60, 62, 64, 65, 67, 69, 71, 72]
PRIMER = Primer(np.zeros(1, np.uint16), 12.0, take(0.25, C).score)
TAKES = {
    "alike": take(0.25, C),
    "slower": take(0.5, C),
    "much slower": take(1.0, C),
    "other key": take(0.25, [p + 6 for p in C]),
    "silent": Sample(Score(), 0.0, np.empty(0, np.uint16), 0, 12.0, "seconds"),
}


@pytest.mark.parametrize("order", list(itertools.permutations(range(5)))[::17])
def test_the_nearest_come_first_whatever_the_order(order):
    names = [list(TAKES)[i] for i in order]
    likeness = Likeness.to(PRIMER, None)
    found = list(nearest(((i, TAKES[name]) for i, name in enumerate(names)), 5, likeness))
    ranked = [names[number] for number, _, _ in found]
    assert ranked[0] == "alike"
    assert ranked[-1] == "silent"
    assert ranked.index("slower") < ranked.index("much slower")
    few = list(nearest(((i, TAKES[name]) for i, name in enumerate(names)), 2, likeness))
    assert [n for n, _, _ in few] == [n for n, _, _ in found[:2]]


def test_a_doubled_density_counts_one_and_why_names_the_measures():
    likeness = Likeness.to(PRIMER, None)  # which ends with its last note, so that it is denser
    assert likeness.distance(TAKES["alike"]) == pytest.approx(0, abs=0.03)
    twice = likeness.distance(take(0.5, C)) - likeness.distance(take(0.25, C))
    similar = [musical.self_similarity(take(e, C).score, 2.0) for e in (0.25, 0.5)]
    assert twice == pytest.approx(1 + abs(similar[0] - similar[1]) / 0.2, abs=0.03)
    assert likeness.why(TAKES["slower"]).startswith("notes a second 2.00 (primer 4.05), self-simi")


def test_a_new_piece_is_compared_with_the_corpus_as_far_as_the_card_knows_it():
    likeness = Likeness.to(NOTHING, {"density": 4.0})
    assert likeness.distance(TAKES["alike"]) == pytest.approx(0)
    assert likeness.distance(TAKES["slower"]) == pytest.approx(1)
    assert "(corpus 4.00)" in likeness.why(TAKES["alike"])
    assert Likeness.to(NOTHING, None).distance(TAKES["alike"]) == 0


def test_after_an_interrupt_the_nearest_so_far_come_first():
    def interrupted():
        yield 0, TAKES["slower"]
        yield 1, TAKES["alike"]
        raise KeyboardInterrupt

    found = nearest(interrupted(), 1, Likeness.to(PRIMER, None))
    assert next(found)[0] == 1
    with pytest.raises(KeyboardInterrupt):
        next(found)
