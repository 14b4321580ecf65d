"""Notes told while they are composed: those of the finished piece, which is as without telling."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
import torch

from musictx.card import CorpusStats
from musictx.config import SamplingConfig
from musictx.notes import DRUMS, Score
from musictx.sampling import composer, event_infill, timeline
from musictx.sampling.event_infill import EventInfill
from musictx.sampling.primer import NOTHING, encode_primer
from musictx.sampling.steer import Steering
from musictx.tokens.build import build
from tests.sampling.pieces import TOKENIZERS, TUNE, continue_each, make

torch.set_num_threads(1)

# And tokens that write notes with their length.
EVERY = {
    **TOKENIZERS,
    "notes": {"name": "notes", "tracks": "piano", "low": 48, "high": 84, "controls": True},
    "remi": {"name": "docs.examples.remi:Remi", "low": 48, "high": 84, "velocity_bins": 4},
}


def told_of(events, tracks=True) -> tuple[Counter, Counter]:
    """What begins and what ends: (seconds, pitch, velocity, track)."""
    found = Counter(), Counter()
    for at, on, pitch, velocity, track in events:
        found[not on][round(at, 4), pitch, velocity, track if tracks else 0] += 1
    return found


def listed(notes: np.ndarray, track=None, tracks=True) -> tuple[Counter, Counter]:
    """The same of finished notes."""
    events = []
    for s, e, p, v, g, d, t in notes.tolist():
        where = (DRUMS if d else g) if track == "program" else t
        events += [(s, True, p, v, where), (e, False, p, 0, where)]
    return told_of(events, tracks)


@pytest.mark.parametrize("name", EVERY)
@pytest.mark.parametrize(
    ("primed", "more"),
    [
        (False, {}),
        (True, {"quantise": "16"}),
        (True, {"include_primer": False, "end": "natural", "seconds": 5.0}),
    ],
)
def test_the_events_of_each_row_are_its_new_notes_and_nothing_is_drawn_otherwise(
    name, primed, more
):
    if name == "remi":
        pytest.importorskip("miditok")
    tokenizer = build(**EVERY[name])
    tune = TUNE if name not in ("chorale", "ties") else TUNE.with_notes(TUNE.notes[::4])
    primers = [encode_primer(tokenizer, tune, seconds=2.0) if primed else NOTHING] * 3
    lean = {"bar": 3.0} if name == "notes" else {}  # else time hardly passes
    model, told = make(tokenizer, context=64, **lean), {0: [], 1: [], 2: []}
    asked = {"seconds": 3.0, "seeds": [(7, i) for i in range(3)]} | more
    asked["sampling"] = SamplingConfig(rules=0)
    samples = continue_each(
        model, tokenizer, primers, on_event=lambda row, event: told[row].append(event), **asked
    )
    silent = continue_each(model, tokenizer, primers, **asked)
    assert [one.score for one in samples] == [one.score for one in silent]
    assert sum(one.notes for one in samples) > 3
    for row, sample in enumerate(samples):
        new = sample.score.notes.copy()
        if primed and asked.get("include_primer", True):
            old = {(note["start"], note["pitch"]) for note in primers[0].score.notes}
            fresh = [note for note in new if (note["start"], note["pitch"]) not in old]
            new = np.array(fresh, new.dtype)  # the ends of old ones may have changed
        programs = name in ("ensemble", "notes")
        track = "program" if programs and not primed else None
        # The tracks of new programs are numbered at the end.
        whole = not programs or not primed
        if name == "ensemble":  # a stroke ends at once in its events, whatever the file says
            new["end"] = np.where(new["drum"], new["start"], new["end"])
        found, expected = told_of(told[row], whole), listed(new, track, whole)
        assert found[0] == expected[0]
        assert found[1] == expected[1]


def test_an_error_in_the_callback_stops_at_once_and_leaves_the_model_as_it_was(piano):
    model, told = make(piano), []
    model.train()
    calls = []
    model.register_forward_pre_hook(lambda *_: calls.append(1))

    def stop(row, event):
        told.append(event)
        if len(told) == 3:
            raise ZeroDivisionError

    asked = {"seconds": 50.0, "seeds": [(0, 0)]}
    with pytest.raises(ZeroDivisionError):
        continue_each(model, piano, [NOTHING], on_event=stop, **asked)
    assert model.training
    assert len(told) == 3
    before = len(calls)
    model.eval()
    again = []
    continue_each(
        model, piano, [NOTHING], seconds=1.0, seeds=[(0, 0)], on_event=lambda _, e: again.append(e)
    )
    assert again[:3] == told
    assert before < 60


KEPT = Score(notes=[(0.2 * i, 0.2 * i + 0.3, 60 + i % 7, 70, 0, False, 0) for i in range(15)])


def parts(closes: bool, guidance: float = 1.0, tracks: str = "piano") -> EventInfill:
    tokenizer = build(name="performance", tracks=tracks, controls=True)
    steering = Steering((3, 2, 1, 0), guidance)
    model = make(tokenizer, context=160, time_shift=1.0)
    span = (2.0, 3.0) if closes else (0.0, 2.0)
    programs = None if closes or tracks == "piano" else {0, 48}
    options = {"closes": closes, "parts": programs}
    return EventInfill(model, tokenizer, KEPT, *span, steering=steering, **options)


def composed(part: EventInfill, seeds, **more):
    limits = CorpusStats.of({"most_notes": 4, "longest_note": [[0, 0.5]]})
    return list(composer.versions(part, seeds, sampling=SamplingConfig(), stats=limits, **more))


@pytest.mark.parametrize(
    ("tracks", "closes", "guidance"),
    [
        ("piano", True, 2.0),
        ("programs", True, 1.0),
        ("piano", False, 1.0),
        ("programs", False, 2.0),
    ],
)
def test_versions_written_as_rows_are_those_written_alone_and_their_events_are_their_notes(
    tracks, closes, guidance, monkeypatch
):
    part, seeds, told = parts(closes, guidance, tracks), [(5, i) for i in range(3)], {}
    seconds: list[float] = []

    def placed(notes):
        return timeline.quantised(notes, KEPT, "16")

    monkeypatch.setattr(composer, "ROWS_AT_ONCE", 2)
    monkeypatch.setattr(event_infill, "SEGMENT_SECONDS", 1.0)
    together = composed(
        part,
        seeds,
        placed=placed,
        progress=seconds.append,
        on_event=lambda row, event: told.setdefault(row, []).append(event),
    )
    assert seconds == sorted(seconds)
    assert seconds[-1] == pytest.approx(3 * (1.0 if closes else 2.0), abs=0.02)
    for row, (seed, version) in enumerate(zip(seeds, together)):
        (alone,) = composed(part, [seed])
        assert np.array_equal(version.new, alone.new)
        assert len(version.new) > 2
        assert told_of(told[row]) == listed(placed(version.new), "program")
    assert len({version.new.tobytes() for version in together}) == 3
