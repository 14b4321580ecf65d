"""Compose samples for ``musictx compare``: MIDI files in a folder.

::

    000.mid, 001.mid, ...   the samples; a continuation includes its primer
    samples.json            for each sample: the real piece it is based on ("source"), the seconds
                            at which its new music begins ("seam"), why it ended ("ended")
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
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
from musictx.evaluate.sets import SAMPLES_FILE, Excerpt
from musictx.files import check_writable, write_text
from musictx.notes import Score, skyline
from musictx.sampling.composer import continuations
from musictx.sampling.primer import NO_PRIMER, encode_primer
from musictx.sampling.sample import Sample

#: Tasks in which the middle of a piece is composed.
GAP_TASKS = ("infill", "vary")
#: For each sample its number, its music, and its entry in samples.json.
NumberedSamples = Iterator[tuple[int, Score, dict[str, Any]]]


def check_new_folder(folder: Path) -> None:
    """Raise ``UserError`` unless ``folder`` is new or empty, and is writable."""
    if folder.is_dir() and any(folder.iterdir()):
        raise UserError(
            f"samples={folder}: this folder is not empty; leave out pieces= to measure the samples "
            "in it, or give a new or empty folder for new ones"
        )
    check_writable(folder, "samples")


def write_samples(
    folder: Path, samples: NumberedSamples, progress: Callable[[int], None] = lambda count: None
) -> None:
    """Write each sample into ``folder`` as soon as it is composed. ``progress`` is called with the
    number of samples written so far."""
    entries: dict[str, dict[str, Any]] = {}
    for number, score, facts in samples:
        folder.mkdir(parents=True, exist_ok=True)
        formats.write(score, folder / f"{number:03d}.mid")
        entries[f"{number:03d}"] = facts
        content = {"samples": dict(sorted(entries.items()))}
        write_text(folder / SAMPLES_FILE, json.dumps(content, indent=1) + "\n")
        progress(len(entries))


def compose_continuations(
    bundle: Bundle,
    pieces: Sequence[Excerpt],
    config: CompareConfig,
    ending: str,
    progress: Callable[[float], None],
) -> NumberedSamples:
    """Compose ``config.pieces`` continuations of the openings of ``pieces``, several of each if
    there are fewer pieces. Without ``pieces``, compose new pieces: sample i equals sample i of
    ``musictx generate`` with the same seed. The openings are encoded as they are, whereas ``musictx
    generate`` first gives a primer the beats and programs that the model was trained with.

    ending    the option ``end`` of generate
    progress  called with the seconds of the finished samples plus the shortest unfinished sample
    """
    request = GenerateConfig(
        seconds=config.seconds, sampling=config.sampling, seed=config.seed, end=ending
    )
    samples: Iterator[tuple[int, Sample]]
    finished = 0

    def update(_: int, seconds: float) -> None:
        progress(finished * config.seconds + seconds)

    if pieces:
        tokenizer, seconds = bundle.tokenizer, config.primer_seconds
        openings = [
            encode_primer(tokenizer, piece.piece, seconds=seconds, name=piece.name)
            for piece in pieces
        ]
        primers = [openings[i % len(openings)] for i in range(config.pieces)]
        # Batches have primers of similar lengths.
        order = sorted(range(config.pieces), key=lambda i: (len(primers[i].ids), i))
        seeds, primers = [(config.seed, i) for i in order], [primers[i] for i in order]
        samples = continuations(bundle, primers, request, seeds=seeds, progress=update)
    else:
        order = list(range(config.pieces))
        request = replace(request, samples=config.pieces)
        samples = compose_pieces(
            bundle, [NO_PRIMER], [None], request, seeds=[config.seed], progress=update
        )
    for row, sample in samples:
        if sample.ended != "interrupted":
            source = pieces[order[row] % len(pieces)].name if pieces else ""
            facts = {"source": source, "seam": sample.seam, "ended": sample.ended}
            yield order[row], sample.score, facts
            finished += 1


def compose_excerpts(
    bundle: Bundle, pieces: Sequence[Excerpt], config: CompareConfig
) -> NumberedSamples:
    """Compose a sample from each real piece, for the task in ``config``: infill composes the
    excerpt anew between the given music, vary composes a variation of it, accompany keeps only the
    melody of the piece and composes an accompaniment."""
    request: InfillConfig | AccompanyConfig = AccompanyConfig(sampling=config.sampling)
    for number, excerpt in enumerate(pieces):
        score = excerpt.piece
        if config.task == "accompany":
            score = replace(score.with_notes(score.notes[skyline(score)]), markers=())
        else:
            begin, end = f"{excerpt.start:.3f}s", f"{excerpt.end:.3f}s"
            request = InfillConfig(begin=begin, end=end, sampling=config.sampling)
        task = replace(task_of(request, score), is_variation=config.task == "vary")
        (sample,) = compose_versions(bundle, task, request, seed=config.seed + number)
        facts = {"source": excerpt.name, "seam": excerpt.start, "ended": sample.ended}
        yield number, sample.score, facts
