"""``musictx harmonise`` and :func:`musictx.harmonise`: four voices for a melody, by a model of
chorales; and new notes for gaps in chorales."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from musictx import musicxml
from musictx.api import EXCLUDED, Music, check_function, check_seed, load_model, to_score
from musictx.apps.results import (
    Notice,
    Result,
    Work,
    check_notation,
    print_line,
    read_music,
    report,
)
from musictx.apps.tasks import Task
from musictx.bundle import Bundle
from musictx.chorale import voice_leading
from musictx.chorale.config import HarmoniseConfig
from musictx.chorale.grid import VOICES
from musictx.chorale.harmonise import Harmonisation, compose_voices
from musictx.chorale.rules import Form
from musictx.chorale.tokenizer import ChoraleTokenizer
from musictx.chorale.tune import Gap, Tune
from musictx.config import AccompanyConfig, InfillConfig
from musictx.errors import UserError, memory_errors
from musictx.notes import Score
from musictx.options import make_config
from musictx.progress import progress
from musictx.sampling import penalties
from musictx.sampling.composer import Progress
from musictx.sampling.sample import Sample
from musictx.sampling.steer import no_bars_message, no_controls_message

#: Options of sampling that have no effect on gaps in a chorale.
UNUSED_OPTIONS = ("density", "key", "scale", "low", "high")
#: The number of faults that a summary lists.
LISTED = 4


@memory_errors()
def harmonise(
    melody: Music,
    model: Bundle | str | Path | None = None,
    *,
    seed: int | None = 0,
    progress: Callable[[float], None] | None = None,
    **options: Any,
) -> list[Sample]:
    """Compose four-part chorales with ``melody`` as one of their voices.

    melody     a file, the name of an example ("ode_to_joy"), or anything that
               :func:`musictx.read` takes; its highest notes are the melody
    model      as in :func:`generate`; it must write chorales. None: your newest model of chorales,
               or the included one
    progress   called after each step with the share of the work that is done, 0 to 1; an exception
               that it raises stops the work
    options    those of ``musictx harmonise``: samples, particles, voices, phrase_ends, sampling

    Raises :class:`UserError` for wrong arguments and for a model that does not write chorales. ::

        (piece,) = musictx.harmonise("ode_to_joy", seed=1)
    """
    config = make_config("harmonise", options, without=EXCLUDED)
    bundle = load_model(model, tokenizer=config.tokenizer)
    tune = tune_of(to_score(melody, "melody"), config)
    on_progress = check_function("progress", progress)
    return [sample for _, sample in pieces(bundle, tune, config, check_seed(seed), on_progress)]


def run(config: HarmoniseConfig) -> list[Result]:
    """Harmonise ``config.melody``, write each result and print its faults."""
    return [report(result) for result in results(config)]


def results(config: HarmoniseConfig, notice: Notice = print_line) -> Iterator[Result]:
    """Compose, write and yield each piece; ``notice`` is called with remarks for the user."""
    if config.melody is None:
        raise UserError("melody: missing; give a melody, such as `musictx harmonise tune.mid`")
    music = read_music(config.melody, "melody", config.limits, config.repeats, notice)
    tune = tune_of(music, config)
    beats = musicxml.has_notation(tune.to_score(tune.given))
    check_notation(config.out, beats, "give a melody that follows its tempo marks")
    work = Work.of(config, config.melody, notice, done="harmonised")
    for remark in tune.remarks():
        notice(remark)
    steps = float(config.samples * len(tune.given))
    with progress("harmonising", "steps", steps) as update:
        harmonies = pieces(work.bundle, tune, config, work.seed, lambda done: update(steps * done))
        for number, (harmony, sample) in enumerate(harmonies):
            yield work.write(number, sample, _summary(harmony, tune))


def pieces(
    bundle: Bundle,
    tune: Tune,
    request: HarmoniseConfig,
    seed: int,
    progress: Callable[[float], None] | None,
) -> Iterator[tuple[Harmonisation, Sample]]:
    """Yield ``request.samples`` harmonisations of ``tune``, each with its Sample. Each depends only
    on ``seed`` and its number. ``progress`` is as in :func:`harmonise`.

    Raises ``UserError`` if the model does not write chorales.
    """
    tokenizer = bundle.tokenizer
    if not isinstance(tokenizer, ChoraleTokenizer):
        raise UserError(
            f"model={bundle.folder}: it writes {tokenizer.name} tokens; expected a model of four "
            "voices: model=chorale, or one trained with tokenizer=chorale"
        )

    def report_share(number: int, share: float) -> None:
        if progress is not None:
            progress((number + share) / request.samples)

    for number in range(request.samples):
        harmony = compose_voices(
            bundle.model,
            tokenizer,
            tune.given,
            fixed=tune.fixed,
            particles=request.particles,
            sampling=request.sampling,
            form=Form(tune),
            seed=(seed, number),
            progress=partial(report_share, number),
        )
        report_share(number, 1.0)
        score = tune.to_score(harmony.grid)
        count = int(tune.composed_notes(harmony.grid).onsets.sum())
        yield harmony, Sample(score, 0.0, harmony.ids, count, score.duration, ended="melody")


def compose_gap(
    bundle: Bundle,
    task: Task,
    request: InfillConfig | AccompanyConfig,
    seed: int,
    *,
    progress: Progress | None,
    **unused: Any,
) -> Iterator[Sample]:
    """Compose versions of a gap in a file of four tracks, for
    :func:`musictx.apps.infill.compose_versions`. Raises ``UserError`` for other files, and for
    options that do not apply to chorales."""
    if isinstance(request, AccompanyConfig):
        raise UserError(
            "model: this model writes chorales; harmonise the melody with `musictx harmonise`, or "
            "give another model, such as model=song"
        )
    for name in request.controls:
        raise UserError(f"{name}: {no_controls_message(bundle.tokenizer)}")
    if request.loop:
        raise UserError(f"loop=true: {no_bars_message(bundle.tokenizer)}")
    if request.quantise not in ("none", "16"):
        raise UserError(
            f"quantise={request.quantise}: a model of chorales writes sixteenths; give 16"
        )
    gap = Gap.between(task.score, task.begin, task.end, task.tracks)
    where = "where voices of a chorale are composed again"
    penalties.refuse(request.sampling, UNUSED_OPTIONS, where)
    length = task.end - task.begin

    def report_share(share: float) -> None:
        if progress is not None:
            progress(0, length * request.samples * share)  # tokens are not counted

    options = HarmoniseConfig(samples=request.samples, sampling=request.sampling)
    for _, sample in pieces(bundle, gap, options, seed, report_share):
        yield replace(sample, seam=task.begin, seconds=length, ended="seconds")


def tune_of(score: Score, request: HarmoniseConfig) -> Tune:
    """Read ``request.voices`` from ``score``. Raises ``UserError`` if it has no notes, lacks one of
    these voices, or has more than four voices."""
    voices = tuple(sorted(VOICES.index(voice) for voice in request.voices))
    try:
        return Tune.of(score, voices, ends=request.phrase_ends)
    except UserError as error:
        name = f"={request.melody}" if request.melody else ""
        raise UserError(f"melody{name}: {error}") from None


def _summary(harmony: Harmonisation, tune: Tune) -> str:
    """A line with the likelihood, key, length, ending, and first faults of a harmonisation."""
    pitches, faults = harmony.grid.pitches, voice_leading.faults(harmony.grid, bar=tune.bar)
    fault_list = "; ".join(f"{tune.position_name(f.step)}: {f.label}" for f in faults[:LISTED])
    if len(faults) > LISTED:
        fault_list += f" and {len(faults) - LISTED} more"
    final_triad, _ = voice_leading.ending(pitches)
    ending = "without a root-position triad"
    if final_triad:
        bass, _ = voice_leading.last_two_bass_classes(pitches[:, 3])
        ending = "on the tonic" if bass == tune.key.tonic else "on a triad that is not the tonic"
    bars = np.ptp(tune.bar_numbers) + 1
    return (
        f"{harmony.nats_per_token:.3f} nats a token, {tune.key} in {bars} bars, ends {ending}; "
        + (fault_list or "no faults of voice leading")
    )
