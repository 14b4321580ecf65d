"""What a model reads of a primer, what stays of it, and where new notes stand in its piece."""

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from musictx.errors import UserError
from musictx.notes import NOTE, Score
from musictx.sampling import timeline
from musictx.sampling.continuation import prompts, to_bar_line
from musictx.sampling.primer import encode_primer
from musictx.sampling.timeline import assign_tracks
from musictx.tokens.build import build
from musictx.tokens.vocab import BOS, CUT
from tests.pieces import of, score
from tests.sampling.pieces import TUNE, continue_each, continue_music, make, rows
from tests.strategies import tempo_marks


@pytest.mark.parametrize("seconds", [0.01, 0.2, 1.0, 2.5, 3.14, 1e6])
def test_a_primer_in_seconds_keeps_no_event_after_them(piano, seconds):
    primer = encode_primer(piano, TUNE, seconds=seconds)
    assert primer.seconds <= seconds + 1e-9
    assert seconds < 1e6 or len(primer.ids) == len(piano.encode(TUNE))
    kept = piano.decode(primer.ids).notes
    assert rows(kept) == rows(piano.round_trip(TUNE).notes[TUNE.notes["start"] <= seconds])
    assert piano.encode(TUNE)[: len(primer.ids)].tolist() == primer.ids.tolist()


@pytest.mark.parametrize("name", ["chorale", "notes"])
def test_a_primer_in_seconds_ends_after_a_whole_step_or_note(name):
    primer = encode_primer(build(name), TUNE.with_notes(TUNE.notes[::4]), seconds=2.3)
    assert len(primer.ids) % build(name).align == 0
    assert rows(primer.score) == rows(TUNE.notes[:12:4])


def test_a_primer_without_a_usable_note_is_refused_with_the_reason(piano):
    drums = TUNE.notes.copy()
    drums["drum"] = True
    with pytest.raises(UserError, match=r"song.mid: none of its 40 notes .*drum.*40"):
        encode_primer(piano, Score(notes=drums), name="song.mid")
    with pytest.raises(UserError, match=r"none of its 1 notes .*48\.\.84"):
        encode_primer(piano, of((0, 1, 20)))
    with pytest.raises(UserError, match="the file has no notes"):
        encode_primer(piano, Score())
    with pytest.raises(UserError, match=r"^song.mid: 5 notes sound at once"):
        encode_primer(build("chorale"), of(*((0, 1, 60 + i) for i in range(5))), name="song.mid")
    from_beat_3 = Score(notes=TUNE.notes, tempos=[(0.0, 120.0)]).shifted(1.0)
    with pytest.raises(UserError, match=r"no note in its first 0.5 s; choose a longer primer"):
        encode_primer(build(name="notes"), from_beat_3, seconds=0.5)


def test_the_model_reads_the_end_of_primers_as_long_as_the_shortest():
    ids = np.arange(100, 110, dtype=np.uint16)
    assert prompts([ids, ids], 11).tolist() == [[BOS, *range(100, 110)]], "one row for all"
    pasts = [np.array([10, 11, 12]), np.array([20, 21, 22, 23, 24])]
    assert prompts(pasts, 99).tolist() == [[BOS, 10, 11, 12], [CUT, 22, 23, 24]]
    assert prompts(pasts, 3).tolist() == [[CUT, 11, 12], [CUT, 23, 24]]
    broken_off = [np.arange(10, 21)]  # in the midst of the third group of four
    assert prompts(broken_off, 9, 4).tolist() == [[CUT, *range(14, 21)]]
    assert prompts(broken_off, 3, 4).tolist() == [[CUT]], "no room for whole groups"


def test_a_row_of_the_shortest_primer_does_not_depend_on_the_others(piano):
    short, long = (encode_primer(piano, TUNE, seconds=n) for n in (0.7, 1.9))
    asked = {"seconds": 1.0, "note_limits": {"density": 4.0, "most_notes": 3}}
    model = make(piano, context=64)
    (alone,) = continue_each(model, piano, [short], seeds=[(3, 1)], **asked)
    both = continue_each(model, piano, [long, short], seeds=[(3, 0), (3, 1)], **asked)
    assert alone.ids.tolist() == both[1].ids.tolist()
    for primer, sample in zip((long, short), both):
        state = piano.grammar(primer.ids)  # grammatical after its own primer
        for token_id in sample.ids.tolist():
            state.advance(token_id)
        assert sample.seam == primer.seconds
        assert sample.score.duration <= primer.seconds + 1.0 + 1e-9


def test_a_primer_keeps_its_marks_tracks_and_notes_and_new_notes_keep_its_bars(piano):
    """96 bpm, 3/4, a rest before the first note, two tracks: all come back as they were."""
    quarter = 60 / 96
    hands = [((3 + i) * quarter, (3.5 + i) * quarter, 64 + i, 70, 73, False, 5) for i in range(6)]
    hands += [((3 + i) * quarter, (4 + i) * quarter, 52, 50, 32, False, 2) for i in (0, 3)]
    marks = {"names": {5: "Flute", 2: "Bass"}, "markers": ((0, "Verse"), (0, "F#m"), (1, "C"))}
    given_score = score(hands, bpm=96.0, meter=(3, 4), **marks)
    primer = encode_primer(piano, given_score)
    options = {"seconds": None, "bars": 2, "quantise": "16"}
    (sample,) = continue_music(make(piano), piano, primer, **options)
    whole = sample.score
    assert np.array_equal(whole.notes[: len(hands)], given_score.notes)
    for name in ("tempos", "meters"):
        assert np.array_equal(getattr(whole, name), getattr(given_score, name))
    assert (whole.names, whole.ticks_per_quarter) == ({5: "Flute", 2: "Bass"}, 480)
    new = whole.notes[len(hands) :]
    assert len(new)
    assert {(n["track"], n["program"]) for n in new} <= {(5, 73), (2, 32)}
    assert {n["track"] for n in new if n["pitch"] > 75} <= {5}
    sixteenths = new["start"] / quarter * 4
    assert np.allclose(sixteenths, np.round(sixteenths), atol=1e-6)
    assert whole.duration <= (9 + 6) * quarter + 1e-6, "two bars of three quarters after the third"
    assert sample.ended == "seconds"
    (new_only,) = continue_music(make(piano), piano, primer, include_primer=False, **options)
    assert new_only.score.markers == ((0.0, "C"),), "only the chord in force"
    assert np.allclose(new_only.score.notes["start"] + 6 * quarter, new["start"])
    assert new_only.score.notes["pitch"].tolist() == new["pitch"].tolist()
    assert new_only.seam == 0.0


@pytest.mark.parametrize("name", ["performance", "notes"])
@pytest.mark.parametrize(("last", "line"), [(6.5, 8.0), (7.96, 8.0), (8.04, 8.0), (8.5, 10.0)])
def test_bars_are_continued_from_a_bar_line_on(name, last, line):
    """A note until ``last`` seconds in bars of two: the ids end with the line after it."""
    tokenizer = build(name)
    music = of(*((i / 2, i / 2 + 0.45) for i in range(12)), (6.0, last, 62))
    primer = encode_primer(tokenizer, music)
    ended = to_bar_line(tokenizer, primer)
    assert ended.ids[: len(primer.ids)].tolist() == primer.ids.tolist()
    assert tokenizer.grammar(ended.ids).notes == 13
    if name == "notes" or last <= line:  # else the note itself passes the line
        assert ended.seconds == pytest.approx(line, abs=0.011)
    motif = music.with_notes(music.notes[:3])  # too few to tell whether they keep to beats
    primer = encode_primer(tokenizer, motif)
    ended = to_bar_line(tokenizer, primer)
    assert ended.seconds == pytest.approx(2.0) if name == "notes" else ended is primer


def tokens(kinds=("pitch", "velocity"), voices=0):
    return SimpleNamespace(vocabulary=SimpleNamespace(kinds=kinds), voices=voices)


@given(tempo_marks, st.sampled_from(["16", "8", "8t"]), st.data())
def test_quantised_notes_stand_on_the_nearest_lines(tempos, grid, data):
    clock = Score(tempos=tempos).beats
    start = data.draw(st.floats(0, 20))
    end = start + data.draw(st.floats(0, 3))
    (note,) = timeline.quantise(of((start, end)).notes, Score(tempos=tempos), grid)
    lines = {"16": 4, "8": 2, "8t": 3}[grid]
    first, last = (clock.quarters(note[name]) * lines for name in ("start", "end"))
    assert first == pytest.approx(round(first), abs=1e-5)
    assert last == pytest.approx(round(last), abs=1e-5)
    assert abs(first - clock.quarters(start) * lines) <= 0.5 + 1e-5
    assert last >= first + 1 - 1e-5
    if last > first + 1.5:
        assert abs(last - clock.quarters(end) * lines) <= 0.5 + 1e-5


strokes = st.tuples(
    *(st.floats(0, 1), st.just(2.0), st.sampled_from([36, 38]), st.integers(1, 127)),
    *(st.just(0), st.booleans(), st.sampled_from([0, 1])),
)


@given(st.lists(strokes, max_size=12))
def test_of_notes_quantised_to_one_place_the_loudest_stays(rows):
    notes, clock, region = np.array(rows, NOTE), Score(), (0.25, 0.75)
    alone = [timeline.quantise(notes[[i]], clock, "8t", region)[0] for i in range(len(notes))]
    loudest = {}
    for s, _, p, velocity, _, d, t in alone:
        assert 0.25 <= s < 0.75
        loudest[s, p, d, t] = max(velocity, loudest.get((s, p, d, t), 0))
    together = timeline.quantise(notes, clock, "8t", region)
    assert len(together) == len(loudest)
    assert {(s, p, d, t): v for s, _, p, v, _, d, t in together} == loudest


def given_on(*tracks):
    """A piece with a note for each (track, pitch, program, drum)."""
    return Score([(i, i + 1, p, 70, g, d, t) for i, (t, p, g, d) in enumerate(tracks)])


def new(*notes):
    """Notes of (pitch, program, drum, voice)."""
    return np.array([(9, 10, p, 90, g, d, v) for p, g, d, v in notes], NOTE)


def test_a_new_note_goes_to_a_track_that_has_its_program_at_that_time():
    """Track 0 has program 0 from 0 s and 48 from 5 s on; track 1, an octave lower, has 48."""
    rows = [(0, 1, 72, 80, 0, False, 0), (5, 6, 72, 80, 48, False, 0), (0, 9, 60, 80, 48, False, 1)]
    piece = of(*rows)
    early, late = new((73, 48, False, 0)), new((73, 48, False, 0))
    early["start"], kinds = 2, ("pitch", "program")
    for note, track in ((early, 1), (late, 0)):
        placed = assign_tracks(note, piece, tokens(kinds=kinds))
        assert placed[["track", "program"]].tolist() == [(track, 48)]
    programs = [timeline.programs_between(piece.notes, *span) for span in ((1, 5), (4, 6), (7, 8))]
    assert programs == [{0, 48}, {0, 48}, {48}]
    assert timeline.programs_between(piece.notes[piece.notes["track"] == 0], 1, 5) == {0}


def test_new_notes_go_to_the_track_whose_notes_lie_nearest():
    piece = given_on((2, 72, 0, False), (5, 48, 33, False), (7, 36, 0, True))
    notes = new((70, 0, False, 0), (50, 0, False, 0), (35, 0, True, 0))
    placed = assign_tracks(notes, piece, tokens())
    fields, kinds = ["track", "program", "velocity"], ("pitch", "program")
    assert placed[fields].tolist() == [(2, 0, 90), (5, 33, 90), (7, 0, 90)]
    # A note stays with its program, however high; one of a new program gets a new track.
    placed = assign_tracks(new((70, 33, False, 3), (50, 12, False, 4)), piece, tokens(kinds=kinds))
    assert placed[fields].tolist() == [(5, 33, 70), (12, 12, 70)]  # tokens without velocities
    one = given_on((4, 60, 0, False))  # of the allowed tracks, only 4 has notes
    for tracks, expected in (({4}, [4, 4, 5]), ({0}, [5, 5, 5])):
        assert assign_tracks(notes, one, tokens(), tracks)["track"].tolist() == expected
    assert assign_tracks(notes, Score(), tokens())["track"].tolist() == [0, 0, 0]


def test_a_note_held_at_the_seam_ends_with_the_decoded_note_of_its_instrument():
    held = of((0, 2, 60), (0, 2, 60, 80, 48, False, 1))
    decoded = held.notes.copy()
    decoded["end"] = 3, 5
    for count, ends in ((2, [3, 5]), (1, [3, 3])):
        assert timeline.join(held, decoded[:count], new(), 2.0).notes["end"].tolist() == ends
