"""musictx generate: files and their names, what is printed, and what is told before any work."""

import os
import re

import numpy as np
import pytest
import torch

import musictx
from musictx import bundle, cli, formats, midi
from musictx.apps import generate as app
from musictx.config import GenerateConfig, ModelFolder
from musictx.errors import UserError
from musictx.notes import NOTE, Score
from musictx.sampling import composer
from musictx.sampling.primer import NOTHING
from musictx.sampling.sample import Sample
from tests.untrained import SMALL, saved

torch.set_num_threads(1)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A model folder in a run folder."""
    return saved(tmp_path_factory.mktemp("runs") / "tunes" / "model")


@pytest.fixture
def primer(tmp_path):
    table = np.zeros(20, NOTE)
    table["start"] = np.arange(20) * 0.25
    table["end"] = table["start"] + 0.2
    table["pitch"] = 60 + np.arange(20) % 12
    table["velocity"] = 80
    midi.write(Score(notes=table), tmp_path / "my tune.mid")
    return tmp_path / "my tune.mid"


def config(folder, tmp_path, **more):
    options = {"seconds": 2.0, "seed": 0, "out": str(tmp_path / "out"), "device": "cpu"} | more
    return GenerateConfig(model=ModelFolder(str(folder)), **options)


def files(path):
    return sorted(str(p.relative_to(path)) for p in path.rglob("*") if p.is_file())


def test_a_new_piece_is_a_valid_midi_file_named_after_model_and_seed(folder, tmp_path, capsys):
    (result,) = app.run(config(folder, tmp_path, seed=5))
    assert files(tmp_path) == ["out/tunes-5-1.mid"]
    assert result.paths == [tmp_path / "out" / "tunes-5-1.mid"]
    back = midi.read(result.paths[0])
    assert len(back) == len(result.sample.score) > 0
    assert back.duration <= 2.0 + 1e-3
    assert "tunes-5-1.mid: " in capsys.readouterr().out


def test_several_samples_are_numbered_and_the_first_is_the_one_made_alone(folder, tmp_path):
    app.run(config(folder, tmp_path, samples=3))
    app.run(config(folder, tmp_path, out=str(tmp_path / "one.mid")))
    assert files(tmp_path) == ["one.mid", *(f"out/tunes-0-{n}.mid" for n in (1, 2, 3))]
    alone, out = (tmp_path / "one.mid").read_bytes(), tmp_path / "out"
    assert (out / "tunes-0-1.mid").read_bytes() == alone
    assert (out / "tunes-0-2.mid").read_bytes() != alone


def test_files_say_what_was_done_with_a_piece(folder, primer, tmp_path, capsys):
    """And what is printed is no time that it took."""
    out, options = str(tmp_path), {"model": f"{folder}", "seed": 1, "device": "cpu"}
    words = [f"out={out}", *(f"{name}={value}" for name, value in options.items())]
    assert cli.main(["continue", str(primer), "seconds=1", *words]) == 0
    assert cli.main(["infill", "ode_to_joy", "from=3", "to=3", f"out={out}", "seed=1"]) == 0
    assert cli.main(["accompany", str(primer), f"out={out}", "seed=1", "model=piano"]) == 0
    harmonise = ["harmonise", "ode_to_joy", f"out={out}", "seed=1", "particles=1"]
    assert cli.main(harmonise) == 0
    made = {"my tune-continued-1-1.mid", "ode_to_joy-infilled-1-1.mid"}
    made |= {"my tune-accompanied-1-1.mid", "ode_to_joy-harmonised-1-1.mid"}
    assert {*files(tmp_path)} == {*made, "my tune.mid"}
    assert re.search(
        r"my tune-continued-1-1.mid: \d+ new notes, 1\.\d s of music\n", capsys.readouterr().out
    )


def test_bars_of_new_music_are_counted_by_the_model_that_counts_them(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)  # there are no runs
    assert cli.main(["generate", "bars=1", "seed=1"]) == 0
    assert "model: song" in capsys.readouterr().out
    (sample,) = musictx.generate(bars=1, seed=1)
    assert sample.score == midi.read("generated/song-1-1.mid")
    assert cli.main(["generate", "bars=1", "model=piano"]) == 2
    assert "give model=song, a primer with a meter, or seconds" in capsys.readouterr().err


def test_a_primer_is_continued_with_it_or_without(folder, primer, tmp_path):
    asked = {"primer": str(primer), "primer_seconds": 2.0, "seconds": 3.0}
    (whole,) = app.run(config(folder, tmp_path, **asked))
    (new,) = app.run(config(folder, tmp_path, **asked, include_primer=False))
    assert files(tmp_path / "out") == ["my tune-continued-0-1-2.mid", "my tune-continued-0-1.mid"]
    given = midi.read(primer)
    kept = given.notes[given.notes["start"] <= 2.0]
    written = midi.read(whole.paths[0])
    assert written.notes["pitch"][: len(kept)].tolist() == kept["pitch"].tolist()
    assert written.duration <= 5.0 + 1e-3
    alone = midi.read(new.paths[0])
    assert len(alone) == len(written) - len(kept) == new.sample.notes
    assert alone.duration <= 3.0 + 1e-3


def test_each_of_several_primers_or_of_a_folder_is_continued(folder, primer, tmp_path, capsys):
    """As it is alone; of the same name in two folders neither takes the other's place."""
    other = tmp_path / "more" / "deep" / "my tune.mid"
    other.parent.mkdir(parents=True)
    formats.write(formats.read(primer).shifted(0.125), other)
    (tmp_path / "again").symlink_to(tmp_path / "more")
    alone = {}
    for file in (primer, other):
        results = app.run(config(folder, tmp_path, primer=str(file), samples=2, out=str(tmp_path)))
        alone |= {(file, one.number): one.paths[0].read_bytes() for one in results}
    for given in ([str(primer), str(other)], [str(primer), str(tmp_path / "more")]):
        out = tmp_path / f"out{len(given[1])}"
        made = app.run(config(folder, tmp_path, primer=given, samples=2, out=str(out)))
        assert [one.number for one in made] == [0, 1, 2, 3]
        contents = [one.paths[0].read_bytes() for one in made]
        assert contents == [alone[file, number] for file in (primer, other) for number in (0, 1)]
        assert len(files(out)) == 4
    out = str(tmp_path / "of a folder")
    made = app.run(config(folder, tmp_path, primer=str(tmp_path / "more"), out=out))
    assert [one.paths[0].read_bytes() for one in made] == [alone[other, 0]]


def test_one_bad_primer_costs_only_itself(folder, primer, tmp_path):
    (tmp_path / "a.mid").write_bytes(b"no music")
    given = [str(tmp_path / "a.mid"), str(primer)]
    with pytest.raises(UserError, match=r"^1 of 2 files not continued: primer=.*a\.mid: "):
        app.run(config(folder, tmp_path, primer=given))
    assert len(files(tmp_path / "out")) == 1
    with pytest.raises(UserError, match=r"primer=.*: no music in this folder"):
        app.run(config(folder, tmp_path, primer=str(folder)))


def test_sound_and_picture_come_when_asked_with_the_seam_marked(
    folder, primer, tmp_path, capsys, monkeypatch
):
    from musictx.render import audio, pianoroll

    sounds, seams = [], []
    monkeypatch.setattr(audio, "write", lambda score, path: sounds.append(path))
    monkeypatch.setattr(pianoroll, "draw", lambda score, path, *, seam: seams.append(seam))
    (result,) = app.run(config(folder, tmp_path, primer=str(primer), render=True))
    printed = capsys.readouterr().out
    assert [p.suffix for p in result.paths] == [".mid", ".wav", ".png"]
    assert all(str(p) in printed for p in result.paths)
    assert seams == [pytest.approx(midi.read(primer).duration)]
    assert sounds == [result.paths[1]]
    app.run(config(folder, tmp_path, render=True, samples=2))
    assert seams[1:] == [None, None]


def test_no_new_notes_is_said_and_not_drawn(folder, tmp_path, capsys, monkeypatch):
    silence = Sample(Score(), 0.0, np.zeros(4, np.uint16), 0, 2.0, "seconds")
    monkeypatch.setattr(app, "continuations", lambda *args, **options: iter([(0, silence)]))
    (result,) = app.run(config(folder, tmp_path, render=True))
    out = capsys.readouterr().out
    assert "no new notes: the model was silent for all of the 2.0 s" in out
    assert [p.suffix for p in result.paths] == [".mid"]
    assert len(midi.read(result.paths[0])) == 0


def test_without_a_model_the_newest_run_is_taken(folder, tmp_path, monkeypatch):
    monkeypatch.chdir(folder.parent.parent.parent)
    folder.parent.parent.rename("runs")
    try:
        (result,) = app.run(GenerateConfig(seconds=1.0, seed=0, out=str(tmp_path), device="cpu"))
        assert result.paths[0].name == "tunes-0-1.mid"
    finally:
        (folder.parent.parent.parent / "runs").rename(folder.parent.parent)


MISTAKES = {
    "a missing primer": ({"primer": "{tmp}/none.mid"}, "primer=.*none.mid: no such file"),
    "a folder without music as primer": ({"primer": "{tmp}/half"}, r"primer=.*half: no music in"),
    "a primer that is no MIDI": ({"primer": "{tmp}/text.mid"}, "primer=.*text.mid"),
    "a primer without notes": (
        {"primer": "{tmp}/empty.mid"},
        "primer=.*empty.mid: this file holds no notes",
    ),
    "a primer of drums": (
        {"primer": "{tmp}/drums.mid"},
        "primer=.*drums.mid: none of its 2 notes .*drum",
    ),
    "a folder in a file": ({"out": "{tmp}/text.mid/a/b"}, "out=.*is a file, expected a folder"),
    "no model": ({"model": ModelFolder("{tmp}/nowhere")}, "model=.*nowhere: no such model folder"),
    "half a model": ({"model": ModelFolder("{tmp}/half")}, "model=.*model.safetensors .*missing"),
    "a file of sound": ({"out": "{tmp}/x.wav"}, "out=.*x.wav: expected a file that ends in .mid"),
    "a file of notes": ({"out": "{tmp}/x.abc"}, "out=.*x.abc: expected a file that ends in .mid"),
    "a file of tablature": ({"out": "{tmp}/x.gp5"}, "out=.*x.gp5: expected a file that ends"),
    "no such device": ({"device": "cuda:63"}, "device=cuda:63: not usable"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes_are_told_in_one_sentence_and_leave_nothing(mistake, folder, primer, tmp_path):
    (tmp_path / "text.mid").write_text("this is no MIDI file")
    midi.write(Score(), tmp_path / "empty.mid")
    drums = np.zeros(2, NOTE)
    drums["end"], drums["pitch"], drums["velocity"], drums["drum"] = 1.0, 36, 80, True
    midi.write(Score(notes=drums), tmp_path / "drums.mid")
    (tmp_path / "half").mkdir()
    (tmp_path / "half" / "config.json").write_text("{}")
    options, words = MISTAKES[mistake]
    filled = {
        key: value.format(tmp=tmp_path) if isinstance(value, str) else value
        for key, value in options.items()
    }
    model = filled.pop("model", None)
    asked = config(folder, tmp_path, **filled)
    if model is not None:
        asked.model = ModelFolder(model.path.format(tmp=tmp_path))
    before = set(tmp_path.rglob("*"))
    with pytest.raises(UserError, match=words) as error:
        app.run(asked)
    assert "\n" not in str(error.value)
    assert set(tmp_path.rglob("*")) == before


def test_the_output_folder_is_tried_before_the_model_runs(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(
        "musictx.apps.results.load", lambda *args: pytest.fail("the model was loaded first")
    )
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="out="):
        app.run(config(folder, tmp_path, out=str(tmp_path / "file")))


def test_an_empty_output_folder_that_was_there_before_stays(folder, tmp_path):
    (tmp_path / "out").mkdir()
    with pytest.raises(UserError):
        app.run(config(folder, tmp_path, device="cuda:63"))
    assert (tmp_path / "out").is_dir()


def test_a_seed_of_its_own_is_printed_and_makes_the_same_music(folder, tmp_path, capsys):
    (first,) = app.run(config(folder, tmp_path, seed=None))
    seed = int(capsys.readouterr().out.split("seed: ")[1].split()[0])
    assert first.paths[0].name == f"tunes-{seed}-1.mid"
    (again,) = app.run(config(folder, tmp_path, seed=seed))
    assert again.paths == first.paths, "the same bytes need no second file"
    (other,) = app.run(config(folder, tmp_path, seed=seed, seconds=1.0))
    assert other.paths[0].name == f"tunes-{seed}-1-2.mid", "nothing is overwritten"
    assert first.paths[0].read_bytes() != other.paths[0].read_bytes()


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes among files on this system")
def test_what_is_no_file_is_neither_opened_nor_replaced(folder, tmp_path):
    """A pipe would be waited for, until somebody writes into it."""
    os.mkfifo(tmp_path / "x.mid")
    (tmp_path / "x-2.mid").mkdir()
    (made,) = app.run(config(folder, tmp_path, out=str(tmp_path / "x.mid")))
    assert made.paths == [tmp_path / "x-3.mid"]
    assert not (tmp_path / "x.mid").is_file()


def test_ones_own_constraints_and_processors_take_part(folder):
    """Nothing but the pentatonic scale, by three lines of the user's."""
    loaded = musictx.load(folder)
    strike = loaded.tokenizer.note_events.strike

    def pentatonic(states, past):
        return np.where((strike >= 0) & ~np.isin(strike % 12, [0, 2, 4, 7, 9]), np.inf, 0.0)

    seen = []
    (made,) = musictx.generate(
        loaded, seconds=3.0, constraints=[pentatonic], processors=[lambda i, x: seen.append(1) or x]
    )
    assert len(made.score) > 3
    assert set(made.score.notes["pitch"] % 12) <= {0, 2, 4, 7, 9}
    assert len(seen) == len(made.ids)


def test_a_primer_that_keeps_to_beats_is_told_what_becomes_of_them(
    folder, primer, tmp_path, capsys
):
    score = midi.read(primer)
    assert len(score.tempos)
    app.run(config(folder, tmp_path, primer=str(primer)))
    assert "quantise=16 puts them on sixteenths" in capsys.readouterr().out
    (made,) = app.run(config(folder, tmp_path, primer=str(primer), quantise="16"))
    assert "quantise" not in capsys.readouterr().out
    new = made.sample.score.notes[len(score) :]
    lines = new["start"] / 0.125
    assert np.allclose(lines, np.round(lines), atol=1e-6)
    with pytest.raises(UserError, match=r"quantise=16: a new piece has no tempo to keep to"):
        app.run(config(folder, tmp_path, quantise="16"))


def test_tracks_that_the_model_cannot_tell_apart_are_told(folder, primer, tmp_path, capsys):
    score = midi.read(primer)
    app.run(config(folder, tmp_path, primer=str(primer)))
    assert "one instrument" not in capsys.readouterr().out
    table = score.notes.copy()
    table["track"] = table["pitch"] > 65
    midi.write(Score(notes=table), primer)
    (made,) = app.run(config(folder, tmp_path, primer=str(primer)))
    assert "several tracks of your primer are one instrument" in capsys.readouterr().out
    notes = made.sample.score.notes
    assert set(notes["track"]) == {0, 1}
    assert np.array_equal(notes["track"][:20], table["track"])


def test_one_voice_is_a_primer_of_tokens_that_count_beats(tmp_path):
    folder = saved(tmp_path / "model", tokens={"name": "notes"}, context=40, group=5)
    tune = [(0.5 * n, 0.5 * n + 0.4, 60 + n, 80, 0, False, 0) for n in range(8)]
    assert musictx.generate(str(folder), primer=Score(tune), tokens=6)[0].ids.size


def test_one_voice_for_a_model_of_four_is_sent_to_harmonise(tmp_path):
    where = saved(tmp_path / "model", tokens={"name": "chorale"}, context=64)
    tune = Score(notes=[(i * 0.5, i * 0.5 + 0.5, 70 + i, 80, 0, False, 0) for i in range(4)])
    with pytest.raises(UserError, match="did you mean `musictx harmonise primer`"):
        app.generate(bundle.load(where), GenerateConfig(), tune)


def test_a_new_chorale_may_end_by_itself_and_other_music_may_not(folder):
    for model, end, found in (
        (folder, None, "cut"),
        ("chorale", None, "model"),
        ("chorale", "natural", "natural"),
    ):
        tokenizer, request = bundle.load(model).tokenizer, GenerateConfig(seconds=3.0, end=end)
        assert composer.with_defaults(request, tokenizer, NOTHING).end == found
    with pytest.raises(UserError, match="end=soon: expected one of cut, natural, model"):
        musictx.generate(end="soon")


def test_after_an_interrupt_the_pieces_are_written_as_far_as_they_are(
    folder, tmp_path, capsys, monkeypatch
):
    def stopped(*args, **options):
        yield 0, Sample(Score(), 0.0, np.zeros(4, np.uint16), 0, 2.0, "interrupted")
        raise KeyboardInterrupt

    monkeypatch.setattr(app, "continuations", stopped)
    with pytest.raises(KeyboardInterrupt):
        app.run(config(folder, tmp_path))
    assert files(tmp_path) == ["out/tunes-0-1.mid"]
    assert "interrupted after 2.0 s" in capsys.readouterr().out


def test_out_may_name_a_file_and_a_performance_has_no_notation(folder, tmp_path):
    app.run(config(folder, tmp_path, out=str(tmp_path / "take.mid"), samples=2))
    assert files(tmp_path) == ["take-2.mid", "take.mid"]
    (tmp_path / "album.mid").mkdir()
    app.run(config(folder, tmp_path, out=str(tmp_path / "album.mid")))
    assert files(tmp_path / "album.mid") == ["tunes-0-1.mid"]
    for name in ("takes.v2", "2026.11", "take.one/"):
        app.run(config(folder, tmp_path, out=str(tmp_path / "d") + name))
        assert files(tmp_path / f"d{name}") == ["tunes-0-1.mid"]
    with pytest.raises(UserError, match=r"x.musicxml: notation needs beats"):
        app.run(config(folder, tmp_path, out=str(tmp_path / "x.musicxml")))
    chorale = GenerateConfig(
        model=ModelFolder("chorale"), seconds=2.0, seed=1, out=str(tmp_path / "x.musicxml")
    )
    (made,) = app.run(chorale)
    assert formats.read(tmp_path / "x.musicxml").notes["pitch"].tolist() == sorted_pitches(made)


def sorted_pitches(made):
    """In the order of MusicXML: by start, then pitch."""
    notes = made.sample.score.notes
    return notes["pitch"][np.lexsort((notes["pitch"], np.round(notes["start"], 6)))].tolist()


def test_parts_known_by_name_are_read_in_their_program_and_go_back_with_their_own(tmp_path):
    card = {
        "corpus": {"programs": {"Melody": 73, "Bridge": 48, "Piano": 0}},
        "note_limits": {"instruments": [0, 48, 73]},
    }
    tokens = SMALL | {"tracks": "programs"}
    loaded = bundle.load(saved(tmp_path / "songs", card, tokens=tokens))
    notes = [(i / 4, i / 4 + 0.2, 72 + i % 5, 80, 0, False, 0) for i in range(8)]
    notes += [(i / 2, i / 2 + 0.4, 52 + i % 3, 60, 4, False, 1) for i in range(4)]
    song = Score(notes=notes, names={0: "MELODY", 1: "keys"})
    (sample,) = app.generate(loaded, GenerateConfig(seconds=6.0), song)
    found = sample.score
    assert (found.names[0], found.names[1]) == ("MELODY", "keys")
    new = found.notes[found.notes["start"] >= sample.seam]
    programs = {track: set(found.notes["program"][found.notes["track"] == track].tolist())
                for track in np.unique(found.notes["track"]).tolist()}  # fmt: skip
    assert (programs.pop(0), programs.pop(1)) == ({0}, {4})
    # The melody goes on, the keys are read as the piano of their family, and no part is new.
    assert set(new["track"].tolist()) == {0, 1}
    assert not programs
    free = app.generate(loaded, GenerateConfig(seconds=6.0))[0].score
    assert set(free.names.values()) == {"Melody", "Bridge", "Piano"}
    ids = app.primer_of(loaded, song, GenerateConfig()).ids
    assert set(loaded.tokenizer.decode(ids).notes["program"].tolist()) == {73, 0}
