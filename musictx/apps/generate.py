"""``musictx generate``: compose new music, or continue a primer, with a model folder."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from musictx import formats, registry
from musictx.apps import parts
from musictx.apps.results import (
    Notice,
    Result,
    Work,
    check_notation,
    fresh_seed,
    new_notes,
    notice_of_beats,
    on_beats,
    read_music,
    report,
    say,
    suits_bars,
)
from musictx.bundle import Bundle
from musictx.commands import COMMANDS
from musictx.config import GenerateConfig
from musictx.errors import UserError
from musictx.grid import in_time
from musictx.notes import Score
from musictx.progress import progress
from musictx.sampling import idiom, timeline
from musictx.sampling.composer import continuations
from musictx.sampling.continuation import to_bar_line
from musictx.sampling.primer import Primer, encode_primer
from musictx.sampling.sample import Sample
from musictx.sampling.steer import controls_of, counts_no_bars, steering
from musictx.sampling.stream import Stream
from musictx.sampling.strengths import USUAL_SECONDS
from musictx.tokens.tokenizer import Tokenizer


def generate(
    bundle: Bundle,
    request: GenerateConfig,
    primer: Score | Sequence[Score] | None = None,
    *,
    seed: int | Sequence[int] = 0,
    **more: Any,
) -> list[Sample]:
    """New pieces, or continuations of ``primer``, by the options of ``request``: see
    :func:`musictx.generate`. Sample i of seed s is always the same. Of several primers the model
    reads equally many tokens, the last ones, as many as the shortest has. The result has
    ``samples`` pieces for the first primer, then those for the second, and so on. The other
    arguments are those of :func:`~musictx.sampling.composer.continuations`."""
    files = primer if isinstance(primer, Sequence) else [primer]
    takes = pieces(
        bundle,
        [primer_of(bundle, file, request) for file in files],
        files,
        request,
        seeds=[seed] * len(files) if isinstance(seed, int) else seed,
        **more,
    )
    return [sample for _, sample in sorted(takes, key=lambda take: take[0])]


def stream(
    bundle: Bundle,
    request: GenerateConfig,
    primer: Score | None = None,
    **more: Any,
) -> Stream:
    """New music, or a continuation of ``primer``, event by event. Of ``request`` only the options
    for the primer, the length in seconds and sampling are used; the other arguments are those of
    :class:`~musictx.sampling.stream.Stream`."""
    return Stream(
        bundle.model,
        bundle.tokenizer,
        primer_of(bundle, primer, request),
        seconds=request.seconds,
        sampling=request.sampling,
        stats=bundle.stats,
        **more,
    )


def run(config: GenerateConfig) -> list[Result]:
    """Generate music for the options ``config``; write each piece and print its path as soon as it
    is finished. The results are sorted by number."""
    finished = [report(result) for result in results(config)]
    return sorted(finished, key=lambda result: result.number)


def results(config: GenerateConfig, notice: Notice = say) -> Iterator[Result]:
    """Write each piece as soon as it is composed, and yield its result. Before the first one,
    ``notice`` is called with warnings for the user.

    The primer, the model folder and the names of the results are checked before the model runs.
    After Ctrl-C the unfinished pieces are written, too. Several primers are continued one after the
    other; a primer with an error is skipped, and one error for all of them is raised at the end.
    """
    names = _primers(config.primer)
    if len(names) > 1 and config.seed is None:
        config = replace(config, seed=fresh_seed())
        notice(f"seed: {config.seed}")
    open_ended = any((config.form, config.bars, config.tokens))
    length = config.seconds or (None if open_ended else USUAL_SECONDS)
    failed: list[str] = []
    for index, name in enumerate(names or [None]):
        try:
            score = None
            if name is not None:
                more: dict[str, Any] = {"repeats": config.repeats, "notice": notice}
                score = read_music(name, "primer", "to continue", config.limits, **more)
            if score is None and config.quantise != "none":
                raise UserError(
                    f"quantise={config.quantise}: a new piece has no tempo to keep to; give a "
                    "primer"
                )
            in_bars = suits_bars(config, score)
            work = Work.of(config, name, notice, in_bars, done="continued")
            primer = primer_of(work.bundle, score, config, name or "")
            free = not on_beats(work.bundle, config.quantise)
            notated = not free and (score is None or formats.has_notation(score))
            instead = "give a primer that keeps to its beats, with quantise=16"
            check_notation(config.out, notated, instead)
            if score is not None and primer.score is not None:
                _notices(work.bundle.tokenizer, score, primer.score, free, notice)
            with progress("generating", "seconds", length) as update:
                takes = pieces(
                    work.bundle,
                    [primer],
                    [score],
                    config,
                    seeds=[work.seed],
                    progress=lambda _, seconds: update(seconds),
                )
                for number, sample in takes:
                    result = work.write(number, sample, new_notes(sample), sample.remark)
                    yield replace(result, number=index * config.samples + number)
        except UserError as error:
            # An error in one file does not concern the others; a full disk does.
            if len(names) < 2 or error.status != UserError.status:
                raise
            failed.append(str(error))
    if failed:
        why = "; ".join(dict.fromkeys(failed))
        raise UserError(f"{len(failed)} of {len(names)} files not continued: {why}")


def _primers(primer: str | list[str] | None) -> list[str]:
    """The files that the option ``primer`` names; a folder stands for the music files in it."""
    names = primer if isinstance(primer, list) else [primer] if primer is not None else []
    files: list[str] = []
    for name in names:
        folder = Path(name).expanduser()
        paths = [str(file) for file in formats.find(folder)] if folder.is_dir() else [name]
        if not paths:
            raise UserError(
                f"primer={name}: no music in this folder, expected {', '.join(formats.SUFFIXES)}"
            )
        files += paths
    return files


def _notices(tokenizer: Tokenizer, score: Score, primer: Score, free: bool, notice: Notice) -> None:
    """Call ``notice`` with warnings about ``score``, the file to continue, and about ``primer``,
    the part of ``score`` that the model reads. ``free``: the new music does not keep to beats."""
    if not free:
        notice_of_beats(primer, notice)
    elif timeline.on_grid(score):
        notice(
            "your primer keeps to beats; this model counts in seconds, so its notes will lie off "
            "your grid: quantise=16 puts them on sixteenths"
        )
    if tokenizer.merged(primer):
        notice(
            "several tracks of your primer are one instrument to this model: its notes go to the "
            "one whose notes lie nearest"
        )


def primer_of(
    bundle: Bundle, music: Score | None, request: GenerateConfig, name: str = ""
) -> Primer:
    """``music``, or its first ``request.primer_seconds``, in the tokens of the model; without
    ``music`` the primer of a new piece. ``name`` is the option's value, for error messages."""
    seconds = request.primer_seconds
    if music is None:
        if not request.include_primer:
            raise UserError("include_primer=false: expected with a primer; give primer=FILE")
        if seconds is not None:
            raise UserError(f"primer_seconds={seconds:g}: expected with a primer; give primer=FILE")
        return Primer(plan=idiom.of(bundle.tokenizer).plan(bundle, request.plan))
    for option, value in request.plan.items():
        raise UserError(f"{option}={value}: expected for a new piece, without a primer")
    name, tokenizer = name or "primer", bundle.tokenizer
    if tokenizer.voices > 1 and music.one_voice:
        commands = [
            command
            for command in COMMANDS.values()
            if getattr(command.config, "tokenizer", "") == tokenizer.name
        ]
        raise UserError(
            f"primer={name}: this is one voice, and the model writes {tokenizer.voices}"
            + "".join(f"; did you mean `musictx {command.name} {name}`?" for command in commands)
        )
    if on_beats(bundle, request.quantise):
        music = in_time(music)
    score = parts.as_trained(bundle, music, parts.lent(bundle, music))
    name = name if name == "primer" else f"primer={name}"
    primer = encode_primer(tokenizer, score, seconds=seconds, name=name)
    whole = request.bars is not None and seconds is None
    return to_bar_line(tokenizer, primer) if whole else primer


def pieces(
    bundle: Bundle,
    primers: Sequence[Primer],
    files: Sequence[Score | None],
    request: GenerateConfig,
    *,
    seeds: Sequence[int],
    **more: Any,
) -> Iterator[tuple[int, Sample]]:
    """Yield (number, sample) as soon as each piece is finished. Each of ``primers`` has one of
    ``seeds`` and ``request.samples`` pieces; numbers count through the pieces of the first primer,
    then those of the second. ``files`` are the music from which the primers were encoded. The other
    arguments are those of :func:`~musictx.sampling.composer.continuations`."""
    path = registry.PIECES.get(bundle.tokenizer.name)
    if request.form is not None and path is None:
        raise UserError(f"form={request.form}: {counts_no_bars(bundle.tokenizer)}")
    if path is not None and (request.form is not None or request.loop):
        yield from registry.load(path)(bundle, primers, files, request, seeds=seeds, **more)
        return
    samples, values = request.samples, controls_of(request)
    steers = [steering(bundle, values, request.guidance, like=p.score) for p in primers]
    takes = continuations(
        bundle,
        [primer for primer in primers for _ in range(samples)],
        request,
        seeds=[(seed, number) for seed in seeds for number in range(samples)],
        steering=[steer for steer in steers for _ in range(samples)],
        **more,
    )
    for number, sample in takes:
        score = parts.as_given(bundle, sample.score, files[number // samples])
        yield number, replace(sample, score=score)
