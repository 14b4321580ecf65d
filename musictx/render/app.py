"""``musictx render``: music files -> WAV and piano-roll PNG."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from musictx import shipped
from musictx.chords import is_chart
from musictx.errors import UserError, each_file, memory_errors, shown
from musictx.files import FILE_ENDING, check_ending, check_writable, has_ending
from musictx.formats import music_files, read, repairs_message
from musictx.notes import Score
from musictx.options import make_config
from musictx.render import audio, pianoroll
from musictx.render.config import RenderConfig


def run(config: RenderConfig) -> list[Path]:
    """Render the files of ``config``; print and return the paths of the results."""
    paths = []
    for path in results(config):
        print(path, flush=True)
        paths.append(path)
    return paths


def results(config: RenderConfig) -> Iterator[Path]:
    """Render ``config.files``, and each music file of the folders among them; yield the path of
    each result as soon as it is written. Print what was repaired or left out in reading.

    A result has the name of its music file and lies in the same folder, or in the folder
    ``config.out``, which is created if necessary. For a single music file, ``out`` may also name
    the result, such as x.wav. Chord symbols without notes are played as chords. A file that cannot
    be rendered does not stop the others. Raises :class:`UserError` for a file that does not exist,
    is not music or has no notes, for an invalid sound font, and for a folder that is not writable.
    """
    if not config.files:
        raise UserError("files: missing, give a MIDI file such as `musictx render song.mid`")
    sources = [Path(file) for name in config.files for file in music_files(name, "files")]
    for source in sources:
        if not source.exists():
            raise UserError(f"files={source}: no such file")
    source_of, endings = _destinations(config, sources)
    for folder in {stem.parent for stem in source_of}:
        check_writable(folder, "out")

    def render_file(stem: Path) -> list[Path]:
        path, repairs = source_of[stem], Counter[str]()
        score = read(path, limits=config.limits, repairs=repairs)
        if line := repairs_message(path, repairs):
            print(line)
        if is_chart(score):
            from musictx.songs import chord_sheet  # the component by which charts are read

            score = chord_sheet.with_chord_notes(score)
        if not len(score):
            raise UserError(f"{path}: nothing to render, the file has no notes")
        return _write(score, stem, endings, stem.name, config)

    yield from each_file([*source_of], render_file, "rendered")


def _destinations(config: RenderConfig, sources: list[Path]) -> tuple[dict[Path, Path], list[str]]:
    """Return {path of a result without its ending: its music file}, and the endings."""
    endings, folder = config.endings, None
    if config.out is not None:
        folder = Path(config.out)
        check_ending(config.out, endings)
        if has_ending(folder, endings):
            if len(sources) > 1:
                raise UserError(f"out={config.out}: expected a folder for {len(sources)} files")
            return {folder.with_suffix(""): sources[0]}, [folder.suffix.lower()]
    source_of: dict[Path, Path] = {}
    for source in sources:
        stem = (folder or source.parent) / source.stem
        if source_of.setdefault(stem, source) != source:
            raise UserError(f"files: {source_of[stem]} and {source} would both become {stem}")
    return source_of, endings


@memory_errors()
def render(
    music: object,
    path: str | Path,
    *,
    wav: bool = True,
    png: bool = True,
    title: str | None = None,
    soundfont: str | None = None,
) -> list[Path]:
    """Write the sound and the piano roll of ``music`` as ``path``.wav and ``path``.png.

    music  a Score, a Sample, the name of an example, or anything that :func:`musictx.read` reads
    path   with the ending .wav or .png, or without one
    title  the heading of the picture; default: the name of the file

    Returns the paths of the written files. Raises :class:`UserError` for an invalid argument, and
    for a file that cannot be read or written. ::

        musictx.render("mozart_k545", "sonata", wav=False)
    """
    if not isinstance(path, (str, os.PathLike)) or "\0" in str(path) or not Path(path).name:
        raise UserError(f"path={shown(repr(path))}: expected the name of a file, such as song")
    if title is not None and not isinstance(title, (str, os.PathLike)):
        raise UserError(f"title={shown(title)}: expected text")
    options = make_config("render", {"wav": wav, "png": png, "soundfont": soundfont})
    stem = Path(os.path.expanduser(path))
    if stem.suffix.lower() in (".wav", ".png"):
        stem = stem.with_suffix("")
    elif FILE_ENDING.fullmatch(stem.suffix):
        raise UserError(f"path={path}: expected the ending .wav, .png or none")
    if isinstance(music, str) and not os.path.exists(os.path.expanduser(music)):
        music = shipped.examples().get(music, music)
    score = read(getattr(music, "score", music))
    return _write(score, stem, options.endings, stem.name if title is None else title, options)


def _write(
    score: Score, stem: Path, endings: list[str], title: str, config: RenderConfig
) -> list[Path]:
    """Write ``stem`` + ending for each of the ``endings``; return the paths."""
    paths = [stem.with_name(stem.name + ending) for ending in endings]
    for path in paths:
        if path.suffix == ".wav":
            audio.write(score, path, soundfont=config.soundfont, limits=config.limits)
        else:
            pianoroll.draw(score, path, title=title)
    return paths
