"""musictx compare: given or generated samples are compared with files or a corpus."""

import csv
import json

import numpy as np
import pytest

from musictx import bundle, formats
from musictx.chorale import grid as four
from musictx.chorale import voice_leading
from musictx.chorale.grid import Grid
from musictx.config import CorpusConfig, ModelFolder, SamplingConfig
from musictx.data.shards import Shards
from musictx.errors import UserError
from musictx.evaluate import compare as app
from musictx.evaluate import measures, sets
from musictx.evaluate.app import write_result
from musictx.evaluate.comparison import COPIED, compare, format_number
from musictx.evaluate.config import CompareConfig
from musictx.evaluate.copies import SHORTEST_COPY
from musictx.evaluate.measures import MEASURES
from musictx.evaluate.sets import REAL, SAMPLES, Excerpt
from musictx.notes import skyline, until
from tests.data.helpers import TOKENIZER, contents, make_shards, song, write_songs
from tests.pieces import of


@pytest.fixture
def model(tiny):
    return str(tiny["plain"])


@pytest.fixture(scope="module")
def midi_files(tmp_path_factory):
    return str(write_songs(tmp_path_factory.mktemp("midi"), range(8), notes=40))


def comparison(*, model=None, **options):
    return app.run(CompareConfig(model=ModelFolder(model), device="cpu", **options))


def stretch(score, start, seconds):
    return Excerpt("", until(score, start + seconds), start, seconds)


def samples_of(folder):
    """Return the entries of samples.json about each sample."""
    return json.loads((folder / "samples.json").read_text())["samples"]


def test_samples_are_generated_and_measured(model, midi_files, tmp_path):
    folder = tmp_path / "s"
    options = {"model": model, "against": midi_files, "samples": str(folder)}
    options |= {"pieces": 3, "seconds": 2.0, "task": "continue", "primer_seconds": 1.0}
    pieces = comparison(**options, out=str(tmp_path / "r.json")).pieces[:3]
    files = contents(folder)
    assert [*files] == ["000.mid", "001.mid", "002.mid", "samples.json"]
    for piece in pieces:
        seam = samples_of(folder)[piece["name"]]["seam"]
        assert seam > 0
        excerpt = stretch(formats.read(folder / f"{piece['name']}.mid"), seam, 2.0)
        expected = {name: measure.compute(excerpt) for name, measure in MEASURES.items()}
        assert {name: piece[name] for name in MEASURES} == pytest.approx(expected, nan_ok=True)
    assert json.loads((tmp_path / "r.json").read_text())["seconds"] == 2.0
    comparison(**options | {"samples": str(tmp_path / "again")})
    assert contents(tmp_path / "again") == files
    from_files = comparison(samples=str(folder), against=midi_files, seconds=2.0).pieces
    assert [piece["notes"] for piece in from_files[:3]] == [piece["notes"] for piece in pieces]


@pytest.mark.parametrize("task", ["infill", "accompany"])
def test_given_notes_of_a_piece_stay_and_the_new_part_is_measured(task, tiny, tmp_path, midi_files):
    model = str(tiny["piano"])
    options = {"model": model, "against": midi_files, "samples": str(tmp_path / "s"), "task": task}
    result = comparison(**options, pieces=2, seconds=1.0, primer_seconds=1.0)
    assert result.sets == ["samples", "real", "control"]
    tokenizer, is_infill = bundle.load(model).tokenizer, task == "infill"
    for name, facts in samples_of(tmp_path / "s").items():
        original = formats.read(f"{midi_files}/{facts['source']}.mid")
        whole = tokenizer.decode(tokenizer.encode(original))
        sample = stretch(formats.read(tmp_path / "s" / f"{name}.mid"), facts["seam"], 1.0)
        real = until(whole, 3.0 if is_infill else 1.0)
        assert facts["seam"] == (1.0 if is_infill else 0.0)
        given = real.notes[(real.notes["start"] < 1.0) if is_infill else skyline(real)]
        rows = {(round(n["start"], 2), n["pitch"]) for n in sample.piece.notes}
        assert {(round(n["start"], 2), n["pitch"]) for n in given} <= rows
    with pytest.raises(UserError, match=r"task=vary: .* no bars"):
        comparison(**options | {"task": "vary", "samples": str(tmp_path / "v")}, pieces=2)


def test_a_corpus_gives_real_music_the_training_split_and_copies(model, midi_files, tmp_path):
    corpus = CorpusConfig(path=midi_files, shards=str(tmp_path / "shards"), workers=1)
    write_songs(tmp_path / "own", [1, 99], notes=40)
    for with_model in ({"model": model}, {}):
        samples = {"samples": str(tmp_path / "own"), "seconds": 3.0}
        result = comparison(**with_model, **samples, corpus=corpus)
        shards = Shards(tmp_path / "shards")
        names = {s: {piece.name for piece in shards.pieces(s)} for s in ("train", "validation")}
        assert "song-001.mid" in names["train"]
        drawn = {s: {p["name"] for p in result.pieces if p["set"] == s} for s in result.sets}
        assert list(drawn) == ["samples", "real", "training"]
        assert drawn["samples"] == {"song-001", "song-099"}
        assert drawn["real"] <= names["validation"]
        assert drawn["training"] <= names["train"]
        copied = {p["name"]: (p[COPIED], p["copied from"]) for p in result.pieces[:2]}
        whole = result.pieces[0]["notes"]
        assert whole >= SHORTEST_COPY
        assert copied == {"song-001": (whole, "song-001.mid"), "song-099": (0, "")}
        corpus = CorpusConfig(shards=str(tmp_path / "shards"))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "samples: missing"),
        ({"samples": "{tmp}/nothing"}, "samples=.*nothing: "),
        ({"samples": "{midi}"}, "against: "),
        ({"samples": "{midi}", "against": "{tmp}/nothing"}, "against=.*nothing: "),
        ({"sampling": SamplingConfig(low="C2")}, r"^low=C2: .* pieces=64"),
        ({"pieces": 2, "samples": "{midi}", "against": "{tmp}/no"}, "samples=.*not empty"),
        ({"pieces": 2, "task": "harmonise", "against": "{midi}"}, "harmonise: .*chorale"),
    ],
)
def test_mistakes_write_nothing(options, words, model, midi_files, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folders = {"tmp": tmp_path, "midi": midi_files}
    filled = {k: v.format(**folders) if isinstance(v, str) else v for k, v in options.items()}
    with pytest.raises(UserError, match=words):
        comparison(model=model if "pieces" in filled else None, **filled)
    assert not list(tmp_path.rglob("*"))


def chorale(seed, steps=40):
    """Return (steps, 4) of voices that keep each note of their range for two to four steps."""
    rng = np.random.default_rng(seed)
    columns = []
    for low in (66, 62, 57, 45):
        notes = [np.full(rng.integers(2, 5), low + rng.integers(0, 7)) for _ in range(steps)]
        columns.append(np.concatenate(notes)[:steps])
    return np.stack(columns, axis=1)


@pytest.fixture(scope="module")
def published(tmp_path_factory):
    splits = {"train": [chorale(i) for i in range(3)], "valid": [chorale(9 + i) for i in range(4)]}
    path = tmp_path_factory.mktemp("published") / "chorales.json"
    path.write_text(json.dumps({s: [p.tolist() for p in pieces] for s, pieces in splits.items()}))
    return path


@pytest.mark.parametrize("task", ["free", "continue", "harmonise"])
def test_chorales_are_measured_by_voice_leading(task, tiny, published, tmp_path):
    corpus = CorpusConfig(name="jsb", path=str(published), shards=str(tmp_path / "shards"))
    options = {"seconds": 1.2, "samples": str(tmp_path / "s")}
    options["sampling"] = SamplingConfig(top_p=1.0)
    options |= {"primer_seconds": 2.4, "particles": 2} if task != "free" else {}
    result = comparison(model=str(tiny["chorale"]), corpus=corpus, pieces=2, task=task, **options)
    assert list(result.sets) == ["samples", "real", "training"]
    for piece, file in zip(result.pieces, sorted((tmp_path / "s").glob("*.mid"))):
        grid, _ = four.read(formats.read(file))
        if task == "harmonise":
            report = voice_leading.assess(grid)
            assert {kind: piece[kind] for kind in report.counts} == dict(report.counts)
            assert len(piece["faults"]) == sum(report.counts.values())
        else:
            assert piece["bars"] <= 1.2 / 2.4 + 1e-9
    real = [piece for piece in result.pieces if piece["set"] == "real"]
    assert len(real) == (2 if task == "harmonise" else 4)
    if task == "free":
        whole = [voice_leading.assess(Grid.from_pitches(chorale(9 + i))) for i in range(4)]
        expected = voice_leading.rates(whole)["all faults / 100 bars"]
        rows = {row.name: row.values for row in result.rows}
        assert rows["all faults / 100 bars"]["real"] == pytest.approx(expected, rel=0.2)


def test_files_that_cannot_be_read_are_left_out_unless_all_are(published, tmp_path, capsys):
    folders = {"samples": tmp_path / "s", "against": tmp_path / "r"}
    options = {"seconds": 2.0} | {name: str(folder) for name, folder in folders.items()}
    chorales = CorpusConfig(name="jsb", path=str(published), shards=str(tmp_path / "shards"))
    for folder in folders.values():
        folder.mkdir()
        formats.write(four.write(Grid.from_pitches(chorale(1))), folder / "whole.mid")
    before = [comparison(**options).pieces, comparison(**options, corpus=chorales).pieces]
    for folder in folders.values():
        (folder / "damaged.mid").write_bytes(b"MThd")
    capsys.readouterr()
    assert [comparison(**options).pieces, comparison(**options, corpus=chorales).pieces] == before
    assert capsys.readouterr().out.count("damaged.mid") == 4
    for option, folder in folders.items():
        (folder / "whole.mid").write_bytes(b"MThd")
        with pytest.raises(UserError, match=f"^{option}: "):
            comparison(**options)
        formats.write(four.write(Grid.from_pitches(chorale(1))), folder / "whole.mid")


def test_a_copied_chorale_is_found(published, tmp_path):
    copy = Grid.from_pitches(chorale(1) + 2)
    (tmp_path / "s").mkdir()
    formats.write(four.write(copy), tmp_path / "s" / "copy.mid")
    corpus = CorpusConfig(name="jsb", path=str(published), shards=str(tmp_path / "shards"))
    result = comparison(samples=str(tmp_path / "s"), corpus=corpus)
    assert result.pieces[0]["copied bars"] == 40 / 16
    formats.write(of(*((0, 1, pitch) for pitch in range(60, 65))), tmp_path / "s" / "thick.mid")
    with pytest.raises(UserError, match=r"samples: .*thick: .* notes sound at once"):
        comparison(samples=str(tmp_path / "s"), corpus=corpus)


def test_the_table_and_the_written_files_have_the_same_numbers(tmp_path):
    named = {
        name: [Excerpt(f"{i}", song(i, 30), 0.0, 10.0) for i in seeds]
        for name, seeds in ((SAMPLES, range(2)), (REAL, range(2, 6)))
    }
    result = compare(named)
    whole = result.to_dict()
    rows = {row["name"]: row["values"] for row in whole["table"]}
    values = [p["notes a second"] for p in result.pieces if p["set"] == SAMPLES]
    assert rows["notes a second"][SAMPLES] == pytest.approx(np.mean(values))
    pitches = measures.DISTRIBUTIONS["pitches"]
    samples, real = (measures.histogram(named[s], pitches) for s in (SAMPLES, REAL))
    assert rows["pitches"][SAMPLES] == pytest.approx(np.minimum(samples, real).sum())
    assert rows["pitches"][REAL] is None
    silent = np.mean([p["dead air of 5 s"] >= 5 for p in result.pieces if p["set"] == REAL])
    assert rows["dead air of 5 s"][REAL] == silent, "a share of pieces"
    assert "runs of the music given" not in rows, "no sample has given music"
    assert format_number(float(np.mean(values))) in str(result)
    write_result(str(tmp_path / "a.json"), result, whole, result.pieces)
    assert json.loads((tmp_path / "a.json").read_text()) == json.loads(json.dumps(whole))
    write_result(str(tmp_path / "a.csv"), result, whole, result.pieces)
    with (tmp_path / "a.csv").open(newline="") as file:
        assert [row["name"] for row in csv.DictReader(file)] == [p["name"] for p in result.pieces]


def eighths(seed, late=0.0):
    """Return forty bars of eighths over a bass at 96; each note is up to ``late`` seconds late."""
    rng = np.random.default_rng(seed)
    eighth = 30 / 96
    rows = [(n, 60 + int(rng.integers(12))) for n in range(320)]
    rows += [(n, 36 + int(rng.integers(12))) for n in range(0, 320, 4)]
    rows = [(n * eighth + late * rng.random(), pitch) for n, pitch in rows]
    return of(*((start, start + 0.2, pitch) for start, pitch in sorted(rows)), tempos=[(0, 96.0)])


def test_music_on_a_grid_is_measured_in_bars_counted_from_the_beginning_of_the_piece():
    start = 8 * 2.5 + 0.1  # in the ninth bar: from there the second eighth is the first
    strict = [Excerpt(f"{i}", eighths(i), start, 20.0) for i in range(3)]
    loose = [Excerpt(f"{i}", eighths(9 + i, late=0.3), start, 20.0) for i in range(3)]
    rows = {row.name: row.values for row in compare({SAMPLES: loose, REAL: strict}).rows}
    assert rows["onsets on sixteenths"][REAL] == 1.0
    assert rows["onsets on sixteenths"][SAMPLES] < 0.6
    assert 0.2 < rows["places in the bar"][SAMPLES] < 0.8
    assert {"diatonic chords", "clashes with the top line", "bars copied"} <= set(rows)
    assert "bars alike, 16 apart" not in rows, "eight bars are measured"
    # The real music decides whether bars are measured.
    other = {row.name for row in compare({SAMPLES: strict, REAL: loose}).rows}
    assert other.isdisjoint(name for table in measures.in_bars() for name in table)


@pytest.mark.parametrize(
    "text",
    ['{"samples": {"song-000": {"seam": "two"}}}', "[]", '{"samples": {"song-000": {"seam": 1'],
)
def test_a_damaged_list_is_one_sentence(text, tmp_path):
    (tmp_path / sets.SAMPLES_FILE).write_text(text)
    with pytest.raises(UserError, match=r"samples\.json: damaged; delete it"):
        sets.read_seams(tmp_path)


def test_real_pieces_are_drawn_by_the_seed_among_those_long_enough(tmp_path):
    ids = [TOKENIZER.encode(song(i, notes=10 + i)) for i in range(12)]
    shards = make_shards(tmp_path / "s", ids, ids)
    pieces = [p._replace(seconds=float(p.number)) for p in shards.pieces("validation")]
    lasting = {p.name for p in pieces if p.seconds >= 15}
    draws = [sets.draw_pieces(pieces, "validation", 4, 15, seed) for seed in (0, 0, 1)]
    assert draws[0] == draws[1] != draws[2]
    for draw in draws:
        assert len({p.name for p in draw} & lasting) == 4
    assert {p.name for p in sets.draw_pieces(pieces, "validation", 99, 15, 0)} == lasting
    with pytest.raises(UserError, match=r"seconds: no validation piece .* lasts 99 s"):
        sets.draw_pieces(pieces, "validation", 4, 99, 0)


def test_controls_have_the_given_music_of_another_piece_and_moved_harmony():
    real = [sets.Excerpt(f"{i}", song(i, 40), 2.0, 3.0) for i in range(3)]
    for excerpt, other, control in zip(real, [*real[1:], real[0]], sets.control_set(real)):
        assert control.given_music == other.given_music
        top = skyline(excerpt.piece)[excerpt.note_mask]
        pitch, old = (e.score_in_piece.notes["pitch"].astype(int) for e in (control, excerpt))
        moved = pitch - old
        assert set(moved[top]) == {0}
        assert set(np.abs(moved[~top])) <= {6}
    assert sets.control_set(real[:1]) == []
