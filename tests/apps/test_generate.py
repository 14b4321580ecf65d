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
from musictx.notes import Score
from musictx.sampling import composer
from musictx.sampling.primer import NOTHING
from musictx.sampling.sample import Sample
from tests.pieces import line
from tests.untrained import SMALL, saved

torch.set_num_threads(1)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A model folder in a run folder."""
    return saved(tmp_path_factory.mktemp("runs") / "tunes" / "model")


@pytest.fixture
def primer(tmp_path):
    tune = line(*(60 + n % 12 for n in range(20)), every=0.25, length=0.2)
    return musictx.write(tune, tmp_path / "my tune.mid")


def config(folder, tmp_path, **more):
    options = {"seconds": 2.0, "seed": 0, "out": str(tmp_path / "out"), "device": "cpu"} | more
    return GenerateConfig(model=ModelFolder(str(folder)), **options)


def files(path):
    return sorted(str(p.relative_to(path)) for p in path.rglob("*") if p.is_file())


def test_new_pieces_are_named_after_model_and_seed_and_the_first_is_the_one_made_alone(
    folder, tmp_path, capsys
):
    (result,) = app.run(config(folder, tmp_path, seed=5))
    assert files(tmp_path) == ["out/tunes-5-1.mid"]
    back = midi.read(result.paths[0])
    assert len(back) == len(result.sample.score) > 0
    assert back.duration <= 2.0 + 1e-3
    assert "tunes-5-1.mid: " in capsys.readouterr().out
    app.run(config(folder, tmp_path, seed=5, samples=2, out=str(tmp_path / "two")))
    first, second = (tmp_path / "two" / f"tunes-5-{n}.mid" for n in (1, 2))
    assert first.read_bytes() == result.paths[0].read_bytes() != second.read_bytes()


def test_files_say_what_was_done_with_a_piece(folder, primer, tmp_path, capsys):
    """And what is printed is no time that it took."""
    out = [f"out={tmp_path}", "seed=1"]
    melody = musictx.write(line(67, 69, 71, 72, 74, 72, 71, 67), tmp_path / "tune.mid")
    assert cli.main(["continue", str(primer), "seconds=1", f"model={folder}", *out]) == 0
    assert cli.main(["infill", str(melody), "from=2", "to=2", *out]) == 0
    assert cli.main(["accompany", str(primer), "model=piano", *out]) == 0
    assert cli.main(["harmonise", str(melody), "particles=1", *out]) == 0
    made = {"my tune-continued-1-1.mid", "tune-infilled-1-1.mid"}
    made |= {"my tune-accompanied-1-1.mid", "tune-harmonised-1-1.mid"}
    assert {*files(tmp_path)} == {*made, "my tune.mid", "tune.mid"}
    said = capsys.readouterr().out
    assert re.search(r"my tune-continued-1-1.mid: \d+ new notes, 1\.\d s of music\n", said)


def test_bars_of_new_music_are_counted_by_the_model_that_counts_them(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)  # there are no runs
    assert cli.main(["generate", "bars=1", "seed=1"]) == 0
    assert "model: song" in capsys.readouterr().out
    (sample,) = musictx.generate(bars=1, seed=1)
    new, written = sample.score.notes, midi.read("generated/song-1-1.mid").notes
    assert sorted(new["pitch"]) == sorted(written["pitch"])
    assert np.allclose(np.sort(new["start"]), np.sort(written["start"]), atol=2e-3)
    assert cli.main(["generate", "bars=1", "model=piano"]) == 2
    assert "model=song" in capsys.readouterr().err


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


def test_each_of_several_primers_or_of_a_folder_is_continued(folder, primer, tmp_path):
    """As it is alone; of the same name in two folders neither takes the other's place, and one
    that is no music costs only itself."""
    other = tmp_path / "more" / "deep" / "my tune.mid"
    other.parent.mkdir(parents=True)
    formats.write(formats.read(primer).shifted(0.125), other)
    (tmp_path / "again").symlink_to(tmp_path / "more")
    alone = []
    for file in (primer, other):
        results = app.run(config(folder, tmp_path, primer=str(file), samples=2, out=str(tmp_path)))
        alone += [one.paths[0].read_bytes() for one in results]
    for given in ([str(primer), str(other)], [str(primer), str(tmp_path / "more")]):
        out = tmp_path / f"out{len(given[1])}"
        made = app.run(config(folder, tmp_path, primer=given, samples=2, out=str(out)))
        assert [one.paths[0].read_bytes() for one in made] == alone
        assert len(files(out)) == 4
    (tmp_path / "a.mid").write_bytes(b"no music")
    with pytest.raises(UserError, match=r"^1 of 2 files not continued: primer=.*a\.mid: "):
        app.run(config(folder, tmp_path, primer=[str(tmp_path / "a.mid"), str(primer)]))
    assert len(files(tmp_path / "out")) == 1


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
    silence = Sample(Score(), 0.0, np.zeros(4, np.uint16), 0, 2.0, "seconds")
    monkeypatch.setattr(app, "continuations", lambda *args, **options: iter([(0, silence)]))
    (result,) = app.run(config(folder, tmp_path, render=True))  # nothing to be drawn
    assert "no new notes" in capsys.readouterr().out
    assert [p.suffix for p in result.paths] == [".mid"]


MISTAKES = {
    "a missing primer": ({"primer": "{tmp}/none.mid"}, "primer=.*none.mid: "),
    "a folder without music as primer": ({"primer": "{tmp}/half"}, "primer=.*half: "),
    "a primer that is no MIDI": ({"primer": "{tmp}/text.mid"}, "primer=.*text.mid"),
    "a primer without notes": ({"primer": "{tmp}/empty.mid"}, "primer=.*empty.mid: "),
    "a primer of drums": ({"primer": "{tmp}/drums.mid"}, "primer=.*drums.mid: .*2 notes"),
    "a folder in a file": ({"out": "{tmp}/text.mid/a/b"}, "out=.*text.mid"),
    "no model": ({"model": "{tmp}/nowhere"}, "model=.*nowhere: "),
    "half a model": ({"model": "{tmp}/half"}, "model=.*model.safetensors"),
    "a file of sound": ({"out": "{tmp}/x.wav"}, "out=.*x.wav: .*[.]mid"),
    "a file of notes": ({"out": "{tmp}/x.abc"}, "out=.*x.abc: .*[.]mid"),
    "no such device": ({"device": "cuda:63"}, "device=cuda:63: "),
    "a tempo of nothing": ({"quantise": "16"}, "quantise=16: "),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes_are_told_in_one_sentence_and_leave_nothing(
    mistake, folder, tmp_path, monkeypatch
):
    """Whatever is wrong with files is said before a model runs."""
    (tmp_path / "text.mid").write_text("this is no MIDI file")
    midi.write(Score(), tmp_path / "empty.mid")
    midi.write(Score([(0, 1, 36, 80, 0, True, 0)] * 2), tmp_path / "drums.mid")
    for name in ("half", "out"):
        (tmp_path / name).mkdir()
    (tmp_path / "half" / "config.json").write_text("{}")
    options, words = MISTAKES[mistake]
    asked = {name: value.format(tmp=tmp_path) for name, value in options.items()}
    if "out" in asked:
        monkeypatch.setattr("musictx.apps.results.load", lambda *args: pytest.fail("loaded first"))
    before = set(tmp_path.rglob("*"))
    with pytest.raises(UserError, match=words) as error:
        app.run(config(asked.pop("model", folder), tmp_path, **asked))
    assert "\n" not in str(error.value)
    assert set(tmp_path.rglob("*")) == before


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


def test_what_a_model_cannot_do_with_a_primer_is_told(folder, primer, tmp_path, capsys):
    """Beats of which it knows nothing, and tracks that it cannot tell apart."""
    score = midi.read(primer)
    (made,) = app.run(config(folder, tmp_path, primer=str(primer), quantise="16"))
    said = capsys.readouterr().out
    assert "quantise" not in said
    assert "one instrument" not in said
    lines = made.sample.score.notes["start"][len(score) :] / 0.125
    assert np.allclose(lines, np.round(lines), atol=1e-6)
    table = score.notes.copy()
    table["track"] = table["pitch"] > 65
    midi.write(Score(notes=table, tempos=score.tempos), primer)
    (made,) = app.run(config(folder, tmp_path, primer=str(primer)))
    said = capsys.readouterr().out
    assert "quantise=16" in said
    assert "one instrument" in said
    notes = made.sample.score.notes
    assert set(notes["track"]) == {0, 1}
    assert np.array_equal(notes["track"][:20], table["track"])


def test_one_voice_is_a_primer_of_tokens_that_count_beats_and_none_of_a_choir(tmp_path):
    folder = saved(tmp_path / "model", tokens={"name": "notes"}, context=40, group=5)
    tune = line(*range(60, 68), length=0.4)
    assert musictx.generate(str(folder), primer=tune, tokens=6)[0].ids.size
    choir = saved(tmp_path / "choir", tokens={"name": "chorale"}, context=64)
    with pytest.raises(UserError, match="musictx harmonise"):
        app.generate(bundle.load(choir), GenerateConfig(), tune)


def test_a_new_chorale_may_end_by_itself_and_other_music_may_not(folder):
    for model, end, expected in (
        (folder, None, "cut"),
        ("chorale", None, "model"),
        ("chorale", "natural", "natural"),
    ):
        tokenizer, request = bundle.load(model).tokenizer, GenerateConfig(seconds=3.0, end=end)
        assert composer.with_defaults(request, tokenizer, NOTHING).end == expected


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
    for name in ("album.mid", "takes.v2", "2026.11", "take.one/"):
        app.run(config(folder, tmp_path, out=f"{tmp_path}/{name}"))
        assert files(tmp_path / name) == ["tunes-0-1.mid"]
    with pytest.raises(UserError, match=r"x.musicxml: notation needs beats"):
        app.run(config(folder, tmp_path, out=str(tmp_path / "x.musicxml")))
    (made,) = app.run(config("chorale", tmp_path, seed=1, out=str(tmp_path / "x.musicxml")))
    notes = made.sample.score.notes
    order = np.lexsort((notes["pitch"], np.round(notes["start"], 6)))  # that of MusicXML
    assert formats.read(made.paths[0]).notes["pitch"].tolist() == notes["pitch"][order].tolist()


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
    made = sample.score
    assert (made.names[0], made.names[1]) == ("MELODY", "keys")
    # The melody goes on, the keys are read as the piano of their family, and no part is new.
    assert set(made.notes[["track", "program"]].tolist()) == {(0, 0), (1, 4)}
    assert set(made.notes["track"][made.notes["start"] >= sample.seam].tolist()) == {0, 1}
    free = app.generate(loaded, GenerateConfig(seconds=6.0))[0].score
    assert set(free.names.values()) == {"Melody", "Bridge", "Piano"}
    ids = app.primer_of(loaded, song, GenerateConfig()).ids
    assert set(loaded.tokenizer.decode(ids).notes["program"].tolist()) == {73, 0}
