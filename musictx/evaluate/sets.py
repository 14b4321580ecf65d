"""The sets of pieces to compare: compose samples, read music files, draw pieces, derive the control
set."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from musictx import formats
from musictx.apps.generate import compose_pieces
from musictx.apps.infill import compose_versions
from musictx.apps.tasks import task_of
from musictx.bundle import Bundle
from musictx.config import AccompanyConfig, GenerateConfig, InfillConfig
from musictx.data.shards import SPLITS, Piece
from musictx.data.statistics import excerpt
from musictx.errors import UserError
from musictx.evaluate.config import CompareConfig
from musictx.files import check_writable, write_text
from musictx.notes import Score, skyline, until
from musictx.sampling.composer import continuations
from musictx.sampling.primer import NO_PRIMER, encode_primer
from musictx.sampling.sample import Sample

#: Names of the sets.
SAMPLES, REAL, CONTROL, TRAINING = "samples", "real", "control", "training"
#: The file in a folder of samples with facts about each (:func:`write_samples`).
SAMPLES_FILE = "samples.json"
#: Tasks in which the middle of a piece is composed.
GAP_TASKS = ("infill", "vary")
#: For each sample its number, its music, and its entry in samples.json.
NumberedSamples = Iterator[tuple[int, Score, dict[str, Any]]]


@dataclass(frozen=True)
class Excerpt:
    """The measured part of a piece: ``seconds`` from ``start`` on. The rest of the piece is given
    music, which is not measured.

    name   of the piece
    piece  the whole piece; each note lasts as long as the sustain pedal holds it
    """

    name: str
    piece: Score
    start: float
    seconds: float

    @property
    def end(self) -> float:
        """The end of the excerpt in the piece, in seconds."""
        return self.start + self.seconds

    @cached_property
    def score(self) -> Score:
        """The pitched notes that begin in the excerpt, with times from its beginning, cut off at
        its end; without pedals, tempo and meter."""
        return excerpt(self.piece, self.start, self.seconds)

    @cached_property
    def score_in_piece(self) -> Score:
        """All notes that begin in the excerpt, with their times in the piece, cut off at the end of
        the excerpt, and the tempo and meter marks of the piece."""
        return until(self.piece.with_notes(self.piece.notes[self.note_mask]), self.end)

    @property
    def given_music(self) -> tuple[Score, Score]:
        """(notes that begin before the excerpt, notes that begin after it)."""
        notes = self.piece.notes
        before, after = notes["start"] < self.start, notes["start"] >= self.end
        return self.piece.with_notes(notes[before]), self.piece.with_notes(notes[after])

    @property
    def note_mask(self) -> np.ndarray:
        """(notes of the piece,) bool: which of them begin in the excerpt."""
        start = self.piece.notes["start"]
        mask: np.ndarray = (start >= self.start) & (start < self.end)
        return mask


def control_set(real: Sequence[Excerpt]) -> list[Excerpt]:
    """Return the control set, which shows the values of chance: each excerpt with all pitched notes
    but its melody moved by a tritone, and with the given music of the next excerpt. Empty for fewer
    than two excerpts."""
    control: list[Excerpt] = []
    if len(real) < 2:
        return control
    for original, neighbour in zip(real, [*real[1:], real[0]]):
        notes = original.piece.notes[original.note_mask].copy()
        lower = ~skyline(original.piece)[original.note_mask] & ~notes["drum"]
        pitch = notes["pitch"][lower].astype(int)
        notes["pitch"][lower] = np.where(pitch < 122, pitch + 6, pitch - 6)
        notes_before, notes_after = (score.notes for score in neighbour.given_music)
        notes = np.concatenate([notes_before, notes, notes_after])
        control.append(replace(original, piece=original.piece.with_notes(notes)))
    return control


def find_files(path: str | Path, option: str) -> list[tuple[str, Path]]:
    """Return (name, file) of all music files in the folder ``path`` and its subfolders, sorted, or
    of ``path`` itself if it is a file. The name is the path within the folder, without the ending.
    Raises ``UserError`` about ``option`` if there are none."""
    folder = Path(path)
    files = formats.find_music(folder) if folder.is_dir() else []
    if folder.is_file():
        folder, files = folder.parent, [folder]
    if not files:
        raise UserError(f"{option}={path}: expected a folder with MIDI files in it, or one file")
    return [(file.relative_to(folder).with_suffix("").as_posix(), file) for file in files]


def read_files(files: Sequence[tuple[str, Path]], option: str) -> Iterator[tuple[str, Score]]:
    """Yield the name and the music of each of ``files``. A file that cannot be read is left out,
    and its error is printed. Raises ``UserError`` about ``option`` if no file can be read."""
    unreadable = 0
    for name, file in files:
        try:
            score = formats.read(file)
        except UserError as error:
            unreadable += 1
            print(f"left out: {error}", flush=True)
        else:
            yield name, score
    if unreadable == len(files):
        raise UserError(f"{option}: expected music; none of its {unreadable} files can be read")


def read_seams(folder: str | Path) -> dict[str, float]:
    """Read :data:`SAMPLES_FILE` in ``folder``. Return {name of a sample: the seconds at which its
    new music begins}; empty without that file. Raises ``UserError`` for a damaged file."""
    path = Path(folder) / SAMPLES_FILE
    if not path.is_file():
        return {}
    try:
        samples = json.loads(path.read_text(encoding="utf-8"))["samples"]
        return {name: float(sample["seam"]) for name, sample in samples.items()}
    except (ValueError, LookupError, TypeError, AttributeError):
        raise UserError(f"{path}: damaged; delete it to measure the files as they are") from None


def draw_pieces(
    pieces: Sequence[Piece], split: str, count: int, length: float, seed: int
) -> list[Piece]:
    """Draw at most ``count`` of the ``pieces`` of ``split`` without replacement, among those that
    include their beginning and last at least ``length`` seconds. Raises ``UserError`` if there are
    none."""
    long = [piece for piece in pieces if piece.begins and piece.seconds >= length]
    if not long:
        raise UserError(
            f"seconds: no {split} piece of the corpus lasts {length:g} s from its beginning; lower "
            "seconds or primer_seconds"
        )
    order = np.random.default_rng([seed, SPLITS.index(split)]).permutation(len(long))[:count]
    return [long[i] for i in order.tolist()]


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
    """Write each sample into ``folder``, as 000.mid and so on, as soon as it is composed. A
    continuation includes its primer. :data:`SAMPLES_FILE` has for each sample the real piece it is
    based on ("source"), the seconds at which its new music begins ("seam"), and why it ended
    ("ended"). ``progress`` is called with the number of samples written so far."""
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
    for number, real in enumerate(pieces):
        score = real.piece
        if config.task == "accompany":
            score = replace(score.with_notes(score.notes[skyline(score)]), markers=())
        else:
            begin, end = f"{real.start:.3f}s", f"{real.end:.3f}s"
            request = InfillConfig(begin=begin, end=end, sampling=config.sampling)
        task = replace(task_of(request, score), is_variation=config.task == "vary")
        (sample,) = compose_versions(bundle, task, request, seed=config.seed + number)
        facts = {"source": real.name, "seam": real.start, "ended": sample.ended}
        yield number, sample.score, facts
