"""Compose samples for ``musictx compare``: MIDI files in a folder.

::

    000.mid, 001.mid, ...   the pieces; a continuation includes its primer
    samples.json            for each: the piece from which it was made, the seconds at which its new
                            music begins, why it ended
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from musictx import formats
from musictx.apps.generate import compose_pieces
from musictx.apps.infill import compose_versions
from musictx.apps.tasks import task_of
from musictx.bundle import Bundle
from musictx.config import AccompanyConfig, GenerateConfig, InfillConfig
from musictx.errors import UserError
from musictx.evaluate.config import CompareConfig
from musictx.evaluate.sets import LIST, Excerpt
from musictx.files import check_writable, write_text
from musictx.notes import Score, skyline
from musictx.sampling.composer import continuations
from musictx.sampling.primer import NOTHING, encode_primer

#: Tasks in which the middle of a piece is composed.
GAPS = ("infill", "vary")


class SampleFolder:
    """A new or empty folder for samples. Raises ``UserError`` for a folder that is not empty."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self.samples: dict[str, dict[str, Any]] = {}
        if self.folder.is_dir() and any(self.folder.iterdir()):
            raise UserError(
                f"samples={folder}: there is something in it; leave pieces= out to measure it, or "
                "give a new or empty folder to write into"
            )
        check_writable(self.folder, "samples")

    def add(self, number: int, score: Score, **facts: Any) -> None:
        """Write a sample, and add ``facts`` about it to the list."""
        self.folder.mkdir(parents=True, exist_ok=True)
        formats.write(score, self.folder / f"{number:03d}.mid")
        self.samples[f"{number:03d}"] = facts
        content = {"samples": dict(sorted(self.samples.items()))}
        write_text(self.folder / LIST, json.dumps(content, indent=1) + "\n")


def compose_continuations(
    out: SampleFolder,
    bundle: Bundle,
    pieces: Sequence[Excerpt],
    config: CompareConfig,
    ending: str,
    progress: Callable[[float], None],
) -> None:
    """Compose ``config.pieces`` continuations of the openings of ``pieces``, several of each if
    there are fewer; without ``pieces`` compose new pieces, sample i as sample i of ``musictx
    generate`` with the same seed. The openings are encoded as they are, while ``musictx generate``
    gives a file the beats and programs that the model was trained with.

    ending    the option ``end`` of generate
    progress  called with the seconds of the finished samples plus the shortest unfinished sample
    """
    request = GenerateConfig(
        seconds=config.seconds, sampling=config.sampling, seed=config.seed, end=ending
    )
    if not pieces:
        for i, sample in compose_pieces(
            bundle,
            [NOTHING],
            [None],
            replace(request, samples=config.pieces),
            seeds=[config.seed],
            progress=lambda _, seconds: progress(len(out.samples) * config.seconds + seconds),
        ):
            if sample.ended != "interrupted":
                out.add(i, sample.score, source="", seam=sample.seam, ended=sample.ended)
        return
    tokenizer, seconds = bundle.tokenizer, config.primer_seconds
    openings = [
        (piece.name, encode_primer(tokenizer, piece.piece, seconds=seconds, name=piece.name))
        for piece in pieces
    ]
    names, primers = zip(*(openings[i % len(openings)] for i in range(config.pieces)))
    # Batches have primers of similar lengths.
    order = sorted(range(config.pieces), key=lambda i: (len(primers[i].ids), i))
    samples = continuations(
        bundle,
        [primers[i] for i in order],
        request,
        seeds=[(config.seed, i) for i in order],
        progress=lambda _, seconds: progress(len(out.samples) * config.seconds + seconds),
    )
    for row, sample in samples:
        if sample.ended != "interrupted":
            i = order[row]
            out.add(i, sample.score, source=names[i], seam=sample.seam, ended=sample.ended)


def compose_excerpts(
    out: SampleFolder,
    bundle: Bundle,
    pieces: Sequence[Excerpt],
    config: CompareConfig,
    progress: Callable[[int, int], None],
) -> None:
    """For each real piece compose a new excerpt, or a variation of it, between the given music; or
    keep only its melody and compose an accompaniment."""
    request: InfillConfig | AccompanyConfig = AccompanyConfig(sampling=config.sampling)
    for number, excerpt in enumerate(pieces):
        score = excerpt.piece
        if config.task == "accompany":
            score = replace(score.with_notes(score.notes[skyline(score)]), markers=())
        else:
            begin, end = f"{excerpt.start:.3f}s", f"{excerpt.stop:.3f}s"
            request = InfillConfig(begin=begin, end=end, sampling=config.sampling)
        task = replace(task_of(request, score), is_variation=config.task == "vary")
        (sample,) = compose_versions(bundle, task, request, seed=config.seed + number)
        facts = {"source": excerpt.name, "seam": excerpt.start, "ended": sample.ended}
        out.add(number, sample.score, **facts)
        progress(number + 1, len(pieces))
