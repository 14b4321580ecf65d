"""The benchmarks of attention and decoding on the CPU, tiny: they compare before they measure."""

from __future__ import annotations

import csv
import importlib
import sys
from pathlib import Path

import pytest

from musictx import midi
from tests.data.helpers import song

BENCH = Path(__file__).resolve().parents[2] / "scripts" / "bench"


@pytest.fixture
def bench(monkeypatch):
    """A script of scripts/bench as a module, with the folder of a script first on the path."""
    monkeypatch.syspath_prepend(str(BENCH))
    return importlib.import_module


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_attention_is_compared_and_timed(bench, tmp_path, capsys):
    script, results = bench("attention"), tmp_path / "results.csv"
    words = ["rehearse=true", "lengths=40", "only=textbook,chunked,sdpa", f"results={results}"]
    assert script.main(words) == 0
    found = rows(results)
    assert [(row["implementation"], row["pass"]) for row in found] == [
        (name, which)
        for which in ("forward", "forward+backward")
        for name in ("textbook", "chunked", "sdpa")
    ]
    assert all(float(row["median_ms"]) > 0 for row in found)
    assert capsys.readouterr().out.count("\n") == 1 + 6


def test_an_attention_that_is_wrong_is_not_timed(bench, monkeypatch, tmp_path, capsys):
    script = bench("attention")
    right = script.by_name

    def broken(name):
        run = right(name)
        return (lambda q, k, v, table: run(q, k, v, table.roll(1, 1))) if name == "chunked" else run

    monkeypatch.setattr(script, "by_name", broken)
    words = ["rehearse=true", "lengths=40", "only=chunked", f"results={tmp_path / 'results.csv'}"]
    assert script.main(words) == 1
    assert "WRONG chunked, out" in capsys.readouterr().out
    assert not (tmp_path / "results.csv").exists()


def test_decoding_gives_equal_ids_over_every_cache(bench, monkeypatch, tmp_path, capsys):
    script, results = bench("decode"), tmp_path / "results.csv"
    words = ["rehearse=true", "rows=2", "prompt=12", "tokens=4", "caches=growing,ring"]
    words.append(f"results={results}")
    assert script.main(words) == 0
    assert [row["implementation"] for row in rows(results)] == [
        "decode recomputed tiny", "decode growing tiny", "decode ring tiny",
    ]  # fmt: skip
    right = script.cached

    def other(*given):
        found, times = right(*given)
        return found + ("ring" in given[3:4]), times

    monkeypatch.setattr(script, "cached", other)
    assert script.main(words) == 1
    assert "cache=ring: other ids than recomputed" in capsys.readouterr().out


def test_an_unknown_option_is_named(bench):
    with pytest.raises(SystemExit, match="lenght=3: expected name=value with a name of rehearse"):
        bench("attention").main(["lenght=3"])


def test_reading_is_compared_with_midi_tok(bench, tmp_path, monkeypatch, capsys):
    for number in range(2):
        midi.write(song(number), tmp_path / f"{number}.mid")
    monkeypatch.setattr(sys, "argv", ["prepare.py", str(tmp_path), "rehearse=true"])
    bench("prepare").main()
    said = capsys.readouterr().out
    assert "2 files" in said
    assert "musictx / MidiTok REMI" in said


def test_a_stream_is_counted_by_the_hour_and_ends_without_faults(bench, capsys):
    assert bench("stream").main(["rehearse=true"]) == 0
    *hours, end = capsys.readouterr().out.splitlines()
    assert [line.split(" h: ")[0] for line in hours] == ["0.001", "0.002"]
    assert ": 0 sounding, 0 faults" in end
