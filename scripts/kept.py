"""Infill and accompany real files: everything else in the files must stay byte for byte.

    python -m scripts.kept FOLDER [FOLDER ...] [n=25] [seed=0]

Takes ``n`` MIDI files of each folder, drawn by ``seed``. Two bars of a track get other notes
(infill), then a track is added (accompany), with random notes instead of a model's. Prints how many
files kept all other tracks byte for byte and all other events and notes of the changed track, how
many were refused, and how many are damaged and were written as new files. Anything else is printed,
and the exit status is 1.
"""

from __future__ import annotations

import io
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any
from unittest import mock

import mido
import numpy as np

import musictx
from musictx import formats, midi
from musictx.errors import UserError
from musictx.grid import in_time
from musictx.midi.scan import track_chunks
from musictx.notes import NOTE, Score
from musictx.sampling import composer
from musictx.sampling.infill import Infill
from scripts.harness import finish, heading, row, run
from tests.untrained import saved

#: Bars of a gap.
BARS = 2


def main(*folders: str, n: int = 25, seed: int = 0) -> int:
    if not folders:
        raise UserError("FOLDER: missing, expected folders with MIDI files")
    wrong = []
    heading("folder", "files", "infill: kept", "accompany: kept", "refused", "damaged")
    with (
        tempfile.TemporaryDirectory() as scratch,
        mock.patch.object(composer, "versions", random_notes),
    ):
        tokens: dict[str, Any] = {"name": "performance", "controls": True}
        model = musictx.load(saved(Path(scratch) / "m", tokens=tokens, context=96))
        for folder in folders:
            files = [
                f for f in formats.find_music(folder) if f.suffix.lower() in formats.MIDI_SUFFIXES
            ]
            chosen = Random(str(seed)).sample(files, min(n, len(files)))
            count = Counter[str]()
            for file in chosen:
                score = musictx.read(file)
                for command in (infilled, accompanied):
                    try:
                        fault = command(score, model)
                    except UserError as error:
                        count["refused"] += 1
                        print(f"{file}: {command.__name__}: {error}", file=sys.stderr)
                        continue
                    if fault:
                        wrong.append(f"{file}: {command.__name__}: {fault}")
                    elif score.file:
                        count[command.__name__] += 1
                    if not score.file:
                        count["damaged"] += 1
            columns = [count[key] for key in ("infilled", "accompanied", "refused", "damaged")]
            row(Path(folder).name, len(chosen), *columns)
    return finish(wrong)


def random_notes(part: Infill, seeds: Any, finish: Any, **_: Any) -> Iterator[Any]:
    """Replaces :func:`musictx.sampling.composer.versions`: a hundred random notes."""
    random = np.random.default_rng(0)
    notes = np.zeros(100, NOTE)
    begin, end = part.step * part.step_seconds, part.stop * part.step_seconds
    notes["start"] = np.sort(random.uniform(begin, end, len(notes)))
    notes["end"] = notes["start"] + random.exponential(1.0, len(notes))
    notes["pitch"], notes["velocity"] = random.integers(30, 90, 100), random.integers(1, 128, 100)
    yield SimpleNamespace(done=True, chords=()), finish(part.finish_notes(notes))


def infilled(score: Score, model: musictx.Bundle) -> str:
    """Infill two bars of a track; return what is wrong with the result, or an empty string."""
    clock = in_time(score, tracking=False).beats  # as the command counts bars
    pitched = score.notes[~score.notes["drum"]]
    tracks = sorted(set(score.notes["track"].tolist()))
    bars = clock.bar(float(clock.quarters(score.duration)))[0]
    begin = max(1, bars // 2)
    track = int(pitched["track"][len(pitched) // 2]) if len(pitched) else None
    name = None if track is None else str(1 + tracks.index(track))
    if track is not None and name in score.names.values():  # a number may be a track's name
        name = score.names.get(track)
    start, end = (float(clock.seconds(clock.bar_line(0.0, n))) for n in (begin - 1, begin + 1))
    first = begin - clock.pickup  # a pick-up is bar 0
    (sample,) = musictx.infill(score, model, begin=first, end=first + BARS - 1, tracks=name)
    data = formats.to_bytes(sample)
    if not score.file:
        return ""
    notes = score.notes
    gap = (notes["start"] > start - 1e-6) & (notes["start"] < end - 1e-6)
    outside = Counter(notes[~(gap & (notes["track"] == track))].tolist())
    result = midi.read(data).notes
    result_notes = Counter(result.tolist())
    if outside - result_notes and len(np.unique(result["track"])) == len(tracks):
        return "notes outside of the gap have changed"
    for onset, *_ in (result_notes - outside) if track is not None else ():
        if not start - 1e-6 <= onset < end:
            return f"a new note begins at {onset} s, outside of {start} to {end} s"
    changed = [n for n, (a, b) in enumerate(zip(chunks(score.file), chunks(data))) if a != b]
    if len(changed) > 1 or len(chunks(data)) < len(chunks(score.file)):
        return f"tracks {changed} have changed"
    events = messages(score.file)
    return "" if messages(data)[: len(events)] == events else "other events have changed"


def accompanied(score: Score, model: musictx.Bundle) -> str:
    """Add a track; return what is wrong with the result, or an empty string."""
    (sample,) = musictx.accompany(score, model)
    if not score.file:
        return ""
    before, after = chunks(score.file), chunks(formats.to_bytes(sample))
    if after[: len(before)] != before:
        return "tracks have changed"
    return "" if len(after) == len(before) + bool(sample.notes) else "not exactly one new track"


def chunks(data: bytes) -> list[bytes]:
    """The contents of all tracks."""
    return [data[begin:end] for begin, end in track_chunks(data, Counter())]


def messages(data: bytes) -> list[list[tuple[int, str]]]:
    """(tick, message) of all messages of each track, except notes."""
    tracks = []
    for track in mido.MidiFile(file=io.BytesIO(data), clip=True).tracks:
        tick, rows = 0, []
        for message in track:
            tick += message.time
            if message.type not in ("note_on", "note_off", "end_of_track"):
                rows.append((tick, str(message.copy(time=0))))
        tracks.append(rows)
    return tracks


if __name__ == "__main__":
    run(main)
