"""Drums and a bass composed to songs, beside Groove's drummers and the songs' own lowest notes.

    python -m scripts.reproduce.rhythm_sections path=FOLDER_OF_SONGS groove=FOLDER_OF_DRUMMERS
        [model=song] [pieces=10] [seconds=45] [seed=0] [parts=drums,bass] [styles=rock,jazz]

Of songs in 4/4 the first ``seconds`` are taken without drums, bass and the names of chords; asked
for is ``musictx accompany add=drums``, and ``add=bass``. Chords are those of the file's markers;
phrases end before the sections that :mod:`musictx.songs.sections` finds. With ``styles`` drums
are asked for in each of them instead, song n by the seed ``seed`` + n, and laid beside the drummers
of every style that the card's were not taken from (``scripts/reproduce/drummers.py``), and these
beside each other by halves; all their bars' means count the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

import musictx
from musictx import chords
from musictx.notes import Score
from musictx.songs import metre
from musictx.songs.drummers import KINDS, kind_of
from musictx.songs.sections import sections
from scripts.reproduce.bands import BASS, STEADY, STYLES, snapped
from scripts.reproduce.drummers import performances
from scripts.words import run

LAGS = (1, 2, 4, 8, 16)


def places(drums: Score) -> np.ndarray:
    """(4, 16): how many strokes of each of :data:`KINDS`, and of the other drums, are at each
    sixteenth of the bar."""
    table = np.zeros((4, 16))
    at = metre.bar_places(drums) % 16
    np.add.at(table, (kind_of(drums.notes["pitch"]), at), 1.0)
    return table


def overlap(one: np.ndarray, other: np.ndarray) -> float:
    """Of two tables of counts, as distributions: 1 where they are the same, 0 where none meets."""
    return float(np.minimum(one / one.sum(), other / other.sum()).sum())


def colours(drums: Score, ends: set[int]) -> tuple[float, float]:
    """Strokes of neither kick nor hat in the second half of a bar, on average: of the bars
    ``ends``, counted from 0, and of the others."""
    notes = drums.notes[~np.isin(drums.notes["pitch"], KINDS["kick"] + KINDS["hat"])]
    bars, at = metre.bars_of(drums.with_notes(notes)), metre.bar_places(drums.with_notes(notes))
    last = int(metre.bars_of(drums).max(initial=0))
    counts = np.bincount(bars[at >= 8], minlength=last + 1)
    mine = np.isin(np.arange(len(counts)), list(ends))
    return float(counts[mine].mean()) if mine.any() else np.nan, float(counts[~mine].mean())


def bass_measures(bass: Score, roots: list[tuple[float, int]]) -> dict[str, float]:
    """Of a line of a bass, against ``roots``: seconds from which on each pitch class is the root of
    the chord, -1 for none."""
    notes = bass.notes
    overlaps = notes["end"][:-1] > notes["start"][1:] + 1e-3
    first = metre.bar_places(bass) == 0
    times = np.array([time for time, _ in roots])
    chord = np.searchsorted(times, notes["start"] + 0.02, side="right") - 1
    root = np.array([pitch for _, pitch in roots])[np.maximum(chord, 0)]
    counted = first & (chord >= 0) & (root >= 0)
    bars = len(np.unique(metre.bars_of(bass)[first]))
    return {
        "one note at a time": 1.0 - float(overlaps.mean()),
        "bars that it begins": bars / max(int(metre.bars_of(bass).max()) + 1, 1),
        "roots at bar lines": float((notes["pitch"] % 12 == root)[counted].mean())
        if counted.any()
        else np.nan,
        **{f"bars alike, {lag} apart": metre.bar_likeness(bass, lag) for lag in LAGS},
    }


def lowest(score: Score) -> Score:
    """The lowest note of each moment at which some begin; what sounds is cut off by the next."""
    notes = score.notes[~score.notes["drum"]]
    notes = notes[np.lexsort((notes["pitch"], notes["start"]))]
    line = notes[np.append(True, np.diff(notes["start"]) > 0.02)].copy()
    line["end"][:-1] = np.minimum(line["end"][:-1], line["start"][1:])
    return score.with_notes(line)


def made_for(
    song: Score, part: str, model: musictx.Bundle, seed: int, style: str | None = None
) -> Score:
    """The notes of ``part`` alone, in the bars of ``song``."""
    sample = musictx.accompany(song, model=model, add=part, style=style, seed=seed)[0]
    track = next(n for n, name in sample.score.names.items() if name == part.capitalize())
    notes = sample.score.notes
    return song.with_notes(notes[notes["track"] == track])


def halves(tables: list[np.ndarray], seed: int = 0) -> float:
    """Overlap of one half of the tables with the other, the mean of a hundred divisions."""
    random, found = np.random.default_rng(seed), []
    for _ in range(100):
        order = random.permutation(len(tables))
        one, other = (np.sum([tables[n] for n in some], 0) for some in (order[::2], order[1::2]))
        found.append(overlap(one, other))
    return float(np.mean(found))


def by_style(
    groove: Path, songs: list[Score], model: musictx.Bundle, styles: Sequence[str], seed: int
) -> None:
    """Drums of each style beside the held-out drummers of all."""
    real: dict[str, list[np.ndarray]] = {}
    for one in performances(groove):
        if one.held_out:
            bars = int(metre.bars_of(one.score).max()) + 1
            real.setdefault(one.style, []).append(places(one.score) / bars)
    whole = {style: np.sum(tables, 0) for style, tables in real.items()}
    print("style".ljust(12), "halves", *(f"{style:>10}" for style in real))
    for style in styles:
        made = [
            places(made_for(song, "drums", model, seed + number, style))
            for number, song in enumerate(songs)
        ]
        row = [overlap(np.sum(made, 0), table) for table in whole.values()]
        print(
            f"{style:12} {halves(real[style]):6.3f}", *(f"{one:10.3f}" for one in row), flush=True
        )


def songs_of(folder: Path, pieces: int, seconds: float) -> Iterator[tuple[str, Score, Score]]:
    """Name, whole file and the beginning without drums, bass and chords of each song in 4/4."""
    for path in sorted(folder.glob("*.mid")):
        whole = musictx.read(path)
        if pieces and len(whole.meters) == 1 and whole.meters[0].tolist()[1:] == (4, 4):
            pieces -= 1
            notes = whole.notes[~whole.notes["drum"] & (whole.notes["program"] != BASS)]
            notes = notes[notes["start"] < seconds]
            yield path.name, whole, replace(whole.with_notes(notes), markers=(), file=b"")


def main(
    path: Path,
    groove: Path,
    model: str = "song",
    pieces: int = 10,
    seconds: float = 45,
    seed: int = 0,
    parts: Sequence[str] = ("drums", "bass"),
    styles: Sequence[str] = (),
) -> None:
    bundle, songs = musictx.load(model), songs_of(path, pieces, seconds)
    if styles:
        by_style(groove, [song for _, _, song in songs], bundle, styles, seed)
        return
    performed = [
        snapped(musictx.read(path))
        for path in sorted(groove.glob("*beat_4-4*.mid"))
        if any(style in path.name for style in STYLES.split("|"))
    ]
    drummers = [score for score, steady in performed if steady >= STEADY]
    real = np.sum([places(one) for one in drummers], 0)
    others = [overlap(places(one), real - places(one)) for one in drummers]
    print(f"{len(drummers)} drummers; overlap of each with the others {_mean(others)}")
    table, rows = np.zeros((4, 16)), {}
    for number, (name, whole, song) in enumerate(songs):
        named = chords.annotated(whole)
        if "drums" in parts:
            drums = made_for(song, "drums", bundle, seed + number)
            table += places(drums)
            ends = {one.stop - 1 for one in sections(song)}
            at_ends, elsewhere = colours(drums, ends)
            count = max(int(metre.bars_of(song).max()) + 1, 1)
            rows.setdefault("drums", []).append({
                "near sixteenths": metre.near_sixteenths(drums),
                "overlap with Groove, this song": overlap(places(drums), real),
                "strokes a bar": len(drums) / count,
                "fills at phrase ends": at_ends, "elsewhere": elsewhere,
            })  # fmt: skip
        if "bass" in parts:
            bass = made_for(song, "bass", bundle, seed)
            roots = [(time, chord.root % 12 if chord.quality else -1) for time, chord in named]
            rows.setdefault("bass", []).append(bass_measures(bass, roots))
            rows.setdefault("lowest notes", []).append(bass_measures(lowest(song), roots))
        print(name, flush=True)
    if table.sum():
        kinds = [*KINDS, "others"]
        for name, one in (("made", table), ("Groove", real)):
            shares = {kind: float(np.round(n / one.sum(), 3)) for kind, n in zip(kinds, one.sum(1))}
            print(name, shares)
        print(f"overlap with Groove: places {overlap(table.sum(0), real.sum(0)):.3f}, ", end="")
        print(f"places and kinds {overlap(table, real):.3f}")
    for what, values in rows.items():
        print(what)
        for name in values[0]:
            print(f"  {name:32} {_mean(row[name] for row in values)}")


def _mean(values: Iterable[float]) -> str:
    found = np.array(list(values))
    return f"{np.nanmean(found):.3f} ({np.nanmin(found):.2f} to {np.nanmax(found):.2f})"


if __name__ == "__main__":
    run(main)
