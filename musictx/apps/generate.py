"""``musictx generate``: compose new music, or continue a primer, with a model folder."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from musictx import formats
from musictx.apps import parts
from musictx.apps.results import (
    Notice,
    Result,
    Work,
    check_notation,
    describe_new_notes,
    fresh_seed,
    notify_about_beats,
    on_beats,
    print_line,
    read_music,
    report,
    suits_bars,
)
from musictx.bundle import Bundle
from musictx.config import GenerateConfig
from musictx.errors import UserError, each_file, shown
from musictx.grid import in_time
from musictx.likelihood import pointwise_mutual_information
from musictx.notes import Score
from musictx.progress import progress as show_progress
from musictx.sampling import timeline
from musictx.sampling.composer import continuations
from musictx.sampling.constants import USUAL_SECONDS
from musictx.sampling.continuation import to_bar_line
from musictx.sampling.events import Event, OnEvent
from musictx.sampling.idiom import idiom_of
from musictx.sampling.primer import Primer, encode_primer
from musictx.sampling.sample import Sample
from musictx.sampling.stream import Stream


def generate(
    bundle: Bundle,
    request: GenerateConfig,
    primer: Score | Sequence[Score] | None = None,
    *,
    seed: int | Sequence[int] = 0,
    **arguments: Any,
) -> list[Sample]:
    """Compose new pieces, or continuations of ``primer``, with the options ``request``; see
    :func:`musictx.generate`.

    Sample i of seed s is always the same. If there are several primers, the model reads as many of
    the last tokens of each as the shortest primer has. The result has the ``request.samples``
    pieces of the first primer, then those of the second, and so on. The other ``arguments`` are
    those of :func:`~musictx.sampling.composer.continuations`."""
    scores = primer if isinstance(primer, Sequence) else [primer]
    numbered = compose_pieces(
        bundle,
        [make_primer(bundle, score, request) for score in scores],
        scores,
        request,
        seeds=[seed] * len(scores) if isinstance(seed, int) else seed,
        **arguments,
    )
    return [sample for _, sample in sorted(numbered, key=lambda pair: pair[0])]


def stream(
    bundle: Bundle,
    request: GenerateConfig,
    primer: Score | None = None,
    **arguments: Any,
) -> Stream:
    """Compose new music, or a continuation of ``primer``, event by event.

    Of ``request`` only ``primer_seconds``, ``seconds`` and ``sampling`` are used. The other
    ``arguments`` are those of :class:`~musictx.sampling.stream.Stream`."""
    return Stream(bundle, make_primer(bundle, primer, request), request, **arguments)


def run(config: GenerateConfig) -> list[Result]:
    """Generate music with the options ``config``; write each piece, and print its path, as soon as
    it is composed. Return the results sorted by number."""
    return sorted(map(report, results(config)), key=lambda result: result.number)


def results(config: GenerateConfig, notice: Notice = print_line) -> Iterator[Result]:
    """Write each piece as soon as it is composed, and yield its result. Before the first one,
    ``notice`` is called with warnings for the user.

    Primers, model folder and file names are checked before the model runs. After Ctrl-C unfinished
    pieces are written, too, except those of :meth:`.Idiom.composer`. Several primers are continued
    one after the other; those with errors are skipped, and one error about them is raised at last.
    """
    names = config.primer if isinstance(config.primer, list) else [config.primer or ""]
    files = [file for name in filter(None, names) for file in formats.music_files(name, "primer")]
    if len(files) > 1:
        if config.seed is None:
            config = replace(config, seed=fresh_seed())
            notice(f"seed: {config.seed}")

        def results_of_primer(numbered_file: tuple[int, str]) -> Iterator[Result]:
            index, file = numbered_file
            for result in results(replace(config, primer=file), notice):
                yield replace(result, number=index * config.samples + result.number)

        yield from each_file([*enumerate(files)], results_of_primer, "continued")
        return
    file = files[0] if files else None
    score = None
    if file is not None:
        score = read_music(file, "primer", config.limits, config.repeats, notice)
    elif config.quantise != "none":
        raise UserError(
            f"quantise={config.quantise}: a new piece has no tempo to keep to; give a primer"
        )
    work = Work.of(config, file, notice, suits_bars(config, score), done="continued")
    primer = make_primer(work.bundle, score, config, file or "")
    keeps_to_beats = on_beats(work.bundle, config.quantise)
    notated = keeps_to_beats and (score is None or formats.has_notation(score))
    check_notation(config.out, notated, "give a primer that keeps to its beats, with quantise=16")
    if keeps_to_beats and primer.score is not None:
        notify_about_beats(primer.score, notice)
    elif score is not None and timeline.on_grid(score):
        notice(
            "your primer keeps to beats; this model counts in seconds, so its notes will lie off "
            "your grid: quantise=16 puts them on sixteenths"
        )
    is_open_ended = any((config.form, config.bars, config.tokens))
    length = config.seconds or (None if is_open_ended else USUAL_SECONDS)
    with show_progress("generating", "seconds", length) as update:
        pieces = compose_pieces(
            work.bundle,
            [primer],
            [score],
            config,
            seeds=[work.seed],
            progress=lambda _, seconds: update(seconds),
        )
        for number, sample in pieces:
            yield work.write(number, sample, describe_new_notes(sample), sample.remark)


def make_primer(
    bundle: Bundle, music: Score | None, request: GenerateConfig, name: str = ""
) -> Primer:
    """Encode ``music``, or its first ``request.primer_seconds``, as a primer. ``None``: the empty
    primer of a new piece. ``name`` is the file of ``music``, for error messages."""
    seconds = request.primer_seconds
    if music is None:
        if not request.include_primer:
            raise UserError("include_primer=false: needs a primer; give primer=FILE")
        if seconds is not None:
            raise UserError(f"primer_seconds={seconds:g}: needs a primer; give primer=FILE")
        return Primer(plan=idiom_of(bundle.tokenizer).plan(bundle, request.plan))
    for option, value in request.plan.items():
        raise UserError(f"{option}={shown(value)}: only for a new piece; leave out the primer")
    tokenizer = bundle.tokenizer
    option = f"primer={name}" if name else "primer"
    if tokenizer.voices > 1 and music.one_voice:
        raise UserError(
            f"{option}: this is one voice, but the model writes {tokenizer.voices}; harmonise it"
        )
    if on_beats(bundle, request.quantise):
        music = in_time(music)
    score = parts.with_model_programs(bundle, music, parts.lend_programs(bundle, music))
    primer = encode_primer(tokenizer, score, seconds=seconds, name=option)
    begins_with_bar = request.bars is not None and seconds is None
    return to_bar_line(tokenizer, primer) if begins_with_bar else primer


def compose_pieces(
    bundle: Bundle,
    primers: Sequence[Primer],
    scores: Sequence[Score | None],
    request: GenerateConfig,
    *,
    seeds: Sequence[int],
    on_event: OnEvent | None = None,
    **arguments: Any,
) -> Iterator[tuple[int, Sample]]:
    """Compose ``request.samples`` pieces for each of ``primers``; yield (number, sample) as soon as
    a piece is composed. The pieces of the first primer have the first numbers.

    scores  the music from which the primers were encoded; ``None`` for new pieces
    seeds   one for each primer

    The other ``arguments`` are those of :func:`~musictx.sampling.composer.continuations`.

    With ``request.candidates=4`` the first sample is the best (:func:`choose_best`) of samples 0 to
    3 of the same seed, the second of samples 4 to 7. The events of a sample are reported when it is
    chosen."""
    if request.candidates > 1:
        candidate_count = request.samples * request.candidates
        events: dict[int, list[Event]] = {}
        pieces = compose_pieces(
            bundle,
            primers,
            scores,
            replace(request, samples=candidate_count, candidates=1),
            seeds=seeds,
            on_event=on_event and (lambda n, event: events.setdefault(n, []).append(event)),
            **arguments,
        )
        for candidate, sample in choose_best(bundle, pieces, primers, request):
            number = candidate // request.candidates
            if on_event is not None:
                for event in events.pop(candidate, []):
                    on_event(number, event)
            yield number, sample
        return
    is_restricted = bool(arguments.get("penalties") or arguments.get("processors"))
    compose = idiom_of(bundle.tokenizer).composer(bundle, primers, request, is_restricted)
    numbers = range(request.samples)
    primers = [primer for primer in primers for _ in numbers]
    scores = [score for score in scores for _ in numbers]
    piece_seeds = [(seed, number) for seed in seeds for number in numbers]
    if compose is not None:
        for number, (primer, score, seed) in enumerate(zip(primers, scores, piece_seeds)):
            emit = on_event and partial(on_event, number)
            yield number, compose(primer, score, seed, arguments.get("progress"), emit)
        return
    samples = continuations(
        bundle, primers, request, seeds=piece_seeds, on_event=on_event, **arguments
    )
    for number, sample in samples:
        if (music := scores[number]) is not None:  # leave out the notes after the primer
            music = music.with_notes(music.notes[: len(primers[number].score or ())])
        piece = parts.with_file_programs(bundle, sample.score, music, request.include_primer)
        yield number, replace(sample, score=piece)


def choose_best(
    bundle: Bundle,
    pieces: Iterator[tuple[int, Sample]],
    primers: Sequence[Primer],
    request: GenerateConfig,
) -> Iterator[tuple[int, Sample]]:
    """Yield the best (number, candidate) for each sample as soon as its ``request.candidates``
    candidates, which have successive numbers in ``pieces``, are composed: the one most closely
    related to the music before it (:func:`coherence`), which favours short or sparse music;
    scripts/LOG.md has judgements. Candidates that Ctrl-C has ended early count only if there are
    no others."""
    candidates: dict[int, list[tuple[int, Sample]]] = {}  # sample -> its candidates so far
    for number, candidate in pieces:
        sample = number // request.candidates
        candidates.setdefault(sample, []).append((number, candidate))
        if len(candidates[sample]) == request.candidates:
            composed, primer = candidates.pop(sample), primers[sample // request.samples]
            finished = [piece for piece in composed if piece[1].ended != "interrupted"]
            yield max(finished or composed, key=lambda piece: coherence(bundle, primer, piece[1]))


def coherence(bundle: Bundle, primer: Primer, sample: Sample) -> float:
    """Return the mutual information of the primer and the new music under the model
    (:func:`.pointwise_mutual_information`), in nats per new note; of a new piece, or one with a
    form, that of its two halves. -inf without notes, 0 for a single bar."""
    if not sample.notes:
        return -np.inf
    first_ids, last_ids = primer.ids, sample.ids
    if not (len(first_ids) and len(last_ids)):
        tokenizer, ids = bundle.tokenizer, bundle.tokenizer.encode(sample.score)
        middle = len(ids) // 2 // tokenizer.align * tokenizer.align
        first_ids, last_ids = np.split(ids, [tokenizer.window_start(ids, middle)])
    if not len(first_ids):  # one bar has no halves
        return 0.0
    return pointwise_mutual_information(bundle, first_ids, last_ids) / sample.notes
