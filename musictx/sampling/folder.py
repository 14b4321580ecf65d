"""Many samples as MIDI files in one folder, made in batches.

::

    000.mid, 001.mid, ...   the pieces, a continuation with its primer before it
    samples.json            of each: the piece its primer is from, the seconds at which its new
                            music begins, what ended it
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from musictx import midi
from musictx.bundle import Bundle
from musictx.config import GenerateConfig
from musictx.errors import UserError
from musictx.evaluate.sets import LIST
from musictx.files import check_writable, write_text
from musictx.notes import Score
from musictx.sampling.composer import Progress, continue_each
from musictx.sampling.primer import NOTHING, Primer
from musictx.sampling.steer import controls_of, steering
from musictx.sampling.strengths import ROWS_AT_ONCE


@dataclass(frozen=True)
class Opening:
    """Where a sample begins: ``primer`` of the piece ``source``; by default from nothing."""

    source: str = ""
    primer: Primer = field(default=NOTHING)


class SampleFolder:
    """A new folder, or an empty one, that samples are written into.

    Raises ``UserError`` if there is something in it.
    """

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
        """Write a sample and what there is to know of it; :meth:`write_list` makes it count."""
        self.folder.mkdir(parents=True, exist_ok=True)
        midi.write(score, self.folder / f"{number:03d}.mid")
        self.samples[f"{number:03d}"] = facts

    def write_list(self) -> None:
        """samples.json, with all samples that were added."""
        content = {"samples": dict(sorted(self.samples.items()))}
        write_text(self.folder / LIST, json.dumps(content, indent=1) + "\n")


def fill(
    out: SampleFolder,
    bundle: Bundle,
    starts: Sequence[Opening],
    request: GenerateConfig,
    progress: Callable[[float], None] | None = None,
) -> None:
    """Make one sample for each of ``starts``, by the options of ``request``, which has a seed and a
    length in seconds.

    Sample i of seed s is that of ``musictx generate seed=s``. Primers of like length go together.
    progress  called with the seconds of all samples that are written so far
    """
    assert request.seed is not None
    assert request.seconds is not None
    values = controls_of(request)
    order = sorted(range(len(starts)), key=lambda i: (len(starts[i].primer.ids), i))
    batches = [order[i : i + ROWS_AT_ONCE] for i in range(0, len(order), ROWS_AT_ONCE)]
    written = 0.0
    for numbers in batches:
        likes = [starts[i].primer.score for i in numbers]
        samples = continue_each(
            bundle,
            [starts[i].primer for i in numbers],
            request,
            seeds=[(request.seed, i) for i in numbers],
            steering=[steering(bundle, values, request.guidance, like=one) for one in likes],
            progress=_in_all(progress, written, len(numbers)),
        )
        for i, sample in zip(numbers, samples):
            source = starts[i].source
            out.add(i, sample.score, source=source, seam=sample.seam, ended=sample.ended)
        out.write_list()
        written += request.seconds * len(numbers)


def _in_all(progress: Callable[[float], None] | None, before: float, rows: int) -> Progress | None:
    """Seconds of the slowest row -> seconds of all samples."""
    if progress is None:
        return None
    return lambda count, seconds: progress(before + rows * seconds)
