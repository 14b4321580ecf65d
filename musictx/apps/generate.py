"""``musictx generate``: a model folder -> new music, or the continuation of a primer."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tqdm import tqdm

from musictx import formats, midi, shipped
from musictx.bundle import Bundle, load, locate
from musictx.config import GenerateConfig, HarmoniseConfig, SamplingConfig
from musictx.errors import UserError
from musictx.notes import Score
from musictx.sampling.music import Progress, Sample, continue_music, encode_primer
from musictx.shipped import find_latest


@dataclass(frozen=True)
class Result:
    """A sample and the files it was written to: the .mid first, then .wav and .png if asked."""

    sample: Sample
    paths: list[Path]


def generate(
    bundle: Bundle,
    *,
    primer: Score | None = None,
    seconds: float | None = 30.0,
    tokens: int | None = None,
    samples: int = 1,
    sampling: SamplingConfig | None = None,
    seed: int = 0,
    include_primer: bool = True,
    primer_seconds: float | None = None,
    primer_tokens: int | None = None,
    may_end: bool = False,
    context: int | None = None,
    progress: Progress | None = None,
    primer_name: str = "primer",
) -> list[Sample]:
    """New pieces, or continuations of ``primer``; each result's ``score`` is the music.

    The arguments are those of :class:`~musictx.config.GenerateConfig`; see
    :func:`~musictx.sampling.music.continue_music` for what they mean and
    :func:`~musictx.sampling.music.encode_primer` for how a primer is cut. Raises ``UserError`` for
    a primer without a note that the model's tokens can hold.
    """
    start = None
    if primer is not None:
        start = encode_primer(
            bundle.tokenizer,
            primer,
            seconds=primer_seconds,
            tokens=primer_tokens,
            name=primer_name,
        )
    return continue_music(
        bundle.model,
        bundle.tokenizer,
        start,
        seconds=seconds,
        tokens=tokens,
        samples=samples,
        sampling=sampling,
        seed=seed,
        include_primer=include_primer,
        may_end=may_end,
        context=context,
        habits=bundle.card.get("habits"),
        progress=progress,
    )


def run(config: GenerateConfig) -> list[Result]:
    """Generate as ``config`` says, write the files, print where they are.

    Everything that can be wrong is found before the model is run: primer, model folder, name and
    the folder for the results.
    """
    primer = read_primer(config.primer) if config.primer is not None else None
    where = choose(config)
    name = file_name(config, where)
    with writable(Path(config.out)) as out:
        bundle = load(where, config.device)
        with bar(config.seconds, config.tokens) as progress:
            samples = generate(
                bundle,
                primer=primer,
                seconds=config.seconds,
                tokens=config.tokens,
                samples=config.samples,
                sampling=config.sampling,
                seed=config.seed,
                include_primer=config.include_primer,
                primer_seconds=config.primer_seconds,
                primer_tokens=config.primer_tokens,
                may_end=config.may_end,
                context=config.context,
                progress=progress,
                primer_name=config.primer or "",
            )
        stems = [name] if len(samples) == 1 else [f"{name}-{i + 1}" for i in range(len(samples))]
        return [
            Result(sample, write(sample, out / stem, render=config.render))
            for sample, stem in zip(samples, stems)
        ]


def choose(config: GenerateConfig | HarmoniseConfig) -> Path:
    """The model folder that ``config`` names; if none, the one that suits what is asked for, and
    says so (see :func:`~musictx.shipped.find_latest`)."""
    if config.model.path is not None:
        return locate(config.model.path)
    melody = isinstance(config, HarmoniseConfig)
    where = find_latest(melody=melody)
    ours = {folder: name for name, folder in shipped.models().items()}
    if where not in ours:
        print(f"model: {where}, the newest", flush=True)
        return where
    others = [f"model={name}" for name in ours.values() if name != ours[where]]
    more = f" (or {', '.join(others)})" if others and not melody else ""
    print(f"model: {ours[where]}, which comes along with musictx{more}", flush=True)
    return where


def read_primer(path: str) -> Score:
    """The MIDI file ``path``; ``UserError`` in one sentence if it is missing or not MIDI."""
    return read_music(path, "primer", "to continue")


def read_music(path: str, option: str, purpose: str) -> Score:
    """A MIDI or MusicXML file, or an example that comes along with musictx, by its name;
    ``UserError`` naming ``option`` if it is missing or something else."""
    file = Path(path).expanduser()
    if not file.exists():
        file = shipped.examples().get(path, file)
    if not file.exists():
        raise UserError(f"{option}={path}: no such file; give a MIDI file {purpose}")
    if file.is_dir():
        raise UserError(f"{option}={path}: this is a folder; give one MIDI file {purpose}")
    try:
        return formats.read(file)
    except UserError as error:
        raise UserError(f"{option}={error}") from error


def file_name(config: GenerateConfig | HarmoniseConfig, model: Path) -> str:
    """The results' name without ending: as asked, or the primer's or the model's with the seed."""
    if config.name is not None:
        name = config.name.removesuffix(".mid")
        if not name or Path(name).name != name:
            raise UserError(
                f"name={config.name}: expected a file name without folders; out= names the folder"
            )
        return name
    given = config.melody if isinstance(config, HarmoniseConfig) else config.primer
    if given is not None:
        return f"{Path(given).stem}-{config.seed}"
    folder = model.resolve()
    return f"{folder.parent.name if folder.name == 'model' else folder.name}-{config.seed}"


@contextlib.contextmanager
def writable(out: Path) -> Iterator[Path]:
    """``out``, made if need be and seen to be writable; gone again if nothing comes to be in it."""
    made = [folder for folder in (out, *out.parents) if not folder.exists()]
    try:
        out.mkdir(parents=True, exist_ok=True)
        probe = out / ".musictx-probe"
        probe.touch()
        probe.unlink()
    except OSError as error:
        _remove_empty(made)
        raise UserError(
            f"out={out}: cannot write into this folder ({error.strerror}); give another one"
        ) from None
    try:
        yield out
    except BaseException:
        _remove_empty(made)
        raise


def _remove_empty(folders: list[Path]) -> None:
    """Remove what is empty of ``folders``, innermost first."""
    for folder in folders:
        with contextlib.suppress(OSError):
            folder.rmdir()


def write(sample: Sample, stem: Path, *, render: bool) -> list[Path]:
    """STEM.mid, with STEM.wav and STEM.png if asked; prints each path and what is to be known."""
    path = stem.with_name(stem.name + ".mid")
    midi.write(sample.score, path)
    print(f"{path}: {sample.notes:,} new notes in {sample.seconds:.1f} s", flush=True)
    if sample.remark:
        print(f"{path}: {sample.remark}", flush=True)
    if not render or len(sample.score) == 0:
        return [path]
    from musictx.apps.render import render_score  # sound and pictures only when asked for

    seam = sample.seam if sample.seam > 0 else None
    others = render_score(sample.score, stem, wav=True, png=True, seam=seam)
    for other in others:
        print(other, flush=True)
    return [path, *others]


@contextlib.contextmanager
def bar(seconds: float | None, tokens: int | None) -> Iterator[Progress]:
    """A progress line on a terminal: seconds of music written and tokens a second; else silent."""
    by_time = seconds is not None
    settings: dict[str, Any] = {
        "total": round(seconds, 1) if seconds is not None else tokens,
        "unit": "s" if by_time else "token",
        "desc": "generating",
        "disable": None,
        "leave": False,
        "bar_format": "{desc}: {n:.1f}/{total:g} {unit} |{bar}| {elapsed}<{remaining} {postfix}",
    }
    began, drawn, steps = time.monotonic(), 0, 0
    with tqdm(**settings) as line:

        def progress(count: int, written: float) -> None:
            nonlocal drawn, steps
            drawn, steps = drawn + count, steps + 1
            reached = min(written, line.total) if by_time else min(steps, line.total)
            line.set_postfix_str(
                f"{drawn / max(time.monotonic() - began, 1e-9):.0f} tokens/s", refresh=False
            )
            line.update(max(reached - line.n, 0))

        yield progress
