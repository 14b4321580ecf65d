"""``musictx render``: any MIDI file -> WAV and piano-roll PNG."""

from __future__ import annotations

import contextlib
from pathlib import Path

from musictx import midi
from musictx.config import RenderConfig
from musictx.errors import UserError
from musictx.notes import Score
from musictx.render import audio, pianoroll


def run(config: RenderConfig) -> dict[str, Path]:
    """Render ``config.midi``; prints and returns the files: {"wav": path, "png": path}.

    They are named after the MIDI file and lie beside it, or in ``config.out``, which is made if
    need be. Raises :class:`UserError` for a file that is missing, no MIDI or without notes, for a
    sound font that is none, and for a folder that cannot be written.
    """
    if config.midi is None:
        raise UserError("midi: missing, give a MIDI file such as `musictx render song.mid`")
    if not (config.wav or config.png):
        raise UserError("wav=false png=false: nothing to write, expected at least one of them true")
    source = Path(config.midi).expanduser()
    if source.is_dir():
        raise UserError(f"midi={config.midi}: this is a folder, expected one MIDI file")
    if not source.exists():
        raise UserError(f"midi={config.midi}: no such file")
    score = midi.read(source)
    if not len(score):
        raise UserError(f"midi={config.midi}: nothing to render, the file has no notes")
    folder = source.parent if config.out is None else Path(config.out).expanduser()
    made = [f for f in (folder, *folder.parents) if not f.exists()]
    try:
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            why = error.strerror or error
            raise UserError(f"out={config.out}: this folder cannot be made ({why})") from None
        paths = render_score(
            score,
            folder / source.stem,
            wav=config.wav,
            png=config.png,
            sample_rate=config.sample_rate,
            soundfont=config.soundfont,
            engine=config.engine,
        )
    except BaseException:
        for empty in made:  # innermost first; a folder with anything in it stays
            with contextlib.suppress(OSError):
                empty.rmdir()
        raise
    for path in paths:
        print(path, flush=True)
    return {path.suffix[1:]: path for path in paths}


def render_score(
    score: Score,
    stem: str | Path,
    *,
    wav: bool = True,
    png: bool = True,
    title: str | None = None,
    seam: float | None = None,
    sample_rate: int = 44100,
    soundfont: str | None = None,
    engine: str = "auto",
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
        audio.write(score, path, sample_rate=sample_rate, soundfont=soundfont, engine=engine)
        paths.append(path)
    if png:
        path = stem.with_name(stem.name + ".png")
        shown = stem.name if title is None else title
        paths.append(pianoroll.draw(score, path, title=shown, seam=seam))
    return paths
