"""musictx infill and accompany: what stays, what is new, what is said."""

from __future__ import annotations

from collections import Counter

import mido
import numpy as np
import pytest
import torch

import musictx
from musictx import midi
from musictx.apps import infill as app
from musictx.apps import tasks
from musictx.beats import Beats
from musictx.config import AccompanyConfig, InfillConfig, ModelFolder
from musictx.config.limits import Limits
from musictx.errors import UserError
from musictx.notes import KEY, METER, NOTE, PEDAL, TEMPO, Score
from musictx.sampling import composer
from musictx.tokens import controls
from tests.untrained import saved

torch.set_num_threads(1)


def model_folder(where, card=None, **tokens):
    return saved(where, card, tokens={"name": "performance"} | tokens, context=96)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return model_folder(tmp_path_factory.mktemp("a") / "m", low=30, high=96, controls=True)


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    return model_folder(tmp_path_factory.mktemp("b") / "m")


@pytest.fixture(scope="module")
def songs(tmp_path_factory):
    """Songs by tracks of their own: melody, bridge and piano."""
    corpus = {"programs": {"melody": 73, "bridge": 48, "piano": 0}, "tasks": {"melody": "73"}}
    where = tmp_path_factory.mktemp("c") / "m"
    return model_folder(where, {"corpus": corpus}, tracks="programs", controls=True)


@pytest.fixture
def song(tmp_path):
    """Ten bars of 3/4 at 96 quarters a minute: a tune, chords, a pedal; from half a bar on."""
    beat = 60 / 96
    notes = [
        (beat * (1.5 + i / 2), beat * (2 + i / 2), 72 + i % 7, 91, 0, False, 0) for i in range(56)
    ]
    notes += [
        (beat * (2 + 3 * i), beat * (4 + 3 * i), 48 + 4 * k + i % 3, 55, 0, False, 1)
        for i in range(9)
        for k in range(3)
    ]
    score = Score(
        notes=np.array(notes, NOTE),
        pedals=np.array([(2.0, 127, 1), (3.0, 0, 1), (9.0, 127, 1), (9.5, 0, 1)], PEDAL),
        tempos=np.array([(0.0, 96.0)], TEMPO),
        meters=np.array([(0.0, 3, 4)], METER),
        keys=np.array([(0.0, -1, False)], KEY),
        names={0: "Melody", 1: "Piano"},
        ticks_per_quarter=480,
    )
    midi.write(score, tmp_path / "song.mid")
    return tmp_path / "song.mid"


def infilled(folder, song, tmp_path, **more):
    options = {"begin": "4", "end": "5", "seed": 3, "out": str(tmp_path / "out"), "device": "cpu"}
    config = InfillConfig(model=ModelFolder(str(folder)), file=str(song), **(options | more))
    return app.run(config)


def listed(notes) -> Counter:
    return Counter(tuple(note) for note in notes.tolist())


def outside(score, start, stop, tracks=(0, 1)):
    notes = score.notes
    inside = (notes["start"] > start - 1e-6) & (notes["start"] < stop - 1e-6)
    return listed(notes[~(inside & np.isin(notes["track"], tracks))])


@pytest.mark.parametrize("which", ["folder", "songs"])
@pytest.mark.parametrize(
    ("asked", "bars", "tracks"),
    [
        ({}, (4, 5), (0, 1)),
        ({"begin": "1", "end": "2"}, (1, 2), (0, 1)),
        ({"begin": "8", "end": "10", "tracks": "piano"}, (8, 10), (1,)),
        (
            {"begin": "2", "end": "9", "tracks": "1", "guidance": 2.0, "loudness": "70"},
            (2, 9),
            (0,),
        ),
    ],
)
def test_everything_else_stays_to_the_tick(which, asked, bars, tracks, song, tmp_path, request):
    (result,) = infilled(request.getfixturevalue(which), song, tmp_path, **asked)
    given, back = midi.read(song), midi.read(result.paths[0])
    clock = Beats(given)
    start, stop = (float(clock.seconds(clock.bar_line(0.0, n))) for n in (bars[0] - 1, bars[1]))
    assert start == pytest.approx((bars[0] - 1) * 3 * 60 / 96)
    assert outside(back, start, stop, tracks) == outside(given, start, stop, tracks)
    for column in ("pedals", "tempos", "meters", "keys"):
        assert np.array_equal(getattr(back, column), getattr(given, column))
    assert back.names == given.names
    assert back.ticks_per_quarter == given.ticks_per_quarter
    assert len(back) - sum(outside(back, start, stop, tracks).values()) == result.sample.notes
    assert set(back.notes["track"].tolist()) <= {0, 1}
    assert set(back.notes["program"].tolist()) == {0}


@pytest.mark.parametrize("which", ["folder", "songs"])
def test_a_melody_stays_as_it_is_and_gets_a_track_beside_it(which, song, tmp_path, request):
    model = request.getfixturevalue(which)
    config = AccompanyConfig(
        model=ModelFolder(str(model)), melody=str(song), seed=1, out=str(tmp_path), device="cpu"
    )
    (result,) = app.run(config)
    given, back = midi.read(song), midi.read(result.paths[0])
    tune = given.notes[given.notes["track"] == 0]
    assert listed(back.notes[back.notes["track"] < 2]) == listed(given.notes)
    assert len(back) > len(given)
    names = {name for track, name in back.names.items() if track > 1}
    assert names <= ({"bridge", "piano"} if which == "songs" else {"accompaniment"})
    new = back.notes[back.notes["track"] > 1]
    assert new["start"].min() >= tune["start"].min() - 1e-3
    assert set(new["program"].tolist()) <= ({0, 48} if which == "songs" else {0})
    highest = musictx.accompany(given.with_notes(tune), str(model), seed=1)[0]
    assert listed(highest.score.notes[highest.score.notes["track"] == 0]) == listed(tune)


def test_without_a_track_of_its_own_the_melody_is_what_nothing_sounds_above():
    notes = np.array([(0, 2, 60, 64, 0, False, 0), (0, 1, 72, 64, 0, False, 1),
                      (1, 2, 55, 64, 0, False, 1), (2, 3, 50, 64, 0, False, 1)], NOTE)  # fmt: skip
    task = tasks.under(Score(notes=notes), AccompanyConfig())
    assert task.given.notes["pitch"].tolist() == [72, 50]
    notes["drum"] = True
    with pytest.raises(UserError, match="melody: this file holds no notes, or only drums; give"):
        tasks.under(Score(notes=notes), AccompanyConfig())


@pytest.mark.parametrize(
    ("asked", "sentence"),
    [
        ({"begin": None}, r"from: missing; give a bar, from=5, or seconds"),
        ({"end": "8.5"}, r"to=8\.5: expected a bar, to=5, or seconds, to=12\.5s"),
        ({"begin": "6", "end": "4"}, r"to=4: expected a place after from=6"),
        ({"begin": "40", "end": "41"}, r"from=40: the file ends before that.*in bar 10"),
        ({"end": "99"}, r"to=99: that is 16\d s after the end of the file, expected at most 30"),
        ({"tracks": "flute"}, r"tracks=flute: expected a track .*1 Melody, 2 Piano"),
        ({"limits": Limits(notes=10)}, r"file=.*notes, more than limits\.notes=10"),
        (
            {"loudness": "loud"},
            r"loudness=loud: expected a number of MIDI velocity up to 127, or ppp",
        ),
    ],
)
def test_what_cannot_be_is_said_before_the_model_is_read(asked, sentence, song, tmp_path):
    with pytest.raises(UserError, match=sentence):
        infilled("no/such/model", song, tmp_path, **asked)
    assert not (tmp_path / "out").exists()


def test_a_gap_in_notation_needs_beats(folder, song, tmp_path, monkeypatch):
    notation = {"out": str(tmp_path / "gap.musicxml")}
    (made,) = infilled(folder, song, tmp_path, quantise="16", **notation)
    assert made.paths == [tmp_path / "gap.musicxml"]
    monkeypatch.setattr(app, "composed", None)  # refused before the model runs
    with pytest.raises(UserError, match=r"gap.musicxml: notation needs beats.*with quantise=16"):
        infilled(folder, song, tmp_path, **notation)


def test_a_model_without_control_tokens_is_refused(plain, song, tmp_path):
    with pytest.raises(UserError, match="has no control tokens; give one trained with tokenizer"):
        infilled(plain, song, tmp_path)
    with pytest.raises(UserError, match=r"loudness: this model .* has no control tokens"):
        musictx.generate(str(plain), seconds=1, loudness="p")
    with pytest.raises(UserError, match=r"guidance=2: this model"):
        musictx.generate(str(plain), seconds=1, guidance=2)


def test_music_can_be_steered_and_a_density_asked_of_any_model(plain, folder):
    options = {"tokens": 40, "seed": 2}
    for model in (plain, folder):
        usual = musictx.generate(str(model), **options)[0].ids.tolist()
        sparse = musictx.generate(str(model), density=1.5, **options)[0].ids.tolist()
        assert sparse != usual
    asked = {"density": 3.4, "loudness": "p", "register": 80, "guidance": 3.0}
    one, two = musictx.generate(str(folder), samples=2, **asked, **options)
    again = musictx.generate(str(folder), **asked, **options)[0]
    assert one.ids.tolist() == again.ids.tolist() != two.ids.tolist()


def test_a_model_of_chorales_fills_voices_and_keeps_the_rest_to_the_tick(tmp_path, capsys):
    """Six bars in four tracks at 72 bpm, notes off the sixteenths, one held into the gap."""
    beat, notes = 60 / 72, []
    for voice, pitch in enumerate((72, 67, 64, 48)):
        for n in range(24):
            start = beat * (n + 0.01 * (n % 3))
            if voice != 1 or n != 4:  # the alto's note of the beat before is held
                last = beat * (n + 2 - 0.1 if (voice, n) == (1, 3) else n + 0.9)
                notes.append((start, last, pitch + n % 3, 60 + n, 52, False, 3 - voice))
    score = Score(
        tempos=np.array([(0.0, 72.0)], TEMPO), ticks_per_quarter=384,
        meters=np.array([(0.0, 4, 4)], METER), names={3: "S", 2: "A", 1: "T", 0: "B"},
    ).with_notes(notes)  # fmt: skip
    path = tmp_path / "four.mid"
    musictx.write(score, path)
    before = musictx.read(path)
    found = musictx.infill(path, "chorale", begin=2, end=3, tracks="A,T", seed=1)[0]
    since = before.notes["start"] / beat
    inside = (since > 3.99) & (since < 11.99)
    changed = inside & np.isin(before.notes["track"], (1, 2))
    kept = Counter(map(bytes, before.notes[~changed]))
    after = Counter(map(bytes, musictx.read(found.score).notes))
    assert not kept - after
    new = np.array([n for n in found.score.notes if bytes(n) not in kept])
    assert len(new) == found.notes
    assert set(new["track"]) == {1, 2}
    assert (new["program"] == 52).all()
    quarters = new["start"] / beat * 4
    assert np.allclose(quarters, quarters.round(), atol=1e-3)
    alto = new["start"][new["track"] == 2]
    assert alto.min() >= 4.99 * beat  # the held note was left alone
    assert 3.99 * beat < new["start"].min() <= new["start"].max() < 11.99 * beat
    musictx.write(found, tmp_path / "filled.mid")
    again = musictx.read(tmp_path / "filled.mid")
    assert not Counter(map(bytes, before.notes[~changed])) - Counter(map(bytes, again.notes))
    for wrong, told in (
        ({"begin": 1, "end": 9}, "nothing would stay"),
        ({"begin": 2, "end": 3, "tracks": "alt"}, "tracks=alt: expected a track by name or num"),
        ({"begin": "3.34s", "end": "3.35s"}, "nothing begins there"),
    ):
        with pytest.raises(UserError, match=told):
            musictx.infill(path, "chorale", **wrong)
    for without_effect, told in (
        ({"guidance": 2.0}, "guidance: this model .* has no control tokens"),
        ({"quantise": "8t"}, "quantise=8t: a model of chorales writes sixteenths"),
        ({"sampling": {"key": "C"}}, "sampling.key=C: has no effect where voices"),
    ):
        with pytest.raises(UserError, match=told):
            musictx.infill(path, "chorale", begin=2, end=3, **without_effect)


@pytest.mark.slow
@pytest.mark.parametrize("command", ["infill", "accompany"])
@pytest.mark.parametrize("key", ["auto", "E"])
def test_new_notes_keep_to_the_key_and_range_that_are_asked_for(song, command, key):
    """As in generate; key=auto is that of the notes that stay, here those of D flat major."""
    music = musictx.read(song)
    notes, flats = music.notes.copy(), np.array([1, 3, 5, 6, 8, 10, 0])
    notes["pitch"] = notes["pitch"] // 12 * 12 + flats[notes["pitch"] % 7]
    music = music.with_notes(notes)
    kept = Counter(map(bytes, music.notes))
    sampling = {"key": key, "low": "C3", "high": "C6"}
    if command == "infill":
        found = musictx.infill(music, "piano", begin=3, end=6, sampling=sampling)[0]
    else:
        found = musictx.accompany(music, "piano", melody_track="1", sampling=sampling)[0]
    new = np.array([n["pitch"] for n in found.score.notes if bytes(n) not in kept])
    assert len(new) > 3
    assert set(new % 12) <= set(flats if key == "auto" else [4, 6, 8, 9, 11, 1, 3])
    assert new.min() >= 48
    assert new.max() <= 84


def test_a_gap_is_like_the_music_around_it_and_an_accompaniment_follows_its_melody(
    folder, song, monkeypatch
):
    """By control tokens, and by what soft constraints aim at."""
    asked, kept = [], []

    real = composer.versions

    def noted(part, seeds, *, sampling, stats, **more):
        asked.append((part.steering.levels, part.steering.density, stats.density))
        kept.append(part.steering.values)
        return real(part, seeds, sampling=sampling, stats=stats, **more)

    monkeypatch.setattr(composer, "versions", noted)
    model = musictx.load(folder)
    model.card["note_limits"] = {"density": 7.5}
    music = musictx.read(song)
    tune = music.notes[music.notes["track"] == 0]
    usual = len(tune) / (tune["end"].max() - tune["start"].min())  # a quarter is 0.625 s
    assert usual == pytest.approx(3.2)
    height = tune["pitch"].mean() - app.LOWER
    asked_for = ({}, 7.5), ({"density": 2.0}, 2.0), ({"density": "any"}, 0.0)
    for options, density in (*asked_for, ({"sampling": {"density": 5.0}}, 5.0)):
        musictx.accompany(song, model, melody_track="1", **options)
        level = controls.level("density", density) if density else 0
        assert asked.pop()[:2] == ((level, 0, controls.level("register", height), 0), density)
        assert kept.pop()["register"] == pytest.approx(height)
    slow = music.with_notes(tune[::4])
    musictx.accompany(slow, model)
    assert asked[-1][1] == pytest.approx(3 * 0.8, rel=0.1)
    asked.clear()
    musictx.infill(song, model, begin=4, end=5, register="any")
    near = music.notes
    first, last = 5.625 - tasks.AROUND_SECONDS, 9.375 + tasks.AROUND_SECONDS
    near = near[(near["start"] >= first) & (near["start"] < last)]
    found = controls.measured(near, min(last, music.duration))
    expected = controls.levels({**found, "register": 0.0})
    assert asked == [(tuple(expected), None, pytest.approx(found["density"]))]
    assert kept[-1] == pytest.approx({**found, "register": 0.0})
    assert expected[2] == 0 < min(expected[0], expected[1], expected[3])


@pytest.fixture
def band(tmp_path):
    """Eight bars of 4/4 at 124: drums, bass, chords, and a lead whose program changes at bar 5."""
    file, beat = mido.MidiFile(ticks_per_beat=480), 480
    file.tracks.append(mido.MidiTrack([mido.MetaMessage("set_tempo", tempo=mido.bpm2tempo(124))]))
    parts = {"Drums": (9, [36, 42] * 16), "Bass": (1, [40, 43] * 16)}
    parts |= {"Chords": (2, [60, 64] * 16), "Lead": (3, [76, 79] * 16)}
    for name, (channel, pitches) in parts.items():
        track = mido.MidiTrack([mido.MetaMessage("track_name", name=name)])
        for number, pitch in enumerate(pitches):
            if number in (0, 16) and name == "Lead":
                program = 80 + number // 16
                track.append(mido.Message("program_change", channel=channel, program=program))
            on = {"channel": channel, "note": pitch, "velocity": 80}
            track.append(mido.Message("note_on", time=0 if number == 0 else 40, **on))
            track.append(mido.Message("note_off", time=beat - 40, channel=channel, note=pitch))
        file.tracks.append(track)
    file.save(tmp_path / "band.mid")
    return tmp_path / "band.mid"


def of_track(score, name):
    tracks = [track for track, named in score.names.items() if named == name]
    return score.notes[np.isin(score.notes["track"], tracks)]


def test_drums_stay_where_no_track_is_named_and_are_refused_where_they_are(folder, band):
    before = midi.read(band)
    (made,) = musictx.infill(band, str(folder), begin=5, end=6, seed=1)
    assert listed(of_track(made.score, "Drums")) == listed(of_track(before, "Drums"))
    assert listed(of_track(made.score, "Bass")) != listed(of_track(before, "Bass"))
    for tracks in ("Drums", "1", ["Bass", "Drums"]):
        with pytest.raises(UserError, match="tracks=Drums: these are drums, and this model writes"):
            musictx.infill(band, str(folder), begin=5, end=6, tracks=tracks)


def test_a_track_whose_program_changes_is_one_track(folder, band):
    before = midi.read(band)
    assert before.names == {0: "Drums", 1: "Bass", 2: "Chords", 3: "Lead"}
    clock = Beats(before)
    start, stop = (float(clock.seconds(16.0 + 8 * n)) for n in (0, 1))
    (made,) = musictx.infill(band, str(folder), begin=5, end=6, tracks="lead", seed=1)
    lead = of_track(made.score, "Lead")
    old = of_track(before, "Lead")
    outside_of = (old["start"] < start - 1e-3) | (old["start"] > stop - 1e-3)
    new = listed(lead) - listed(old[outside_of])
    assert listed(lead) - new == listed(old[outside_of])
    assert sum(new.values()) == made.notes > 0
    assert {note[4] for note in new} == {81}, "on the program that sounds there"
    (under,) = musictx.accompany(band, str(folder), melody_track="Lead", seed=1)
    assert listed(of_track(under.score, "Lead")) == listed(old)


@pytest.mark.parametrize(
    ("begin", "end", "quantise"),
    [(5, 6, "none"), (5, 6, "16"), (1, 2, "8t"), ("7.3s", "9.9s", "16"), ("7.3s", "9.9s", "8t")],
)
def test_no_new_note_begins_outside_of_the_gap(folder, band, quantise, begin, end, tmp_path):
    """Bar lines at 124 lie between the steps of the tokens; to the tick, in the file."""
    before, made = midi.read(band), tmp_path / "made.mid"
    clock = Beats(before)
    start, stop = (
        tasks.moment("", str(at), clock, begins=begins)
        for begins, at in ((True, begin), (False, end))
    )
    for seed in range(3):
        options = {"tracks": "Chords", "quantise": quantise, "seed": seed, "density": 12}
        musictx.write(musictx.infill(band, str(folder), begin=begin, end=end, **options)[0], made)
        new = listed(of_track(midi.read(made), "Chords")) - listed(of_track(before, "Chords"))
        assert new
        for at, *_ in new:
            assert start - 1e-3 < at < stop - 1e-3


def test_a_track_on_which_nothing_stays_keeps_its_program(folder, band):
    notes = midi.read(band).notes.copy()
    notes["program"][notes["track"] == 1] = 33
    music = midi.read(band).with_notes(notes)
    (made,) = musictx.infill(music, str(folder), begin=1, end=9, tracks="Bass", seed=2)
    new = of_track(made.score, "Bass")
    assert len(new) == made.notes > 0
    assert set(new["program"].tolist()) == {33}


def test_the_first_bar_of_music_that_comes_early_begins_with_its_file():
    """Its own bar line lies before the file; this was refused as a gap without length."""
    at = np.maximum(np.arange(64) * 0.25 - 0.015, 0.0)
    rows = [(a, a + 0.2, 60 + n % 5, 80, 0, False, 0) for n, a in enumerate(at)]
    score = Score(np.array(rows, NOTE), tempos=np.array([(0.0, 120.0)], TEMPO),
                  meters=np.array([(0.0, 4, 4)], METER), ticks_per_quarter=480)  # fmt: skip
    task = tasks.gap(score, InfillConfig(begin="1", end="2"))
    assert task.begin == 0.0
    assert task.end == pytest.approx(4.0 - 0.015, abs=2e-3)


def test_every_track_of_a_gap_is_composed():
    """Eight bars of drums, a bass, chords and a lead: in a gap of two no part is left out."""
    rows, bar = [], 240 / 124
    for n in range(8):
        at, root = bar * n, (57, 53, 48, 55)[n % 4]
        rows += [(at + k * bar / 4, at + k * bar / 4 + 0.05, 38, 90, 0, True, 0) for k in range(4)]
        rows += [
            (at + k * bar / 4, at + k * bar / 4 + 0.3, root - 24, 90, 33, False, 1)
            for k in range(4)
        ]
        rows += [(at, at + 1.81, root + k, 70, 4, False, 2) for k in (0, 3, 7)]
        rows += [
            (at + k * bar / 8, at + k * bar / 8 + 0.2, root + 12 + m, 80, 80, False, 3)
            for k, m in enumerate((0, 3, 7, 5, 3, 2, 0, -2))
        ]
    score = Score(
        np.array(sorted(rows), NOTE), tempos=np.array([(0.0, 124.0)], TEMPO),
        meters=np.array([(0.0, 4, 4)], METER), ticks_per_quarter=480,
    )  # fmt: skip
    for seed in range(4):
        (sample,) = musictx.infill(score, "song", begin="5", end="6", seed=seed)
        notes = sample.score.notes
        new = notes[(notes["start"] >= 4 * bar - 1e-3) & (notes["start"] < 6 * bar - 1e-3)]
        assert set(new["track"].tolist()) == {0, 1, 2, 3}, seed


@pytest.mark.parametrize(
    ("ends", "sentence"),
    [
        ({"begin": 4.2, "end": 8}, "begin=4.2: expected a bar, begin=5, or seconds, begin=12.5s"),
        ({"begin": 5, "end": "x"}, "end=x: expected a bar, end=5, or seconds, end=12.5s"),
        ({"begin": 5, "end": 2}, "end=2: expected a place after begin=5"),
        ({"begin": 900, "end": 901}, "begin=900: the file ends before that"),
        ({"begin": 1, "end": 900}, "end=900: that is "),
        ({"begin": {}, "end": 1}, "begin={}: expected text"),
    ],
)
def test_errors_of_python_name_the_arguments_of_python(ends, sentence):
    with pytest.raises(UserError) as error:
        musictx.infill("mozart_k545", "piano", **ends)
    assert str(error.value).startswith(sentence)
