"""Real files through infill and accompany: what is not asked for comes back byte for byte.

    python -m scripts.kept FOLDER [FOLDER ...] [n=25] [seed=0]

Of each folder ``n`` MIDI files, drawn by ``seed``. Two bars of one track of each get other notes
(infill), then a track is added (accompany); the notes are random, in place of a model's, and the
files written are read by mido. Counted are: files whose untouched tracks came back byte for byte,
with all other events, and the notes outside of the gap, of the written ones; those that are refused
in a sentence; damaged ones, which are written anew. Anything else is reported: exit status 1.
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
            files = [f for f in formats.find(folder) if f.suffix.lower() in formats.MIDI_SUFFIXES]
            chosen = Random(str(seed)).sample(files, min(n, len(files)))
            count = Counter[str]()
            for file in chosen:
                score = musictx.read(file)
                for command in (infilled, accompanied):
                    try:
                        fault = command(score, model)
                    except UserError as error:
                        fault = ""
                        count["refused"] += 1
                        print(f"{file}: {command.__name__}: {error}", file=sys.stderr)
                    else:
                        count["damaged"] += not score.file
                        count[command.__name__] += not fault and bool(score.file)
                    if fault:
                        wrong.append(f"{file}: {command.__name__}: {fault}")
            columns = [count[key] for key in ("infilled", "accompanied", "refused", "damaged")]
            row(Path(folder).name, len(chosen), *columns)
    return finish(wrong)


def random_notes(part: Infill, seeds: Any, **_: Any) -> Iterator[Any]:
    """In place of :func:`musictx.sampling.composer.versions`: a hundred notes in a part."""
    random = np.random.default_rng(0)
    notes = np.zeros(100, NOTE)
    begin, end = part.here * part.step_seconds, part.stop * part.step_seconds
    notes["start"] = np.sort(random.uniform(begin, end, len(notes)))
    notes["end"] = notes["start"] + random.exponential(1.0, len(notes))
    notes["pitch"], notes["velocity"] = random.integers(30, 90, 100), random.integers(1, 128, 100)
    yield SimpleNamespace(new=part.placed(notes), done=True, chords=())


def infilled(score: Score, model: musictx.Bundle) -> str:
    """What is wrong with two bars of a track that were composed anew; empty: nothing."""
    clock = in_time(score, tracking=False).beats  # as the command counts bars
    pitched = score.notes[~score.notes["drum"]]
    tracks = sorted(set(score.notes["track"].tolist()))
    bars = clock.bar(float(clock.quarters(score.duration)))[0]
    begin = max(1, bars // 2)
    wanted = int(pitched["track"][len(pitched) // 2]) if len(pitched) else None
    name = None if wanted is None else str(1 + tracks.index(wanted))
    if wanted is not None and name in score.names.values():  # a name goes before a number
        name = score.names.get(wanted)
    start, end = (float(clock.seconds(clock.bar_line(0.0, n))) for n in (begin - 1, begin + 1))
    (made,) = musictx.infill(score, model, begin=begin, end=begin + BARS - 1, tracks=name)
    data = formats.to_bytes(made)
    if not score.file:
        return ""
    notes = score.notes
    gap = (notes["start"] > start - 1e-6) & (notes["start"] < end - 1e-6)
    stay = Counter(notes[~(gap & (notes["track"] == wanted))].tolist())
    back = midi.read(data).notes
    if len(stay - Counter(back.tolist())) and len(set(back["track"].tolist())) == len(tracks):
        return "notes outside of the gap have changed"
    for at, *_ in (Counter(back.tolist()) - stay) if wanted is not None else ():
        if not start - 1e-6 <= at < end:
            return f"a note that was not there begins at {at} s, outside of {start} to {end} s"
    changed = [n for n, (a, b) in enumerate(zip(chunks(score.file), chunks(data))) if a != b]
    if len(changed) > 1 or len(chunks(data)) < len(chunks(score.file)):
        return f"tracks {changed} are not what they were"
    return "" if others(data, score.file) else "other events have changed"


def accompanied(score: Score, model: musictx.Bundle) -> str:
    """The same of a track that was added."""
    (made,) = musictx.accompany(score, model)
    if not score.file:
        return ""
    before, after = chunks(score.file), chunks(formats.to_bytes(made))
    if after[: len(before)] != before:
        return "tracks are not what they were"
    return "" if len(after) == len(before) + bool(made.notes) else "not one track more"


def chunks(data: bytes) -> list[bytes]:
    """The contents of all tracks."""
    return [data[begin:end] for begin, end in track_chunks(data, Counter())]


def others(made: bytes, given: bytes) -> bool:
    """Whether all tracks have the same messages at the same ticks, but for notes and their ends."""
    return messages(made)[: len(messages(given))] == messages(given)


def messages(data: bytes) -> list[list[tuple[int, str]]]:
    rows_by_track = []
    for track in mido.MidiFile(file=io.BytesIO(data), clip=True).tracks:
        now, rows = 0, []
        for message in track:
            now += message.time
            if message.type not in ("note_on", "note_off", "end_of_track"):
                rows.append((now, str(message.copy(time=0))))
        rows_by_track.append(rows)
    return rows_by_track


if __name__ == "__main__":
    run(main)
