"""pretty_midi <-> Score, tempos, meters, keys and names included."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from musictx.errors import UserError
from musictx.midi.write import Grid, parts_of
from musictx.notes import KEY, METER, NOTE, PEDAL, TEMPO, Score

if TYPE_CHECKING:
    import pretty_midi

#: pretty_midi holds the time of every tick; pieces of more ticks are given to it in milliseconds.
_MOST_TICKS = 10_000_000


def from_pretty_midi(pm: pretty_midi.PrettyMIDI) -> Score:
    """A ``pretty_midi.PrettyMIDI`` as a Score; instrument i becomes track i.

    Notes of velocity 0 sound nothing and are left out. Raises :class:`UserError` for what no
    Score can hold (ends before starts; programs, pitches or velocities outside MIDI).
    """
    notes, pedals = [], []
    for track, instrument in enumerate(pm.instruments):
        kind = (int(instrument.program), bool(instrument.is_drum), track)
        if not 0 <= kind[0] <= 127:
            raise UserError(f"instrument {track}: program={kind[0]}, expected 0..127")
        for note in instrument.notes:
            row = (float(note.start), float(note.end), int(note.pitch), int(note.velocity), *kind)
            if not (0 <= row[2] <= 127 and 0 <= row[3] <= 127 and 0 <= row[0] <= row[1] < np.inf):
                raise UserError(
                    f"instrument {track}: {note} cannot be, expected 0 <= start <= end and pitch"
                    " and velocity in 0..127"
                )
            if row[3] > 0:
                notes.append(row)
        pedals += [
            (float(cc.time), int(cc.value), track)
            for cc in instrument.control_changes
            if cc.number == 64
        ]
    table = np.array(notes, NOTE)
    return Score(
        notes=table[np.lexsort((table["track"], table["pitch"], table["start"]))],
        pedals=np.array(sorted(pedals, key=lambda p: (p[0], p[2])), PEDAL),
        tempos=np.array(list(zip(*pm.get_tempo_changes())), TEMPO),
        meters=np.array(
            [(m.time, m.numerator, m.denominator) for m in pm.time_signature_changes], METER
        ),
        keys=np.array(
            [(k.time, _sharps(k.key_number), k.key_number >= 12) for k in pm.key_signature_changes],
            KEY,
        ),
        names={i: each.name for i, each in enumerate(pm.instruments) if each.name},
        ticks_per_quarter=int(pm.resolution) if 0 < pm.resolution < 2**15 else 0,
    )


def to_pretty_midi(score: Score) -> pretty_midi.PrettyMIDI:
    """A Score as a ``pretty_midi.PrettyMIDI``: one instrument for each track (and program of it).

    Times stay exact. Ticks and tempos are those that :func:`musictx.midi.write` would write.
    """
    import pretty_midi

    last = max(score.duration, float(score.tempos["time"].max(initial=0.0)))
    grid = Grid.of(score, last)
    if grid.of_seconds(np.array([last]))[0] > _MOST_TICKS:
        grid = Grid.of(Score(), 0.0)
    pm = pretty_midi.PrettyMIDI(resolution=grid.quarter, initial_tempo=float(grid.bpm[0]))
    # There is no public way to give it more than one tempo.
    seconds_per_tick = (60.0 / (grid.bpm * grid.quarter)).tolist()
    pm._tick_scales = list(zip(grid.ticks.tolist(), seconds_per_tick))
    pm._update_tick_to_time(int(grid.ticks[-1]) + 1)
    for part in parts_of(score, by_program=True):
        instrument = pretty_midi.Instrument(part.program, part.drum, name=part.name)
        instrument.notes = [
            pretty_midi.Note(velocity, pitch, start, end)
            for start, end, pitch, velocity, *_ in part.notes.tolist()
        ]
        instrument.control_changes = [
            pretty_midi.ControlChange(64, value, time) for time, value, _ in part.pedals.tolist()
        ]
        pm.instruments.append(instrument)
    pm.time_signature_changes = [
        pretty_midi.TimeSignature(numerator, denominator, time)
        for time, numerator, denominator in score.meters.tolist()
        if numerator and denominator
    ]
    pm.key_signature_changes = [
        pretty_midi.KeySignature(_key_number(sharps, minor), time)
        for time, sharps, minor in score.keys.tolist()
    ]
    return pm


def _sharps(key_number: int) -> int:
    """pretty_midi's 0..23 (the tonic's pitch class, +12 in minor) -> sharps, flats below 0."""
    major = (key_number - 12 + 3 if key_number >= 12 else key_number) % 12
    return (major * 7 + 5) % 12 - 5


def _key_number(sharps: int, minor: bool) -> int:
    major = sharps * 7 % 12
    return (major - 3) % 12 + 12 if minor else major
