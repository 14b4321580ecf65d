"""Notes as they are composed, in streams and around known notes: those of the finished piece."""

from collections import Counter
from functools import partial
from itertools import islice

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from musictx.config import GenerateConfig, SamplingConfig
from musictx.data.statistics import WINDOW_SECONDS, CorpusStats, Habit, notes_at_onsets, parts_of
from musictx.errors import UserError
from musictx.notes import DRUMS, Score
from musictx.sampling import composer, engine, event_infill, timeline
from musictx.sampling.constraints import GrammarConstraint
from musictx.sampling.event_infill import EventInfill
from musictx.sampling.infill import Brief
from musictx.sampling.primer import NO_PRIMER, encode_primer
from musictx.sampling.steer import Steering
from musictx.sampling.stream import Stream
from musictx.tokens import events as ev
from musictx.tokens.build import build
from musictx.tokens.performance import PerformanceTokenizer
from tests.sampling.pieces import TOKENIZERS, TUNE, bundle_of, continue_each, make
from tests.strategies import scores

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
def test_events_of_a_row_are_its_new_notes_and_nothing_is_drawn_otherwise(name, primed, more):
    if name == "remi":
        pytest.importorskip("miditok")
    tokenizer = build(**EVERY[name])
    tune = TUNE if name not in ("chorale", "ties") else TUNE.with_notes(TUNE.notes[::4])
    primers = [encode_primer(tokenizer, tune, seconds=2.0) if primed else NO_PRIMER] * 3
    lean = {"bar": 3.0} if name == "notes" else {}  # else time hardly passes
    model, events = make(tokenizer, context=64, **lean), {0: [], 1: [], 2: []}
    options = {"seconds": 3.0, "seeds": [(7, i) for i in range(3)]} | more
    options["sampling"] = SamplingConfig(rules=0)
    report = lambda row, event: events[row].append(event)  # noqa: E731
    samples = continue_each(model, tokenizer, primers, on_event=report, **options)
    silent = continue_each(model, tokenizer, primers, **options)
    assert [one.score for one in samples] == [one.score for one in silent]
    assert sum(one.notes for one in samples) >= 3
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
        assert begun_and_ended(events[row], whole) == listed(new, track, whole)


KEPT = Score(notes=[(0.2 * i, 0.2 * i + 0.3, 60 + i % 7, 70, 0, False, 0) for i in range(15)])


def parts(is_gap: bool, tracks: str = "piano") -> EventInfill:
    tokenizer = build(name="performance", tracks=tracks, controls=True)
    steering = Steering((3, 2, 1, 0))
    model = make(tokenizer, context=160, time_shift=1.0)
    span = (2.0, 2.75) if is_gap else (0.0, 1.0)
    programs = None if is_gap or tracks == "piano" else {0, 48}
    options = {"is_gap": is_gap, "parts": programs}
    brief = Brief(KEPT, *span, steering=steering, **options)
    return EventInfill(bundle_of(model, tokenizer), brief)


def composed(part: EventInfill, seeds, **more):
    part.stats = CorpusStats.of({"most_notes": 4, "longest_note": [[0, 0.5]]})
    part.sampling = SamplingConfig(top_p=1.0)
    return [version for version, _ in composer.versions(part, seeds, **more)]


@pytest.mark.parametrize("tracks", ["piano", "programs"])
@pytest.mark.parametrize("is_gap", [True, False])
def test_versions_in_a_batch_are_those_alone_and_events_are_their_notes(
    tracks, is_gap, monkeypatch
):
    part, seeds, events = parts(is_gap, tracks), [(5, i) for i in range(3)], {}
    steps: list[tuple[int, float]] = []
    finish = partial(timeline.quantise, score=KEPT, grid="16")
    monkeypatch.setattr(composer, "ROWS_AT_ONCE", 2)
    monkeypatch.setattr(event_infill, "SEGMENT_SECONDS", 0.5)
    report = lambda row, event: events.setdefault(row, []).append(event)  # noqa: E731
    progress = lambda *step: steps.append(step)  # noqa: E731
    together = composed(part, seeds, finish=finish, progress=progress, on_event=report)
    counts, seconds = zip(*steps)
    assert max(counts) == 2
    assert list(seconds) == sorted(seconds)
    assert seconds[-1] == pytest.approx(3 * (0.75 if is_gap else 1.0), abs=0.02)
    for row, (seed, version) in enumerate(zip(seeds, together)):
        (alone,) = composed(part, [seed])
        assert np.array_equal(version.new, alone.new)
        assert len(version.new) > 2
        # A note is reported before one that begins on the same line and takes its place.
        each = np.concatenate([finish(version.new[[i]]) for i in range(len(version.new))])
        assert begun_and_ended(events[row]) == listed(each, "program")
    assert len({version.new.tobytes() for version in together}) == 3


def stream(tokenizer, primer=NO_PRIMER, *, context=32, seconds=None):
    bundle = bundle_of(make(tokenizer, context=context), tokenizer)
    request = GenerateConfig(seconds=seconds, sampling=SamplingConfig(rules=0))
    return Stream(bundle, primer, request, seed=0)


@pytest.mark.parametrize("name", TOKENIZERS)
@pytest.mark.parametrize("primed", [False, True])
def test_the_events_are_those_of_the_ids_decoded(name, primed):
    tokenizer = build(**TOKENIZERS[name])
    tune = TUNE if name != "chorale" else TUNE.with_notes(TUNE.notes[::4])
    primer = encode_primer(tokenizer, tune, seconds=2.0) if primed else NO_PRIMER
    music = stream(tokenizer, primer, seconds=6.0, context=600)
    events = list(music)
    times = [event.seconds for event in events]
    assert times == sorted(times)
    assert times[-1] <= 6.0 + 1e-9
    decoded = tokenizer.decode([*primer.ids, *list(music._ids)[len(primer.ids) :]]).notes
    new = decoded[len(tokenizer.decode(primer.ids)) if primed else 0 :].copy()
    clock = primer.clock(tokenizer)
    for end in ("start", "end"):
        new[end] = clock.seconds(new[end]) - float(clock.seconds(primer.seconds))
    new = new[new["start"] < 6.0 - 1e-6]
    new["end"] = np.where(new["drum"], new["start"], np.minimum(new["end"], 6.0))
    assert begun_and_ended(events, False) == listed(new, tracks=False)


@pytest.mark.parametrize("name", ["piano", "chorale"])
def test_without_end_the_same_ids_come_in_memory_that_does_not_grow(name):
    tokenizer, context = build(**TOKENIZERS[name]), 16
    model = make(tokenizer, context=context)

    def ids(max_tokens):
        law = GrammarConstraint([tokenizer.grammar()], may_end=False)
        options = {"constraint": law, "seeds": [3], "align": tokenizer.align}
        drawn = engine.generate(model, [1], max_tokens=max_tokens, **options)
        return [int(i[0]) for i in islice(drawn, 200)]

    assert ids(None) == ids(200)
    with stream(tokenizer, context=context) as music:
        assert len(list(islice(music, 150))) == 150
        music.context = 8  # looking back on less is possible while it runs
        assert len(list(islice(music, 150))) == 150
        assert len(music._ids) <= 2 * context * tokenizer.align
        assert len(music._events) < 100
    assert list(music) == [], "it is closed"


def test_tokens_with_lengths_are_refused():
    pytest.importorskip("miditok")
    remi = build(name="docs.examples.remi:Remi")
    with pytest.raises(UserError, match="Remi tokens write notes with their length"):
        Stream(bundle_of(make(remi), remi), NO_PRIMER, GenerateConfig(), seed=0)


PIANO = PerformanceTokenizer(controls=True)
ENSEMBLE = PerformanceTokenizer(tracks="programs", controls=True)
#: What the model leans to: nothing, or strikes alone, or letting time pass.
LEANS = [{}, {"note_on": 6.0, "time_shift": -6.0}, {"time_shift": 5.0}, {"note_off": 5.0}]
few = settings(max_examples=15, phases=[Phase.explicit, Phase.generate])


def as_tokens(notes: np.ndarray) -> Counter:
    """Notes by everything that tokens of hundredths of a second keep of them."""
    times = (np.round(notes[name] * 100).astype(int).tolist() for name in ("start", "end"))
    others = (notes[name].tolist() for name in ("pitch", "velocity", "program", "drum"))
    return Counter(zip(*times, *others))


@few
@given(
    scores(max_notes=25, pedals=False),
    st.sampled_from([PIANO, ENSEMBLE]),
    st.sampled_from(LEANS),
    st.integers(0, 600).map(lambda n: n / 100),
    st.integers(10, 300).map(lambda n: n / 100),
    st.booleans(),
    st.sampled_from([{}, {0: Habit(1, 60, 61)}, dict.fromkeys(range(128), Habit(2, 50, 70))]),
    st.integers(0, 99),
)
def test_known_notes_come_back_exactly_and_new_ones_keep_to_their_span_and_habits(
    kept, tokenizer, lean, begin, length, is_gap, habits, seed
):
    model = make(tokenizer, context=96, seed=seed, **lean)
    end = begin + length
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(event_infill, "SEGMENT_SECONDS", 1.0)
        brief = Brief(kept, begin, end, is_gap, habits=habits)
        (part,) = composed(EventInfill(bundle_of(model, tokenizer), brief), [[seed]])
    new = part.new
    if part.step < part.stop:  # given up: time did not pass; what is known is there up to it
        assert lean.get("note_on")
        return
    ids_now = np.concatenate([part.past, part.given])  # what was beyond the span is not written
    stream = tokenizer.decode(ev.to_ids(ids_now, tokenizer.vocabulary)).notes
    flags = np.array(part.is_new + [False] * int((part.given["action"] != 0).sum()), bool)
    # Quantised scores begin with their first note; the stream at its origin.
    by = round(tokenizer.clock(kept).offset / 0.01) - part.origin if len(kept) else 0
    before = as_tokens(tokenizer.round_trip(kept).notes)
    moved = Counter({(n[0] + by, n[1] + by, *n[2:]): count for n, count in before.items()})
    assert as_tokens(stream[~flags]) == moved
    assert len(new) == sum(part.is_new)
    if len(new):
        assert new["start"].min() >= begin - 0.01
        assert new["start"].max() <= end + 0.01 or not is_gap
        if is_gap:
            assert new["end"].max() <= end + WINDOW_SECONDS + 0.011
    for program, mine in parts_of(new[~new["drum"]]).items():
        if program in habits:
            assert notes_at_onsets(mine).max() <= habits[program].voices
            assert habits[program].low <= mine["pitch"].min()
            assert mine["pitch"].max() <= habits[program].high
