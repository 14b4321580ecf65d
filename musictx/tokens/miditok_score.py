"""Score <-> the symusic scores that MidiTok reads and writes: seconds <-> beats.

Times are rounded here, as absolute ticks on the very grid that a MidiTok tokenizer uses, half a
tick upwards, so that MidiTok has nothing left to round. ``inner`` is that tokenizer.
"""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np

from musictx.beats import Beats
from musictx.notes import DRUMS, METER, NOTE, TEMPO, Score


def to_symusic(notes: np.ndarray, score: Score, inner: Any) -> Any:
    """``notes`` of ``score`` in ticks, with its tempo and meter marks as far as ``inner`` has them.

    Marks after the last onset are left out: a piece then ends with a note, not with a mark. A part
    for each program and one for the drums if ``inner`` writes programs, else one part.
    """
    symusic: Any = importlib.import_module("symusic")
    meters = score.meters[: len(score.meters) * inner.config.use_time_signatures]
    pairs = zip(meters["numerator"].tolist(), meters["denominator"].tolist())
    meters = meters[[pair in inner.time_signatures for pair in pairs]]
    finest = max([4, *meters["denominator"].tolist()])
    per_quarter = inner.config.max_num_pos_per_beat * finest // 4
    clock = _clock(score, inner)
    beats = clock.tempos[clock.tempos["time"] <= notes["start"].max()]
    meters = meters[meters["time"] <= notes["start"].max()]
    out = symusic.Score(per_quarter)
    for tick, bpm in zip(_ticks(clock.quarters(beats["time"]), per_quarter), beats["bpm"]):
        out.tempos.append(symusic.Tempo(int(tick), float(bpm)))
    for tick, meter in zip(_ticks(clock.quarters(meters["time"]), per_quarter), meters):
        upper, lower = int(meter["numerator"]), int(meter["denominator"])
        out.time_signatures.append(symusic.TimeSignature(int(tick), upper, lower))
    program = notes["program"] if inner.config.use_programs else np.zeros(len(notes), int)
    part = np.where(notes["drum"], DRUMS, program)
    for key in np.unique(part):
        mine = notes[part == key]
        start = _ticks(clock.quarters(mine["start"]), per_quarter)
        end = np.maximum(_ticks(clock.quarters(mine["end"]), per_quarter), start + 1)
        order = np.lexsort((end, mine["pitch"], start))
        drums = bool(key == DRUMS)
        track = symusic.Track("", 0 if drums else int(key), drums)
        track.notes = symusic.Note.from_numpy(
            time=start[order].astype(np.int32),
            duration=(end - start)[order].astype(np.int32),
            pitch=mine["pitch"][order].astype(np.int8),
            velocity=mine["velocity"][order].astype(np.int8),
            ttype="tick",
        )
        out.tracks.append(track)
    return out


def from_symusic(decoded: Any) -> Score:
    """What a MidiTok tokenizer decoded -> Score, in seconds by its tempo marks."""
    per_quarter = decoded.ticks_per_quarter
    # symusic keeps whole microseconds a quarter, tempo tokens two decimals of bpm.
    marks = sorted({t.time: round(t.qpm, 2) for t in decoded.tempos}.items())
    tick = np.array([t for t, _ in marks], dtype=float)
    bpm = np.array([b for _, b in marks])
    second_per_tick = 60 / bpm / per_quarter
    at = np.concatenate([[0.0], np.cumsum(np.diff(tick) * second_per_tick[:-1])])
    clock = Beats(Score(tempos=np.array(list(zip(at, bpm)), TEMPO)))

    def seconds(ticks: Any) -> Any:
        return clock.seconds(np.asarray(ticks) / per_quarter)

    columns = [np.empty(0, NOTE)]
    for number, track in enumerate(decoded.tracks):
        soa = track.notes.numpy()
        start = np.maximum(soa["time"].astype(float), 0.0)
        notes = np.zeros(len(start), NOTE)
        notes["start"] = seconds(start)
        notes["end"] = seconds(start + np.maximum(soa["duration"], 0))
        notes["pitch"], notes["velocity"] = soa["pitch"], np.clip(soa["velocity"], 1, 127)
        notes["program"], notes["drum"], notes["track"] = track.program, track.is_drum, number
        columns.append(notes)
    joined = np.concatenate(columns)
    joined = joined[np.lexsort((joined["track"], joined["pitch"], joined["start"]))]
    meters = [(seconds(m.time), m.numerator, m.denominator) for m in decoded.time_signatures]
    return Score(
        notes=joined,
        tempos=np.array(list(zip(at, bpm)), TEMPO),
        meters=np.array(meters, METER),
        ticks_per_quarter=int(per_quarter),
    )


def _clock(score: Score, inner: Any) -> Beats:
    """The tempo marks of ``score`` as ``inner`` can write them, from 120 bpm on."""
    if not inner.config.use_tempos:
        return Beats(Score(), bpm=inner.default_tempo)
    marks = np.concatenate([np.array([(0.0, 120.0)], TEMPO), score.tempos])
    marks["bpm"] = np.clip(marks["bpm"], min(inner.tempos), max(inner.tempos))
    return Beats(Score(tempos=marks))


def _ticks(quarters: np.ndarray, per_quarter: int) -> np.ndarray:
    """Quarter notes -> absolute ticks, rounded half upwards."""
    return np.floor(quarters * per_quarter + 0.5).astype(np.int64)
