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
from musictx.beats import Beats
from musictx.data.shards import Shards, new_shards
from musictx.evaluate.nll import evaluate
from musictx.model.transformer import MusicTransformer
from musictx.notes import Score
from musictx.tokens.vocab import BOS
from scripts.reproduce import bands, calibrate, songs, steering
from scripts.reproduce.calibrate import calibrated, fit
from tests.pieces import line, score


def drummer(bars):
    """Eighths on the hat with a kick on each bar line, all of it late and a bit uneven."""
    random = np.random.default_rng(0)
    rows = []
    for number in range(8 * bars):
        at = max(number / 3 + 0.02 + random.normal(0, 0.005), 0.0)
        rows.append((at, at + 0.05, 22, 70 + number % 8, 0, True, 0))
        rows += [(at, at + 0.05, 36, 100, 0, True, 0)] * (number % 8 == 0)
    return score(rows, bpm=90)


def with_an_upbeat(bars=41):
    """From an upbeat on: chords on each quarter over a low note on each bar; the tempo changes."""
    clock = Score(tempos=[(0.0, 100.0), (9.0, 110.0)], meters=[(0.0, 4, 4)])
    at = Beats(clock).seconds(np.arange(4 * bars + 6))
    rows = []
    for n in range(3, 4 * bars):
        rows += [(at[n], at[n + 1], 60 + tone, 64, 0, False, 0) for tone in (0, 4, 7)]
        rows += [(at[n], at[n + 5], 40, 64, 0, False, 0)] * (n % 4 == 0)
    return clock.with_notes(rows)


def test_strokes_lie_on_the_bars_of_the_song():
    once, _ = bands.snapped(drummer(18))
    assert bands.snapped(once)[0] == once
    assert bands.performance("7_rock_90_beat_4-4", drummer(12)) is None
    one = bands.performance("7_rock_90_beat_4-4", drummer(18))
    assert one.bars == 16
    given = with_an_upbeat()
    made = bands.drummed("001", given, [one])
    kicks = made.notes[made.notes["pitch"] == 36]
    at = Beats(given).quarters(kicks["start"])
    assert np.allclose(at, 4 * np.arange(1, 41), atol=1e-6)
    assert np.array_equal(made.notes[~made.notes["drum"]], given.notes)
    assert made == bands.drummed("001", given, [one])


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
    again = fit(right, shards)  # as if it were not calibrated
    assert torch.allclose(again["scale"], fitted["scale"], atol=1e-3)


def test_the_pieces_set_aside_are_training_pieces(tmp_path):
    train, valid = [[n] for n in range(28)], [[n] for n in range(28, 30)]
    path = tmp_path / "chorales.json"
    path.write_text(json.dumps({"train": train, "valid": valid}))
    made = json.loads(calibrate.set_aside(path, 3, 0, tmp_path / "aside.json").read_text())
    assert sorted(made["train"] + made["valid"]) == train
    assert len(made["valid"]) == 3


def in_parts(programs, count=24):
    parts = [(n % len(programs), programs[n % len(programs)]) for n in range(count)]
    rows = [(0.5 * n, 0.5 * n + 0.4, 60 + n % 7, 64, program, False, track)
            for n, (track, program) in enumerate(parts)]  # fmt: skip
    return score(rows, meter=(3, 4), markers=((0.0, "C:maj"),))


def test_a_folder_is_made(tmp_path):
    sources = {
        "pop909": {"779": in_parts([0, 0, 0]), "780": in_parts([0, 0, 0])},
        "lieder": {"lc1": in_parts([0, 68])},
        "freedoom": {"b": in_parts([30, 34]), "short": in_parts([0], 5)},
    }
    for source, pieces in sources.items():
        (tmp_path / source).mkdir()
        for name, piece in pieces.items():
            musictx.write(piece, tmp_path / source / f"{name}.mid")
    songs.main(tmp_path / "out", **{name: tmp_path / name for name in sources})
    with open(tmp_path / "out" / "split.csv") as file:
        split = {row["midi_filename"]: row["split"] for row in csv.DictReader(file)}
    assert (split["pop909-779.mid"], split["pop909-780.mid"]) == ("train", "validation")
    expected = {"pop909-779": {0, 48, 73}, "pop909-780": {0, 48, 73}, "lieder-lc1": {0, 73}}
    expected["freedoom-b"] = {29, 33}
    assert {*split} == {f"{name}.mid" for name in expected}
    for name, programs in expected.items():
        made = musictx.read(tmp_path / "out" / f"{name}.mid")
        assert set(made.notes["program"].tolist()) == programs
        assert made.markers == ((0.0, "C:maj"),)
        assert made.meters["numerator"][0] == 3


def test_editions_of_a_work_are_on_one_side_of_the_split():
    names = [f"A__w{n}__{edition}" for n in range(200) for edition in ("x", "y__z-1")]
    sides = [songs.split("mutopia", name) for name in names]
    assert sides[::2] == sides[1::2]
    assert set(sides) == {"train", "validation"}


@pytest.mark.parametrize("follows", [True, False])
def test_each_control_is_requested_and_measured(follows, monkeypatch, capsys):
    """Of a model that plays the pitch that is requested, or its mirror image about 60."""

    def generate(model, *, samples, register, **options):
        pitch = round(register if follows else 120 - register)
        return [SimpleNamespace(score=line(*[pitch] * 12, every=0.25))] * samples

    monkeypatch.setattr(steering.musictx, "generate", generate)
    results = steering.main(samples=16, seconds=3, controls=["register"])
    assert results == {"register": 1.0 if follows else -1.0}
    measured, count = capsys.readouterr().out.splitlines()[2:]
    wanted = np.array(steering.values("register"))
    expected = pytest.approx(wanted if follows else 120 - wanted, abs=0.6)
    assert np.array(measured.split()[1:], float) == expected
    assert "over 16 pieces" in count
