"""musictx infill and accompany: what stays, what is new, what is said."""

import numpy as np
import pytest

import musictx
from musictx import formats
from musictx.apps import infill as app
from musictx.apps import tasks
from musictx.beats import Beats
from musictx.config import AccompanyConfig, InfillConfig, ModelFolder
from musictx.config.limits import Limits
from musictx.errors import UserError
from musictx.notes import DRUMS
from tests.pieces import listed, of, of_track, outside, score

#: Seconds of a beat: bar lines lie between the steps of the tokens.
BEAT = 60 / 124


@pytest.fixture
def song(tmp_path):
    """Ten bars of 3/4: a tune, chords, a pedal; from half a bar on."""
    rows = [(1.5 + i / 2, 2 + i / 2, 72 + i % 7, 91, 0, False, 0) for i in range(56)]
    rows += [(2 + 3 * i, 4 + 3 * i, 48 + 4 * k + i % 3, 55, 0, False, 1)
             for i in range(9) for k in range(3)]  # fmt: skip
    notes = [(BEAT * start, BEAT * end, *rest) for start, end, *rest in rows]
    pedals = [(2.0, 127, 1), (3.0, 0, 1), (9.0, 127, 1), (9.5, 0, 1)]
    more = {"pedals": pedals, "keys": [(0.0, -1, False)], "names": {0: "Melody", 1: "Piano"}}
    formats.write(score(notes, bpm=124, meter=(3, 4), **more), tmp_path / "song.mid")
    return tmp_path / "song.mid"


def infilled(folder, song, tmp_path, **more):
    options = {"begin": "4", "end": "5", "seed": 3, "out": str(tmp_path / "out"), "device": "cpu"}
    return app.run(InfillConfig(model=ModelFolder(str(folder)), file=str(song), **(options | more)))


@pytest.mark.parametrize("name", ["piano", "pop"])
@pytest.mark.parametrize(
    ("asked", "bars", "tracks"),
    [
        ({"begin": "1", "end": "2"}, (1, 2), (0, 1)),
        ({"begin": "8", "end": "10", "tracks": "piano"}, (8, 10), (1,)),
        ({"begin": "2", "end": "9", "tracks": "1", "loudness": 70}, (2, 9), (0,)),
    ],
)
def test_everything_else_stays_to_the_tick(name, asked, bars, tracks, song, tmp_path, tiny):
    (result,) = infilled(tiny[name], song, tmp_path, **asked)
    assert result.paths[0].name == "song-infilled-3-1.mid"
    given, back = formats.read(song), formats.read(result.paths[0])
    start, stop = (bars[0] - 1) * 3 * BEAT, bars[1] * 3 * BEAT
    assert outside(back, start, stop, tracks) == outside(given, start, stop, tracks)
    for column in ("pedals", "tempos", "meters", "keys"):
        assert np.array_equal(getattr(back, column), getattr(given, column))
    assert back.names == given.names
    assert back.ticks_per_quarter == given.ticks_per_quarter
    assert len(back) - sum(outside(back, start, stop, tracks).values()) == result.sample.notes
    assert set(back.notes["track"].tolist()) <= {0, 1}
    assert set(back.notes["program"].tolist()) == {0}


@pytest.mark.parametrize("name", ["piano", "pop"])
def test_a_melody_stays_as_it_is_and_gets_a_track_beside_it(name, song, tmp_path, tiny):
    where = {"melody": str(song), "out": str(tmp_path), "device": "cpu"}
    (result,) = app.run(AccompanyConfig(model=ModelFolder(str(tiny[name])), seed=1, **where))
    given, back = formats.read(song), formats.read(result.paths[0])
    assert listed(back.notes[back.notes["track"] < 2]) == listed(given.notes)
    assert len(back) > len(given)
    names = {name for track, name in back.names.items() if track > 1}
    assert names <= ({"bridge", "piano"} if name == "pop" else {"accompaniment"})
    new = back.notes[back.notes["track"] > 1]
    assert new["start"].min() >= given.notes["start"][given.notes["track"] == 0].min() - 1e-3
    assert set(new["program"].tolist()) <= ({0, 48} if name == "pop" else {0})


@pytest.mark.parametrize(
    ("asked", "sentence"),
    [
        ({"begin": None}, r"from: "),
        ({"end": "8.5"}, r"end=8\.5: .*seconds"),
        ({"begin": "6", "end": "4"}, r"to=4: .*from=6"),
        ({"end": "99"}, r"to=99: .*at most 30"),
        ({"tracks": "flute"}, r"tracks=flute: .*1 Melody, 2 Piano"),
        ({"limits": Limits(notes=10)}, r"file=.*limits\.notes=10"),
    ],
)
def test_what_cannot_be_is_said_before_the_model_is_read(asked, sentence, song, tmp_path):
    with pytest.raises(UserError, match=sentence):
        infilled("no/such/model", song, tmp_path, **asked)
    assert not (tmp_path / "out").exists()


def test_a_gap_in_notation_needs_beats(tiny, song, tmp_path, monkeypatch):
    notation = {"out": str(tmp_path / "gap.musicxml")}
    (made,) = infilled(tiny["piano"], song, tmp_path, quantise="16", **notation)
    assert made.paths == [tmp_path / "gap.musicxml"]
    monkeypatch.setattr(app, "compose_versions", None)  # refused before the model runs
    with pytest.raises(UserError, match=r"gap.musicxml: .*quantise=16"):
        infilled(tiny["piano"], song, tmp_path, **notation)


def test_what_needs_control_tokens_is_refused_without(tiny, song, tmp_path):
    with pytest.raises(UserError, match="control tokens"):
        infilled(tiny["plain"], song, tmp_path)
    with pytest.raises(UserError, match=r"^loudness"):
        musictx.generate(tiny["plain"], seconds=1, loudness="p")
    (few,), (many,) = (musictx.generate(tiny["plain"], seconds=8, density=n) for n in (1.0, 12.0))
    assert 1.5 * few.notes < many.notes


@pytest.mark.slow
def test_a_model_of_chorales_fills_voices_and_keeps_the_rest_to_the_tick(tmp_path):
    """Six bars in four tracks at 72 bpm, notes off the sixteenths, one held into the gap."""
    beat, notes = 60 / 72, []
    for voice, pitch in enumerate((72, 67, 64, 48)):
        for n in range(24):
            start = beat * (n + 0.01 * (n % 3))
            if voice != 1 or n != 4:  # the alto's note of the beat before is held
                last = beat * (n + 2 - 0.1 if (voice, n) == (1, 3) else n + 0.9)
                notes.append((start, last, pitch + n % 3, 60 + n, 52, False, 3 - voice))
    names = {3: "S", 2: "A", 1: "T", 0: "B"}
    path = tmp_path / "four.mid"
    musictx.write(score(notes, bpm=72, ticks_per_quarter=384, names=names), path)
    before = musictx.read(path)
    made = musictx.infill(path, "chorale", begin=2, end=3, tracks="A,T", seed=1)[0]
    since = before.notes["start"] / beat
    changed = (since > 3.99) & (since < 11.99) & np.isin(before.notes["track"], (1, 2))
    kept = listed(before.notes[~changed])
    assert not kept - listed(made.score.notes)
    assert not kept - listed(musictx.read(musictx.write(made, tmp_path / "filled.mid")).notes)
    new = np.array([n for n in made.score.notes if tuple(n.tolist()) not in kept])
    assert len(new) == made.notes
    assert set(new["track"]) == {1, 2}
    assert (new["program"] == 52).all()
    quarters = new["start"] / beat * 4
    assert np.allclose(quarters, quarters.round(), atol=1e-3)
    alto = new["start"][new["track"] == 2]
    assert alto.min() >= 4.99 * beat  # the held note was left alone
    assert 3.99 * beat < new["start"].min() <= new["start"].max() < 11.99 * beat
    with pytest.raises(UserError, match="musictx harmonise"):
        musictx.accompany(path, "chorale")
    for wrong, reason in (
        ({"begin": 1, "end": 9}, "nothing would stay"),
        ({"begin": "3.34s", "end": "3.35s"}, "nothing begins there"),
        ({"register": 60}, "register: "),
        ({"sampling": {"key": "C"}}, "^key=C: "),
    ):
        with pytest.raises(UserError, match=reason):
            musictx.infill(path, "chorale", **{"begin": 2, "end": 3} | wrong)


@pytest.fixture
def band(tmp_path):
    """Eight bars of 4/4 at 124: drums, bass, chords, and a lead whose program changes at bar 5."""
    parts, rows = {"Drums": (36, 42), "Bass": (40, 43), "Chords": (60, 64), "Lead": (76, 79)}, []
    for track, (name, pitches) in enumerate(parts.items()):
        for n in range(32):
            program = 80 + n // 16 if name == "Lead" else 0
            times = BEAT * n, BEAT * (n + 11 / 12)
            rows.append((*times, pitches[n % 2], 80, program, name == "Drums", track))
    return musictx.write(score(rows, bpm=124, names=dict(enumerate(parts))), tmp_path / "band.mid")


def test_drums_stay_where_no_track_is_named_and_are_refused_where_they_are(tiny, band):
    before = formats.read(band)
    (made,) = musictx.infill(band, tiny["piano"], begin=5, end=6, seed=1)
    assert listed(of_track(made.score, "Drums")) == listed(of_track(before, "Drums"))
    assert listed(of_track(made.score, "Bass")) != listed(of_track(before, "Bass"))
    for tracks in ("Drums", "1", ["Bass", "Drums"]):
        with pytest.raises(UserError, match="tracks=Drums: "):
            musictx.infill(band, tiny["piano"], begin=5, end=6, tracks=tracks)


def test_a_pick_up_is_bar_0():
    """As in scores, pictures and the studio."""
    notes = [(n / 2, n / 2 + 0.5, 60 + n, 80, 0, False, 0) for n in range(9)]
    music = of(*notes, tempos=[(0, 120)], meters=[(0, 1, 4), (0.5, 4, 4)])

    def gap(begin, end):
        task = tasks.task_of(InfillConfig(begin=begin, end=end), music)
        return task.begin, task.end

    assert [gap("0", "0"), gap("1", "1"), gap("0", "2")] == [(0, 0.5), (0.5, 2.5), (0, 4.5)]
    with pytest.raises(UserError, match=r"from=3: .* in bar 2$"):
        gap("3", "3")
    with pytest.raises(UserError, match=r"from=0: expected a bar"):
        tasks.task_of(InfillConfig(begin="0", end="1"), score(notes))


def test_a_track_that_is_silent_around_a_gap_stays_silent_unless_it_is_named():
    tune = [(n / 2, n / 2 + 0.5, 72, 80, 0, False, 0) for n in range(100)]
    solo = [(30 + n / 2, 30.5 + n / 2, 60, 80, 56, False, 1) for n in range(20)]
    music = score([*tune, *solo])
    for begin, tracks in ((5, (0,)), (11, (0, 1)), (18, (0, 1)), (24, (0, 1))):
        assert tasks.task_of(InfillConfig(begin=str(begin), end=str(begin)), music).tracks == tracks
    assert tasks.task_of(InfillConfig(begin="5", end="5", tracks="2"), music).tracks == (1,)
    # In the middle of a long rest of all tracks, each of them may play.
    rest = score([*tune[:9], *((s + 60, e + 60, *more) for s, e, *more in solo)])
    assert tasks.task_of(InfillConfig(begin="20", end="20"), rest).tracks == (0, 1)


def test_in_a_file_of_drums_a_gap_is_of_drums_and_no_melody_is_accompanied(tiny):
    drums = score([(n / 2, n / 2 + 0.1, 36, 80, 0, True, 3) for n in range(16)])
    gap = tasks.task_of(InfillConfig(begin="2", end="3"), drums)
    new_parts = app.default_parts(musictx.load(tiny["pop"]), gap, drums)
    assert (gap.tracks, new_parts) == ((3,), [DRUMS])
    assert tasks.task_of(AccompanyConfig(add="bass"), drums).add == ("bass",)
    for track, reason in ((None, "melody: .*only drums"), ("1", "melody_track=1: .*only drums")):
        with pytest.raises(UserError, match=reason):
            tasks.task_of(AccompanyConfig(melody_track=track), drums)


def test_a_track_keeps_its_programs(tiny, band):
    """One whose program changes is one track; one on which nothing stays has its own again."""
    before = formats.read(band)
    assert before.names == {0: "Drums", 1: "Bass", 2: "Chords", 3: "Lead"}
    clock = Beats(before)
    start, stop = (float(clock.seconds(16.0 + 8 * n)) for n in (0, 1))
    (made,) = musictx.infill(band, tiny["piano"], begin=5, end=6, tracks="lead", seed=1)
    old = of_track(before, "Lead")
    stays = listed(old[(old["start"] < start - 1e-3) | (old["start"] > stop - 1e-3)])
    lead = listed(of_track(made.score, "Lead"))
    assert not stays - lead
    assert sum((lead - stays).values()) == made.notes > 0
    assert {note[4] for note in lead - stays} == {81}, "on the program that sounds there"
    (under,) = musictx.accompany(band, tiny["piano"], melody_track="Lead", seed=1)
    assert listed(of_track(under.score, "Lead")) == listed(old)
    notes = before.notes.copy()
    notes["program"][notes["track"] == 1] = 33
    music = before.with_notes(notes)
    (made,) = musictx.infill(music, tiny["piano"], begin=1, end=9, tracks="Bass", seed=2)
    new = of_track(made.score, "Bass")
    assert len(new) == made.notes > 0
    assert set(new["program"].tolist()) == {33}


def test_the_first_bar_of_music_that_comes_early_begins_with_its_file():
    """Its own bar line lies before the file; this was refused as a gap without length."""
    at = np.maximum(np.arange(64) * 0.25 - 0.015, 0.0)
    early = score([(a, a + 0.2, 60 + n % 5, 80, 0, False, 0) for n, a in enumerate(at)])
    task = tasks.gap_task(early, InfillConfig(begin="1", end="2"))
    assert task.begin == 0.0
    assert task.end == pytest.approx(4.0 - 0.015, abs=2e-3)
