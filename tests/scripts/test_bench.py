"""The benchmarks on the CPU, tiny: they compare before they measure."""

from __future__ import annotations

import csv
from pathlib import Path

from scripts.bench import attention, decode, stream


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_attention_is_compared_and_timed(tmp_path, capsys, monkeypatch):
    results, only = tmp_path / "results.csv", ["textbook", "chunked", "sdpa"]
    options = {"lengths": [40], "heads": 2, "size": 16, "repeats": 1, "memory": False}
    assert attention.main(**options, only=only, results=results) == 0
    assert [(row["implementation"], row["pass"]) for row in rows(results)] == [
        (name, which) for which in ("forward", "forward+backward") for name in only
    ]
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
        ids, times = right(*given)
        return ids + ("growing" in given[3:4]), times

    monkeypatch.setattr(decode, "cached", other)
    assert decode.main(**options, caches=["growing"]) == 1
    assert "cache=growing: other ids than recomputed" in capsys.readouterr().out


def test_a_stream_is_counted_by_the_hour_and_ends_without_faults(capsys):
    assert stream.main(rehearse=True) == 0
    *hours, end = capsys.readouterr().out.splitlines()
    assert [line.split(" h: ")[0] for line in hours] == ["0.001", "0.002"]
    assert ": 0 sounding, 0 faults" in end
