"""The file of a take and what its results change, against the document note by note."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from musictx.apps import infill
from musictx.config import StudioConfig
from musictx.studio import exchange
from musictx.studio.asked import Request
from musictx.studio.errors import Refused
from musictx.studio.inputs import Tracks, outcome, prepare
from musictx.studio.models import Model, Models
from tests.strategies import scores
from tests.studio.composers import song

NEAR = 2e-3  # times are rounded to ticks


@pytest.fixture(scope="module")
def piano() -> Model:
    return Models(StudioConfig()).chosen("pop", "replace")


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
    request = Request(task, round(begin, 4), round(begin + length, 4), tracks, keep=0.5)
    try:
        source = prepare(document, request, piano, seed)
    except Refused:
        return
    assert source.score is not None
    assert len(source.score) == len(document.notes)
    same = outcome(source, source.score, 0.0, Tracks(source, piano))
    assert (same.notes, same.tracks, same.removes) == ([], [], [])

    config = request.config(piano, seed, "x.mid", **source.options)
    kept = infill.task_of(config, source.score).kept
    found = outcome(source, kept, 0.0, Tracks(source, piano))
    assert found.notes == []
    assert len(found.removes) == len(source.score) - len(kept)
    assert not set(found.removes) & document.locked
    inside = [
        number
        for number, (start, _, _, _, track) in document.notes.items()
        if (tracks is None or track in tracks)
        and request.begin + NEAR < start < request.end - NEAR
        and number not in document.locked
    ]
    gone = set(found.removes)
    if task == "replace":
        assert set(inside) <= gone
    for number in gone:
        start, track = document.notes[number][0], document.notes[number][4]
        assert request.begin - NEAR < start < request.end + NEAR
        assert tracks is None or track in tracks


def test_a_continuation_is_made_from_what_stands_before_it_and_replaces_what_follows(piano):
    document = exchange.document_of(song())
    document.locked = {max(document.notes)}
    request = Request("continue", 0.0, 5.0, (0, 1), seconds=2.0)
    source = prepare(document, request, piano, 0)
    assert source.score is not None
    assert source.score.notes["start"].max() < 5.0
    assert source.score.duration <= 5.0 + 1e-3
    rows = [(5.1, 5.6, 60, 70, 0, False, 0), (6.0, 6.4, 62, 70, 0, False, 5)]
    result = source.score.with_notes(
        np.concatenate([source.score.notes, np.array(rows, source.score.notes.dtype)])
    )
    found = outcome(source, result, 7.0, Tracks(source, piano))
    assert [row[:4] for row in found.notes] == [(5.1, 5.6, 60, 70), (6.0, 6.4, 62, 70)]
    assert [row[4] for row in found.notes] == [0, 3]  # on its track, on a new one
    assert [track["id"] for track in found.tracks] == [3]
    expected = [
        number for number, note in document.notes.items()
        if 5.0 - 1e-6 <= note[0] < 7.0 and note[4] in (0, 1) and number not in document.locked
    ]  # fmt: skip
    assert found.removes == sorted(expected)
