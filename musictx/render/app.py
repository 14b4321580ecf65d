"""``musictx render``: music files -> WAV and piano-roll PNG."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

from musictx import shipped
from musictx.chords import is_chart
from musictx.config import Limits
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


def results(config: RenderConfig, notice: Callable[[str], None] = print) -> Iterator[Path]:
    """What is written of ``config.files``, and of all music in those that are folders.
    ``notice`` gets a line on what of MusicXML is not played as it is written.

    Results are named after their files and are written to the same folders, or to ``config.out``,
    which is made if need be; the sound or picture alone of one file may be a file, ``out=x.wav``. A
    file that cannot be rendered does not stop the others. Raises
    :class:`UserError` for a file that is missing, no music or without notes, for a sound font that
    is none, and for a folder that cannot be written.
    """
    if not config.files:
        raise UserError("files: missing, give a MIDI file such as `musictx render song.mid`")
    sources = [file for name in config.files for file in _music(Path(name).expanduser())]
    folder = None if config.out is None else Path(config.out).expanduser()
    wanted = [f".{name}" for name in ("wav", "png") if getattr(config, name)]
    if config.out is not None:
        check_ending(config.out, wanted)
    file = folder if folder is not None and has_ending(folder, wanted) else None
    if file is not None:
        if len(sources) > 1:
            raise UserError(f"out={config.out}: expected a folder for {len(sources)} files")
        wanted = [file.suffix.lower()]
    stems: dict[Path, Path] = {}
    for source in sources:
        stem = file.with_suffix("") if file else (folder or source.parent) / source.stem
        if stems.setdefault(stem, source) != source:
            raise UserError(f"files: {stems[stem]} and {source} would both become {stem}")
    for place in {stem.parent for stem in stems}:
        check_writable(place, "out")
    if config.soundfont is not None:
        SoundFont(Path(config.soundfont).expanduser(), config.limits)
    failed = []
    for stem, source in stems.items():
        try:
            repairs: Counter[str] = Counter()
            score = read(source, limits=config.limits, repairs=repairs)
            if line := not_played(source, repairs):
                notice(line)
            if is_chart(score):
                from musictx.songs.chord_sheet import voiced  # which reads charts

                score = voiced(score)
            if not len(score):
                raise UserError(f"{source}: nothing to render, the file has no notes")
            paths = render_score(
                score,
                stem,
                wav=".wav" in wanted,
                png=".png" in wanted,
                soundfont=config.soundfont,
                limits=config.limits,
            )
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
    ending .wav or .png of ``path`` is removed. Returns the files written. Raises
    :class:`UserError` as :func:`render_score`. ::

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
    font = options.soundfont
    return render_score(score, stem, wav=options.wav, png=options.png, title=title, soundfont=font)


def render_score(
    score: Score,
    stem: str | Path,
    *,
    wav: bool = True,
    png: bool = True,
    title: str | None = None,
    seam: float | None = None,
    soundfont: str | None = None,
    limits: Limits | None = None,
) -> list[Path]:
    """Write ``stem``.wav and ``stem``.png, those that are wanted; returns their paths.

    ``seam`` marks in the picture the second at which a primer ends and its continuation begins;
    ``title`` stands above it, by default the name of the file. Raises as
    :func:`musictx.render.audio.write` and :func:`musictx.render.pianoroll.draw` do.
    """
    stem = Path(stem)
    paths = []
    if wav:
        path = stem.with_name(stem.name + ".wav")
        if soundfont is not None:
            soundfont = str(Path(soundfont).expanduser())
        audio.write(score, path, sample_rate=RATE, soundfont=soundfont, limits=limits)
        paths.append(path)
    if png:
        path = stem.with_name(stem.name + ".png")
        shown = stem.name if title is None else title
        paths.append(pianoroll.draw(score, path, title=shown, seam=seam))
    return paths
