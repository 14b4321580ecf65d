"""musictx generate: files and their names, what is printed, and what is told before any work."""

import os
from unittest.mock import Mock

import numpy as np
import pytest

import musictx
from musictx import bundle, formats, shipped
from musictx.apps import generate as app
from musictx.config import GenerateConfig, ModelFolder
from musictx.errors import UserError
from musictx.likelihood import pointwise_mutual_information
from musictx.notes import Score
from musictx.sampling.primer import NO_PRIMER
from musictx.sampling.sample import Sample
from tests.data.helpers import contents
from tests.pieces import line
from tests.untrained import saved


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


def test_pieces_are_named_after_model_and_seed_and_the_first_is_as_alone(folder, tmp_path, capsys):
    (first,) = app.run(config(folder, tmp_path, seed=None))
    seed = int(capsys.readouterr().out.split("seed: ")[1].split()[0])
    assert [*contents(tmp_path)] == [f"out/tunes-{seed}-1.mid"]
    back = formats.read(first.paths[0])
    assert len(back) == len(first.sample.score) > 0
    assert back.duration <= 2.0 + 1e-3
    again, second = app.run(config(folder, tmp_path, seed=seed, samples=2))
    assert again.paths == first.paths, "the same bytes need no second file"
    assert second.paths[0].read_bytes() != first.paths[0].read_bytes()
    (other,) = app.run(config(folder, tmp_path, seed=seed, seconds=1.0))
    assert other.paths[0].name == f"tunes-{seed}-1-2.mid", "nothing is overwritten"


def test_a_primer_is_continued_with_it_or_without(folder, primer, tmp_path):
    asked = {"primer": str(primer), "primer_seconds": 2.0, "seconds": 3.0}
    (whole,) = app.run(config(folder, tmp_path, **asked))
    (new,) = app.run(config(folder, tmp_path, **asked, include_primer=False))
    names = [f"my tune-continued-0-1{more}.mid" for more in ("-2", "")]
    assert [*contents(tmp_path / "out")] == names
    given, written, alone = map(formats.read, (primer, whole.paths[0], new.paths[0]))
    kept = given.notes["pitch"][given.notes["start"] <= 2.0].tolist()
    assert written.notes["pitch"][: len(kept)].tolist() == kept
    assert written.duration <= 5.0 + 1e-3
    assert len(alone) == len(written) - len(kept) == new.sample.notes
    assert alone.duration <= 3.0 + 1e-3


def test_each_of_several_primers_or_of_a_folder_is_continued(folder, primer, tmp_path):
    """As it is alone, also with equal names in two folders, or beside a file that is no music."""
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
        assert len(contents(out)) == 4
    (tmp_path / "a.mid").write_bytes(b"no music")
    with pytest.raises(UserError, match=r"^1 of 2 files not continued: primer=.*a\.mid: "):
        app.run(config(folder, tmp_path, primer=[str(tmp_path / "a.mid"), str(primer)]))
    assert len(contents(tmp_path / "out")) == 1


MISTAKES = {
    "a folder without music as primer": ({"primer": "{tmp}/half"}, "primer=.*half: "),
    "a primer that is no MIDI": ({"primer": "{tmp}/text.mid"}, "primer=.*text.mid"),
    "a primer without notes": ({"primer": "{tmp}/empty.mid"}, "primer=.*empty.mid: "),
    "a primer of drums": ({"primer": "{tmp}/drums.mid"}, "primer=.*drums.mid: .*2 notes"),
    "a tempo of nothing": ({"quantise": "16"}, "quantise=16: "),
    "bars of a model that counts none": ({"bars": 1, "seconds": None}, "bars=1: .*model=song"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes_are_one_sentence_and_leave_nothing(mistake, folder, tmp_path):
    """Whatever is wrong with files is said before a model runs."""
    (tmp_path / "text.mid").write_text("this is no MIDI file")
    formats.write(Score(), tmp_path / "empty.mid")
    formats.write(Score([(0, 1, 36, 80, 0, True, 0)] * 2), tmp_path / "drums.mid")
    for name in ("half", "out"):
        (tmp_path / name).mkdir()
    options, words = MISTAKES[mistake]
    asked = {n: v.format(tmp=tmp_path) if isinstance(v, str) else v for n, v in options.items()}
    before = set(tmp_path.rglob("*"))
    with pytest.raises(UserError, match=words) as error:
        app.run(config(folder, tmp_path, **asked))
    assert "\n" not in str(error.value)
    assert set(tmp_path.rglob("*")) == before


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes among files on this system")
def test_what_is_no_file_is_neither_opened_nor_replaced(folder, tmp_path):
    """A pipe would be waited for, until somebody writes into it."""
    os.mkfifo(tmp_path / "x.mid")
    (tmp_path / "x-2.mid").mkdir()
    (made,) = app.run(config(folder, tmp_path, out=str(tmp_path / "x.mid")))
    assert made.paths == [tmp_path / "x-3.mid"]
    assert not (tmp_path / "x.mid").is_file()


@pytest.mark.parametrize("primed", [True, False])
def test_of_the_candidates_the_one_with_the_most_to_do_with_its_past_is_kept(primed, tiny):
    piano = bundle.load(tiny["piano"])
    primer = line(*(60 + n % 5 for n in range(20)), every=0.25, length=0.2) if primed else None
    # The last note of the primer begins at the seam.
    options, counts = {"primer": primer, "seconds": 3.0, "seed": 4}, [0, 0]
    options |= {"primer_seconds": 4.8} if primed else {}

    def count(number, event):
        counts[number] += event.on

    def coherence(sample):
        before, after = piano.tokenizer.encode(primer or sample.score), sample.ids
        if not primed:
            before, after = np.split(before, [len(before) // 2])
        return pointwise_mutual_information(piano, before, after) / sample.notes

    every = musictx.generate(piano, samples=6, **options)
    best = [max(every[:3], key=coherence), max(every[3:], key=coherence)]
    chosen = musictx.generate(piano, samples=2, candidates=3, **options, on_event=count)
    assert [sample.score for sample in chosen] == [sample.score for sample in best]
    assert counts == [sample.notes for sample in best]
    assert best != [every[0], every[3]], "otherwise the test shows nothing"


def test_after_an_interrupt_a_finished_candidate_is_kept_or_the_best_unfinished_one(monkeypatch):
    ends = ["interrupted", "seconds", *["interrupted"] * 4]
    ids = np.zeros(4, np.uint16)
    composed = [(n, Sample(Score(), 0.0, ids, n, 2.0, ended)) for n, ended in enumerate(ends)]
    monkeypatch.setattr(app, "coherence", lambda *given: -given[-1].notes)
    request = GenerateConfig(samples=2, candidates=3)
    chosen = app.choose_best(None, iter(composed), [NO_PRIMER], request)
    assert [(number, sample.notes) for number, sample in chosen] == [(1, 1), (3, 3)]


def test_halves_of_a_new_piece_begin_with_whole_steps_and_a_bar_has_none(monkeypatch):
    information = Mock(return_value=1.0)
    monkeypatch.setattr(app, "pointwise_mutual_information", information)
    for name, options in (("song", {"bars": 1}), ("chorale", {"tokens": 132})):
        model = bundle.load(shipped.models()[name])
        (piece,) = musictx.generate(model, **options, seed=4)
        assert (app.coherence(model, NO_PRIMER, piece) == 0) == (name == "song")
    assert [len(call.args[1]) % 4 for call in information.call_args_list] == [0]


@pytest.mark.parametrize("closes", [False, True])
def test_after_an_interrupt_pieces_are_written(
    closes, folder, primer, tmp_path, capsys, monkeypatch
):
    more = {"primer": str(primer)} if closes else {}

    def stopped(*args, **options):
        yield 0, Sample(Score(), 0.0, np.zeros(4, np.uint16), 1, 2.0, "interrupted")
        raise KeyboardInterrupt

    monkeypatch.setattr(app, "continuations", stopped)
    with pytest.raises(KeyboardInterrupt):
        app.run(config("song" if closes else folder, tmp_path, **more))
    name = "my tune-continued-0-1.mid" if closes else "tunes-0-1.mid"
    assert [*contents(tmp_path / "out")] == [name]
    assert ": 1 new note, 2.0 s of music\n" in (out := capsys.readouterr().out)
    assert "interrupted after 2.0 s" in out


def test_out_may_name_a_file_and_a_performance_has_no_notation(folder, tmp_path, monkeypatch):
    compose = app.compose_pieces
    monkeypatch.setattr(app, "compose_pieces", lambda *a, **o: reversed([*compose(*a, **o)]))
    made = app.run(config(folder, tmp_path, out=str(tmp_path / "take.mid"), samples=2))
    assert [one.paths[0].name for one in made] == ["take.mid", "take-2.mid"]
    assert [*contents(tmp_path)] == ["take-2.mid", "take.mid"]
    (tmp_path / "album.mid").mkdir()
    for name in ("album.mid", "takes.v2", "2026.11", "take.one/"):
        app.run(config(folder, tmp_path, out=f"{tmp_path}/{name}"))
        assert [*contents(tmp_path / name)] == ["tunes-0-1.mid"]
    with pytest.raises(UserError, match=r"x.musicxml: notation needs beats"):
        app.run(config(folder, tmp_path, out=str(tmp_path / "x.musicxml")))
    (made,) = app.run(config("chorale", tmp_path, seed=1, out=str(tmp_path / "x.musicxml")))
    notes = made.sample.score.notes
    order = np.lexsort((notes["pitch"], np.round(notes["start"], 6)))  # that of MusicXML
    assert formats.read(made.paths[0]).notes["pitch"].tolist() == notes["pitch"][order].tolist()
