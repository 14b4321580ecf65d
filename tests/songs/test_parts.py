"""Parts by name: each requested part is a new track and plays as usual for its instrument."""

import numpy as np
import pytest

import musictx
from musictx.apps import parts
from musictx.data.statistics import notes_at_onsets
from musictx.errors import UserError
from musictx.songs.chord_estimation import recognise_chords
from musictx.songs.drummers import KINDS
from tests.pieces import line, of, of_track, together

#: Eight bars of a tune in 4/4 at 120.
TUNE = [60 + n % 5 for n in range(32)]


@pytest.fixture
def band(tmp_path):
    """Write four bars in 4/4 at 90: a tune on a guitar and chords on a piano."""
    beat = 60 / 90
    tune = line(*(70 + n % 5 for n in range(16)), every=beat, length=0.6, program=27)
    bar = {"every": 4 * beat, "length": 2.0, "velocity": 60, "program": 1, "track": 1}
    chords = [line(*[pitch] * 4, **bar) for pitch in (60, 64, 67)]
    music = together(tune, *chords, bpm=90, names={0: "Tune", 1: "Keys"})
    return musictx.write(music, tmp_path / "band.mid")


def test_each_part_is_a_new_track_and_plays_as_usual(songs, band, tmp_path):
    (made,) = musictx.accompany(band, songs, add="bass, drums,Strings", seed=1)
    out = musictx.write(made.score, tmp_path / "out.mid")
    assert out.read_bytes()[14:].startswith(band.read_bytes()[14:]), "given tracks are unchanged"
    back = musictx.read(out)
    bass, drums, strings = (of_track(back, name) for name in ("Bass", "Drums", "Strings"))
    assert min(len(bass), len(drums), len(strings)) > 0
    assert back.duration <= 16 * 60 / 90 + 1e-3, "the last bar line"
    assert np.all(bass["end"][:-1] <= bass["start"][1:] + 1e-6), "one note at a time"
    assert set(bass["program"].tolist()) == {33}
    assert 30 <= bass["pitch"].min() <= bass["pitch"].max() <= 50
    assert drums["drum"].all()
    assert 35 <= drums["pitch"].min() <= drums["pitch"].max() <= 60, "drums of General MIDI"
    assert set(strings["program"].tolist()) == {48}
    for start in strings["start"]:
        sounds = (strings["start"] <= start) & (strings["end"] > start + 1e-6)
        assert sounds.sum() <= 3
    (made,) = musictx.accompany(band, songs, add="bass", sampling={"low": "C5"}, seed=1)
    assert of_track(made.score, "Bass")["pitch"].min() >= 72, "above the usual range"


@pytest.mark.parametrize("velocity", [32, 112])
def test_a_part_is_as_loud_as_the_music_that_it_joins(songs, velocity):
    music = together(line(*TUNE, velocity=velocity), of((0.0, 0.1, 36, velocity, 8, True, 1)))
    (made,) = musictx.accompany(music, songs, add="drums", seed=1)
    drums = made.score.notes[made.score.notes["drum"]]
    assert set(drums["program"].tolist()) == {8}, "the kit of the drums that are there"
    assert len(drums) >= 16
    assert abs(drums["velocity"].mean() - velocity) < 16


@pytest.mark.parametrize("name", ["lead", "counter-melody"])
def test_a_second_voice_is_in_the_range_of_the_tune_although_another_track_is_higher(name, songs):
    """The tune is the track with the program of melodies."""
    strings = line(*(84 + n % 3 for n in range(16)), every=1.0, program=48, track=2)
    music = together(line(*TUNE, program=73, track=1), strings)
    (made,) = musictx.accompany(music, songs, add=name, seed=1)
    voice = of_track(made.score, name.capitalize())
    assert notes_at_onsets(voice).max() == 1
    assert 56 <= voice["pitch"].min() <= voice["pitch"].max() <= 68


def test_programs_become_the_nearest_of_the_model(songs, band):
    read = parts.with_model_programs(songs, musictx.read(band))
    assert set(read.notes["program"].tolist()) == {27, 0}, "no guitar is known, pianos are"
    for program, stands in ((0, 0), (7, 0), (35, 33), (47, 48), (71, 65), (127, 81)):
        assert parts.family_program(program) == stands


@pytest.mark.parametrize("name", ["piano", "song"])
@pytest.mark.parametrize("controls", [{}, {"register": "low", "polyphony": 9}])
def test_a_gap_keeps_pitches_and_voices_unless_others_are_requested(
    controls, name, tiny, songs, band
):
    bar, model = 4 * 60 / 90, songs if name == "song" else tiny[name]
    for seed in range(3):
        config = {"begin": "2", "end": "3", "tracks": "Tune", "seed": seed, **controls}
        tune = of_track(musictx.infill(band, model, **config)[0].score, "Tune")
        assert set(tune["program"].tolist()) == {27}
        new = tune[(tune["start"] > bar - 0.01) & (tune["start"] < 3 * bar - 0.01)]
        assert len(new) > 3
        keeps_pitches = 66 <= new["pitch"].min() <= new["pitch"].max() <= 78
        assert (keeps_pitches and notes_at_onsets(new).max() == 1) == (not controls)


def test_drums_are_played_in_the_requested_style(songs, band):
    """Although the weights of the model are random."""
    for style, kind in (("disco", "kick"), ("hush", "hat")):
        (made,) = musictx.accompany(band, songs, add="drums", style=style, seed=2)
        drums = of_track(made.score, "Drums")
        steps = np.round(drums["start"] * 90 / 60 * 24).astype(int)
        steps = steps[np.isin(drums["pitch"], KINDS[kind])]
        assert len(set(steps[steps % 24 == 0])) >= 12, "of 16 beats"


def test_a_loop_ends_with_a_fill_and_begins_with_a_crash(songs, band):
    """Of four bars; without the loop, a section is longer than that."""
    for loop in (True, False):
        made = musictx.accompany(band, songs, add="drums", style="disco", seed=2, loop=loop)
        drums = of_track(made[0].score, "Drums")
        bar, step = np.divmod(np.round(drums["start"] * 90 / 60 * 24).astype(int), 96)
        toms = np.isin(drums["pitch"], KINDS["tom"])
        crashes = np.isin(drums["pitch"], KINDS["crash"]) & (step == 0)
        assert ({48, 72} <= set(step[toms & (bar == 3)].tolist())) == loop
        assert set(bar[crashes].tolist()) == ({0} if loop else set())


def test_parts_and_styles_that_a_model_lacks_are_refused_in_a_sentence(songs, tiny, band):
    for file, model, options, sentence in (
        (band, songs, {"add": "harp"}, "lead, piano, chords, .* flute, drums, counter-melody"),
        (band, tiny["piano"], {"add": "bass"}, "this model writes only piano, chords"),
        (band, songs, {"add": " , "}, "^add= , : expected names of parts"),
        (band, songs, {"add": "bass,bass"}, "add=bass: another part has this instrument"),
        (band, songs, {"add": "piano,chords"}, "add=chords: another part has this instrument"),
        (band, songs, {"add": "drums", "style": "polka"}, "polka: expected one of disco, hush"),
        (band, songs, {"add": "bass", "style": "disco"}, "^style=disco: expected add=drums"),
    ):
        with pytest.raises(UserError, match=sentence):
            musictx.accompany(file, model, **options)


def test_a_track_of_few_high_notes_is_not_the_tune(songs):
    """So that the density of new parts is not set by these few notes."""
    tune, high = line(*TUNE, program=1), of((4.0, 4.5, 90, 80, 2, False, 1))
    assert parts.find_melody_track(together(tune, high)) == 0
    assert parts.find_melody_track(together(line(60, 61), high)) == 1, "all are few"
    for music in (together(tune), together(tune, high)):
        assert musictx.accompany(music, songs, add="strings", seed=1)[0].notes >= 8


def test_a_bass_plays_the_bass_notes_of_slash_chords(songs):
    (made,) = musictx.accompany(None, songs, chords="| C | G/B | Am | Am/G |", add="bass", seed=0)
    starts, pitches = made.score.notes["start"], made.score.notes["pitch"]
    assert [pitches[np.abs(starts - 2.0 * bar) < 0.03].min() % 12 for bar in (1, 3)] == [11, 7]


def test_chords_without_a_file_are_played_in_the_tempo_and_meter_asked_for(songs, band):
    beats = {"tempo": 90.0, "meter": "3/4"}
    (made,) = musictx.accompany(None, songs, chords="| C | Am | G |", add="bass", seed=0, **beats)
    assert [time for time, _ in made.score.markers] == [0.0, 2.0, 4.0]
    assert made.score.notes["end"].max() <= 6.0 + 1e-6
    assert made.score.meters.tolist() == [(0.0, 3, 4)]
    for file, chords in ((band, "| C |"), (band, None), (None, str(band))):
        for name, value in beats.items():
            with pytest.raises(UserError, match=f"^{name}=.*expected none with a file"):
                musictx.accompany(file, songs, chords=chords, add="bass", **{name: value})


@pytest.mark.parametrize("asked", [False, True])
def test_drums_are_composed_after_the_other_parts(songs, band, asked):
    """So the others do not strike where the drummer does. A density is divided as usual, 2 to 6.
    The chords that parts with pitches follow are written."""
    both, bass, drums = (
        musictx.accompany(band, songs, add=add, seed=1, **({"density": density} if asked else {}))
        for add, density in (("drums,bass", 4.0), ("bass", 1.0), ("drums", 3.0))
    )
    notes = both[0].score.notes
    chords = tuple((time, str(chord)) for time, chord in recognise_chords(musictx.read(band)))
    assert both[0].score.markers == bass[0].score.markers == chords != ()
    assert drums[0].score.markers == ()
    assert notes["drum"].any()
    assert notes[~notes["drum"]].tolist() == bass[0].score.notes.tolist()
