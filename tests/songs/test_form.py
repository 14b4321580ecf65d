"""``form=AABA``: what returns is like what was; the plan is kept to the bar."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

import musictx
from musictx import cli
from musictx.config import GenerateConfig
from musictx.errors import UserError
from musictx.notes import METER, NOTE, TEMPO, Score
from musictx.songs import form
from musictx.songs.sections import sections
from musictx.tokens.stream import STEPS

torch.set_num_threads(1)

BEAT = 60 / 90


@pytest.fixture(scope="module")
def songs():
    return musictx.load("song")


@pytest.fixture(scope="module")
def verse(tmp_path_factory):
    """Four bars in 3/4 at 90 on a harpsichord, after a rest of two bars; a chord is named."""
    rows = [(n * BEAT, (n + 1) * BEAT, 60 + n * 7 % 20, 80, 6, False, 0) for n in range(6, 18)]
    score = Score(np.array(rows, NOTE), names={0: "Tune"}, ticks_per_quarter=480,
                  tempos=np.array([(0.0, 90.0)], TEMPO),
                  meters=np.array([(0.0, 3, 4)], METER),
                  markers=((6 * BEAT, "C:maj"),))  # fmt: skip
    file = tmp_path_factory.mktemp("verse") / "verse.mid"
    musictx.write(score, file)
    return file


@pytest.fixture(scope="module")
def made(songs, verse):
    told = []
    (sample,) = musictx.generate(
        songs, primer=verse, form="aba", seed=2, on_event=lambda *event: told.append(event)
    )
    return sample, told


def bars_of(score, first, count):
    """The notes of bars as (place in the bar, length, pitch, track), in milliseconds."""
    found = []
    for begin in (np.arange(first, first + count) * 3 * BEAT).tolist():
        notes = score.notes
        mine = notes[(notes["start"] >= begin - 1e-3) & (notes["start"] < begin + 3 * BEAT - 1e-3)]
        found.append(sorted(
            (round(float(n["start"] - begin), 3), round(float(n["end"] - n["start"]), 3),
             int(n["pitch"]), int(n["track"])) for n in mine
        ))  # fmt: skip
    return found


def alike(one, other):
    """The share of notes that two sections share, of all that they have."""
    return len(one & other) / len(one | other)


def places(bars):
    """Bar, place and pitch of each note."""
    return {(bar, row[0], row[2]) for bar, rows in enumerate(bars) for row in rows}


def test_a_primer_is_the_first_section_and_returns_in_its_meter(made, verse):
    score, given = made[0].score, musictx.read(verse)
    assert made[0].seam == pytest.approx(18 * BEAT)
    own = score.notes[score.notes["start"] < made[0].seam - 1e-3]
    assert own["pitch"].tolist() == given.notes["pitch"].tolist(), "the primer stays as it is"
    assert np.allclose(own["start"], given.notes["start"], atol=1e-6)
    lines = [(at, name) for at, name in score.markers if name in ("A", "B")]
    assert lines == [(pytest.approx((6 + 12 * n) * BEAT), name) for n, name in enumerate("ABA")]
    first, new, again = (bars_of(score, at, 4) for at in (2, 6, 10))
    assert any(new)
    assert alike(places(first[:3]), places(again[:3])) > 0.6
    assert again[3] == first[3], "the end of the piece is that of its section"
    assert score.duration <= 42 * BEAT + 1e-3
    assert set(score.notes["program"][score.notes["track"] == 0].tolist()) == {6}
    chords = [(at, name) for at, name in score.markers if ":" in name]
    assert (pytest.approx(30 * BEAT), "C:maj") in chords, "chords return with their section"


def test_a_return_begins_as_it_did_and_is_a_variation_up_to_its_end(songs, verse, monkeypatch):
    """With a prime its second half is new; the last bar of the piece stays."""
    composed, seen = form.infill.composed, []

    def watched(bundle, task, request, **more):
        seen.append((int(request.begin), int(request.end), task.varied))
        return composed(bundle, task, request, **more)

    monkeypatch.setattr(form.infill, "composed", watched)
    (sample,) = musictx.generate(songs, primer=verse, form="ABAA'", seed=3)
    # Bars from 1 on, after a rest of two: A 3 to 6, B 7 to 10, A 11 to 14, A' 15 to 18.
    assert seen == [(10, 10, False), (12, 14, True), (16, 16, True), (17, 17, False)]
    first, again = (bars_of(sample.score, at, 4) for at in (2, 10))
    assert again[0] == first[0]


def test_a_pick_up_stands_before_the_first_section_and_what_returns_begins_on_its_bar_line(songs):
    rows = [((1 + n) / 2, (2 + n) / 2, 60 + n * 7 % 20, 80, 6, False, 0) for n in range(-1, 12)]
    verse = Score(
        np.array(rows, NOTE), tempos=np.array([(0.0, 120.0)], TEMPO), ticks_per_quarter=480,
        meters=np.array([(0.0, 4, 4), (0.5, 3, 4)], METER),
    )  # fmt: skip
    (sample,) = musictx.generate(songs, primer=verse, form="aba", seed=2)
    lines = [(at, name) for at, name in sample.score.markers if name in ("A", "B")]
    assert lines == [(pytest.approx(0.5 + 6 * n), name) for n, name in enumerate("ABA")]
    first, again = (
        [
            (round(float(n["start"]) - begin, 3), int(n["pitch"]))
            for n in sample.score.notes
            if begin - 1e-3 <= n["start"] < begin + 4 * 1.5 - 1e-3
        ]
        for begin in (0.5, 12.5)
    )
    assert first
    assert alike({*first}, {*again}) > 0.6


def test_a_new_section_is_held_against_a_first_one_that_begins_with_a_rest(songs):
    """Bars are counted from the first of the piece, not from that of its first note."""
    rows = [(n * 0.5, n * 0.5 + 0.5, 60 + n, 80, 0, False, 0) for n in (4, 9)]
    request = GenerateConfig(form="AB", bars=2)
    writing = form._Writing(songs, request, None, [0, 0], None)
    writing.piece, writing.count = Score(notes=np.array(rows, NOTE)), 2  # bar 0 is a rest
    (contrast,) = writing._contrast(4, [0])
    assert (contrast.pickup, contrast.steps, contrast.here) == (-4 * STEPS, 4 * STEPS, 2)
    assert np.argwhere(contrast.pitches).tolist() == [[1, 0, 4]]


def test_the_seed_is_all_and_notes_are_told(songs, verse, made):
    sample, told = made
    (again,) = musictx.generate(songs, primer=verse, form="ABA", seed=2)
    assert again.score == sample.score
    assert again.score.markers == sample.score.markers
    assert {number for number, _ in told} == {0}
    assert sum(event.on for _, event in told) * 2 == len(told) == sample.notes * 2


@pytest.mark.slow
def test_returns_are_recognised(songs, verse, tmp_path):
    out = tmp_path / "x.mid"
    words = ["generate", f"primer={verse}", "form=AABA", "seed=3", f"out={out}"]
    assert cli.main(words) == 0
    score = musictx.read(out)
    assert [one.name for one in sections(score)] == [*"AABA"]
    heard = sections(replace(score, markers=()))
    names = {bar: one.name for one in heard for bar in range(one.begin, one.stop)}
    assert [names[bar] for bar in (2, 6, 14)] == ["A"] * 3  # B may resemble A: scripts/LOG.md


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"form": "A"}, "form=A: expected 2 to 32 letters from A to M"),
        ({"form": "AXB"}, "form=AXB: expected 2 to 32 letters"),
        ({"form": "AB", "seconds": 5.0}, "seconds=5.*: expected none with form"),
        ({"form": "AB", "end": "natural"}, "end=natural: expected none with form"),
        ({"form": "AB", "include_primer": False}, "include_primer=False: expected true with form"),
        ({"form": "AB", "model": "piano"}, r"form=AB: this model \(performance .*model=song"),
        ({"form": "AB", "processors": [lambda ids, logits: logits]}, "form=AB: expected no"),
    ],
)
def test_what_cannot_be_is_refused_in_a_sentence(songs, options, sentence):
    with pytest.raises(UserError, match=sentence):
        musictx.generate(**({"model": songs} | options))
