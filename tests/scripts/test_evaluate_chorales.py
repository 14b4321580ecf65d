"""The report of chorales at tiny size: what is written, that it is right, that it goes on."""

import csv
import json

import numpy as np
import pytest
import torch

from musictx import bundle, midi
from musictx.chorale import grid as four
from musictx.chorale import statistics as chorales
from musictx.chorale import voice_leading
from musictx.chorale.tokenizer import ChoraleTokenizer
from musictx.errors import UserError
from musictx.model.transformer import MusicTransformer
from musictx.tokens.coordinates import token_coordinates
from musictx.tokens.vocab import BOS, EOS

pytest.importorskip("matplotlib")

OPTIONS = ["samples=2", "seconds=1.2", "opening=1", "particles=2", "takes=2", "batch=4"]


def chorale(seed, steps=40):
    """Four voices, each on a note of its own range for two to four steps."""
    rng = np.random.default_rng(seed)
    columns = []
    for low in (66, 62, 57, 45):
        notes = [np.full(rng.integers(2, 5), low + rng.integers(0, 7)) for _ in range(steps)]
        columns.append(np.concatenate(notes)[:steps])
    return np.stack(columns, axis=1)


@pytest.fixture(scope="module")
def published(tmp_path_factory):
    """A JSON file like the published one: 3 pieces to train, 4 of validation, one too short."""
    splits = {"train": [chorale(i) for i in range(3)], "valid": [chorale(9 + i) for i in range(4)]}
    splits["valid"][1] = splits["valid"][1][:20]
    content = {split: [piece.tolist() for piece in some] for split, some in splits.items()}
    path = tmp_path_factory.mktemp("published") / "chorales.json"
    path.write_text(json.dumps(content))
    return path


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Two untrained models of chorales."""
    folder = tmp_path_factory.mktemp("models")
    tokenizer = ChoraleTokenizer(low=40, high=76)
    place = {"name": "two_d", "periods": [4], "coordinates": token_coordinates(tokenizer)}
    for seed, name in enumerate(("one", "other")):
        torch.manual_seed(seed)
        model = MusicTransformer(
            tokenizer.size, layers=1, width=16, heads=2, feedforward=16, context=256, position=place
        )
        bundle.save(folder / name, model, tokenizer, {})
    return folder


@pytest.fixture
def run(script, folders, published, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    tune = four.Grid.joined(np.repeat([[67, -1, -1, -1], [69, -1, -1, -1]], 4, axis=0))
    midi.write(four.write(tune), tmp_path / "tune.mid")

    def run(*words):
        words = [f"model={folders / 'one'}", f"corpus={published}", *OPTIONS, *words]
        return script("evaluate_chorales").main(["melodies=tune.mid", *words])

    return run


def table(out):
    with (out / "pieces.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def bytes_of(folder):
    return {path.name: path.read_bytes() for path in folder.glob("*.mid")}


def test_everything_is_written_and_is_what_the_checks_say(run, script, folders, published):
    out = run("out=a", f"against={folders / 'other'}")
    names = [f"{kind}-00{i}" for kind in ("continued", "free", "harmonised") for i in range(2)]
    names += ["melodies-000", "melodies-001"]
    for label in ("model", "against"):
        assert sorted(bytes_of(out / label)) == sorted(f"{name}.mid" for name in names)
        assert (out / label / "free.png").is_file()
    pieces = script("chorales_pieces")
    rows = {(row["set"], row["piece"]): row for row in table(out)}
    assert len(rows) == 3 + 4 + 2 * 2 + 2 * len(names)
    content = json.loads(published.read_text())
    train = [np.array(piece) for piece in content["train"]]
    for label in ("model", "against"):
        for name in names:
            row, piece = rows[f"{name[:-4]}, {label}", name], pieces.read(name, out / label)
            pitches = piece.grid.pitches
            if name.startswith(("continued", "harmonised")):
                origin = np.array(content["valid"][int(piece.source[-3:])])
                assert len(origin) == 40, "the short one is not chosen"
            if name.startswith("continued"):
                assert np.array_equal(pitches[:16], origin[:16])
                pitches = pitches[16:]
            if name.startswith("harmonised"):
                assert np.array_equal(pitches[:, 0], origin[:, 0])
            counts = voice_leading.report(pitches).counts
            assert {kind: int(row[kind]) for kind in counts} == dict(counts)
            copied = chorales.longest_copied(pitches, train)
            assert float(row["copied bars"]) == copied.bars
    report = (out / "report.md").read_text()
    for words in ("| harmonised, against |", "## Copied", "| tune | 2 |", "| continued, Bach |"):
        assert words in report
    told = (out / "model" / "faults.txt").read_text()
    assert told.count("    bar ") == sum(
        int(row[kind])
        for (which, _), row in rows.items()
        if which.endswith(", model")
        for kind in voice_leading.KINDS
    )


def test_a_stopped_run_goes_on_and_other_settings_are_refused(run, script, folders, monkeypatch):
    first = run("out=a")
    files = bytes_of(first / "model")
    for lost in ("free-001.mid", "harmonised-000.mid"):
        (first / "model" / lost).unlink()
    module, made = script("evaluate_chorales"), []
    original = module.harmonise
    monkeypatch.setattr(module, "harmonise", lambda *a, **k: made.append(1) or original(*a, **k))
    before = (first / "pieces.csv").read_bytes()
    run("out=a")
    assert bytes_of(first / "model") == files
    assert made == [1], "only the lost one is made again"
    assert (first / "pieces.csv").read_bytes() == before
    with pytest.raises(UserError, match=r"model/ was made with other top_p, seed"):
        run("out=a", "seed=1", "top_p=0.5")
    with pytest.raises(UserError, match=r"model/ was made with other weights"):
        run("out=a", f"model={folders / 'other'}")


def test_only_the_kinds_asked_for_are_made(run):
    out = run("out=a", "kinds=harmonised", "rules=0")
    assert sorted(bytes_of(out / "model")) == ["harmonised-000.mid", "harmonised-001.mid"]
    report = (out / "report.md").read_text()
    assert "| harmonised, model |" in report
    assert "rules 0," in report
    assert "free" not in report
    with pytest.raises(UserError, match="rules"):
        run("out=a", "kinds=harmonised", "rules=1")
    with pytest.raises(UserError, match="kinds"):
        run("out=b", "kinds=fugues")


def test_nats_of_a_piece_are_those_of_its_tokens_one_by_one(script, folders):
    """Each id given all before it, and the end, by calls of the model on prefixes."""
    one = bundle.load(folders / "one")
    grid = four.Grid.joined(chorale(3, steps=5))
    ids = [BOS, *one.tokenizer.encode_grid(grid).tolist(), EOS]
    total = 0.0
    for n in range(1, len(ids)):
        with torch.no_grad():
            total -= float(one.model(torch.tensor([ids[:n]]))[0, -1].log_softmax(-1)[ids[n]])
    found = script("evaluate_chorales").nats_per_note(one, grid)
    assert found == pytest.approx(total / 20, abs=1e-5)


def test_faults_are_told_at_their_place_in_the_whole_piece(script):
    pieces = script("chorales_pieces")
    still = np.tile([72, 67, 60, 48], (16, 1))
    moving = np.array([[71, 67, 59, 43], [72, 67, 60, 48], [74, 67, 62, 50]]).repeat(4, axis=0)
    grid = four.Grid.joined(np.vstack([still, moving]))
    lines = pieces.faults_of(pieces.Piece("name", grid, seam=16))
    found = [line for line in lines if "parallel octaves (soprano, tenor)" in line]
    assert [line.split(":")[0].strip() for line in found] == ["bar 2 beat 2", "bar 2 beat 3"]
    assert found[1].endswith("C5 G4 C4 C3 > D5 G4 D4 D3")


def test_what_cannot_be_is_told(run, script, folders, models):
    with pytest.raises(UserError, match="samples=0"):
        run("samples=0")
    with pytest.raises(UserError, match="opening=9: no validation piece has 160 to 63"):
        run("opening=9")
    with pytest.raises(UserError, match="model: missing"):
        script("evaluate_chorales").main([])
    with pytest.raises(UserError, match="it writes performance tokens"):
        run(f"against={models / 'huang'}")
    with pytest.raises(UserError, match="melodies=nowhere"):
        run("melodies=nowhere")


def test_the_error_is_that_of_a_ratio(script):
    """Pieces alike: none. Else near the textbook's for the mean of pieces of equal length, and the
    same when each of them comes thrice under one name."""
    error = script("chorales_report").error
    assert error(np.full(6, 2.0), np.full(6, 4.0), list("abcdef"), 0) == 0
    counts = np.random.default_rng(0).poisson(5, 400).astype(float)
    names = [str(n) for n in range(400)]
    wanted = 100 * counts.std() / 10 / np.sqrt(400)
    once = error(counts, np.full(400, 10.0), names, 0)
    assert once == pytest.approx(wanted, rel=0.1)
    thrice = error(np.tile(counts, 3), np.full(1200, 10.0), names * 3, 0)
    assert thrice == pytest.approx(once)
    assert np.isnan(error(np.ones(2), np.ones(2), ["one", "one"], 0))


def test_changes_on_beats_are_counted_over_all_pieces(script):
    share = script("chorales_report").on_beats
    on, off = np.zeros((12, 4), int), np.zeros((8, 4), int)
    on[4:, 1], on[8:, 2], off[3:, 0] = 1, 1, 1
    assert share([on]) == 1
    assert share([on, off]) == pytest.approx(2 / 3)
    assert np.isnan(share([np.zeros((5, 4), int)]))
