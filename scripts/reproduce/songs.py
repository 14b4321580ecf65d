"""Free music on its beats as one folder for ``musictx train experiment=song``.

    python -m scripts.reproduce.songs out=DIR pop909=DIR lieder=DIR quartets=DIR freedoom=DIR
        leadsheets=DIR groove=DIR

Each folder is optional: POP909 on its beats (tracks MELODY, BRIDGE, PIANO), OpenScore Lieder and
String Quartets, Freedoom's bands, OpenEWLD's lead sheets, Groove's drummers; MIDI or MusicXML.
Writes MIDI files with one program for each part, told apart as below, tempo marks, meters and
chords as they were, and split.csv: POP909 780 and later, and a few of each of the others by the
hash of their names, are held out. Some of POP909's songs become bands (bands.py): in 40 of 100 one
of Groove's drummers of the same split plays along, in 35 of 100 the piano's lowest line is a bass.
Groove's strokes, played freely, are put on sixteenths and triplets.
"""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path

import numpy as np

import musictx
from musictx.apps.parts import family
from musictx.errors import UserError
from musictx.files import write_table
from musictx.notes import Score
from scripts.reproduce import bands
from scripts.words import options as read_options
from scripts.words import run

DEFAULTS = dict.fromkeys(
    ("out", "pop909", "lieder", "quartets", "freedoom", "leadsheets", "groove"), ""
)
#: The program that stands for a melody: voices, tunes of lead sheets.
MELODY, STRINGS, PIANO = 73, 48, 0
#: Pieces with fewer notes are left out.
FEWEST_NOTES = 16
#: The share of pieces held out, in percent.
HELD_OUT = {"lieder": 4, "quartets": 8, "freedoom": 8, "leadsheets": 8, "groove": 4}
#: The shares of POP909's songs with a drummer, and with a bass.
WITH_DRUMS, WITH_BASS = 0.4, 0.35

#: Split -> drummers.
Drummers = dict[str, list[bands.Performance]]


def programs(source: str, score: Score) -> np.ndarray:
    """(n,) the program of each note by its part."""
    notes = score.notes
    if source == "pop909":
        return np.array([MELODY, STRINGS, PIANO])[np.minimum(notes["track"], 2)]
    if source == "lieder":
        return np.where(notes["program"] < 8, PIANO, MELODY)
    if source == "leadsheets":
        return np.full(len(notes), MELODY)
    if source == "quartets":
        return notes["program"].astype(int)
    return np.array([family(program) for program in notes["program"].tolist()], int)


def split(source: str, name: str) -> str:
    """ "validation" for what is held out, else "train"."""
    if source == "pop909":
        return "validation" if int(name[:3]) >= 780 else "train"
    number = int(hashlib.sha256((source + name).encode()).hexdigest(), 16) % 100
    return "validation" if number < HELD_OUT[source] else "train"


def arranged(source: str, name: str, score: Score, drummers: Drummers) -> Score:
    """Some songs of POP909 as bands, strokes of Groove on lines, all else as it is."""
    if source == "groove":
        return bands.snapped(score)[0]
    if source != "pop909":
        return score
    if bands.share(name, "bass") < WITH_BASS:
        score = bands.with_bass(score, PIANO)
    if bands.share(name, "drums") < WITH_DRUMS:
        score = bands.drummed(name, score, drummers.get(split(source, name), []))
    return score


def drummers_of(folder: str) -> Drummers:
    """Split -> the performances of Groove that can be laid under songs."""
    found: Drummers = {}
    for path in sorted(Path(folder).rglob("*.mid")) if folder else ():
        one = bands.performance(path.stem, musictx.read(path))
        if one is not None:
            found.setdefault(split("groove", path.stem), []).append(one)
    return found


def prepared(source: str, score: Score, name: str = "", drummers: Drummers | None = None) -> Score:
    """``score``, the file ``name``, with a track and a program for each part."""
    notes = score.notes.copy()
    notes["program"] = np.where(notes["drum"], 0, programs(source, score))
    score = arranged(source, name, score.with_notes(notes), drummers or {})
    notes = score.notes.copy()
    part = np.where(notes["drum"], 128, notes["program"].astype(int))
    notes["track"] = np.unique(part, return_inverse=True)[1].reshape(-1)
    ticks = score.ticks_per_quarter or 480
    return replace(score, notes=notes, names={}, pedals=score.pedals[:0], ticks_per_quarter=ticks)


def main(words: list[str]) -> None:
    options = read_options(words, DEFAULTS)
    if not options["out"]:
        raise UserError("out: expected the folder that is to be written")
    out = Path(options["out"])
    out.mkdir(parents=True, exist_ok=True)
    rows: list[dict[str, str]] = []
    drummers = drummers_of(options["groove"])
    for source in list(DEFAULTS)[1:]:
        if not options[source]:
            continue
        files = [p for p in sorted(Path(options[source]).rglob("*")) if p.suffix.lower() in
                 (".mid", ".midi", ".musicxml", ".mxl")]  # fmt: skip
        for path in files:
            score = musictx.read(path)
            if len(score) < FEWEST_NOTES:
                continue
            name = "".join(c if c.isalnum() or c in "-_" else "_" for c in path.stem)[:60]
            file = f"{source}-{name}.mid"
            musictx.write(prepared(source, score, path.stem, drummers), out / file)
            rows.append({"midi_filename": file, "split": split(source, path.stem)})
        print(f"{source}: {len(rows)} pieces so far", flush=True)
    write_table(out / "split.csv", rows, ["midi_filename", "split"])
    print(f"{len(rows)} pieces in {out}")


if __name__ == "__main__":
    run(main)
