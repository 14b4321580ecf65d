"""Songs accompanied by a model, beside the songs themselves: harmony and time in bars.

    python -m scripts.reproduce.songs_accompanied path=FOLDER_OF_SONGS [model=song] [pieces=10]
        [seconds=45] [seed=0] [chords=false] [program=73]

Of every song the melody (the notes of ``program``) is kept for its first ``seconds``, with its
chords where ``chords=true``, and accompanied; measured are the new notes, and those that the song
has beside its melody while that lasts, from its first to its last note
(musictx/songs/harmony.py, metre.py), against the chords of the file's markers: as they are, and
shifted by 6 semitones.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

import musictx
from musictx.chords import NAMES, NONE, QUALITIES, annotated
from musictx.notes import Score
from musictx.songs import harmony, metre
from scripts.words import run

LAGS = (1, 2, 4, 8, 16)


class ChordSpan(NamedTuple):
    """A chord from ``start`` to before ``end``, seconds, and its pitch classes, 0 to 11."""

    start: float
    end: float
    classes: frozenset[int]


def measured(
    score: Score, notes: np.ndarray, melody: np.ndarray, spans: list[ChordSpan]
) -> dict[str, float]:
    """Name of a measure -> its value for the accompaniment ``notes`` to ``melody``."""
    part = score.with_notes(notes)
    pitched = notes[~notes["drum"]]
    seconds = float(melody["start"].max() - melody["start"].min())
    both = np.concatenate([melody, notes])
    order = np.argsort(both["start"], kind="stable")
    return {
        "onsets near sixteenths": metre.near_sixteenths(part),
        "bass changes on 1 or 3": metre.bass_changes_on_strong_beats(part),
        "chord tones": chord_tones(part, spans),
        "chord tones, shifted": chord_tones(part, shifted(spans, 6)),
        "bass on chord": bass_tones(pitched, spans),
        "clashes": harmony.clashes(score.with_notes(both), order < len(melody)),
        **{f"bars alike, {lag} apart": metre.bar_likeness(part, lag) for lag in LAGS},
        "notes a second": len(notes) / max(seconds, 1.0),
        "mean velocity": float(notes["velocity"].mean()) if len(notes) else np.nan,
        "length, quarters": float(np.median(pitched["end"] - pitched["start"])) * 2
        if len(pitched)
        else np.nan,
    }


def within(notes: np.ndarray, first: float, last: float) -> np.ndarray:
    """Those that begin from ``first`` to ``last`` seconds."""
    return notes[(notes["start"] >= first) & (notes["start"] <= last)]


def chord_tones(score: Score, spans: list[ChordSpan]) -> float:
    """The share of the sounding time of the notes within ``spans`` that is tones of the chord in
    force. None of it: nan."""
    inside = total = 0.0
    for note in score.notes[~score.notes["drum"]]:
        for span in spans:
            time = min(note["end"], span.end) - max(note["start"], span.start)
            if time > 0 and span.classes:
                total += time
                inside += time * (int(note["pitch"]) % 12 in span.classes)
    return inside / total if total else np.nan


def bass_tones(notes: np.ndarray, spans: list[ChordSpan]) -> float:
    """The share of chords whose lowest note of ``notes`` struck within them is a chord tone; chords
    without a strike do not count. None: nan."""
    results = []
    for span in spans:
        since = notes["start"] - span.start
        struck = notes[(since >= -0.02) & (since < span.end - span.start - 0.02)]
        if len(struck) and span.classes:
            results.append(int(struck["pitch"].min()) % 12 in span.classes)
    return float(np.mean(results)) if results else np.nan


def shifted(spans: list[ChordSpan], semitones: int) -> list[ChordSpan]:
    """The same chords ``semitones`` higher: what agreement by chance is measured against."""
    return [
        span._replace(classes=frozenset((one + semitones) % 12 for one in span.classes))
        for span in spans
    ]


def spans_of(score: Score, end: float) -> list[ChordSpan]:
    """The chords that the file names, with their tones."""
    found = [one for one in annotated(score) or [] if one[0] < end]
    stops = [*(time for time, _ in found[1:]), end]
    return [
        ChordSpan(time, stop, frozenset((chord.root + tone) % 12 for tone in tones))
        for (time, chord), stop in zip(found, stops)
        for tones in [QUALITIES[NAMES[chord.quality]]]
        if chord != NONE
    ]


def main(
    path: Path,
    model: str = "song",
    pieces: int = 10,
    seconds: float = 45,
    seed: int = 0,
    chords: bool = False,
    program: int = 73,
) -> None:
    files = sorted(path.glob("*.mid"))
    files = files[:: max(1, len(files) // pieces)][:pieces]
    bundle = musictx.load(model)
    new, real = [], []
    for file in files:
        song = musictx.read(file)
        inside = song.notes[song.notes["start"] < seconds]
        melody, others = (inside[(inside["program"] == program) == own] for own in (True, False))
        if not len(melody):
            continue
        first, last = melody["start"].min() - 0.02, melody["start"].max() + 0.02
        if not len(others := within(others, first, last)):
            continue
        markers = song.markers if chords else ()
        tune = replace(song.with_notes(melody), markers=markers)
        sample = musictx.accompany(tune, model=bundle, seed=seed)[0]
        notes = sample.score.notes
        made = within(notes[~np.isin(notes["track"], melody["track"])], first, last)
        spans = [one for one in spans_of(song, seconds) if one.end > first]
        new.append(measured(song, made, melody, spans))
        real.append(measured(song, others, melody, spans))
        print(file.name, len(made), flush=True)
    print(f"{len(new)} songs")
    for name in new[0] if new else ():
        values = [np.array([row[name] for row in rows]) for rows in (new, real)]
        means = [float(np.nanmean(v)) if np.isfinite(v).any() else np.nan for v in values]
        print(f"{name:26} {means[0]:6.3f}   real {means[1]:6.3f}")


if __name__ == "__main__":
    run(main)
