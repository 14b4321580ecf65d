"""Notes as they are composed, piece by piece and in streams: those of the finished piece."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from itertools import islice

import numpy as np
import pytest
import torch

from musictx.card import CorpusStats
from musictx.config import SamplingConfig
from musictx.errors import UserError
from musictx.notes import DRUMS, Score
from musictx.sampling import composer, engine, event_infill, timeline
from musictx.sampling.constraints import GrammarConstraint
from musictx.sampling.event_infill import EventInfill
from musictx.sampling.primer import NOTHING, encode_primer
from musictx.sampling.steer import Steering
from musictx.sampling.stream import Stream
from musictx.tokens.build import build
from tests.sampling.pieces import TOKENIZERS, TUNE, continue_each, make

torch.set_num_threads(1)

# Both kinds of tokens: with events, and (the last two) notes with their length.
EVERY = {
    **TOKENIZERS,
    "notes": {"name": "notes", "tracks": "piano", "low": 48, "high": 84, "controls": True},
    "remi": {"name": "docs.examples.remi:Remi", "low": 48, "high": 84, "velocity_bins": 4},
}


def begun_and_ended(events, tracks=True) -> tuple[Counter, Counter]:
    """How many notes begin and how many end with each (seconds, pitch, velocity, track)."""
    counts = Counter(), Counter()
    for at, on, pitch, velocity, track in events:
        counts[not on][round(at, 4), pitch, velocity, track if tracks else 0] += 1
    return counts


def listed(notes: np.ndarray, track=None, tracks=True) -> tuple[Counter, Counter]:
    """The same counts for finished notes."""
    events = []
    for s, e, p, v, g, d, t in notes.tolist():
        where = (DRUMS if d else g) if track == "program" else t
        events += [(s, True, p, v, where), (e, False, p, 0, where)]
    return begun_and_ended(events, tracks)


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
    model, events = make(tokenizer, context=64, **lean), {0: [], 1: [], 2: []}
    options = {"seconds": 3.0, "seeds": [(7, i) for i in range(3)]} | more
    options["sampling"] = SamplingConfig(rules=0)
    samples = continue_each(
        model, tokenizer, primers, on_event=lambda row, event: events[row].append(event), **options
    )
    silent = continue_each(model, tokenizer, primers, **options)
    assert [one.score for one in samples] == [one.score for one in silent]
    assert sum(one.notes for one in samples) > 3
    for row, sample in enumerate(samples):
        new = sample.score.notes.copy()
        if primed and options.get("include_primer", True):
            old = {(note["start"], note["pitch"]) for note in primers[0].score.notes}
            fresh = [note for note in new if (note["start"], note["pitch"]) not in old]
            new = np.array(fresh, new.dtype)  # the ends of old ones may have changed
        programs = name in ("ensemble", "notes")
        track = "program" if programs and not primed else None
        # The tracks of new programs are numbered at the end.
        whole = not programs or not primed
        if name == "ensemble":  # a stroke ends at once in its events, whatever the file says
            new["end"] = np.where(new["drum"], new["start"], new["end"])
        actual, expected = begun_and_ended(events[row], whole), listed(new, track, whole)
        assert actual[0] == expected[0]
        assert actual[1] == expected[1]


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
    part, seeds, events = parts(closes, guidance, tracks), [(5, i) for i in range(3)], {}
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
        on_event=lambda row, event: events.setdefault(row, []).append(event),
    )
    assert seconds == sorted(seconds)
    assert seconds[-1] == pytest.approx(3 * (1.0 if closes else 2.0), abs=0.02)
    for row, (seed, version) in enumerate(zip(seeds, together)):
        (alone,) = composed(part, [seed])
        assert np.array_equal(version.new, alone.new)
        assert len(version.new) > 2
        assert begun_and_ended(events[row]) == listed(placed(version.new), "program")
    assert len({version.new.tobytes() for version in together}) == 3


torch.set_num_threads(1)


def stream(tokenizer, primer=NOTHING, *, context=32, seed=0, **more):
    more = {"sampling": SamplingConfig(rules=0)} | more
    return Stream(make(tokenizer, context=context), tokenizer, primer, seed=seed, **more)


def notes_of(events):
    """(start, end, pitch, velocity, track) of each note, from its two events."""
    open_notes, notes = {}, []
    for event in events:
        key = (event.track, event.pitch)
        if event.on:
            assert key not in open_notes
            open_notes[key] = event
        else:
            start = open_notes.pop(key)
            notes.append((start.seconds, event.seconds, event.pitch, start.velocity, event.track))
    assert not open_notes
    return sorted(notes)


@pytest.mark.parametrize("name", TOKENIZERS)
@pytest.mark.parametrize("primed", [False, True])
def test_the_events_are_those_of_the_ids_decoded(name, primed):
    tokenizer = build(**TOKENIZERS[name])
    tune = TUNE if name != "chorale" else TUNE.with_notes(TUNE.notes[::4])
    primer = encode_primer(tokenizer, tune, seconds=2.0) if primed else NOTHING
    music = stream(tokenizer, primer, seconds=6.0, context=600)
    events = list(music)
    times = [event.seconds for event in events]
    assert times == sorted(times)
    assert times[-1] <= 6.0 + 1e-9
    drawn = list(music._ids)[len(primer.ids) :]
    decoded = tokenizer.decode([*primer.ids, *drawn]).notes
    new = decoded[len(tokenizer.decode(primer.ids)) if primed else 0 :]
    clock = primer.clock(tokenizer)
    seam = float(clock.seconds(primer.seconds))
    expected = sorted(
        (
            float(clock.seconds(n["start"])) - seam,
            min(6.0, float(clock.seconds(n["end"])) - seam),
            int(n["pitch"]),
            int(n["velocity"]),
        )
        for n in new
        if not n["drum"]
    )
    actual = [note[:4] for note in notes_of(events) if note[4] != DRUMS]
    assert np.allclose(actual, [e for e in expected if e[0] < 6.0 - 1e-6], atol=1e-6)
    assert sum(e.track == DRUMS and e.on for e in events) == int(new["drum"].sum())


@pytest.mark.parametrize("name", ["piano", "chorale"])
def test_without_end_the_same_ids_come_in_memory_that_does_not_grow(name):
    tokenizer, context = build(**TOKENIZERS[name]), 16
    model = make(tokenizer, context=context)

    def ids(max_tokens):
        law = GrammarConstraint([tokenizer.grammar()], may_end=False)
        options = {"constraint": law, "seeds": [3], "align": tokenizer.align}
        drawn = engine.generate(model, [1], max_tokens=max_tokens, **options)
        return [int(i[0]) for i in islice(drawn, 400)]

    assert ids(None) == ids(400)
    with torch.inference_mode():
        endless = engine.Decoder(
            model, torch.ones(1, 1, dtype=torch.int64), rows=1, capacity=context, longest=None,
            align=tokenizer.align,
        )  # fmt: skip
        for number in range(500):
            endless.append(torch.tensor([4 + number % 7]))
            endless.step()
            assert endless._ids.numel() <= 2 * engine.KEPT * context * tokenizer.align
            whole = (endless.length - 1 - (number + 1)) % tokenizer.align == 0
            assert whole  # forgotten in whole groups
    music = stream(tokenizer, context=context)
    assert len(list(islice(music, 600))) == 600
    assert len(music._ids) <= 2 * context * tokenizer.align
    assert len(music._events) < 100


def test_looking_back_on_less_is_possible_while_it_runs(piano):
    music = stream(piano, context=32)
    first = list(islice(music, 40))
    music.context = 8
    more = list(islice(music, 40))
    assert music.context == 8
    times = [event.seconds for event in first + more]
    assert times == sorted(times)
    again = stream(piano, context=32)
    assert list(islice(again, 40)) == first


def test_closing_it_stops_it(piano):
    with stream(piano) as music:
        next(music)
    assert list(music) == []


def test_streams_of_one_model_do_not_disturb_each_other(piano):
    model = make(piano)

    def events(seed):
        return list(Stream(model, piano, NOTHING, seed=seed, seconds=2.0))

    with ThreadPoolExecutor(3) as pool:
        assert list(pool.map(events, range(3))) == [events(seed) for seed in range(3)]


def test_tokens_with_lengths_are_refused():
    pytest.importorskip("miditok")
    remi = build(name="docs.examples.remi:Remi")
    with pytest.raises(UserError, match="Remi tokens write notes with their length"):
        Stream(make(remi), remi, NOTHING, seed=0)
