"""Checks of voice leading find planted faults; faults counted id by id are those of the piece."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from musictx.chorale import voice_leading as v
from musictx.chorale.grid import Grid
from musictx.chorale.rules import PartialPieces, fault_costs
from musictx.chorale.tokenizer import ChoraleTokenizer
from musictx.config import SamplingConfig
from musictx.sampling.idiom import idiom_of
from musictx.sampling.primer import NO_PRIMER
from musictx.tokens.vocab import BOS, CUT
from tests.chorale.parts import chords, grids, pieces, small_model
from tests.sampling.pieces import continue_each

STEP = 4  # steps of each chord below


def four(text):
    """The chords of ``text`` as a grid."""
    return Grid.from_pitches(chords(text, STEP))


def test_a_plain_cadence_is_free_of_faults():
    cadence = four("C5 G4 E4 C3, C5 A4 F4 F3, B4 G4 D4 G3, C5 G4 E4 C3")
    report = v.assess(cadence)
    assert v.faults(cadence) == report.faults == []
    assert sum(report.counts.values()) == 0
    assert (report.bars, report.changes) == (1, 3)
    assert report.key == (0, "major")
    assert report.final_triad
    assert report.cadence == "authentic"
    minor = "A4 E4 C4 A2, Ab4 E4 B3 E3, A4 F4 D4 D3, A4 E4 C4 A2"
    assert v.assess(four(minor)).key == (9, "minor")


def test_each_voice_has_its_range():
    for voice, (low, high) in enumerate(((60, 81), (53, 74), (48, 67), (38, 62))):
        for key in range(128):
            faults = v.faults(Grid.from_pitches(np.where(np.arange(4) == voice, key, -1)[None]))
            inside = low <= key <= high
            assert faults == ([] if inside else [(0, (voice,), "outside its range")])


@pytest.mark.parametrize(
    ("middle", "voices"),
    [
        ("B4 D4 B3 G3", [(0, 2)]),  # V
        ("B4 F4 D4 B2", [(0, 3)]),  # VII
        ("B4 G4 E4 B3", []),  # III: no dominant
        ("B4 G4 D4 G3", []),  # once
        # The dominant seventh of F: E is its leading note, C its root.
        ("Bb4 E4 C4 E3", [(1, 3)]),
        ("Bb4 E4 C4 C3", []),
        # A sustained fault counts once, and again in other voices.
        ("B4 D4 B3 G3, B4 D4 B3 G2, G4 D4 B3 B2", [(0, 2), (2, 3)]),
    ],
)
def test_doubled_leading_notes(middle, voices):
    home = "C5 G4 E4 C3, C5 G4 E4 C3, {}, C5 G4 E4 C3, C5 A4 F4 F3, C5 G4 E4 C3"
    faults = v.faults(four(home.format(middle)))
    found = [fault for fault in faults if fault.kind == "doubled leading note"]
    assert [fault.voices for fault in found] == voices
    assert not found or found[0].step == 2 * STEP


@pytest.mark.parametrize(
    ("text", "triad", "cadence"),
    [
        ("B4 G4 D4 G3, B4 G4 D4 G2, C5 G4 Eb4 C3, C5 G4 Eb4 C2", True, "authentic"),
        ("A4 F4 C4 F3, G4 E4 C4 C3", True, "plagal"),
        ("B4 G4 D4 D3, C5 G4 E4 E3", False, "step"),
        ("B4 G4 D4 E3, C5 G4 C4 C3", False, "none"),  # no third
        ("B4 G4 D4 G2, C5 C4 E4 C3, - - - -", True, "authentic"),  # no fifth, and a rest
        ("B4 G4 D4 G2, Bb4 G4 E4 C3", False, "authentic"),
        ("- - - -", False, "none"),
    ],
)
def test_endings(text, triad, cadence):
    report = v.assess(four(text))
    assert (report.final_triad, report.cadence) == (triad, cadence)


@given(pieces())
def test_checks_of_pairs_and_leaps_against_plain_loops(pitches):
    piece = pitches.tolist()
    expected = set()
    for t, chord in enumerate(piece):
        before = piece[t - 1] if t else [-1] * 4
        for i in range(4):
            leap = abs(chord[i] - before[i]) if min(chord[i], before[i]) >= 0 else 0
            if leap > 12 or leap == 11 or (i < 3 and leap in (6, 10)):
                expected.add((t, (i,), "leap"))
        for i, j in combinations(range(4), 2):
            a, b, c, d = before[i], before[j], chord[i], chord[j]  # upper, lower: then, now
            sounded, sounds = min(a, b) >= 0, min(c, d) >= 0
            if j == i + 1:
                if sounds and c < d and not (sounded and a < b):
                    expected.add((t, (i, j), "crossing"))
                if sounded and sounds and a >= b and c >= d and (c < b or d > a):
                    expected.add((t, (i, j), "overlap"))
                if j < 3 and sounds and c - d > 12 and not (sounded and a - b > 12):
                    expected.add((t, (i, j), "spacing"))
            if not (sounded and sounds) or (c - a) * (d - b) <= 0:
                continue
            for size, name in ((7, "fifths"), (0, "octaves")):
                if abs(c - d) % 12 == abs(a - b) % 12 == size:
                    expected.add((t, (i, j), f"parallel {name}"))
                elif abs(c - d) % 12 == size and (i, j) == (0, 3) and abs(c - a) > 2:
                    expected.add((t, (i, j), f"hidden {name}"))
    others = ("outside its range", "doubled leading note", "stuck voice")
    faults = v.faults(Grid.from_pitches(pitches))
    assert {tuple(fault) for fault in faults if fault.kind not in others} == expected


@settings(max_examples=25)
@given(pieces(55, 67), st.sampled_from([6, 8, 12, 16, 24]))
def test_bars_are_as_long_as_the_meter_says(table, bar):
    """A voice that stays while others move is measured in bars, and beyond two bars a fault."""
    longest, stuck = 0, set()
    for voice in range(4):
        start = 0
        for end in range(1, len(table) + 1):
            if end == len(table) or table[end, voice] != table[end - 1, voice]:
                moves = [
                    step
                    for step in range(start + 1, end)
                    if any(table[step, o] != table[step - 1, o] for o in range(4) if o != voice)
                ]
                if moves:
                    longest = max(longest, moves[-1] - start)
                    if moves[-1] - start > 2 * bar:
                        stuck.add((start, voice))
                start = end
    grid = Grid.from_pitches(table)
    report = v.assess(grid, bar=bar)
    assert report.bars == len(table) / bar
    assert report.longest_held == longest / bar
    faults = {(f.step, f.voices[0]) for f in v.faults(grid, bar=bar) if f.kind == "stuck voice"}
    assert faults == stuck


def faults_of(tokenizer, ids, **options):
    """Return (V,) faults that each id completes after ``ids``."""
    piece = PartialPieces.of(tokenizer, np.asarray(ids)[None].astype(np.int64))
    return fault_costs(piece, **options)[0]


@settings(max_examples=60)
@given(ties=st.booleans(), data=st.data())
def test_faults_id_by_id_are_those_of_the_whole_piece(ties, data):
    """Each fault is counted at its step, with its lowest voice: stuck voices in whole pieces only,
    doubled leading notes by the key of the steps before."""
    tokenizer, grid = ChoraleTokenizer(ties=ties), data.draw(grids(ties=ties, longest=4))
    ids = tokenizer.encode_grid(grid)
    costs = [faults_of(tokenizer, ids[:n])[ids[n]] for n in range(len(ids))]
    expected = np.zeros(grid.pitches.shape)
    for fault in v.faults(grid):
        if fault.kind not in ("stuck voice", "doubled leading note"):
            expected[fault.step, fault.voices[-1]] += 1
    for step in range(len(grid)):
        before = grid.pitches[step - 1] if step else np.full(4, -1)
        pair = v.ChordPairs(before[None], grid.pitches[step][None], np.zeros((1, 4), bool))
        expected[step, 3] += v.leading_notes(pair, v.tonic(grid.pitches[:step]))[0][0]
    assert np.reshape(costs, (-1, 4)).tolist() == expected.tolist()


def test_each_fault_is_penalised_by_the_strength_of_the_rules():
    tokenizer = ChoraleTokenizer()
    past = tokenizer.encode_grid(Grid.from_pitches(chords("C5 G4 E4 C3, D5 A4 F4 D3", 1)))[:7]
    faults = faults_of(tokenizer, past)
    assert faults.max() >= 2  # D3: fifths and octaves
    for first, strength in ((BOS, 2.5), (CUT, 2.5), (BOS, 0.0)):
        (penalty,) = idiom_of(tokenizer).rules(SamplingConfig(rules=strength))
        costs = penalty([tokenizer.grammar(past)], np.array([[first, *past.tolist()]]))
        assert np.array_equal(costs, strength * faults[None])


def test_a_piece_that_the_model_ends_closes():
    tokenizer = ChoraleTokenizer(low=60, high=67)
    pieces = continue_each(
        small_model(tokenizer), tokenizer, [NO_PRIMER] * 4, seconds=60.0, end="model",
        seeds=[(0, i) for i in range(4)], sampling=SamplingConfig(top_p=1.0, rules=0.0),
    )  # fmt: skip
    ended = [piece for piece in pieces if piece.ended == "model"]
    assert ended
    for piece in ended:
        assert v.ends_with_cadence(tokenizer.decode_grid(piece.ids).pitches)
