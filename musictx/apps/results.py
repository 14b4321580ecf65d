"""What the commands share that write pieces: music read, a model chosen, files written."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from musictx import files, formats, midi, musicxml, shipped
from musictx.bundle import Bundle, load
from musictx.config import HarmoniseConfig
from musictx.config.composing import Composing, Steered, Written
from musictx.config.limits import Limits
from musictx.errors import UserError
from musictx.notes import Score
from musictx.progress import progress
from musictx.sampling.music import Progress, Sample
from musictx.shipped import chosen
from musictx.tokens.controls import asked

#: Bytes of a name, so that seed, number and ending have room in the 255 of a file system.
LONGEST = 200
#: Endings of the files of music that can be written, and what writes them.
WRITERS = {".mid": midi.to_bytes, ".midi": midi.to_bytes, ".musicxml": musicxml.to_bytes}

#: Endings of files of music, sound and pictures that are not written under the name given.
OTHER_FILES = {".xml", ".mxl", ".wav", ".mp3", ".ogg", ".flac", ".png", ".svg", ".mp4", ".pdf"}


@dataclass(frozen=True)
class Result:
    """A sample and the files it was written to: the .mid first, then .wav and .png if asked."""

    sample: Sample
    paths: list[Path]


def read_music(path: str, option: str, purpose: str, limits: Limits | None = None) -> Score:
    """A MIDI or MusicXML file, or an example that comes with musictx, by its name; ``UserError``
    naming ``option`` if it is missing or something else."""
    file = Path(path).expanduser()
    if not file.exists():
        file = shipped.examples().get(path, file)
    if not file.exists():
        raise UserError(f"{option}={path}: no such file; give a MIDI file {purpose}")
    if file.is_dir():
        raise UserError(f"{option}={path}: this is a folder; give one MIDI file {purpose}")
    try:
        return formats.read(file, limits=limits)
    except UserError as error:
        raise UserError(f"{option}={error}") from error


def check_notation(out: str, beats: bool, instead: str) -> None:
    """Refuse ``out=NAME.musicxml`` before composing what will not be on ``beats``; ``instead`` says
    what would be."""
    if Path(out).suffix.lower() == ".musicxml" and not beats:
        raise UserError(
            f"out={out}: notation needs beats, and this music has none; {instead}, or out=NAME.mid"
        )


def wanted_of(config: Steered) -> dict[str, float]:
    """What the options ask the music to be like, a number for each control that is asked for."""
    given = {
        "density": config.sampling.density,
        "loudness": config.loudness,
        "register": config.register,
        "polyphony": config.polyphony,
    }
    return asked(given, config.feel)


def choose(config: Composing) -> Path:
    """The model folder that ``config`` names; if none, the one that suits the command, and says so
    (see :func:`~musictx.bundle.find_latest`)."""
    melody = isinstance(config, HarmoniseConfig)
    where = chosen(config.model.path, melody=melody)
    if config.model.path is not None:
        return where
    ours = {folder: name for name, folder in shipped.models().items()}
    if where not in ours:
        print(f"model: {where}, the newest", flush=True)
        return where
    others = [f"model={name}" for name in ours.values() if name != ours[where]]
    more = f" (or {', '.join(others)})" if others and not melody else ""
    print(f"model: {ours[where]}, which comes with musictx{more}", flush=True)
    return where


def is_file(out: str | Path) -> bool:
    """Whether ``out=`` names a file of music by its ending, not a folder."""
    return Path(out).suffix.lower() in WRITERS and not Path(out).is_dir()


def _check_out(out: str) -> None:
    """Refuse the name of a file that these commands do not write: it would become a folder."""
    if Path(out).suffix.lower() in OTHER_FILES and not Path(out).is_dir():
        raise UserError(
            f"out={out}: expected a folder, or a file that ends in .mid or .musicxml; "
            "render=true writes sound and a picture beside it"
        )


def fresh_seed() -> int:
    """A seed that nobody has used, short enough to be typed."""
    return secrets.randbelow(10**6)


def file_name(name: str | None, source: str | Path, seed: int) -> str:
    """NAME-SEED, to which the number of the piece is added: the name as asked, or that of the music
    or model ``source``."""
    if name is not None:
        name = name.removesuffix(".mid")
        if not name or Path(name).name != name:
            raise UserError(
                f"name={name}: expected a file name without folders; out= names the folder"
            )
    elif isinstance(source, Path):
        name = shipped.name_of(source.resolve())
    else:
        name = Path(source).stem
    if len(os.fsencode(name)) > LONGEST:
        raise UserError(f"name={name}: this is too long for a file name; give another, name=NAME")
    return f"{name}-{seed}"


@dataclass(frozen=True)
class Work:
    """What a command that writes pieces has found before the model runs: the loaded model, the
    seed, and what the files are called."""

    bundle: Bundle
    seed: int
    stem: Path
    render: bool

    @classmethod
    def of(cls, config: Written, source: str | None) -> Work:
        """As ``config`` says; ``source`` is the file it works on, if any. A new seed is printed."""
        _check_out(config.out)
        where = choose(config)
        seed = fresh_seed() if config.seed is None else config.seed
        stem = Path(config.out) / file_name(config.name, source or where, seed)
        files.check_writable(stem.parent.parent if is_file(stem.parent) else stem.parent, "out")
        bundle = load(where, config.device, weights=config.model.weights)
        if config.seed is None:
            print(f"seed: {seed}", flush=True)
        return cls(bundle, seed, stem, config.render)

    def write(self, number: int, sample: Sample, *remarks: str | None) -> Result:
        """Write the piece of that number, from 0, and print its path and what is said of it."""
        stem = self.stem.with_name(f"{self.stem.name}-{number + 1}")
        paths = _write(sample.score, stem, self.render, seam=sample.seam)
        for remark in remarks:
            if remark:
                print(f"{paths[0]}: {remark}", flush=True)
        return Result(sample, paths)


def new_notes(sample: Sample) -> str:
    """How many, in a line."""
    return f"{sample.notes:,} new notes in {sample.seconds:.1f} s"


def _write(score: Score, stem: Path, render: bool, *, seam: float = 0.0) -> list[Path]:
    """STEM.mid, with STEM.wav and STEM.png if ``render``; or the file that the folder of ``stem``
    is named like (``out=x.musicxml``). Other music of that name stays: then the first of STEM-2,
    STEM-3, ... that is free is taken."""
    suffix = ".mid"
    if is_file(stem.parent):
        stem, suffix = stem.parent.with_suffix(""), stem.parent.suffix
    content, tried = WRITERS[suffix.lower()](score), 1
    path = stem.with_name(f"{stem.name}{suffix}")
    while path.exists() and path.read_bytes() != content:
        tried += 1
        path = stem.with_name(f"{stem.name}-{tried}{suffix}")
    files.write_bytes(path, content)
    if not render or len(score) == 0:
        return [path]
    from musictx.apps.render import render_score  # sound and pictures only when asked for

    place = path.with_name(path.name.removesuffix(suffix))
    others = render_score(score, place, wav=True, png=True, seam=seam or None)
    for other in others:
        print(other, flush=True)
    return [path, *others]


@contextlib.contextmanager
def progress_of(what: str, total: float | None, unit: str) -> Iterator[Progress]:
    """Progress of the slowest piece, told in seconds of music; or in steps, whatever is written in
    them, if ``unit`` is tokens."""
    steps = 0
    with progress(what, unit, total) as update:

        def told(count: int, written: float) -> None:
            nonlocal steps
            steps += 1
            reached = float(steps) if unit == "tokens" else written
            update(reached if total is None else min(reached, total))

        yield told
