"""What makes corpora, tables and calibrations (scripts/reproduce), small."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

import musictx
from musictx import bundle, cli
from musictx.beats import Beats
from musictx.data.shards import Shards, new_shards
from musictx.evaluate.nll import evaluate
from musictx.model.transformer import MusicTransformer
from musictx.notes import METER, TEMPO, Score
from musictx.tokens.vocab import BOS
from scripts.reproduce import bands, calibrate, chord_table, songs, steering
from scripts.reproduce.calibrate import calibrated, fit


def drummer(bars=18, bpm=90.0, late=0.02):
    """Eighths on the hat with a kick on each bar line, all of it late and a bit uneven."""
    beat = 60 / bpm
    random = np.random.default_rng(0)
    rows = []
    for number in range(8 * bars):
        at = max(number * beat / 2 + late + random.normal(0, 0.005), 0.0)
        rows.append((at, at + 0.05, 22, 70 + number % 8, 0, True, 0))
        rows += [(at, at + 0.05, 36, 100, 0, True, 0)] * (number % 8 == 0)
    return Score(rows, tempos=np.array([(0.0, bpm)], TEMPO), meters=np.array([(0, 4, 4)], METER))


def with_an_upbeat(bars=41, meter=(4, 4)):
    """From an upbeat on: chords on each quarter over a low note on each bar; the tempo changes."""
    clock = Score(tempos=np.array([(0.0, 100.0), (9.0, 110.0)], TEMPO),
                  meters=np.array([(0.0, *meter)], METER))  # fmt: skip
    at = Beats(clock).seconds(np.arange(4 * bars + 6))
    rows = []
    for n in range(3, 4 * bars):
        rows += [(at[n], at[n + 1], 60 + tone, 64, 0, False, 0) for tone in (0, 4, 7)]
        rows += [(at[n], at[n + 5], 40, 64, 0, False, 0)] * (n % 4 == 0)
    return clock.with_notes(rows)


def test_strokes_lie_on_the_bars_of_the_song():
    once, _ = bands.snapped(drummer())
    assert bands.snapped(once)[0] == once
    assert bands.performance("7_rock_90_beat_4-4", drummer(bars=12)) is None
    one = bands.performance("7_rock_90_beat_4-4", drummer())
    assert one is not None
    assert one.bars == 16
    given = with_an_upbeat()
    made = bands.drummed("001", given, [one])
    kicks = made.notes[made.notes["pitch"] == 36]
    at = Beats(given).quarters(kicks["start"])
    assert np.allclose(at, 4 * np.arange(1, 41), atol=1e-6)
    assert np.array_equal(made.notes[~made.notes["drum"]], given.notes)
    assert made == bands.drummed("001", given, [one])


def test_the_bass_is_one_line_below_all():
    given = with_an_upbeat()
    made = bands.with_bass(given, 0)
    bass = made.notes[made.notes["program"] == bands.BASS]
    assert set(bass["pitch"].tolist()) == {40}
    assert len(bass) == 40
    assert np.all(bass["end"][:-1] <= bass["start"][1:])
    rest = made.notes[made.notes["program"] == 0]
    assert np.array_equal(rest, given.notes[given.notes["pitch"] > 40])


VOICES, VOCAB, STEPS = 4, 12, 60


def network() -> MusicTransformer:
    torch.manual_seed(0)
    settings = {"layers": 1, "width": 16, "heads": 2, "feedforward": 16, "context": 256}
    model = MusicTransformer(
        VOCAB, **settings, features=[{"name": "ages", "voices": VOICES}]
    ).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(6 if parameter.dim() > 1 else 1)
    return model


def written_by(model: MusicTransformer, pieces: int) -> list[np.ndarray]:
    """Pieces drawn from ``model``, without the special ids."""
    torch.manual_seed(1)
    ids = torch.full((pieces, 1), BOS)
    with torch.no_grad():
        for _ in range(VOICES * STEPS):
            logits = model(ids)[:, -1]
            logits[:, :4] = -torch.inf
            ids = torch.cat([ids, torch.multinomial(logits.softmax(-1), 1)], 1)
    return list(ids[:, 1:].numpy())


def shards_of(folder: Path, pieces: list[np.ndarray]) -> Shards:
    with new_shards(folder, fingerprint="f", tokenizer_config={}, corpus={}) as writer:
        for number, ids in enumerate(pieces):
            row = {"name": f"{number:03d}", "split": "validation", "notes": 9, "seconds": 9.0}
            writer.add(ids.astype(np.uint16), ends=False, **row)
    return Shards(folder)


def test_what_wrote_the_pieces_is_found(tmp_path: Path) -> None:
    model = network()
    truth = {"scale": torch.linspace(0.6, 1.1, 16), "hold": torch.linspace(-0.5, 2.0, 16)}
    truth["end"] = torch.zeros(1)
    right = calibrated(model, truth)
    shards = shards_of(tmp_path / "shards", written_by(right, 48))
    fitted = fit(model, shards)
    assert (fitted["scale"] - truth["scale"]).abs().mean() < 0.1
    too_high = fitted["hold"] - truth["hold"]  # since the special ids were left out: all alike
    assert 0.2 < too_high.mean() < 0.7
    assert too_high.std() < 0.25
    ours, without = (evaluate(m, shards).nats_per_token for m in (calibrated(model, fitted), model))
    assert ours < without - 0.01
    assert ours < evaluate(right, shards).nats_per_token
    # What is calibrated already is fitted as if it were not.
    again = fit(right, shards)
    assert torch.allclose(again["scale"], fitted["scale"], atol=1e-3)


def test_a_model_is_calibrated_on_pieces_that_its_sibling_has_not_seen(tmp_path, monkeypatch):
    random = np.random.default_rng(5)
    pieces = [random.integers([62, 57, 50, 40], [79, 72, 67, 60], (n, 4)).tolist()
              for n in random.integers(8, 20, 30)]  # fmt: skip
    path = tmp_path / "chorales.json"
    path.write_text(json.dumps({"train": pieces[:28], "valid": pieces[28:]}))
    monkeypatch.setattr(calibrate, "musictx", lambda *words: cli.main([*words]))
    small = {"trainer.max_steps": 4, "trainer.val_check_interval": 4, "model.width": 32}
    small |= {"model.heads": 2, "model.feedforward": 32, "model.layers": 2}
    words = [f"{name}={value}" for name, value in small.items()]
    shards = f"corpus.shards={tmp_path / 'shards'}"
    run = tmp_path / "run"
    cli.main(["train", "experiment=jsb/best", f"corpus.path={path}", shards, f"out={run}", *words])
    (folder,) = calibrate.main(path, [str(run / "model")], runs=tmp_path / "runs", held=3, **small)
    made = bundle.load(folder)
    assert made.model.config.feature("calibration")
    assert "3 training pieces" in made.card["calibration"]
    aside = json.loads((tmp_path / "runs" / "aside-0.json").read_text())
    assert sorted(aside["train"] + aside["valid"]) == sorted(pieces[:28])
    assert len(aside["valid"]) == 3


NAMES = ("C", "Db", "D", "Eb", "E", "F", "Gb", "G", "Ab", "A", "Bb", "B")


def cadences(key):
    """Four bars of I, IV, V, I three times under the root of each, a chord a bar."""
    roots = [0, 5, 7, 0] * 3
    notes = [(2.0 * bar + at, 2.0 * bar + at + 0.5, 60 + (key + root) % 12, 80, 73, False, 0)
             for bar, root in enumerate(roots) for at in (0.0, 0.5, 1.0, 1.5)]  # fmt: skip
    marks = tuple((2.0 * bar, f"{NAMES[(key + root) % 12]}:maj") for bar, root in enumerate(roots))
    return Score(notes, tempos=[(0.0, 120.0)], meters=[(0.0, 4, 4)], markers=marks)


def test_songs_are_counted_relative_to_their_key(tmp_path):
    tables = []
    for key in (0, 7):
        folder = tmp_path / str(key)
        folder.mkdir()
        musictx.write(cadences(key), folder / "song.mid")
        out = chord_table.main(folder, out=tmp_path / f"{key}.json")
        tables.append(json.loads(out.read_text()))
    assert tables[0] == tables[1]
    follows, tones = np.array(tables[0]["follows"]), np.array(tables[0]["tones"])
    np.testing.assert_allclose(follows.sum(-1), 1, atol=1e-6)
    at_bars = follows[1]
    assert [int(at_bars[root].argmax()) for root in (0, 5, 7)] == [5, 7, 0]
    assert tones[0].argmax(-1).tolist() == [0, 0]


def in_parts(programs, count=24):
    notes = [
        (
            0.5 * i,
            0.5 * i + 0.4,
            60 + i % 7,
            64,
            programs[i % len(programs)],
            False,
            i % len(programs),
        )
        for i in range(count)
    ]
    return Score(
        notes=notes,
        tempos=[(0.0, 120.0)],
        meters=[(0.0, 3, 4)],
        ticks_per_quarter=480,
        markers=((0.0, "C:maj"),),
    )


def test_a_folder_is_made(tmp_path):
    for folder, name, programs in (
        ("pop", "779", [0, 0, 0]),
        ("pop", "780", [0, 0, 0]),
        ("songs", "lc1", [0, 68]),
        ("bands", "b", [30, 34]),
    ):
        (tmp_path / folder).mkdir(exist_ok=True)
        musictx.write(in_parts(programs), tmp_path / folder / f"{name}.mid")
    musictx.write(in_parts([0], 5), tmp_path / "bands" / "short.mid")
    words = {"pop909": "pop", "lieder": "songs", "freedoom": "bands"}
    songs.main(tmp_path / "out", **{name: tmp_path / folder for name, folder in words.items()})
    with open(tmp_path / "out" / "split.csv") as file:
        split = {row["midi_filename"]: row["split"] for row in csv.DictReader(file)}
    assert sorted(split) == sorted(p.name for p in (tmp_path / "out").glob("*.mid"))
    assert split["pop909-779.mid"] == "train"
    assert split["pop909-780.mid"] == "validation"
    assert "freedoom-short.mid" not in split
    expected = {"pop909-779": {0, 48, 73}, "lieder-lc1": {0, 73}, "freedoom-b": {29, 33}}
    for name, programs in expected.items():
        score = musictx.read(tmp_path / "out" / f"{name}.mid")
        assert set(np.unique(score.notes["program"]).tolist()) == programs
        assert score.ticks_per_quarter == 480
        assert score.markers == ((0.0, "C:maj"),)
        assert score.meters["numerator"][0] == 3


def test_editions_of_a_work_are_on_one_side_of_the_split():
    names = [f"A__w{n}__{edition}" for n in range(200) for edition in ("x", "y__z-1")]
    sides = [songs.split("mutopia", name) for name in names]
    assert sides[::2] == sides[1::2]
    assert set(sides) == {"train", "validation"}


def test_ranks_and_their_correlation():
    assert steering.ranks(np.array([3.0, 1.0, 3.0, 9.0])).tolist() == [2.5, 1, 2.5, 4]
    up = np.array([1.0, 2, 3, 4])
    assert steering.rank_correlation(up, up**3) == pytest.approx(1)
    assert steering.rank_correlation(up, -up) == pytest.approx(-1)
    # 1 - 6 (1 + 1) / (4 (16 - 1)), by the formula for ranks without ties
    assert steering.rank_correlation(up, np.array([2.0, 1, 3, 4])) == pytest.approx(0.8)


@pytest.mark.parametrize("follows", [True, False])
def test_each_control_is_requested_and_measured(follows, monkeypatch, capsys):
    """Of a model that plays the pitch that is requested, or its mirror image about 60."""
    requested = []

    def generate(model, *, samples, register, **options):
        requested.append((samples, register))
        pitch = round(register if follows else 120 - register)
        rows = [(0.25 * i, 0.25 * i + 0.2, pitch, 80, 0, False, 0) for i in range(12)]
        return [SimpleNamespace(score=Score(rows))] * samples

    monkeypatch.setattr(steering.musictx, "generate", generate)
    results = steering.main(samples=16, seconds=3, controls=["register"])
    assert requested == [(2, value) for value in steering.values("register")]
    assert results == {"register": 1.0 if follows else -1.0}
    lines = capsys.readouterr().out.splitlines()
    measured = np.array(lines[2].split()[1:], float)
    wanted = np.array(steering.values("register"))
    assert measured == pytest.approx(wanted if follows else 120 - wanted, abs=0.6)
    assert "over 16 pieces" in lines[3]
