"""Pieces by random weights: a few here, ten thousand by scripts/legal.py."""

from __future__ import annotations

from scripts import legal


def test_music_of_random_weights_is_legal_and_what_is_not_is_reported(capsys, monkeypatch):
    assert legal.main(["samples=24", "tokens=40"]) == 0
    assert "0 of 24 pieces are not legal" in capsys.readouterr().out
    right = legal.midi.to_bytes

    def one_less(score):
        return right(score.with_notes(score.notes[1:]) if len(score) > 1 else score)

    monkeypatch.setattr(legal.midi, "to_bytes", one_less)
    assert legal.main(["samples=8", "tokens=40"]) == 1
    assert "notes were drawn" in capsys.readouterr().out
