"""New pieces of model=song have the requested tempo, meter, instruments, loop and form."""

from collections import Counter
from dataclasses import replace
from unittest.mock import Mock

import mido
import numpy as np
import pytest

import musictx
from musictx.chords import CHORDS, chord_changes
from musictx.config import SamplingConfig
from musictx.errors import UserError
from musictx.notes import DRUMS
from musictx.sampling.constants import MOST_ALIKE
from musictx.sampling.constraints import GrammarRow
from musictx.sampling.idiom import idiom_of
from musictx.sampling.primer import NO_PRIMER, Plan, Primer
from musictx.sampling.sample import Sample
from musictx.shipped import examples
from musictx.songs import bar_infill, form, idiom, new_pieces, penalties, repeats
from musictx.songs.bars import blank_piece
from musictx.songs.chord_estimation import search_chords
from musictx.songs.constants import PART_SHARE
from musictx.songs.passes import LOOP_END
from musictx.tokens.stream import CHORD
from tests.pieces import line, of, outside, score, together
from tests.sampling.pieces import region

TUNE = musictx.read(examples()["frere_jacques"])
BAR = 2.0  # seconds, in 4/4 at 120


def test_tempo_and_meter_are_those_of_the_file(song, tmp_path):
    (made,) = musictx.generate(song, seed=1, bars=3, tempo=90, meter="3/4")
    piece = musictx.read(musictx.write(made, tmp_path / "piece.mid"))
    assert piece.tempos["bpm"].tolist() == pytest.approx([90], rel=1e-6)
    assert piece.meters[["numerator", "denominator"]].tolist() == [(3, 4)]
    assert 4 < piece.notes["start"].max() < 6  # three bars of 2 s
    assert piece.duration <= 6 + 1e-3
    places = piece.beats.quarters(piece.notes["start"]) * 24
    np.testing.assert_allclose(places, places.round(), rtol=0, atol=5e-4)


@pytest.mark.parametrize(
    "options", [{"bars": 2}, {"bars": 2, "form": "AB"}, {"tokens": 200}, {"chords": "| C | F G |"}]
)
def test_a_piece_in_the_usual_tempo_has_a_notation(song, options, tmp_path):
    compose = musictx.accompany if "chords" in options else musictx.generate
    (made,) = compose(model=song, seed=1, **options)
    piece = musictx.read(musictx.write(made, tmp_path / "piece.musicxml"))
    assert piece.tempos["bpm"].tolist() == [120]
    assert len(piece) == made.notes
    assert len(made.score.meters)


@pytest.mark.parametrize("values", [{"note_on": 0.5}, {"note_on": 1.0, "pitch": 0.5}])
def test_pitches_in_bars_have_the_temperature_of_note_on(song, values, monkeypatch):
    its, pitches = idiom_of(song.tokenizer), song.tokenizer.vocabulary.range("pitch")
    (rule,) = its.processors(SamplingConfig(top_p=1.0, temperatures=values))
    assert (rule.members.tolist(), rule.value) == ([*range(*pitches)], 0.5)
    calls = []
    monkeypatch.setattr(idiom.BarIdiom, "processors", lambda *given: calls.append(given) or [])
    musictx.generate(song, primer=TUNE, bars=1), musictx.infill(TUNE, song, begin=1, end=1)
    assert len(calls) == 2


@pytest.mark.parametrize(
    ("names", "programs"),
    [("bass", {33}), ("piano,bass,drums", {0, 33, DRUMS}), ("strings, piano", {48, 0})],
)
def test_the_requested_instruments_play_and_no_others(song, names, programs):
    (piece,) = musictx.generate(song, seed=1, bars=4, instruments=names)
    assert playing(piece.score.notes) == programs


def playing(notes):
    return set(np.where(notes["drum"], DRUMS, notes["program"]).tolist())


def test_new_pieces_are_played_by_ensembles_of_the_corpus(song):
    made = musictx.generate(song, bars=4, samples=3, seed=100)
    (whole,) = musictx.generate(song, form="AB", bars=4, tempo=90, meter="3/4", seed=101)
    assert whole.score.tempos["bpm"].tolist() == [90]
    assert whole.score.meters.tolist() == [(0.0, 3, 4)]
    ensembles = [{*programs} for _, programs in song.stats.ensembles]
    for piece in [*made, whole]:
        assert playing(piece.score.notes) in ensembles
        assert piece.score.notes["start"].min() == 0, "on the first beat"
        assert "Strings" not in piece.score.names.values(), "a counter-melody is one voice"
    for listed, played in ((81, 81), (127, 0)):  # a program without a name; one not in the model
        limits = song.card["note_limits"] | {"ensembles": [[1, [listed]]]}
        (alone,) = musictx.generate(replace(song, card={"note_limits": limits}), bars=2, seed=1)
        assert playing(alone.score.notes) == {played}


KEYS = [("C", None, 0), ("Am", None, 0), ("E minor", None, 7)]
KEYS += [("Am", "pentatonic", 0), ("D", "dorian", 0), ("A", "mixolydian", 2), (None, "lydian", 7)]


@pytest.mark.parametrize(("key", "scale", "tonic"), KEYS)
def test_a_new_piece_is_composed_to_chords_of_its_key(song, key, scale, tonic):
    request = {"bars": 4, "key": key, "scale": scale, "instruments": "piano,bass", "seed": 3}
    (piece,) = musictx.generate(song, **request)
    chords = chord_changes(piece.score)
    assert chords[0][0] == 0
    assert piece.chords == piece.score.markers
    assert piece.score.keys.tolist() == [(0.0, 7 * tonic % 12, "m" in (key or ""))]
    scale = {(tonic + tone) % 12 for tone in (0, 2, 4, 5, 7, 9, 11)}
    assert np.mean([chord.root in scale for _, chord in chords]) > 0.7
    notes = piece.score.notes
    in_force = np.searchsorted([time for time, _ in chords], notes["start"] + 1e-3) - 1
    tones = [p % 12 in chords[n][1].classes for n, p in zip(in_force, notes["pitch"].tolist())]
    assert np.mean(tones) > 0.7


@pytest.mark.slow
def test_bars_that_are_to_return_are_alike(song, monkeypatch):
    plan = [0, 0, 0, 0, 4, 4, 4, 4]
    monkeypatch.setattr(new_pieces, "draw_repeats", lambda bars, _: plan[:bars])
    alike = []
    for seed in range(3):
        (piece,) = musictx.generate(song, bars=8, instruments="melody,piano", seed=seed)
        stream = song.tokenizer.grid(piece.score).stream
        alike.append(repeats.similarity_at_distance(stream, 4)[:4].mean())
    assert np.mean(alike) > 0.55  # 0.70; 0.38 if only the chords return


@pytest.mark.parametrize("asked", [{}, {"key": "Am", "scale": "pentatonic", "high": "C5"}])
@pytest.mark.slow
def test_a_new_piece_closes_on_a_held_tonic(song, asked):
    events = []
    options = dict(instruments="melody,piano,bass,drums", tempo=120, seed=5, **asked)
    options["on_event"] = lambda _, event: events.append(event)
    (piece,) = musictx.generate(song, seconds=9, **options)
    assert piece.seconds == pytest.approx(4 * BAR), "whole bars"
    notes = piece.score.notes
    assert sorted(e[1:3] for e in events if e.on) == sorted((True, n["pitch"]) for n in notes)
    final = notes[notes["start"] >= 3 * BAR - 1e-3]
    assert np.allclose([final["start"], final["end"]], [[3 * BAR], [4 * BAR]])
    assert set(final["pitch"][final["drum"]]) == {36, 49}, "a kick and a crash"
    held, (_, chord) = final[~final["drum"]], chord_changes(piece.score)[-1]
    assert {*(held["pitch"] % 12)} <= chord.classes
    assert {held["pitch"].min() % 12, held["pitch"].max() % 12} == {chord.root}
    sizes = Counter(held["program"].tolist())
    assert (sizes[73], sizes[33], sizes[0] > (not asked)) == (1, 1, True)
    (cut,) = musictx.generate(song, seconds=9, end="cut", **options)
    assert (cut.score.notes["start"] > 3 * BAR + 0.1).any()
    assert cut.seconds == 9


@pytest.mark.parametrize(
    ("length", "include"),
    [({"bars": 2}, True), ({"bars": 2}, False), ({"seconds": 5, "key": "G"}, True)],
)
def test_a_continuation_closes_on_a_held_tonic(song, length, include):
    """In B minor; the piano joins the tune, on a program that the model lacks."""
    tune = [(n / 2, n / 2 + 0.5, 59 + (0, 2, 3, 5, 7, 3, 2, 10)[n % 8], 80, 75) for n in range(16)]
    chords = [(n, n + 1, pitch, 80, 0) for n in range(2, 8) for pitch in (47, 54, 62)]
    rows = [(*note, False, int(note[4] == 0)) for note in tune + chords]
    options = dict(primer=score(rows), include_primer=include, seed=5, **length)
    events = []
    (made,) = musictx.generate(song, on_event=lambda _, event: events.append(event), **options)
    final = made.score.notes[made.score.notes["end"] > made.score.duration - 1e-3]
    second_bar = np.array([[10], [12]]) - 8 * (not include)  # the seam is at 8 s
    assert np.allclose([final["start"], final["end"]], second_bar)
    root, tones = (7, {7, 11, 2}) if "key" in length else (11, {11, 2, 6})
    assert {*(final["pitch"] % 12)} <= tones
    assert final["pitch"][final["track"] == 0] % 12 == root, "the tune"
    low, above = np.sort(final["pitch"])[:2].tolist()
    assert (low % 12, above - low > 4 * (low < 48)) == (root, True), "no third on a low root"
    assert {*made.score.notes[["track", "program"]].tolist()} == {(0, 75), (1, 0)}
    assert {*final["track"]} == {0, 1}
    assert sum(event.on for event in events) == made.notes


def test_a_part_of_chords_closes_at_its_height():
    rows = [(n, n + 1, tone, 80, 0, False, 0) for n in range(4) for tone in (48, 60, 64, 67)]
    piece = score([*rows, (3.5, 4.0, 96, 80, 0, False, 0)])
    held = new_pieces.closing(piece, CHORDS[1], 4.0, 6.0, np.ones(128, bool))
    assert held["pitch"].tolist() == [48, 60, 64, 72]
    mixed = score(
        [(0, 1, 60, 80, 0, False, 0), (0, 1, 42, 80, 0, True, 0), (0, 3, 50, 80, 0, 0, 1)]
    )
    held = new_pieces.closing(mixed, CHORDS[1], 6.0, 8.0, np.ones(128, bool))
    assert held[["pitch", "drum", "track"]].tolist() == [(48, False, 1)]
    held = new_pieces.closing(mixed, CHORDS[1], 2.0, 4.0, np.ones(128, bool))
    assert held[["pitch", "drum"]].tolist() == [(36, True), (49, True), (48, False)]


def test_the_model_writes_the_bar_line_where_a_song_is_continued(song):
    """It may name another distance to the bar that is repeated than the line before did."""
    tune = [60, 64, 67, 64] * 4
    rows = [(n / 2, n / 2 + 0.5, pitch, 80, 0, False, 0) for n, pitch in enumerate(tune)]
    primer = score(rows)
    vocabulary, lines = song.tokenizer.vocabulary, set()
    for made in musictx.generate(song, primer=primer, bars=1, samples=12, seed=3):
        kinds, values = zip(*(vocabulary.tokens[token] for token in made.ids[:5]))
        assert kinds[:3] == ("bar", "numerator", "denominator")
        assert (values[1], 2 ** values[2], made.seam) == (4, 4, 8.0)
        assert made.score.notes["start"].max() >= 8.0
        lines.add(values[3])
    assert len(lines) > 1


def test_a_new_section_begins_with_a_bar_line_of_the_model(song, monkeypatch):
    compose = Mock(wraps=form.continuations)
    monkeypatch.setattr(form, "continuations", compose)
    musictx.generate(song, form="AB", bars=2, instruments="piano", seed=1)
    primers = [primer for call in compose.call_args_list for primer in call.args[1]]
    assert primers
    assert all(song.tokenizer.vocabulary.tokens[p.ids[-5]][0] != "bar" for p in primers)


def test_chords_have_the_top_p_that_is_asked_for_and_parts_their_penalty(song, monkeypatch):
    parts, draw = [], Mock(wraps=new_pieces.draw_chords)
    monkeypatch.setattr(new_pieces, "draw_chords", draw)
    record = lambda row, **more: iter(parts.append(more["parts"]) or ())  # noqa: E731
    for module in (bar_infill, penalties):
        monkeypatch.setattr(module, "same_pitch", record)
    for sampling in ({}, {"top_p": 0.5}, {"habits": False}):
        options = {"bars": 1, "seed": 1, "sampling": sampling}
        made = musictx.generate(song, instruments="melody,piano,bass", **options)
        assert all(penalised == {0, 73} for penalised in parts), "the tune and the chords"
        musictx.generate(song, primer=made[0].score, **options)
        assert (parts[-1:] == [{73}]) == sampling.get("habits", True), "a continued tune"
        parts.clear()
    assert [call.kwargs["top_p"] for call in draw.call_args_list] == [0.95, 0.5, 0.95]


def test_progress_counts_the_tokens_and_seconds_of_each_piece(song):
    steps = []
    report = lambda *step: steps.append(step)  # noqa: E731
    musictx.generate(song, bars=2, samples=2, seed=3, progress=report, end="cut")
    tokens, seconds = np.array(steps).T
    assert (tokens == 1).all(), "one piece after the other"
    ends = seconds[[*np.flatnonzero(np.diff(seconds) < 0), -1]]
    assert ((ends > 2.0) & (ends <= 4.0 + 1e-6)).tolist() == [True] * 2, "in the second bar of each"
    slow = together(line(60, 62, 64, 65, every=1.0), bpm=60.0)
    musictx.generate(song, primer=slow, bars=2, seed=3, progress=report, end="cut")
    assert 4.0 < steps[-1][1] <= 8.0 + 1e-6, "the seconds of a continuation are those of the file"


@pytest.mark.parametrize(("bars", "meter"), [(2, "4/4"), (3, "3/4")])
def test_a_new_loop_has_its_exact_length(song, bars, meter, tmp_path):
    (piece,) = musictx.generate(song, bars=bars, meter=meter, tempo=120, loop=True, seed=4)
    length = bars * 0.5 * int(meter[0])
    ends = [time for time, text in piece.score.markers if text == LOOP_END]
    assert max([piece.score.duration, *ends]) == pytest.approx(length)
    assert (piece.score.notes["start"] > length - 0.5 * int(meter[0])).any()  # its last bar plays
    musictx.write(piece, tmp_path / "loop.mid")
    assert mido.MidiFile(tmp_path / "loop.mid").length == pytest.approx(length, abs=2e-3)


@pytest.mark.parametrize("bar", ["1", "2", "4"])
def test_a_gap_of_a_loop_is_filled_and_nothing_else(song, bar):
    pitches = np.random.default_rng(0).integers(48, 80, (2, 16)).tolist()
    whole = together(*(line(*row, length=0.4, track=track) for track, row in enumerate(pitches)))
    (piece,) = musictx.infill(whole, song, begin=bar, end=bar, loop=True, seed=2)
    gap = BAR * (int(bar) - 1), BAR * int(bar), (0, 1)
    given_notes = outside(piece.score, *gap)
    assert given_notes == outside(whole, *gap)
    assert given_notes.total() < len(piece.score)
    assert piece.score.notes["end"].max() <= 4 * BAR + 1e-6


@pytest.mark.parametrize("later", [1, 100_000])
def test_an_accompaniment_is_as_long_as_the_loop(song, later, tmp_path):
    """Only the new notes and the ends of tracks change in the file. (pretty_midi ends each track a
    tick after its last note.)"""
    tune = together(line(*range(60, 76)))
    musictx.write(tune, tmp_path / "tune.mid")
    file = mido.MidiFile(tmp_path / "tune.mid")
    for track in file.tracks:
        track[-1].time = later
    file.save(tmp_path / "tune.mid")
    (piece,) = musictx.accompany(tmp_path / "tune.mid", song, loop=True, seed=1)
    assert (piece.score.notes["track"] > 0).sum() > 4
    assert piece.score.notes["end"].max() <= 4 * BAR + 1e-6
    assert all(time < 4 * BAR or text == LOOP_END for time, text in piece.score.markers)
    musictx.write(piece, tmp_path / "loop.mid")
    made = mido.MidiFile(tmp_path / "loop.mid")
    ticks = [sum(message.time for message in track) for track in made.tracks]
    assert max(ticks) == made.ticks_per_beat * 16
    assert [track[:-1] for track in made.tracks[1:2]] == [track[:-1] for track in file.tracks[1:2]]


BEAT = 60 / 90


@pytest.fixture(scope="module")
def verse(tmp_path_factory):
    """Write four bars in 3/4 at 90 for a harpsichord, after a rest of two bars, with a chord."""
    notes = [(n * BEAT, (n + 1) * BEAT, 60 + n * 7 % 20, 80, 6) for n in range(6, 18)]
    marks = {"names": {0: "Tune"}, "markers": ((6 * BEAT, "C:maj"),)}
    file = tmp_path_factory.mktemp("verse") / "verse.mid"
    return musictx.write(score(notes, bpm=90, meter=(3, 4), **marks), file)


@pytest.fixture(scope="module")
def made(song, verse):
    events = []
    report = lambda *event: events.append(event)  # noqa: E731
    (sample,) = musictx.generate(song, primer=verse, form="abaa'", seed=3, on_event=report)
    return sample, events


def bars_of(score, first, count):
    """Return for each bar its notes (place in the bar, length, pitch, track), in milliseconds."""
    bars = [[] for _ in range(first + count)]
    for start, end, pitch, *_, track in score.notes.tolist():
        bar, place = divmod(start + 1e-3, 3 * BEAT)
        if bar < len(bars):
            times = round(1000 * place - 1), round(1000 * (end - start))
            bars[int(bar)].append((*times, pitch, track))
    return [sorted(bar) for bar in bars[first:]]


def test_a_primer_is_the_first_section_and_returns_in_its_meter(made, verse):
    piece, primer = made[0].score, musictx.read(verse).notes
    assert made[0].seam == pytest.approx(18 * BEAT)
    old = piece.notes[piece.notes["start"] < made[0].seam - 1e-3]
    assert old["pitch"].tolist() == primer["pitch"].tolist(), "the primer stays as it is"
    assert np.allclose(old["start"], primer["start"], atol=1e-6)
    names = ["A", "B", "A", "A'"]
    lines = [(at, name) for at, name in piece.markers if name in names]
    assert lines == [(pytest.approx((6 + 12 * n) * BEAT), name) for n, name in enumerate(names)]
    first, new, again, changed = (bars_of(piece, at, 4) for at in (2, 6, 10, 14))
    assert any(new)
    assert first[0] == again[0] == changed[0], "a return begins as it did"
    assert again != first, "and is no copy"
    assert changed[2:] not in (first[2:], again[2:]), "the second half of a prime is new"
    assert changed[3] == first[3], "the end of the piece is that of its section"
    assert piece.duration <= 54 * BEAT + 1e-3
    assert set(piece.notes["program"][piece.notes["track"] == 0].tolist()) == {6}
    chords = [(at, name) for at, name in piece.markers if ":" in name]
    assert (pytest.approx(30 * BEAT), "C:maj") in chords, "chords return with their section"
    assert list(made[0].chords) == [mark for mark in chords if mark[0] > 17 * BEAT]


def test_the_same_seed_composes_the_same_and_new_notes_are_reported(song, verse, made):
    sample, events = made
    (again,) = musictx.generate(song, primer=verse, form="ABAA'", seed=3)
    assert again.score == sample.score
    assert again.score.markers == sample.score.markers
    assert {number for number, _ in events} == {0}
    assert sum(event.on for _, event in events) * 2 == len(events) == sample.notes * 2


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"meter": "9/4"}, "meter"),
        ({"instruments": "banjo"}, "instruments"),
        ({"tempo": 5}, "tempo"),
        ({"bars": 50_000}, "expected at most 86400 s, a day"),
        ({"model": "piano", "bars": None, "tempo": 90}, "tempo"),
        ({"primer": TUNE, "bars": 1, "meter": "3/4"}, "meter"),
        ({"model": "piano", "bars": 2, "loop": True}, "loop"),
        ({"loop": True, "bars": None, "seconds": 4}, "loop"),
        ({"loop": True, "form": "AB"}, "loop"),
        ({"loop": True, "primer": TUNE}, "loop"),
        ({"form": "A"}, "form=A: expected 2 to 32 letters from A to M"),
        ({"form": "AXB"}, "form=AXB: expected 2 to 32 letters"),
        ({"form": "AB", "end": "natural"}, "end=natural: expected none with form"),
        ({"form": "AB", "include_primer": False}, "include_primer=false: expected true with form"),
        ({"form": "AB", "model": "piano", "bars": None}, r"form=AB: this model .*model=song"),
        ({"form": "AB", "processors": [lambda ids, logits: logits]}, "form=AB: expected no"),
    ],
)
def test_impossible_requests_are_refused_in_a_sentence(song, options, sentence):
    with pytest.raises(UserError, match=sentence):
        musictx.generate(**({"model": song, "bars": 2} | options))


def test_an_ensemble_is_drawn_as_often_as_it_occurs(song):
    its, stats = idiom_of(song.tokenizer), song.stats
    drawn = Counter(
        its.choose_parts(region(stats=stats, seed=[seed, 0])).plan.parts
        for seed in range(900, 1900)
    )
    total = sum(count for count, _ in stats.ensembles)
    assert set(drawn) <= {tuple(some) for _, some in stats.ensembles}
    for count, some in stats.ensembles:
        share = count / total
        assert abs(drawn[tuple(some)] / 1000 - share) < 5 * np.sqrt(share / 1000)
    asked = Primer(plan=Plan(parts=(33,)))
    assert its.choose_parts(region(stats=stats, sampling=SamplingConfig(habits=False))) is NO_PRIMER
    assert its.choose_parts(region(asked, stats=stats)) is asked


@pytest.mark.parametrize("density", [1.0, 100.0])
def test_parts_of_a_new_piece_share_the_requested_density(song, density, monkeypatch):
    its, asked = idiom_of(song.tokenizer), []
    lacking = lambda row, rates, **more: asked.append(rates) or iter(())  # noqa: E731
    monkeypatch.setattr("musictx.songs.penalties.lacking_parts", lacking)
    primer = its.choose_parts(region(stats=song.stats, seed=[2, 0]))
    state = song.tokenizer.grammar()
    new = region(primer, stats=song.stats, targets={"density": density})
    for penalty in its.penalties(new, state):
        penalty(GrammarRow(state), np.zeros(1, int))
    (rates,) = asked
    usual = {part: PART_SHARE * song.stats.parts[part].density for part in primer.plan.parts}
    assert rates.keys() == usual.keys()
    assert sum(rates.values()) <= density
    ratios = {part: rates[part] / usual[part] for part in usual}
    assert max(ratios.values()) == pytest.approx(min(ratios.values()))
    assert density < 100 or ratios == dict.fromkeys(usual, 1.0)


def test_a_form_begins_anew_after_a_silent_section_and_keeps_a_pick_up(song, monkeypatch):
    compose = [form.new_piece, lambda *_: silent]
    silent = Sample(blank_piece(), 0.0, np.empty(0, np.uint16), 0, 4.0, "seconds")
    monkeypatch.setattr(form, "new_piece", lambda *given: compose.pop()(*given))
    options = {"form": "AB", "bars": 2, "seed": 1}
    (piece,) = musictx.generate(song, instruments="piano", **options)
    assert (piece.notes > 0, piece.seconds) == (True, 4 * BAR)
    pickup = of((0.0, 0.5, 60), tempos=[(0, 120)], meters=[(0, 1, 4), (0.5, 4, 4)])
    (piece,) = musictx.generate(song, primer=pickup, **options)
    assert piece.score.notes[["start", "pitch"]].tolist()[0] == (0.0, 60)
    assert piece.score.duration <= 0.5 + 4 * BAR + 1e-3


def test_a_section_that_returns_is_no_copy(song):
    """At least a fifth of the notes is new, except in the first and the last bar."""
    (piece,) = musictx.generate(song, form="AA", bars=4, seed=100)
    stream = song.tokenizer.grid(piece.score).stream
    stream = stream._replace(notes=stream.notes[stream.notes["part"] != CHORD])
    first, again = (
        {*stream.in_bars(bar, bar + 2).notes[["start", "part", "pitch"]].tolist()} for bar in (1, 5)
    )
    assert first
    assert again
    assert 0.1 < 2 * len(first & again) / (len(first) + len(again)) <= MOST_ALIKE


def test_the_melody_of_a_form_gets_the_likeliest_chords(song):
    (piece,) = musictx.generate(song, primer=TUNE, form="AB", bars=4, seed=1)
    first = TUNE.beats.bar_line(0.0, 4)
    of_tune, of_piece = (
        [(time, str(chord)) for time, chord in rows if TUNE.beats.quarters(time) < first - 1e-3]
        for rows in (search_chords(TUNE), chord_changes(piece.score))
    )
    assert of_piece == of_tune != []
