"""The file of a take and what its results change, against the document note by note."""

from __future__ import annotations

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
from musictx.chords import annotated, named
from musictx.config import ModelFolder
from musictx.notes import NOTE, Score
from musictx.studio import exchange, uploads
from musictx.studio.acceptance import acceptance
from musictx.studio.change import Track
from musictx.studio.config import StudioConfig, StudioLimits
from musictx.studio.document import EARLY
from musictx.studio.errors import Refused
from musictx.studio.inputs import prepare
from musictx.studio.models import Model, Models
from musictx.studio.performing import Tracks, outcome
from musictx.studio.request import Request
from musictx.studio.request import parse as parse_request
from musictx.tokens.controls import CONTROLS
from tests.strategies import scores
from tests.studio.composers import song

NEAR = 2e-3  # times are rounded to ticks


@pytest.fixture(scope="module")
def piano() -> Model:
    return Models(StudioConfig()).chosen("piano", "replace")


def _rows(document):
    """(start, pitch, velocity, track) of each note, in an order that rounding leaves alone."""
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
def test_what_a_gap_takes_away_are_the_notes_of_the_document_that_lie_in_it(
    piano, score, begin, length, locked, task, seed
):
    document = exchange.document_of(score)
    document.locked = locked & set(document.notes)
    tracks = tuple(track.id for track in document.tracks)[::2] if seed % 2 else None
    at = round(begin, 4), round(begin + length, 4)
    request = Request(task, *at, tracks, keep=0.5, seed=seed)
    drums = {track.id for track in document.tracks if track.drum}
    chosen = {track.id for track in document.tracks} - drums if tracks is None else tracks
    selected = [
        number
        for number, (start, *_, track) in document.notes.items()
        if track in chosen and request.begin + NEAR <= start < request.end - EARLY - NEAR
    ]
    try:
        source = prepare(document, request, piano)
    except Refused:
        return
    assert not selected or set(selected) - document.locked
    assert source.score is not None
    assert len(source.score) == len(document.notes)
    same = outcome(source, source.score, 0.0, Tracks(source))

    kept = source.task.given
    result = outcome(source, kept, 0.0, Tracks(source))
    assert result.notes == [*source.shortened]  # of notes held into it, what is before it
    assert all(end == request.begin for _, end, *_ in source.shortened)
    cut = set(source.replaced)
    assert len(cut) == len(source.shortened)
    assert not cut or task == "replace"
    # A note that is as before comes anew: another proposal may have taken it away.
    assert (same.removes, same.tracks) == (result.removes, [])
    after = copy.deepcopy(document)
    for number, one in enumerate((result, same), 1):
        proposal = {"notes": one.notes, "removes": one.removes, "tracks": [], "number": number}
        after.apply(acceptance(after, 1, proposal, ""))
    assert [row[1:] for row in _rows(after)] == [row[1:] for row in _rows(document)]
    assert np.allclose(
        [row[0] for row in _rows(after)], [row[0] for row in _rows(document)], atol=EARLY + NEAR
    )
    assert len(result.removes) == len(source.score) - len(kept) + len(cut)
    assert not set(result.removes) & document.locked
    gone = set(result.removes) - cut
    if task == "replace":
        inside = {n for n in selected if document.notes[n][0] > request.begin + NEAR}
        assert inside - document.locked <= gone
    for number in gone:
        start, track = document.notes[number][0], document.notes[number][4]
        assert request.begin - EARLY - NEAR < start < request.end + NEAR
        assert track in chosen


def test_a_note_belongs_to_the_bar_that_it_sounds_in(piano):
    """Notes played 20 to 80 ms before a line, longer ones held into the bar, and its last one."""
    rows = [(0.0, 1.0, 60), (1.5, 2.5, 62), (1.94, 3.0, 64), (1.95, 2.01, 65), (3.95, 4.5, 67)]
    notes = [(start, end, pitch, 70, 0, False, 0) for start, end, pitch in rows]
    document = exchange.document_of(Score(notes=np.array(notes, NOTE)))
    source = prepare(document, Request("replace", 2.0, 4.0), piano)
    result = outcome(source, source.task.given, 0.0, Tracks(source))
    document.apply(acceptance(document, 1, vars(result) | {"number": 1}, ""))
    expected = [(0.0, 1.0, 60), (1.5, 2.0, 62), (1.95, 2.0, 65), (3.95, 4.5, 67)]
    assert [row[1:4] for row in document.rows()] == expected


def test_a_continuation_is_made_from_what_stands_before_it_and_replaces_what_follows(piano):
    document = exchange.document_of(song())
    document.locked = {max(document.notes)}
    request = Request("continue", 0.0, 5.0, (0, 1), seconds=2.0)
    source = prepare(document, request, piano)
    assert source.score is not None
    assert source.score.notes["start"].max() < 5.0
    assert source.score.duration <= 5.0 + 1e-3
    rows = [(5.1, 5.6, 60, 70, 0, False, 0), (6.0, 6.4, 62, 70, 0, False, 5)]
    result = source.score.with_notes(
        np.concatenate([source.score.notes, np.array(rows, source.score.notes.dtype)])
    )
    result = outcome(source, result, 7.0, Tracks(source))
    assert [row[:4] for row in result.notes] == [(5.1, 5.6, 60, 70), (6.0, 6.4, 62, 70)]
    assert [row[4] for row in result.notes] == [0, 3]  # on its track, on a new one
    assert [track["id"] for track in result.tracks] == [3]
    expected = [
        number for number, note in document.notes.items()
        if 5.0 - 1e-6 <= note[0] < 7.0 and note[4] in (0, 1) and number not in document.locked
    ]  # fmt: skip
    assert result.removes == sorted(expected)


@pytest.mark.parametrize("task", ["replace", "vary"])
@pytest.mark.parametrize("tracks", [None, (1,)])
def test_nothing_is_composed_where_all_is_locked(piano, task, tracks):
    """Not on a track of which all notes there are locked, and not at all if there is no other."""
    document = exchange.document_of(song())
    request = Request(task, 3.75, 7.5, tracks)
    inside = {n: row[4] for n, row in document.notes.items() if 3.75 - NEAR < row[0] < 7.5 - NEAR}
    chosen = {0, 1} if tracks is None else {*tracks}  # drums stay
    document.locked = {number for number, track in inside.items() if track in chosen}
    with pytest.raises(Refused, match="all notes selected in bars 3 to 4 are locked; unlock some"):
        prepare(document, request, piano)
    for track in chosen:
        document.locked = {number for number, of in inside.items() if of != track}
        source = prepare(document, request, piano)
        assert source.config.tracks == str(track + 1)
    if task == "vary":  # 0.6 of one note, to the next whole one, are all
        some = next(number for number, of in inside.items() if of in chosen)
        document.locked = {number for number, of in inside.items() if of in chosen} - {some}
        with pytest.raises(Refused, match="the one note that is not locked in bars 3 to 4 would"):
            prepare(document, replace(request, keep=0.6), piano)


def test_a_melody_is_harmonised_with_phrases_that_end_under_its_fermatas():
    """The file of a take has none; over a rest, or beyond the selection, they do not count."""
    beat = 0.5
    rows = [(beat * i, beat * (i + 1), 67, 70, 0, False, 0) for i in range(16) if i != 9]
    marks = (beat * 7.5, beat * 9.5, beat * 11, beat * 15)
    document = exchange.document_of(Score(notes=np.array(rows, NOTE), fermatas=marks))
    model = Models(StudioConfig()).chosen("chorale", "harmonise")
    request = Request("harmonise", 0.0, beat * 12)
    source = prepare(document, request, model)
    assert source.config.phrase_ends == [2, 3]
    assert harmonise.tune_of(source.score, source.config).ends == (2, 3)
    document.fermatas = ()
    assert prepare(document, request, model).config.phrase_ends == []


SUITED = {"free": "piano", "beats": "song", "chorale": "chorale"}


def test_music_has_the_model_that_suits_it(tmp_path, monkeypatch):
    """One of one's own, the newest, where the music is what it is for."""
    models = Models(StudioConfig())
    for music, task, name in (
        ("free", "continue", "piano"),
        ("beats", "continue", "song"),
        ("beats", "new", "song"),
        ("chorale", "replace", "chorale"),
        ("chorale", "vary", "song"),
        ("free", "harmonise", "chorale"),
    ):
        assert models.chosen(None, task, music).name == name
        assert models.chosen("piano", "new", music).name == "piano"
    monkeypatch.chdir(tmp_path)
    mine = shutil.copytree(shipped.models()["song"], Path("runs/mine/model").absolute())
    of_ones_own, named_ = Models(StudioConfig()), Models(StudioConfig(model=ModelFolder(str(mine))))
    for music, name in SUITED.items():
        proposed = of_ones_own.chosen(None, "continue", music).name
        assert proposed == ("mine" if music == "beats" else name)
        assert named_.chosen(None, "continue", music).name == "mine"  # whoever names one wants it


def test_a_control_that_a_model_was_measured_not_to_follow_is_not_offered(tmp_path):
    for name in ("piano", "song"):
        model = Models(StudioConfig()).chosen(name, "new")
        assert set(model.steering) == set(CONTROLS)  # the card of a model that comes along says it
    shutil.copytree(model.folder, tmp_path / "mine")
    card = tmp_path / "mine" / "CARD.md"
    plain = re.sub(r"## Steering\n.*?(?=\n## )", "", card.read_text(), flags=re.S)
    card.write_text(plain)
    of = partial(Model.load, "mine", "mine", tmp_path / "mine")
    assert of().steers == tuple(CONTROLS)  # nobody has measured it
    assert not of().json()["ignores"]
    card.write_text(plain + "\n## Steering\n\n- density: 0.5\n- loudness: 0.49\n- register: -0.1\n")
    assert of().steers == ("density", "polyphony")
    assert of().json()["ignores"] == ["Loudness", "Register"]
    asked = {"task": "new", "controls": {"loudness": 60}, "model": "mine"}
    models = Models(StudioConfig(model=ModelFolder(str(tmp_path / "mine"))))
    with pytest.raises(Refused, match="loudness: the model mine does not follow it"):
        parse_request(asked, models, 0.0)


def test_music_on_beats_is_known_and_new_notes_keep_to_its_grid(piano):
    assert exchange.music_of(exchange.document_of(Score())) == "free"
    tune = [(i / 2, i / 2 + 0.4, 60 + i, 70, 0, False, 0) for i in range(5)]
    drawn = exchange.document_of(Score(notes=np.array(tune, NOTE)))
    assert exchange.music_of(drawn) == "beats"  # a few notes, all of them on lines
    for number, (start, *rest) in drawn.notes.items():
        drawn.notes[number] = (start + 0.03 * number, *rest)
    assert exchange.music_of(drawn) == "free"
    document = exchange.document_of(song())
    assert exchange.music_of(document) == "beats"
    song_model = Models(StudioConfig()).chosen("song", "continue")
    request = Request("continue", 0.0, 5.0, bars=1)
    assert prepare(document, request, piano).config.quantise == "16"
    assert prepare(document, request, song_model).config.quantise == "none"
    third = {n: (s * 2 / 3, e * 2 / 3, *r) for n, (s, e, *r) in document.notes.items()}
    document.notes, document.tempos = third, ((0.0, 96.0),)
    assert prepare(document, request, piano).config.quantise == "8t"
    asked = replace(request, quantise="none")
    assert prepare(document, asked, piano).config.quantise == "none"


def asked_for_new(document, *tracks, model="song", bars=2):
    request = Request("new", 0.0, 0.0, tracks or None, bars=bars)
    return prepare(document, request, Models(StudioConfig()).chosen(model, "new"))


def test_new_music_in_bars_has_the_tempo_and_the_meter_of_the_piece():
    document = exchange.document_of(Score(tempos=[(0.0, 90.0), (4.0, 60.0)]))
    beats, seconds = (asked_for_new(document, model=name) for name in ("song", "piano"))
    assert beats.config.seconds == pytest.approx(4.0)  # eight quarters, at 120
    assert [beats.document_time(at) for at in (0.0, 0.5, 3.5)] == pytest.approx([0.0, 2 / 3, 5.0])
    assert (seconds.config.seconds, seconds.document_time(3.5)) == (pytest.approx(6.0), 3.5)
    assert (beats.config.meter, seconds.config.meter) == ("4/4", None)
    notes = [(0.0, 0.5, 60, 80, 0, False, 0), (2.0, 5.0, 60, 80, 0, False, 0)]
    for numerator, meter in ((3, "3/4"), (9, None)):  # nine quarters no model writes
        marks = [(0.0, 4, 4), (2.0, numerator, 4)]  # that in force where it begins
        document = exchange.document_of(Score(notes, meters=marks))
        assert asked_for_new(document).config.meter == meter


def test_new_music_in_bars_is_for_the_instruments_of_the_selected_tracks():
    document = exchange.document_of(Score())
    tracks = [("Keys", 0, False), ("Low", 33, False), ("Kit", 0, True), ("Bells", 112, False)]
    document.tracks = tuple(Track(number, *track) for number, track in enumerate(tracks))
    for selected, instruments in (((), None), ((0, 1), "piano,bass"), ((2,), "drums")):
        assert asked_for_new(document, *selected).config.instruments == instruments
    assert asked_for_new(document, 0, model="piano").config.instruments is None
    with pytest.raises(Refused, match="Bells"):
        asked_for_new(document, 3)


def test_a_variation_is_asked_to_be_like_what_it_varies(piano):
    document = exchange.document_of(song())
    request = Request("vary", 0.0, 3.75, (0,), keep=0.5)
    config = prepare(document, request, piano).config
    count = sum(note[0] < 3.75 for note in document.notes.values())
    assert config.sampling.density == pytest.approx(count / 3.75)
    assert float(config.loudness) > 50
    asked = prepare(document, replace(request, controls={"density": 9.0}), piano).config
    assert asked.sampling.density == 9.0


def test_chords_are_followed_and_alone_accompanied_as_the_command_does():
    document = exchange.document_of(song())
    document.markers = ((0.0, "A:min7"), (1.0, "Verse"), (2.0, "F:maj"))
    model = Models(StudioConfig()).chosen("song", "accompany")
    source = prepare(document, Request("accompany", 0.0, document.duration), model)
    assert annotated(source.task.given) == [(0.0, named("A:min7")), (2.0, named("F:maj"))]
    chart = exchange.document_of(Score(markers=document.markers))
    with pytest.raises(Refused, match="no notes yet"):
        prepare(chart, Request("replace", 0.0, 2.0), model)


def test_chords_alone_are_accompanied_as_the_command_does():
    document, _ = uploads.document_of(b"C  Am7  F  G", "my blues.cho", StudioLimits())
    wish = {"task": "accompany", "begin": 0, "end": 0, "seed": 4}
    request, model = parse_request(
        wish, Models(StudioConfig()), document.duration, exchange.music_of(document)
    )
    assert model.name == "song"
    source = prepare(document, request, model)
    assert (source.request.begin, source.request.end) == (0.0, 8.0)
    chart = [(0.0, "C:maj"), (2.0, "A:min7"), (4.0, "F:maj"), (6.0, "G:maj")]
    assert annotated(source.task.given) == [(at, named(name)) for at, name in chart]
