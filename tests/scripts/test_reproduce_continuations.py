"""scripts/reproduce/continuations.py: primers as written, what is measured, a run."""

import csv

import numpy as np
import pytest

import musictx
from musictx.notes import PEDAL, Score
from scripts.reproduce import continuations


def test_a_written_primer_is_on_sixteenths_flat_and_without_a_pedal():
    notes = [(0.93, 1.30, 60, 31, 0, False, 0), (1.07, 1.08, 64, 99, 0, False, 0)]
    pedals = np.array([(1.0, 127, 0), (2.0, 0, 0)], PEDAL)
    found = continuations.written(Score(notes=notes, pedals=pedals))
    assert found.notes["start"].tolist() == pytest.approx([0.875, 1.125])
    assert found.notes["end"].tolist() == pytest.approx([2.0, 2.0])  # by the pedal
    assert set(found.notes["velocity"].tolist()) == {continuations.VELOCITY}
    assert not len(found.pedals)


def test_what_goes_on_alike_correlates_and_stays_in_the_scale():
    primer = Score(notes=[(i, i + 1, 60 + p, 80, 0, False, 0) for i, p in enumerate((0, 2, 4, 7))])
    same = continuations.measured(primer, primer, 4.0)
    assert same["notes a second"] == same["in its scale"] == same["polyphony"] == 1
    assert same["pitch classes"] == pytest.approx(1)
    sharp = primer.notes.copy()
    sharp["pitch"] += 1
    away = continuations.measured(primer, primer.with_notes(sharp), 4.0)
    assert away["in its scale"] < 0.6
    assert away["pitch classes"] < 0


def test_each_piece_is_continued_and_measured(model, tmp_path, capsys):
    for number in range(2):
        notes = [(i / 4, i / 4 + 0.2, 60 + i % 5, 80, 0, False, 0) for i in range(60)]
        musictx.write(Score(notes=notes), tmp_path / "in" / f"{number}.mid")
    words = [f"path={tmp_path / 'in'}", f"model={model}", f"out={tmp_path / 'out'}", "seconds=2"]
    continuations.main([*words, "as=written", "primer=3"])
    with (tmp_path / "out/continuations.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["piece"] for row in rows] == ["0", "1"]
    assert float(rows[0]["real: notes a second"]) == pytest.approx(4, abs=0.5)
    assert len(list((tmp_path / "out").glob("*.mid"))) == 2
    assert "means of 2 pieces, written" in capsys.readouterr().out
