"""Times in seconds are on the right bar line in every tempo, although they are rounded."""

import numpy as np
import pytest

from musictx import midi
from musictx.apps import tasks
from musictx.config import GenerateConfig, InfillConfig
from musictx.errors import UserError
from musictx.notes import Score
from musictx.sampling.continuation import Continuation, to_bar_line
from musictx.sampling.events import Emitter
from musictx.sampling.primer import encode_primer
from musictx.sampling.steer import Steering
from musictx.tokens.build import build
from tests.pieces import line, together
from tests.sampling.pieces import bundle_of, make

TEMPI = range(40, 241, 3)
BARS = build("notes")
NETWORK = make(BARS)


def quarters_of(meter: tuple[int, int]) -> float:
    return meter[0] * 4 / meter[1]


def whole_bars(bpm: float, meter: tuple[int, int], bars: int) -> Score:
    """Eighths that fill so many bars, as a MIDI file has them."""
    pitches = (60 + n % 12 for n in range(round(bars * quarters_of(meter) * 2)))
    return midi.read(midi.to_bytes(together(line(*pitches, every=30 / bpm), bpm=bpm, meter=meter)))


@pytest.mark.parametrize("meter", [(4, 4), (3, 4), (7, 8), (2, 2)])
def test_the_first_new_bar_begins_where_the_file_ends(meter):
    for bpm in TEMPI:
        for bars in (1 + bpm % 3, 7):
            score = whole_bars(bpm, meter, bars)
            primer = to_bar_line(BARS, encode_primer(BARS, score))
            clock = BARS.clock(score)
            seam = float(clock.seconds(primer.seconds))
            begin = float(score.beats.quarters(seam)) / quarters_of(meter)
            assert begin == pytest.approx(bars, abs=1e-3), bpm
            stop = float(score.beats.quarters(clock.after_bars(seam, 2))) / quarters_of(meter)
            assert stop == pytest.approx(bars + 2, abs=1e-3), bpm
            short = encode_primer(BARS, score, seconds=1.0)
            assert short.score.notes.tolist() == score.notes[score.notes["start"] < 1].tolist(), bpm


def test_no_new_note_begins_at_the_end_of_the_requested_bars():
    """Notes that rounding to a grid moves to the end are left out."""
    for bpm in TEMPI:
        score = whole_bars(bpm, (4, 4), 2)
        primer = to_bar_line(BARS, encode_primer(BARS, score))
        for bars in range(1, 9):
            request = GenerateConfig(bars=bars, quantise="16")
            region = Continuation(bundle_of(NETWORK, BARS), primer, request, [0], Steering())
            notes = score.notes[:2].copy()
            notes["start"] = region.ids_end() - np.array([0.03, 0.25])
            notes["end"] = notes["start"] + 1
            (placed,) = region.finish_notes(notes)
            at = float(score.beats.quarters(placed["start"]))
            assert at == pytest.approx(4 * (2 + bars) - 0.5, abs=1e-3)


@pytest.mark.parametrize("bpm", range(40, 241, 8))
def test_notes_that_follow_each_other_end_before_they_begin_again(bpm):
    """No event begins a pitch that still sounds."""
    score = line(*[60] * 96, every=10 / bpm, tempos=[(0.0, bpm)])
    clock, events = BARS.clock(score), []

    def placed(notes: np.ndarray) -> np.ndarray:
        notes = notes.copy()
        notes["start"], notes["end"] = clock.seconds(notes["start"]), clock.seconds(notes["end"])
        return notes

    emitter = Emitter(placed, events.append)
    state = BARS.grammar()
    for token_id in BARS.encode(score).tolist():
        emitter.report(state.advance(token_id))
    emitter.close(score.notes[:0])
    assert [event.on for event in events] == [True, False] * 96


def test_a_gap_that_begins_where_the_file_ends_is_refused():
    for bpm in TEMPI:
        score = whole_bars(bpm, (4, 4), 3)
        last_bar = tasks.gap_task(score, InfillConfig(begin="3", end="3"))
        assert last_bar.end == pytest.approx(score.duration)
        for wrong, last in ((score, "in bar 3$"), (Score(), "after 0.0 s")):
            with pytest.raises(UserError, match=f"from=4: the file ends before that.*{last}"):
                tasks.gap_task(wrong, InfillConfig(begin="4", end="5"))
