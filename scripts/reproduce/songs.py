"""Collect free music on its beats in a folder for ``musictx train experiment=song``.

    python -m scripts.reproduce.songs out=DIR pop909=DIR lieder=DIR quartets=DIR freedoom=DIR
        leadsheets=DIR groove=DIR mutopia=DIR

Each folder is optional: POP909 on its beats (tracks MELODY, BRIDGE, PIANO), OpenScore Lieder and
String Quartets, Freedoom's bands, OpenEWLD's lead sheets, Groove's drummers, the classical scores
of Mutopia (folders by licence, then by kind; by-sa is left out); MIDI or MusicXML.
Writes split.csv and MIDI files with a program for each part, and with the tempo marks, meters and
chords of the source. POP909 780 and later, and a few pieces of the other sources by the hash of
their names, are held out. 40 of 100 songs of POP909 get one of Groove's drummers of the same split,
and in 35 of 100 the lowest line of the piano becomes a bass (bands.py). Groove's strokes are
quantised to sixteenths and triplets. Single parts of Mutopia's works are left out if the whole work
is there; works that are also in another folder are left out, so that no held-out piece is trained
on in another edition.
"""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path

import numpy as np

import musictx
from musictx.apps.parts import family_program
from musictx.files import write_table
from musictx.notes import Score
from scripts.harness import run
from scripts.reproduce import bands

SOURCES = ("pop909", "lieder", "quartets", "freedoom", "leadsheets", "groove", "mutopia")
#: The program of a melody (singers, tunes of lead sheets), and those of accompaniments.
MELODY, STRINGS, PIANO, ORGAN, GUITAR = 73, 48, 0, 16, 24
#: The strings of a quartet, which keep their programs.
QUARTET = (40, 41, 42)
#: Pieces with fewer notes are left out.
FEWEST_NOTES = 16
#: The percentage of pieces that are held out.
HELD_OUT = {"lieder": 4, "quartets": 8, "freedoom": 8, "leadsheets": 8, "groove": 4}
HELD_OUT["mutopia"] = 4
#: Kinds of Mutopia's scores for one instrument.
SOLO = {"keyboard": PIANO, "keyboard-4-hands": PIANO, "organ": ORGAN, "guitar": GUITAR}
#: A piece is in another folder, too, if more than the share SAME of its runs of RUN intervals are.
RUN, SAME = 16, 0.1
#: The shares of POP909's songs with a drummer, and with a bass.
WITH_DRUMS, WITH_BASS = 0.4, 0.35

#: Split -> drummers.
Drummers = dict[str, list[bands.Performance]]


def programs(source: str, score: Score, kind: str) -> np.ndarray:
    """(n,) the program of each note by its part; ``kind`` is the folder of a score of Mutopia."""
    notes = score.notes
    if source == "mutopia":
        return classical(notes, kind)
    if source == "pop909":
        return np.array([MELODY, STRINGS, PIANO])[np.minimum(notes["track"], 2)]
    if source == "lieder":
        return np.where(notes["program"] < 8, PIANO, MELODY)
    if source == "leadsheets":
        return np.full(len(notes), MELODY)
    if source == "quartets":
        return notes["program"].astype(int)
    return np.array([family_program(program) for program in notes["program"].tolist()], int)


def classical(notes: np.ndarray, kind: str) -> np.ndarray:
    """(n,) programs of a score of Mutopia. Scores for one instrument have its program. In music for
    singers, keyboards become a piano, the highest voice the melody and other voices strings. Other
    instruments become the main instrument of their family, except the strings of a quartet."""
    if kind in SOLO:
        return np.full(len(notes), SOLO[kind])
    instruments = notes["program"].astype(int)
    if kind != "voices":
        return np.array(
            [p if p in QUARTET else family_program(p) for p in instruments.tolist()], int
        )
    tracks = np.unique(notes["track"])
    # LilyPond's default instrument is a piano, for voices too: a piano has chords in a track.
    chords = [_struck_together(notes[notes["track"] == track]) for track in tracks]
    voices = [track for track, share in zip(tracks, chords) if share < 0.1]
    assigned = np.full(len(notes), PIANO)
    assigned[np.isin(notes["track"], voices)] = STRINGS
    if voices:
        highest = max(voices, key=lambda track: notes["pitch"][notes["track"] == track].mean())
        assigned[notes["track"] == highest] = MELODY
    return assigned


def _struck_together(notes: np.ndarray) -> float:
    """The share of notes that begin with the note before them."""
    return float(np.mean(np.diff(np.sort(notes["start"])) < 1e-3)) if len(notes) > 1 else 0.0


def runs(score: Score) -> set[bytes]:
    """The runs of :data:`RUN` intervals in each track, whose notes are sorted by time and pitch."""
    result: set[bytes] = set()
    for track in np.unique(score.notes["track"]):
        notes = score.notes[score.notes["track"] == track]
        notes = notes[np.lexsort((notes["pitch"], notes["start"]))]
        steps = np.diff(notes["pitch"].astype(np.int8))
        if len(steps) >= RUN:
            windows = np.lib.stride_tricks.sliding_window_view(steps, RUN)
            result |= {window.tobytes() for window in windows if len(np.unique(window)) > 3}
    return result


def split(source: str, name: str) -> str:
    """ "validation" for held-out pieces, else "train"; editions of a work are in the same split."""
    if source == "pop909":
        return "validation" if int(name[:3]) >= 780 else "train"
    if source == "mutopia":
        name = work_of(name, 2)
    number = int(hashlib.sha256((source + name).encode()).hexdigest(), 16) % 100
    return "validation" if number < HELD_OUT[source] else "train"


def arranged(source: str, name: str, score: Score, drummers: Drummers) -> Score:
    """Turn some songs of POP909 into bands, quantise Groove, return other music unchanged."""
    if source == "groove":
        return bands.snapped(score)[0]
    if source != "pop909":
        return score
    if bands.share(name, "drums") < WITH_DRUMS:
        score = bands.drummed(name, score, drummers.get(split(source, name), []))
    if bands.share(name, "bass") < WITH_BASS:
        score = bands.with_bass(score, PIANO)
    return score


def drummers_of(folder: str) -> Drummers:
    """Split -> the performances of Groove that can be added to songs."""
    drummers: Drummers = {}
    for path in sorted(Path(folder).rglob("*.mid")) if folder else ():
        performance = bands.performance(path.stem, musictx.read(path))
        if performance is not None:
            drummers.setdefault(split("groove", path.stem), []).append(performance)
    return drummers


def prepared(
    source: str, score: Score, name: str = "", drummers: Drummers | None = None, kind: str = ""
) -> Score:
    """Give each part of the file ``name`` a track and a program."""
    notes = score.notes.copy()
    notes["program"] = np.where(notes["drum"], 0, programs(source, score, kind))
    score = arranged(source, name, score.with_notes(notes), drummers or {})
    notes = score.notes.copy()
    part = np.where(notes["drum"], 128, notes["program"].astype(int))
    notes["track"] = np.unique(part, return_inverse=True)[1].reshape(-1)
    ticks = score.ticks_per_quarter or 480
    return replace(score, notes=notes, names={}, pedals=score.pedals[:0], ticks_per_quarter=ticks)


def files_of(source: str, folder: str) -> list[Path]:
    """The files of a source; of Mutopia only free licences, and no single parts of whole scores."""
    endings = (".mid", ".midi", ".musicxml", ".mxl")
    files = [path for path in sorted(Path(folder).rglob("*")) if path.suffix.lower() in endings]
    if source != "mutopia":
        return files
    files = [path for path in files if path.parent.parent.name in ("pd", "by")]
    tracks = {path: len(np.unique(musictx.read(path).notes["track"])) for path in files}
    whole = {work_of(path.stem, 3) for path, count in tracks.items() if count > 1}
    return [path for path in files if tracks[path] > 1 or work_of(path.stem, 3) not in whole]


def work_of(name: str, fields: int) -> str:
    """The first ``fields`` of the name of a file of Mutopia: composer, work, edition, part."""
    return "__".join(name.split("__")[:fields])


def main(
    out: Path,
    pop909: str = "",
    lieder: str = "",
    quartets: str = "",
    freedoom: str = "",
    leadsheets: str = "",
    groove: str = "",
    mutopia: str = "",
) -> None:
    out.mkdir(parents=True, exist_ok=True)
    rows: list[dict[str, str]] = []
    drummers = drummers_of(groove)
    music: set[bytes] = set()
    folders = (pop909, lieder, quartets, freedoom, leadsheets, groove, mutopia)
    for source, folder in zip(SOURCES, folders):
        for path in files_of(source, folder) if folder else ():
            score = musictx.read(path)
            if len(score) < FEWEST_NOTES:
                continue
            if source == "mutopia":
                piece_runs = runs(score)
                if piece_runs and len(piece_runs & music) > SAME * len(piece_runs):
                    print(f"left out, it is also in another folder: {path.name}", flush=True)
                    continue
            elif source in ("lieder", "quartets", "leadsheets"):
                music |= runs(score)
            name = "".join(c if c.isalnum() or c in "-_" else "_" for c in path.stem)[:120]
            file = f"{source}-{name}.mid"
            piece = prepared(source, score, path.stem, drummers, path.parent.name)
            musictx.write(piece, out / file)
            rows.append({"midi_filename": file, "split": split(source, path.stem)})
        print(f"{source}: {len(rows)} pieces so far", flush=True)
    write_table(out / "split.csv", rows, ["midi_filename", "split"])
    print(f"{len(rows)} pieces in {out}")


if __name__ == "__main__":
    run(main)
