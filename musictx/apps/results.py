"""Helpers of the commands that compose: read music, choose a model, write files."""

from __future__ import annotations

import os
import secrets
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from musictx import files, formats, registry, shipped
from musictx.bundle import Bundle, load
from musictx.chords import is_chart
from musictx.config.composing import WRITERS, ModelFolder, WritingOptions
from musictx.config.limits import Limits
from musictx.errors import UserError
from musictx.grid import grid_of, without_beats
from musictx.notes import Score
from musictx.sampling.sample import Sample
from musictx.shipped import model_folder

#: The largest size of the first part of a file name, bytes. File systems allow 255 bytes for the
#: whole name, which also has a seed, a number and a suffix.
LONGEST_NAME_BYTES = 200
#: Suffixes of the files that ``render=true`` writes: audio, and an image of the notes.
RENDERED = (".wav", ".png")

#: A function that shows the user a line before the music is composed.
Notice = Callable[[str], None]


@dataclass(frozen=True)
class Result:
    """A sample that was written to files.

    number   counts from 0
    paths    its files: the music, then .wav and .png with ``render=true``
    remarks  lines for the user
    """

    number: int
    sample: Sample
    paths: list[Path]
    remarks: tuple[str, ...]


def print_line(line: str) -> None:
    """Print a line without buffering."""
    print(line, flush=True)


def report(result: Result) -> Result:
    """Print the rendered files of a result, and its remarks; return it."""
    music, *renderings = result.paths
    for path in renderings:
        print_line(str(path))
    for remark in result.remarks:
        print_line(f"{music}: {remark}")
    return result


def read_music(
    path: str, option: str, limits: Limits, repeats: bool = True, notice: Notice = print_line
) -> Score:
    """Read a MIDI or MusicXML file, or an included example by its name. ``notice`` is called with a
    line about damage, or notation that is not played. Raises ``UserError`` naming ``option`` if the
    file does not exist or cannot be read as music."""
    file = Path(path).expanduser()
    if not file.exists():
        file = shipped.examples().get(path, file)
    try:
        repairs: Counter[str] = Counter()
        score = formats.read(file, limits=limits, repairs=repairs, repeats=repeats)
    except UserError as error:
        raise UserError(f"{option}={error}") from error
    if line := formats.repairs_message(path, repairs):
        notice(line)
    return score


def on_beats(bundle: Bundle, quantise: str) -> bool:
    """Whether new music keeps to beats: by its tokens, or because ``quantise`` names a grid."""
    return bundle.tokenizer.beats or quantise != "none"


def suits_bars(request: WritingOptions, score: Score | None) -> bool:
    """Whether a model with bar tokens suits ``request`` for the music ``score`` (``None``: for new
    music): if options need bars or instruments other than a piano, or if ``score`` keeps to its
    beats, has drums, or has chords but no notes."""
    parts = {name.strip().lower() for name in (getattr(request, "add", None) or "").split(",")}
    if parts - {"", "piano", "chords"}:
        return True
    options = ["form", "chords", "style"] + ["bars", "plan"] * (score is None)
    if any(getattr(request, option, None) for option in options):
        return True
    if score is None:
        return False
    return bool(is_chart(score) or grid_of(score).on_beats or score.notes["drum"].any())


def check_notation(out: str, beats: bool, suggestion: str) -> None:
    """Raise ``UserError`` with a ``suggestion`` if ``out`` is a MusicXML file and the music has no
    ``beats``."""
    if Path(out).suffix.lower() == ".musicxml" and not beats:
        reason = "notation needs beats, and this music has none"
        raise UserError(f"out={out}: {reason}; {suggestion}, or out=NAME.mid")


def notify_about_beats(score: Score, notice: Notice) -> None:
    """Call ``notice`` if the beats of ``score`` were detected in its notes, not read from its tempo
    marks, or if none were found (:mod:`musictx.grid`)."""
    if without_beats(score):
        notice("beats: none could be detected, so new notes keep to the tempo marks of the file")
    elif score.pulse is not None and not grid_of(replace(score, pulse=None)).on_beats:
        bpm, quarters = np.median(score.pulse.tempos["bpm"]), score.pulse.meters["numerator"][0]
        notice(f"beats: detected in the notes, about {bpm:.0f} per minute, {quarters} per bar")


def choose_model(
    model: ModelFolder, tokenizer: str | None, notice: Notice = print_line, in_bars: bool = False
) -> Path:
    """Return the folder of the ``model``. If it has no path, choose the newest or an included model
    (:func:`.shipped.find_latest`) and call ``notice`` with its name.

    tokenizer  the tokenizer that the command needs; None: any
    in_bars    whether to prefer a model with bar tokens
    """
    folder = model_folder(model.path, tokenizer, in_bars=in_bars)
    if model.path is not None:
        return folder
    included = {path: name for name, path in shipped.models().items()}
    if folder not in included:
        notice(f"model: {folder}, the newest")
        return folder
    choices = [f"model={name}" for name in included.values() if name != included[folder]]
    alternatives = f" (or {', '.join(choices)})" if choices and tokenizer is None else ""
    why = " and counts in beats" if included[folder] == shipped.SONG_MODEL else ""
    terms = ", not for commercial use" if included[folder] in shipped.NON_COMMERCIAL else ""
    notice(f"model: {included[folder]}, which comes with musictx{why}{terms}{alternatives}")
    return folder


def is_file(out: str | Path) -> bool:
    """Whether ``out`` is a music file, by its suffix, rather than a folder."""
    return files.has_ending(out, WRITERS)


def fresh_seed() -> int:
    """Return a random seed that is short enough to type."""
    return secrets.randbelow(10**6)


def file_name(source: str | Path, done: str, seed: int) -> str:
    """Return the name of a new file without the number of the piece and the suffix: for example
    song-continued-7 if ``source`` is the music file "song.mid" and ``done`` is "continued", or
    piano-7 if ``source`` is the Path of the model folder that composes a new piece."""
    if isinstance(source, Path):
        name, end = shipped.name_of(source.resolve()), f"-{seed}"
    else:
        name, end = Path(source).stem, f"-{done}-{seed}"
    return os.fsencode(name)[:LONGEST_NAME_BYTES].decode(errors="ignore") + end


@dataclass(frozen=True)
class Work:
    """What a command needs to compose and write pieces: the loaded model, the seed, and the path of
    the files without numbers and suffixes (``stem``)."""

    bundle: Bundle
    seed: int
    stem: Path
    render: bool

    @classmethod
    def of(
        cls,
        config: WritingOptions,
        source: str | None,
        notice: Notice = print_line,
        in_bars: bool = False,
        *,
        done: str,
    ) -> Work:
        """Check the options of ``config`` and load the model.

        source    the music file that the command reads, if any
        notice    called with the model and the seed if the user has not chosen them
        in_bars   whether a model with bar tokens suits the music (:func:`suits_bars`)
        done      a participle for the names of the new files, such as "continued"
        """
        if config.render and not set(RENDERED) <= set(registry.WRITERS):
            raise UserError(
                f"render=true: {registry.WRITERS.missing_message('.wav')}, to write audio and "
                "images; leave it out"
            )
        folder = choose_model(config.model, config.tokenizer, notice, in_bars)
        seed = fresh_seed() if config.seed is None else config.seed
        stem = Path(config.out) / file_name(source or folder, done, seed)
        files.check_writable(stem.parent.parent if is_file(stem.parent) else stem.parent, "out")
        bundle = load(folder, config.device)
        if config.seed is None:
            notice(f"seed: {seed}")
        return cls(bundle, seed, stem, config.render)

    def write(self, number: int, sample: Sample, *remarks: str | None) -> Result:
        """Write a piece, with ``render=true`` also its audio and image; return the result. An
        existing file is not replaced (:func:`write_new`).

        number   counts from 0
        remarks  lines for the user; None: no line
        """
        score, path = sample.score, self.stem.with_name(f"{self.stem.name}-{number + 1}.mid")
        if is_file(file := path.parent):  # the option out is a file, such as x.musicxml
            path = file.with_stem(f"{file.stem}-{number + 1}") if number else file
        path = write_new(path, formats.to_bytes(score, path.suffix.lower()))
        paths = [path]
        if self.render and len(score):
            wav, png = (path.with_suffix(ending) for ending in RENDERED)
            formats.writer(wav)(score, wav)
            end = sample.seam + sample.seconds
            gap_end = end if bool((score.notes["start"] >= end).any()) else None
            formats.writer(png)(score, png, seam=sample.seam or None, end=gap_end)
            paths += [wav, png]
        return Result(number, sample, paths, tuple(remark for remark in remarks if remark))


def write_new(path: Path, content: bytes) -> Path:
    """Write ``content`` and return the path of its file: the first of NAME, NAME-2, NAME-3, ...
    that does not exist or has this content already, where NAME is that of ``path``."""
    number, file = 1, path
    while file.exists():
        if file.is_file() and file.read_bytes() == content:
            break
        number += 1
        file = path.with_name(f"{path.stem}-{number}{path.suffix}")
    files.write_bytes(file, content)
    return file


def describe_new_notes(sample: Sample) -> str:
    """Describe the new music, such as "87 new notes, 12.4 s of music"."""
    noun = "note" if sample.notes == 1 else "notes"
    return f"{sample.notes:,} new {noun}, {sample.seconds:.1f} s of music"
