"""The benchmarks on the CPU, tiny: they compare before they measure."""

from __future__ import annotations

import csv
from pathlib import Path

import torch

from musictx import midi
from scripts.bench import attention, decode, others, prepare, stream, training
from tests.data.helpers import song


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_attention_is_compared_and_timed(tmp_path, capsys, monkeypatch):
    results, only = tmp_path / "results.csv", ["textbook", "chunked", "sdpa"]
    options = {"lengths": [40], "heads": 2, "size": 16, "repeats": 1, "memory": False}
    assert attention.main(**options, only=only, results=results) == 0
    found = rows(results)
    assert [(row["implementation"], row["pass"]) for row in found] == [
        (name, which) for which in ("forward", "forward+backward") for name in only
    ]
    assert all(float(row["median_ms"]) > 0 for row in found)
    assert capsys.readouterr().out.count("\n") == 1 + 6
    right = attention.ours
    monkeypatch.setattr(
        attention, "ours",
        lambda name, pieces=None: lambda *x: right(name, pieces)(*x) * (1 + (name == "chunked")),
    )  # fmt: skip
    assert attention.main(**options, only=["chunked"]) == 1
    assert "WRONG chunked, out: error" in capsys.readouterr().out


def test_decoding_gives_equal_ids_over_every_cache(monkeypatch, tmp_path, capsys):
    results = tmp_path / "results.csv"
    options = {"model": "tiny", "prompt": 12, "tokens": 4, "rows": [2], "device": "cpu"}
    assert decode.main(**options, caches=["growing"], results=results) == 0
    assert [row["implementation"] for row in rows(results)] == [
        "decode recomputed tiny", "decode growing tiny",
    ]  # fmt: skip
    right = decode.cached

    def other(*given):
        found, times = right(*given)
        return found + ("growing" in given[3:4]), times

    monkeypatch.setattr(decode, "cached", other)
    assert decode.main(**options, caches=["growing"]) == 1
    assert "cache=growing: other ids than recomputed" in capsys.readouterr().out


def test_networks_of_one_shape_are_measured(tmp_path):
    shape = others.Shape(layers=1, width=16, heads=2, window=24, new=3)
    others.check_textbook(others.Shape(layers=1, width=16, heads=2, window=200, new=1))
    for case in ("musictx", "textbook"):
        parameters, rate, _, decoded = others.measured(case, shape, 1, 1, 1, [1, 2])
        assert parameters == sum(p.numel() for p in others.ours(shape).parameters())
        assert rate > 0
        assert [*decoded] == [1, 2]
        assert min(map(min, decoded.values())) > 0
    ids = torch.arange(4, 16)[None]
    assert others.textbook(shape).decode(ids, 3).shape == (1, 15)


def test_reading_is_compared_with_midi_tok(tmp_path, capsys):
    for number in range(2):
        midi.write(song(number), tmp_path / f"{number}.mid")
    prepare.main(str(tmp_path), files=2, repeats=1)
    said = capsys.readouterr().out
    assert "2 files" in said
    assert "musictx / MidiTok REMI" in said


def test_a_stream_is_counted_by_the_hour_and_ends_without_faults(capsys):
    assert stream.main(rehearse=True) == 0
    *hours, end = capsys.readouterr().out.splitlines()
    assert [line.split(" h: ")[0] for line in hours] == ["0.001", "0.002"]
    assert ": 0 sounding, 0 faults" in end


def test_a_step_of_training_is_timed(tmp_path, capsys):
    results, cases = tmp_path / "results.csv", ["as it is", "without features"]
    training.main(rehearse=True, only=cases, results=results)
    assert [row["implementation"] for row in rows(results)] == [f"training, {x}" for x in cases]
    *_, plain, without = capsys.readouterr().out.splitlines()
    assert plain.split()[-4:] != without.split()[-4:]
