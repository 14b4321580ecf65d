"""The benchmarks of attention and decoding on the CPU, tiny: they compare before they measure."""

from __future__ import annotations

import csv
from dataclasses import asdict, replace
from pathlib import Path
from unittest import mock

import pytest
import torch

from musictx import midi
from musictx.compose import compose
from musictx.sampling import engine
from musictx.tokens.build import build
from musictx.training.network import build_model
from scripts.bench import (
    attention,
    decode,
    graphed,
    notes,
    others,
    prepare,
    stream,
    training,
)
from tests.data.helpers import song


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_attention_is_compared_and_timed(tmp_path, capsys):
    results = tmp_path / "results.csv"
    words = ["rehearse=true", "lengths=40", "only=textbook,chunked,sdpa", f"results={results}"]
    assert attention.main(words) == 0
    found = rows(results)
    assert [(row["implementation"], row["pass"]) for row in found] == [
        (name, which)
        for which in ("forward", "forward+backward")
        for name in ("textbook", "chunked", "sdpa")
    ]
    assert all(float(row["median_ms"]) > 0 for row in found)
    assert capsys.readouterr().out.count("\n") == 1 + 6


def test_decoding_gives_equal_ids_over_every_cache(monkeypatch, tmp_path, capsys):
    results = tmp_path / "results.csv"
    words = ["rehearse=true", "rows=2", "prompt=12", "tokens=4", "caches=growing"]
    words.append(f"results={results}")
    assert decode.main(words) == 0
    assert [row["implementation"] for row in rows(results)] == [
        "decode recomputed tiny", "decode growing tiny",
    ]  # fmt: skip
    right = decode.cached

    def other(*given):
        found, times = right(*given)
        return found + ("growing" in given[3:4]), times

    monkeypatch.setattr(decode, "cached", other)
    assert decode.main(words) == 1
    assert "cache=growing: other ids than recomputed" in capsys.readouterr().out


def test_reading_is_compared_with_midi_tok(tmp_path, capsys):
    for number in range(2):
        midi.write(song(number), tmp_path / f"{number}.mid")
    prepare.main(str(tmp_path), rehearse=True)
    said = capsys.readouterr().out
    assert "2 files" in said
    assert "musictx / MidiTok REMI" in said


def test_a_stream_is_counted_by_the_hour_and_ends_without_faults(capsys):
    assert stream.main(rehearse=True) == 0
    *hours, end = capsys.readouterr().out.splitlines()
    assert [line.split(" h: ")[0] for line in hours] == ["0.001", "0.002"]
    assert ": 0 sounding, 0 faults" in end


def test_notes_a_second_are_told_of_equal_pieces_only(monkeypatch, capsys):
    def composed(bundle, seconds, seed, cache="auto"):
        return [1, 2], 5.0 if cache == "growing" else 50.0, 0.5

    monkeypatch.setattr(notes, "composed", composed)
    assert notes.main(["models=song", "rehearse=true"]) == 0
    _, *rows = capsys.readouterr().out.splitlines()
    assert [row.split() for row in rows] == [
        ["song", "50.0", "1.00", "0.500"],
        ["song", "growing", "5.0", "0.10", "0.500"],
    ]
    monkeypatch.setattr(notes, "composed", lambda *given: ([len(given)], 5.0, 0.5))
    monkeypatch.setattr(notes, "close", lambda model, ids: False)
    assert notes.main(["models=song", "rehearse=true"]) == 1
    assert "WRONG song: other ids" in capsys.readouterr().out


def test_steps_of_training_with_remedies_have_the_same_losses(tmp_path, capsys):
    results, cases = tmp_path / "results.csv", ["as it is", "products", "graph"]
    words = ["rehearse=true", "losses=3", f"only={','.join(cases)}", f"results={results}"]
    assert training.main(words) == 0
    assert [row["implementation"] for row in rows(results)] == [
        "training, as it is",
        "training, by Lightning",
        "training, products",
        "training, graph",
    ]
    assert "WRONG" not in capsys.readouterr().out


@pytest.mark.parametrize("features", [(), ("sounding", "conditions", "echoes")])
def test_a_step_with_fixed_shapes_draws_the_ids_of_the_cache_that_grows(features):
    words = ["experiment=maestro/best", *training.SMALL]
    config = compose("train", words)
    kept = [one for one in config.model.features if one["name"] in features]
    config = replace(config, model=replace(config.model, features=kept))
    model = build_model(config, build(**asdict(config.tokenizer))).eval()
    torch.manual_seed(0)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.1)
    ids = torch.randint(4, model.config.vocab_size, (3, 90))

    def drawn(cache: str) -> list[list[int]]:
        words = {"max_tokens": 30, "seeds": range(3), "processors": [others.endless]}
        return [x.tolist() for x in engine.generate(model, ids[0, :40], cache=cache, **words)]

    expected = drawn("growing")
    with (
        mock.patch.object(engine, "CACHES", (*engine.CACHES, "graph")),
        mock.patch.object(engine, "_step", return_value=graphed.GraphStep),
    ):
        assert drawn("graph") == expected
    step = graphed.drawing(model, ids[0, :40], 30, 3)
    with torch.inference_mode():
        for _ in range(29):
            step()
    assert step.drawn[:30].tolist() == expected
