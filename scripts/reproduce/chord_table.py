"""Count successions of chords, pitch classes of melodies over them, and bars that repeat.

    python -m scripts.reproduce.chord_table path=SONGS [without=HELD_OUT] [out=FILE.json]

SONGS is a folder of ``scripts.reproduce.songs``: songs with chords as markers and their melody on
program 73. Files that are also in HELD_OUT are left out. Writes ``musictx/songs/chord_table.json``,
which ``chord_estimation.py`` reads.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from musictx import formats
from musictx.chords import NAMES, QUALITIES, Chord, chord_changes
from musictx.errors import UserError
from musictx.progress import progress
from musictx.songs.bar_tokens import BarTokenizer
from musictx.songs.chord_estimation import STATES, half_bar_durations, transpose_triads
from musictx.songs.repeats import FARTHEST_BARS, repeat_distances
from scripts.harness import run

ROOT = Path(__file__).resolve().parents[2]
MELODY = 73
#: Songs with fewer notes or chords are left out.
FEWEST_NOTES, FEWEST_CHORDS = 20, 8
#: Pseudocounts of a succession, of a first or last chord, and of quarter notes of a tone.
SUCCESSION, END, TONE = 0.05, 0.1, 0.5


def triad(chord: Chord) -> int:
    """The state of a chord in the table: a minor triad if its third is minor, else major."""
    return chord.root % 12 + 12 * int(3 in QUALITIES[NAMES[chord.quality]])


def key_of(states: np.ndarray) -> int:
    """The tonic, as a pitch class, of the major scale with most of these triads."""
    scale = [0, 2 + 12, 4 + 12, 5, 7, 9 + 12]
    inside = [np.isin(transpose_triads(states, -key), scale).sum() for key in range(12)]
    return int(np.argmax(inside))


def main(path: Path, without: Path | None = None, out: Path | None = None) -> Path:
    held_out = set() if without is None else {file.name for file in without.glob("*.mid")}
    files = [file for file in sorted(path.glob("*.mid")) if file.name not in held_out]
    follows = np.full((2, STATES, STATES), SUCCESSION)
    tones = np.full((STATES // 12, 2, 12), TONE)
    repeats = np.full((FARTHEST_BARS + 1,) * 2, SUCCESSION)
    first, last, final = np.full(STATES, END), np.full(STATES, END), np.full(12, END)
    songs = 0
    with progress("counting", "songs", len(files)) as update:
        for number, file in enumerate(files):
            update(number)
            score = formats.read(file)
            melody = score.notes[(score.notes["program"] == MELODY) & ~score.notes["drum"]]
            chords = chord_changes(score)
            if len(melody) < FEWEST_NOTES or len(chords) < FEWEST_CHORDS:
                continue
            songs += 1
            lines, sounds, at_bar = half_bar_durations(score, melody)
            begins = score.beats.quarters(np.array([seconds for seconds, _ in chords]))
            middles = lines + np.diff(lines, append=2 * lines[-1] - lines[-2]) / 2
            index = np.searchsorted(begins, middles, side="right") - 1
            current = [chords[n][1] if n >= 0 else None for n in index]
            named = np.array([chord is not None and chord.quality > 0 for chord in current])
            states = np.array([triad(chord) if chord else 0 for chord in current])
            key = key_of(states[named])
            relative = transpose_triads(states, -key)
            for n in np.flatnonzero(named):
                tones[states[n] // 12] += np.roll(sounds[n], -(states[n] % 12), axis=1)
                if n and named[n - 1]:
                    follows[int(at_bar[n]), relative[n - 1], relative[n]] += 1
            first[relative[named][0]] += 1
            last[relative[named][-1]] += 1
            final[(melody["pitch"][-1] - key) % 12] += 1
            distances = repeat_distances(BarTokenizer().grid(score).stream)
            np.add.at(repeats, (distances[:-1], distances[1:]), 1)
    if not songs:
        raise UserError(f"path={path}: no song has a melody on program {MELODY} and chords")
    counted = {"follows": follows, "tones": tones, "first": first, "last": last, "final": final}
    counted["repeats"] = repeats
    shares = {name: rows / rows.sum(-1, keepdims=True) for name, rows in counted.items()}
    target = out or ROOT / "musictx" / "songs" / "chord_table.json"
    short = {name: np.round(rows, 8).tolist() for name, rows in shares.items()}
    target.write_text(json.dumps(short) + "\n", "utf-8")
    print(f"{songs} songs; {target}")
    return target


if __name__ == "__main__":
    run(main)
