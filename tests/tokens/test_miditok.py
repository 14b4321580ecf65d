"""MidiTok's tokenizers behind our protocol: proof that all after ids is general."""

from __future__ import annotations

import builtins
import json
import pickle

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from musictx.config import SamplingConfig
from musictx.errors import ConfigError, UserError
from musictx.notes import METER, NOTE, TEMPO, Score
from musictx.sampling import soft
from musictx.sampling.primer import NOTHING
from musictx.sampling.soft import NoteLimits
from musictx.tokens.build import build
from musictx.tokens.vocab import BOS, CUT, EOS, PAD
from tests.strategies import scores

pytest.importorskip("miditok")
from musictx.tokens.miditok import MidiTokTokenizer

NAMES = ("remi", "tsd", "midilike", "structured")
quick = settings(deadline=None, max_examples=12)
EACH = [(name, tracks) for name in NAMES for tracks in ("piano", "programs")]
_made: dict[tuple[str, str], MidiTokTokenizer] = {}


def tokenizer_of(name: str, tracks: str = "piano") -> MidiTokTokenizer:
    if (name, tracks) not in _made:
        _made[name, tracks] = build(name, tracks=tracks)
    return _made[name, tracks]


def words(tokenizer: MidiTokTokenizer, ids: np.ndarray) -> list[str]:
    return ["_".join(tokenizer._tokens[int(i) - 4]) for i in ids]


def piece(drums: bool = False) -> Score:
    """Eight bars at 90 bpm of quarter and eighth notes, a chord in each bar."""
    beat, notes = 60 / 90, []
    for bar in range(8):
        for eighth in range(8):
            start = (bar * 4 + eighth / 2) * beat
            notes.append((start, start + beat / 2, 60 + eighth, 20 + 12 * eighth, 0, False, 0))
        start = bar * 4 * beat
        notes += [(start, start + 2 * beat, 40 + p, 80, 48, False, 1) for p in (0, 4, 7)]
        if drums:
            notes.append((start, start + beat / 4, 36, 100, 0, True, 2))
    return Score(notes=np.array(notes, NOTE), tempos=np.array([(0.0, 90.0)], TEMPO))


@pytest.mark.parametrize(("name", "tracks"), EACH)
def test_music_on_the_grid_comes_back_in_time_with_its_tempo(name, tracks):
    tokenizer, score = tokenizer_of(name, tracks), piece(drums=True)
    ids, left_out = tokenizer.encode_with_report(score)
    assert ids.dtype == np.uint16
    assert ids.min() >= 4
    assert left_out == ({"drum notes left out": 8} if tracks == "piano" else {})
    heard = tokenizer.decode(ids)
    kept = score.notes[~score.notes["drum"]] if tracks == "piano" else score.notes
    keys = ["start", "pitch", "velocity"]
    heard_notes, kept = np.sort(heard.notes, order=keys), np.sort(kept, order=keys)
    tempo = "use_tempos" in _vocab_options(tokenizer)
    tolerance = 1e-3 if tempo else 0.05  # without tempo tokens, 120 bpm is the grid
    assert len(heard_notes) == len(kept)
    onset = np.abs(np.sort(heard_notes["start"]) - np.sort(kept["start"]))
    assert onset.max() < tolerance
    assert sorted(heard_notes["pitch"]) == sorted(kept["pitch"])
    velocities = [np.sort(n["velocity"]).astype(int) for n in (heard_notes, kept)]
    assert np.abs(velocities[0] - velocities[1]).max() <= 2
    if tempo:
        assert heard.tempos["bpm"].tolist() == [90.0]
        assert np.allclose(np.sort(heard_notes["end"]), np.sort(kept["end"]), atol=1e-3)
    if tracks == "programs":
        assert set(heard.notes["program"][~heard.notes["drum"]]) == {0, 48}
        assert heard.notes["drum"].sum() == 8


def _vocab_options(tokenizer: MidiTokTokenizer) -> set[str]:
    return {"use_tempos"} if any(kind == "Tempo" for kind, _ in tokenizer._tokens) else set()


@pytest.mark.parametrize(("name", "tracks"), EACH)
@quick
@given(piece=scores(pitches=(30, 90), velocities=(1, 127)))
def test_what_it_writes_its_grammar_takes_step_by_step(name, tracks, piece):
    tokenizer = tokenizer_of(name, tracks)
    ids, left_out = tokenizer.encode_with_report(piece)
    state = tokenizer.grammar()
    for token_id in ids:
        state.advance(int(token_id))
    if len(ids):
        assert state.allowed()[EOS]
        assert state.notes == len(piece) - sum(left_out.values())
        heard = tokenizer.decode(ids)
        assert heard.notes["start"].max() <= state.seconds + 1e-6


@pytest.mark.parametrize(("name", "tracks"), EACH)
def test_a_mark_after_the_last_note_is_not_written(name, tracks):
    tokenizer = tokenizer_of(name, tracks)
    notes = [(0.5 * i, 0.5 * i + 0.4, 60 + i, 80, 0, False, 0) for i in range(4)]
    piece = Score(notes=notes, meters=[(0, 4, 4)])
    later = Score(notes=notes, meters=[(0, 4, 4), (8.0, 3, 4)], tempos=[(9.0, 90.0)])
    assert tokenizer.encode(later).tolist() == tokenizer.encode(piece).tolist()


@pytest.mark.parametrize(("name", "tracks"), EACH)
def test_whatever_is_drawn_within_the_grammar_decodes(name, tracks):
    tokenizer = tokenizer_of(name, tracks)
    generator = np.random.default_rng(7)
    for _ in range(3):
        state, drawn = tokenizer.grammar(), []
        for _ in range(120):
            allowed = state.allowed()
            assert not allowed[[PAD, BOS, CUT]].any()
            token_id = int(generator.choice(np.flatnonzero(allowed)))
            before = state.seconds
            state.advance(token_id)
            assert state.seconds >= before - 1e-9  # time never runs backwards
            if token_id == EOS:
                assert np.flatnonzero(state.allowed()).tolist() == [EOS]
                break
            drawn.append(token_id)
        heard = tokenizer.decode(drawn)
        # Only the very last note can lack its velocity or length.
        assert state.notes - 1 <= len(heard) <= state.notes
        assert tokenizer.grammar(drawn).notes == state.notes


@pytest.mark.parametrize(("name", "tracks"), EACH)
def test_any_ids_decode(name, tracks):
    tokenizer = tokenizer_of(name, tracks)
    generator = np.random.default_rng(3)
    for _ in range(10):
        tokenizer.decode(generator.integers(0, tokenizer.size, 60))
    assert tokenizer.decode([]) == Score()
    assert tokenizer.decode([PAD, BOS, EOS]) == Score()
    assert tokenizer.encode(Score()).shape == (0,)
    with pytest.raises(ValueError, match="expected 0 to"):
        tokenizer.decode([tokenizer.size])


@pytest.mark.parametrize(("name", "tracks"), EACH)
def test_transposed_ids_are_the_ids_of_the_transposed_piece_and_drums_stay(name, tracks):
    tokenizer, score = tokenizer_of(name, tracks), piece(drums=True)
    ids = tokenizer.encode(score)
    notes = score.notes.copy()
    notes["pitch"][~notes["drum"]] += 5
    assert np.array_equal(
        tokenizer.augment(ids, semitones=5), tokenizer.encode(score.with_notes(notes))
    )
    assert tokenizer.augment(ids, semitones=70) is None
    assert tokenizer.augment(ids) is ids
    assert np.array_equal(tokenizer.augment(ids, stretch=1.0, velocity=0, semitones=0), ids)


@pytest.mark.parametrize("name", NAMES)
def test_a_stretch_lasts_longer_and_keeps_every_note(name):
    tokenizer, score = tokenizer_of(name), piece()
    ids = np.concatenate([[BOS], tokenizer.encode(score), [EOS]]).astype(np.uint16)
    longer = tokenizer.augment(ids, stretch=1.25, velocity=10)
    assert longer[0] == BOS
    assert longer[-1] == EOS
    before, after = tokenizer.decode(ids), tokenizer.decode(longer)
    assert len(after) == len(before)
    assert after.duration / before.duration == pytest.approx(1.25, rel=0.01)
    louder = after.notes["velocity"].astype(int) - before.notes["velocity"]
    assert 8 <= np.median(louder) <= 12


def test_notes_that_wait_for_a_release_end_with_the_piece():
    tokenizer = tokenizer_of("midilike")
    ids = [
        i for i, w in zip(tokenizer.encode(piece()), words(tokenizer, tokenizer.encode(piece())))
    ]
    closed = tokenizer.decode(ids)
    offs = [i for i, w in zip(ids, words(tokenizer, ids)) if not w.startswith("NoteOff")]
    left_open = tokenizer.decode(offs)
    assert len(left_open) == len(closed)
    assert np.allclose(left_open.notes["end"], closed.notes["start"].max(), atol=1.0)


def test_meters_and_tempo_changes_survive():
    score = piece()
    score = Score(
        notes=score.notes,
        tempos=np.array([(0.0, 90.0), (60 / 90 * 12, 120.0)], TEMPO),
        meters=np.array([(0.0, 3, 4)], METER),
    )
    heard = tokenizer_of("remi").decode(tokenizer_of("remi").encode(score))
    assert heard.tempos["bpm"].tolist() == [90.0, 120.0]
    assert heard.meters[["numerator", "denominator"]].tolist() == [(3, 4)]
    assert np.allclose(np.sort(heard.notes["start"]), np.sort(score.notes["start"]), atol=0.04)


@pytest.mark.parametrize(("name", "tracks"), EACH)
def test_it_is_made_again_from_what_it_says_of_itself(name, tracks):
    tokenizer = tokenizer_of(name, tracks)
    again = build(**json.loads(json.dumps(tokenizer.to_config())))
    assert (again.fingerprint, again.size) == (tokenizer.fingerprint, tokenizer.size)
    unpickled = pickle.loads(pickle.dumps(tokenizer))
    assert np.array_equal(unpickled.encode(piece()), tokenizer.encode(piece()))


def test_params_change_the_vocabulary_and_its_fingerprint():
    plain = tokenizer_of("remi")
    finer = build("REMI", params={"beat_res": {"0_4": 12, "4_12": 4}})
    assert finer.fingerprint != plain.fingerprint
    starts = np.array([0.0, 1 / 6, 1 / 3])  # triplets of a beat at 120 bpm
    notes = np.zeros(3, NOTE)
    notes["start"], notes["end"], notes["pitch"], notes["velocity"] = starts, starts + 0.1, 60, 64
    heard = finer.decode(finer.encode(Score(notes=notes)))
    assert np.allclose(heard.notes["start"], starts, atol=1e-6)
    plainly = build("remi", low=21, high=108, velocity_bins=8, params={"use_tempos": False})
    kinds = [kind for kind, _ in plainly._tokens]
    assert (kinds.count("Pitch"), kinds.count("Velocity"), kinds.count("Tempo")) == (88, 8, 0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"name": "octuple"},
            "writes several ids for each note; expected one of performance, chorale, remi",
        ),
        ({"name": "MMM"}, "one after another, so a piece cannot be continued in time"),
        ({"name": "remi", "params": {"use_programs": True}}, "set by tokenizer.tracks"),
        ({"name": "remi", "params": {"colour": 3}}, "tokenizer.params.colour=3: MidiTok's REMI"),
        ({"name": "structured", "params": {"use_tempos": True}}, "Structured does not take it"),
        ({"name": "pertok"}, "lets notes without velocity and length through"),
        ({"name": "remi", "params": {"beat_res": 4}}, 'positions such as {"0_4": 8}'),
        ({"name": "remi", "params": {"num_tempos": "many"}}, "MidiTok's REMI refuses them"),
        ({"name": "remi", "low": 60, "high": 60}, "MidiTok's REMI refuses them"),
    ],
)
def test_what_cannot_be_is_refused_in_one_sentence(options, message):
    with pytest.raises(ConfigError) as error:
        build(**options)
    assert message in str(error.value)


def test_a_missing_package_is_named_with_the_command_that_installs_it(monkeypatch):
    real = builtins.__import__

    def no_miditok(name, *args, **kwargs):
        if name == "miditok":
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", no_miditok)
    with pytest.raises(UserError, match=r'pip install "musictx\[tokenizers\]"'):
        build("remi")


@quick
@given(st.sampled_from(EACH), scores(pitches=(30, 90), min_notes=5), st.data())
def test_a_window_from_inside_a_piece_can_be_changed(which, piece, data):
    tokenizer = tokenizer_of(*which)
    ids = tokenizer.encode(piece)
    assume(len(ids) > 4)
    start = data.draw(st.integers(0, len(ids) - 2))
    window = ids[start : data.draw(st.integers(start + 1, len(ids)))]
    for settings_ in ({"semitones": 2}, {"stretch": 0.95}, {"velocity": -20}):
        changed = tokenizer.augment(window, **settings_)
        assert changed.dtype == np.uint16
        tokenizer.grammar(changed)


@pytest.mark.parametrize(("name", "tracks"), EACH)
def test_notes_come_back_in_the_order_in_which_they_are_struck(name, tracks):
    """So the first notes are those of a prefix, wherever it is cut: by their starts and pitches."""
    tokenizer, score = tokenizer_of(name, tracks), piece(drums=True)
    ids = tokenizer.encode(score)
    whole = tokenizer.decode(ids).notes
    for cut in range(0, len(ids), 7):
        before = tokenizer.decode(ids[:cut]).notes
        count = min(len(before), tokenizer.grammar(ids[:cut]).notes)
        for key in ("start", "pitch", "program"):
            assert np.array_equal(whole[:count][key], before[:count][key])


def test_strokes_of_drums_say_nothing_of_pitches():
    """No soft constraint holds back a pitch because drums were struck."""
    tokenizer = tokenizer_of("midilike", "programs")
    beat = Score([(i / 8, i / 8 + 0.1, 36 + i % 3, 90, 0, True, 0) for i in range(16)])
    ids, limits = tokenizer.encode(beat), NoteLimits(np.full(128, np.inf), strikes=1)
    pitched = tokenizer.note_events.strike >= 0
    constraints = soft.build(tokenizer, SamplingConfig(hands=12), limits, [NOTHING])
    for count in range(1, len(ids) + 1):
        state, past = tokenizer.grammar(ids[:count]), np.array([[BOS, *ids[:count]]])
        for constraint in constraints:
            assert not constraint([state], past)[:, pitched].any()
