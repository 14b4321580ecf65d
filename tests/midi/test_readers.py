"""Other programs read what was written: by mido (pretty_midi) and without it (symusic)."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Iterable

import pretty_midi
import symusic
from hypothesis import given, settings

from musictx import midi
from musictx.notes import Score
from tests.strategies import scores


def _note_table(rows: Iterable[tuple]) -> list[tuple]:
    """(start, end, pitch, velocity, program, drum) in whole milliseconds; drums have no program."""
    return sorted(
        (round(start * 1000), round(end * 1000), pitch, velocity, 0 if drum else program, drum)
        for start, end, pitch, velocity, program, drum in rows
    )


@settings(deadline=None, max_examples=60)
@given(scores(overlaps=False, zero_lengths=False, meters=False))
def test_other_readers_read_what_was_given(score: Score) -> None:
    """By mido alone and by symusic, which has nothing of it."""
    data = midi.to_bytes(score)
    columns = ["start", "end", "pitch", "velocity", "program", "drum"]
    given = _note_table(score.notes[columns].tolist())
    pretty = pretty_midi.PrettyMIDI(io.BytesIO(data))
    assert given == _note_table(
        (note.start, note.end, note.pitch, note.velocity, instrument.program, instrument.is_drum)
        for instrument in pretty.instruments
        for note in instrument.notes
    )
    tracks = symusic.Score.from_midi(data).to("second").tracks
    assert given == _note_table(
        (note.start, note.end, note.pitch, note.velocity, track.program, track.is_drum)
        for track in tracks
        for note in track.notes
    )
    moved = Counter(
        (round(message.time * 1000), message.number, message.value)
        for instrument in pretty.instruments
        for message in instrument.control_changes
    )
    assert moved == Counter((round(t * 1000), 64, value) for t, value, _ in score.pedals.tolist())
