"""``musictx render``: music files -> WAV and piano-roll PNG."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from musictx import shipped
from musictx.chords import is_chart
from musictx.errors import UserError, shown
from musictx.files import check_ending, check_writable, has_ending
from musictx.formats import SUFFIXES, find, not_played, read
from musictx.notes import Score
from musictx.options import request
from musictx.render import audio, pianoroll
from musictx.render.config import RenderConfig
from musictx.render.soundfont import SoundFont

#: Samples of sound a second.
RATE = 44_100


def run(config: RenderConfig) -> list[Path]:
    """Render as ``config`` says; prints and returns what was written."""
    written = []
    for path in results(config):
        print(path, flush=True)
        written.append(path)
    return written


def results(config: RenderConfig) -> Iterator[Path]:
    """What is written of ``config.files``, and of all music in those that are folders. What of
    MusicXML is not played as it is written is printed.

    Results are named after their files and are written to the same folders, or to ``config.out``,
    which is made if need be; the sound or picture alone of one file may be a file, ``out=x.wav``. A
    file that cannot be rendered does not stop the others. Raises
    :class:`UserError` for a file that is missing, no music or without notes, for a sound font that
    is none, and for a folder that cannot be written.
    """
    if not config.files:
        raise UserError("files: missing, give a MIDI file such as `musictx render song.mid`")
    sources = [file for name in config.files for file in _music(Path(name).expanduser())]
    stems, endings = _places(config, sources)
    for folder in {stem.parent for stem in stems}:
        check_writable(folder, "out")
    if config.soundfont is not None:
        SoundFont(Path(config.soundfont).expanduser(), config.limits)
    failed = []
    for stem, source in stems.items():
        try:
            repairs: Counter[str] = Counter()
            score = read(source, limits=config.limits, repairs=repairs)
            if line := not_played(source, repairs):
                print(line)
            if is_chart(score):
                from musictx.songs.chord_sheet import voiced  # which reads charts

                score = voiced(score)
            if not len(score):
                raise UserError(f"{source}: nothing to render, the file has no notes")
            paths = _write(score, stem, endings, stem.name, config)
        except UserError as error:
            if len(sources) == 1:
                raise
            failed.append(str(error))
            continue
        yield from paths
    if failed:
        raise UserError(f"{len(failed)} of {len(sources)} files not rendered: {'; '.join(failed)}")


def _music(source: Path) -> list[Path]:
    """``source``, or the music in it if it is a folder, at any depth."""
    if not source.is_dir():
        if not source.exists():
            raise UserError(f"files={source}: no such file")
        return [source]
    files = find(source)
    if not files:
        raise UserError(f"files={source}: no music in this folder, expected {', '.join(SUFFIXES)}")
    return files


def _places(config: RenderConfig, sources: list[Path]) -> tuple[dict[Path, Path], list[str]]:
    """Path of a result without its ending -> its source; and the endings of the results."""
    endings = [f".{name}" for name in ("wav", "png") if getattr(config, name)]
    folder = None
    if config.out is not None:
        folder = Path(config.out).expanduser()
        check_ending(config.out, endings)
        if has_ending(folder, endings):
            if len(sources) > 1:
                raise UserError(f"out={config.out}: expected a folder for {len(sources)} files")
            return {folder.with_suffix(""): sources[0]}, [folder.suffix.lower()]
    stems: dict[Path, Path] = {}
    for source in sources:
        stem = (folder or source.parent) / source.stem
        if stems.setdefault(stem, source) != source:
            raise UserError(f"files: {stems[stem]} and {source} would both become {stem}")
    return stems, endings


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

    ``music`` is a Score, a Sample, an example by name or whatever :func:`musictx.read` reads; an
    ending .wav or .png of ``path`` is removed; ``title`` stands above the picture, by default the
    name of the file. Returns the files written. Raises :class:`UserError` for what is no music or
    cannot be written. ::

        musictx.render("mozart_k545", "sonata", wav=False)
    """
    if not isinstance(path, (str, os.PathLike)) or "\0" in str(path) or not Path(path).name:
        raise UserError(f"path={shown(repr(path))}: expected the name of a file, such as song")
    if title is not None and not isinstance(title, (str, os.PathLike)):
        raise UserError(f"title={shown(title)}: expected text")
    options = request("render", {"wav": wav, "png": png, "soundfont": soundfont})
    stem = Path(os.path.expanduser(path))
    if stem.suffix.lower() in (".wav", ".png"):
        stem = stem.with_suffix("")
    if isinstance(music, str) and not os.path.exists(os.path.expanduser(music)):
        music = shipped.examples().get(music, music)
    score = read(getattr(music, "score", music))
    endings = [".wav"] * options.wav + [".png"] * options.png
    return _write(score, stem, endings, stem.name if title is None else title, options)


def _write(
    score: Score, stem: Path, endings: list[str], title: str, config: RenderConfig
) -> list[Path]:
    """Write ``stem`` with each of the ``endings``; returns the paths."""
    paths = [stem.with_name(stem.name + ending) for ending in endings]
    for path in paths:
        if path.suffix == ".wav":
            font = None if config.soundfont is None else Path(config.soundfont).expanduser()
            audio.write(score, path, sample_rate=RATE, soundfont=font, limits=config.limits)
        else:
            pianoroll.draw(score, path, title=title)
    return paths
