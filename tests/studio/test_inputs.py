"""The input of a take, the changes of its results note by note, and the choice of models."""

import copy
import re
import shutil
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from musictx import shipped
from musictx.chorale import app as harmonise
from musictx.chords import chord_changes, parse_name
from musictx.config import ModelFolder
from musictx.errors import UserError
from musictx.notes import NOTE, Score
from musictx.studio import exchange
from musictx.studio.change import Track
from musictx.studio.config import StudioConfig, StudioLimits
from musictx.studio.document import EARLY_SECONDS
from musictx.studio.errors import Refused
from musictx.studio.inputs import prepare
from musictx.studio.models import Model, Models
from musictx.studio.performing import TrackMap, proposal_of
from musictx.studio.request import Request, parse_request
from musictx.studio.takes import acceptance_change
from musictx.tokens.controls import CONTROLS
from tests import pieces
from tests.strategies import scores
from tests.untrained import saved

#: The tolerance for times, which a file rounds to ticks.
NEAR = 2e-3


@pytest.fixture(scope="module")
def piano() -> Model:
    return Models(StudioConfig()).choose("piano", "replace")


def _rows(document):
    """Return (start, pitch, velocity, track) of each note, in an order that rounding keeps."""
    rows = [(start, *rest) for start, _, *rest in document.notes.values()]
    return sorted(rows, key=lambda row: (*row[1:], row[0]))


@given(
    scores(max_notes=30),
    st.floats(0, 3),
    st.floats(0.01, 3),
    st.sets(st.integers(0, 29)),
    st.sampled_from(["replace", "vary"]),
    st.integers(0, 5),
)
def test_a_gap_removes_the_notes_inside_it(piano, score, begin, length, locked, task, seed):
    document = exchange.document_of(score)
    document.locked = locked & set(document.notes)
    tracks = tuple(track.id for track in document.tracks)[::2] if seed % 2 else None
    begin, end = round(begin, 4), round(begin + length, 4)
    request = Request(task, begin, end, tracks, keep=0.5, seed=seed)
    drums = {track.id for track in document.tracks if track.drum}
    chosen = {track.id for track in document.tracks} - drums if tracks is None else tracks
    selected = [
        number
        for number, (start, *_, track) in document.notes.items()
        if track in chosen and begin + NEAR <= start < end - EARLY_SECONDS - NEAR
    ]
    try:
        source = prepare(document, request, piano)
    except UserError:
        return
    assert source.score is not None
    assert len(source.score) == len(document.notes)
    kept = source.task.given
    empty = proposal_of(source, kept, 0.0, TrackMap(source))  # of a result without new notes
    assert empty.notes == [*source.shortened]
    assert all(stop == begin for _, stop, *_ in source.shortened)
    shortened = set(source.removes)
    assert len(shortened) == len(source.shortened)
    assert not shortened or task == "replace"
    # A result that equals the input adds all notes, since another proposal may have removed them.
    same = proposal_of(source, source.score, 0.0, TrackMap(source), 2)
    assert (same.removes, same.tracks) == (empty.removes, [])
    after = copy.deepcopy(document)
    for result in (empty, same):
        after.apply(acceptance_change(after, 1, result))
    for row, then in zip(_rows(after), _rows(document), strict=True):
        assert row[1:] == then[1:]
        assert np.isclose(row[0], then[0], atol=EARLY_SECONDS + NEAR)
    assert len(empty.removes) == len(source.score) - len(kept) + len(shortened)
    assert not set(empty.removes) & document.locked
    removed = set(empty.removes) - shortened
    if task == "replace":
        inside = {n for n in selected if document.notes[n][0] > begin + NEAR}
        assert inside - document.locked <= removed
    for number in removed:
        start, *_, track = document.notes[number]
        assert begin - EARLY_SECONDS - NEAR < start < end + NEAR
        assert track in chosen


def test_a_note_just_before_a_bar_line_belongs_to_the_bar_in_which_it_mostly_sounds(piano):
    rows = [(0.0, 1.0, 60), (1.5, 2.5, 62), (1.94, 3.0, 64), (1.95, 2.01, 65), (3.95, 4.5, 67)]
    document = exchange.document_of(pieces.of(*rows))
    source = prepare(document, Request("replace", 2.0, 4.0), piano)
    result = proposal_of(source, source.task.given, 0.0, TrackMap(source))
    document.apply(acceptance_change(document, 1, result))
    expected = [(0.0, 1.0, 60), (1.5, 2.0, 62), (1.95, 2.0, 65), (3.95, 4.5, 67)]
    assert [row[1:4] for row in document.rows()] == expected


def test_a_continuation_has_the_notes_before_it_as_input_and_replaces_the_notes_after_it(piano):
    document = exchange.document_of(pieces.waltz())
    document.locked = {max(document.notes)}
    source = prepare(document, Request("continue", 0.0, 5.0, (0, 1), seconds=2.0), piano)
    assert (source.score is not None, source.config.end) == (True, "cut")
    assert source.score.notes["start"].max() < 5.0
    assert source.score.duration <= 5.0 + 1e-3
    rows = [(5.1, 5.6, 60, 70, 0, False, 0), (6.0, 6.4, 62, 70, 0, False, 5)]
    score = source.score.with_notes(np.concatenate([source.score.notes, np.array(rows, NOTE)]))
    result = proposal_of(source, score, 7.0, TrackMap(source))
    assert [row[:4] for row in result.notes] == [(5.1, 5.6, 60, 70), (6.0, 6.4, 62, 70)]
    assert [row[4] for row in result.notes] == [0, 3]  # an old track, and a new one
    assert [track["id"] for track in result.tracks] == [3]
    expected = [
        number for number, note in document.notes.items()
        if 5.0 - 1e-6 <= note[0] < 7.0 and note[4] in (0, 1) and number not in document.locked
    ]  # fmt: skip
    assert result.removes == sorted(expected)


@pytest.mark.parametrize("task", ["replace", "vary"])
@pytest.mark.parametrize("tracks", [None, (1,)])
def test_nothing_is_composed_on_tracks_whose_notes_in_the_gap_are_all_locked(piano, task, tracks):
    document = exchange.document_of(pieces.waltz())
    request = Request(task, 3.75, 7.5, tracks)
    inside = {n: row[4] for n, row in document.notes.items() if 3.75 - NEAR < row[0] < 7.5 - NEAR}
    chosen = {0, 1} if tracks is None else {*tracks}  # not the drums
    document.locked = {number for number, track in inside.items() if track in chosen}
    with pytest.raises(Refused, match="no notes on these tracks"):
        prepare(document, request, piano)
    for track in chosen:
        document.locked = {n for n, other in inside.items() if other != track}
        assert prepare(document, request, piano).config.tracks == str(track + 1)
    if task == "vary":  # 0.6 of one note is rounded to none
        selected = [n for n, track in inside.items() if track in chosen]
        document.locked = {*selected[1:]}
        source = prepare(document, replace(request, keep=0.6), piano)
        assert len(source.score) - len(source.task.given) == 1


def test_phrases_of_a_harmonised_melody_end_under_fermatas():
    """Fermatas over a rest, or after the selection, do not count."""
    beat = 0.5
    rows = [(beat * i, beat * (i + 1), 67) for i in range(16) if i != 9]
    fermatas = (beat * 7.5, beat * 9.5, beat * 11, beat * 15)
    document = exchange.document_of(pieces.of(*rows, fermatas=fermatas))
    model = Models(StudioConfig()).choose("chorale", "harmonise")
    request = Request("harmonise", 0.0, beat * 12)
    source = prepare(document, request, model)
    assert source.config.phrase_ends == [2, 3]
    assert harmonise.tune_of(source.score, source.config).ends == (2, 3)
    document.fermatas = ()
    assert prepare(document, request, model).config.phrase_ends == []


def test_each_kind_of_music_has_a_default_model(tmp_path, monkeypatch):
    """A user's newest model is the default for its kind of music; a named one, for all music."""
    models = Models(StudioConfig())
    for music, task, name in (
        ("free", "continue", "piano"),
        ("beats", "continue", "song"),
        ("beats", "new", "song"),
        ("chorale", "replace", "chorale"),
        ("chorale", "vary", "song"),
        ("free", "harmonise", "chorale"),
    ):
        assert models.choose(None, task, music).name == name
        assert models.choose("piano", "new", music).name == "piano"
    monkeypatch.chdir(tmp_path)
    folder = shutil.copytree(shipped.models()["song"], Path("runs/mine/model").absolute())
    newest = Models(StudioConfig())
    named_model = Models(StudioConfig(model=ModelFolder(str(folder))))
    for music, name in (("free", "piano"), ("beats", "mine"), ("chorale", "chorale")):
        assert newest.choose(None, "continue", music).name == name
        assert named_model.choose(None, "continue", music).name == "mine"


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("tokenizer.json", '{"config": ' + "[" * 10**5 + "]" * 10**5 + "}"),
        ("CARD.md", "#" + " " * 10**6),
        ("CARD.md", "\n## Steering\n" + "a" * 9 * 10**5),
        ("CARD.md", "#" * 10**7),
    ],
    ids=["deep", "spaces", "word", "large card"],
)
def test_a_hostile_model_folder_is_refused_or_read_in_little_time(tmp_path, file, text):
    folder = saved(tmp_path / "model")
    (folder / file).write_text(text)
    load = partial(Model.load, "mine", "mine", folder)
    if file == "CARD.md":
        assert load().title == "mine"
    else:
        with pytest.raises(UserError, match="is damaged"):
            load()


def test_a_control_that_a_model_does_not_follow_is_not_offered(tmp_path):
    for name in ("piano", "song"):
        model = Models(StudioConfig()).choose(name, "new")
        assert set(model.steering) == set(CONTROLS)
    shutil.copytree(model.folder, tmp_path / "mine")
    card = tmp_path / "mine" / "CARD.md"
    without = re.sub(r"## Steering\n.*?(?=\n## )", "", card.read_text(), flags=re.S)
    card.write_text(without)
    load = partial(Model.load, "mine", "mine", tmp_path / "mine")
    assert load().followed_controls == tuple(CONTROLS)  # not measured
    assert not load().json()["ignores"]
    measured = "\n## Steering\n\n- density: 0.5\n- loudness: 0.49\n- register: -0.1\n"
    card.write_text(without + measured)
    assert load().followed_controls == ("density", "polyphony")
    assert load().json()["ignores"] == ["Loudness", "Register"]
    data = {"task": "new", "controls": {"loudness": 60}, "model": "mine"}
    models = Models(StudioConfig(model=ModelFolder(str(tmp_path / "mine"))))
    with pytest.raises(Refused, match="loudness: the model mine does not follow it"):
        parse_request(data, models, 0.0)


def test_music_on_beats_is_recognised_and_new_notes_keep_to_its_grid(piano):
    assert exchange.music_of(exchange.document_of(Score())) == "free"
    drawn = exchange.document_of(pieces.line(60, 61, 62, 63, 64, length=0.4))
    assert exchange.music_of(drawn) == "beats"  # a few notes, exactly on the grid
    for number, (start, *rest) in drawn.notes.items():
        drawn.notes[number] = (start + 0.03 * number, *rest)
    assert exchange.music_of(drawn) == "free"
    document = exchange.document_of(pieces.waltz())
    assert exchange.music_of(document) == "beats"
    song_model = Models(StudioConfig()).choose("song", "continue")
    request = Request("continue", 0.0, 5.0, bars=1)
    assert prepare(document, request, piano).config.quantise == "16"
    assert prepare(document, request, song_model).config.quantise == "none"
    triplets = {n: (s * 2 / 3, e * 2 / 3, *r) for n, (s, e, *r) in document.notes.items()}
    document.notes, document.tempos = triplets, ((0.0, 96.0),)
    assert prepare(document, request, piano).config.quantise == "8t"
    request = replace(request, quantise="none")
    assert prepare(document, request, piano).config.quantise == "none"


def prepare_new(document, *tracks, model="song"):
    request = Request("new", 0.0, 0.0, tracks or None, bars=2)
    return prepare(document, request, Models(StudioConfig()).choose(model, "new"))


def test_new_music_in_bars_has_the_tempo_and_the_meter_of_the_piece():
    document = exchange.document_of(Score(tempos=[(0.0, 90.0), (4.0, 60.0)]))
    beats, free = (prepare_new(document, model=name) for name in ("song", "piano"))
    assert beats.config.seconds == pytest.approx(4.0)  # eight quarters, at 120
    times = [beats.document_time(seconds) for seconds in (0.0, 0.5, 3.5)]
    assert times == pytest.approx([0.0, 2 / 3, 5.0])
    assert (free.config.seconds, free.document_time(3.5)) == (pytest.approx(6.0), 3.5)
    assert (beats.config.meter, free.config.meter) == ("4/4", None)
    for numerator, meter in ((3, "3/4"), (9, None)):  # no model writes bars of nine quarters
        meters = [(0.0, 4, 4), (2.0, numerator, 4)]
        document = exchange.document_of(pieces.of((0.0, 0.5), (2.0, 5.0), meters=meters))
        assert prepare_new(document).config.meter == meter


def test_new_music_in_bars_has_the_instruments_of_the_selected_tracks():
    document = exchange.document_of(Score())
    tracks = [("Keys", 0, False), ("Low", 33, False), ("Kit", 0, True), ("Bells", 112, False)]
    document.tracks = tuple(Track(number, *track) for number, track in enumerate(tracks))
    for selected, instruments in (((), None), ((0, 1), "piano,bass"), ((2,), "drums")):
        assert prepare_new(document, *selected).config.instruments == instruments
    assert prepare_new(document, 0, model="piano").config.instruments is None
    with pytest.raises(Refused, match="Bells"):
        prepare_new(document, 3)


def test_a_variation_has_the_controls_of_the_varied_notes(piano):
    document = exchange.document_of(pieces.waltz())
    request = Request("vary", 0.0, 3.75, (0,), keep=0.5)
    config = prepare(document, request, piano).config
    count = sum(note[0] < 3.75 for note in document.notes.values())
    assert config.sampling.density == pytest.approx(count / 3.75)
    assert float(config.loudness) > 50
    request = replace(request, controls={"density": 9.0})
    assert prepare(document, request, piano).config.sampling.density == 9.0


def test_locked_notes_and_a_share_of_the_others_stay_in_a_variation(piano):
    document = exchange.document_of(pieces.waltz())
    inside = [n for n, row in document.notes.items() if row[0] < 7.4 and row[4] == 0]
    document.locked, free = {*inside[:2]}, len(inside) - 2
    sources = [prepare(document, Request("vary", 0.0, 7.5, (0,), keep=0.6, seed=n), piano)
            for n in (1, 2)]  # fmt: skip
    assert {len(s.score) - len(s.task.given) for s in sources} == {free - round(0.6 * free)}
    assert sources[0].task.given != sources[1].task.given, "others for another seed"
    assert "locked" in sources[0].score.names.values()


def test_chords_above_notes_are_followed():
    document = exchange.document_of(pieces.waltz())
    document.markers = ((0.0, "A:min7"), (1.0, "Verse"), (2.0, "F:maj"))
    model = Models(StudioConfig()).choose("song", "accompany")
    source = prepare(document, Request("accompany", 0.0, document.duration), model)
    followed = [(time, str(chord)) for time, chord in chord_changes(source.task.given)]
    assert followed == [(0.0, "A:min7"), (2.0, "F:maj")]
    chart = exchange.document_of(Score(markers=document.markers))
    with pytest.raises(Refused, match="no notes yet"):
        prepare(chart, Request("replace", 0.0, 2.0), model)


def test_chords_without_notes_are_accompanied():
    document, _ = exchange.open_document(b"C  Am7  F  G", "my blues.cho", StudioLimits())
    data = {"task": "accompany", "begin": 0, "end": 0, "seed": 4}
    music = exchange.music_of(document)
    request, model = parse_request(data, Models(StudioConfig()), document.duration, music)
    assert model.name == "song"
    source = prepare(document, request, model)
    assert (source.request.begin, source.request.end) == (0.0, 8.0)
    chart = [(0.0, "C:maj"), (2.0, "A:min7"), (4.0, "F:maj"), (6.0, "G:maj")]
    assert chord_changes(source.task.given) == [(time, parse_name(name)) for time, name in chart]
