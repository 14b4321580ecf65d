"""``musictx harmonise FILE``: a melody -> four voices, by a model of chorales."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from musictx import musicxml
from musictx.apps.results import Result, Work, check_notation, progress_of, read_music
from musictx.bundle import Bundle
from musictx.chorale import voice_leading
from musictx.chorale.grid import VOICES
from musictx.chorale.harmonise import Harmony, harmonise
from musictx.chorale.tokenizer import ChoraleTokenizer
from musictx.chorale.tune import Form, Tune
from musictx.config import HarmoniseConfig, TokenSampling
from musictx.config.harmonise import spans
from musictx.errors import UserError
from musictx.notes import Score
from musictx.sampling.music import Sample


def harmonisations(
    bundle: Bundle,
    melody: Score,
    *,
    samples: int = 1,
    particles: int = 24,
    sampling: TokenSampling | None = None,
    seed: int = 0,
    voices: Sequence[str] = VOICES[:1],
    bars: str | None = None,
    phrase_ends: Sequence[int] = (),
    figures: str | None = None,
    progress: Callable[[float], None] | None = None,
) -> list[tuple[Harmony, Sample]]:
    """``samples`` times ``melody`` in four voices, in its bars and tempo; ``voices`` and ``bars``
    say what of it stays, ``phrase_ends`` and ``figures`` what is asked: options of
    ``musictx harmonise``. ``progress`` is called with the share that is done.

    Sample i of seed s is always the same. Raises ``UserError`` if the model does not write chorales
    or the melody has no notes.
    """
    asked = samples, particles, sampling or TokenSampling(), seed
    tune = tune_of(melody, voices, bars, phrase_ends, figures)
    steps = samples * len(tune.given)

    def told(step: float) -> None:
        if progress is not None:
            progress(step / steps)

    return list(pieces(bundle, tune, *asked, progress=told))


def run(config: HarmoniseConfig) -> list[Result]:
    """Harmonise ``config.melody``; each result is written, and what a teacher would mark in it
    printed, when it is done."""
    if config.melody is None:
        raise UserError("melody: missing; give a melody, such as `musictx harmonise tune.mid`")
    music = read_music(config.melody, "melody", "with a melody", config.limits)
    tune = tune_of(
        music, config.voices, config.bars, config.phrase_ends, config.figures, config.melody
    )
    beats = musicxml.has_notation(tune.harmonised(tune.given))
    check_notation(config.out, beats, "give a melody that keeps to its tempo marks")
    work = Work.of(config, config.melody)
    for remark in tune.remarks():
        print(remark, flush=True)
    results: list[Result] = []
    asked = config.samples, config.particles, config.sampling, work.seed
    with progress_of("harmonising", float(config.samples * len(tune.given)), "steps") as progress:

        def told(step: float) -> None:
            progress(config.particles * 4, float(step))

        for harmony, sample in pieces(work.bundle, tune, *asked, progress=told):
            results.append(work.write(len(results), sample, _checked(harmony, tune)))
    return results


def pieces(
    bundle: Bundle,
    tune: Tune,
    samples: int,
    particles: int,
    sampling: TokenSampling,
    seed: int,
    progress: Callable[[float], None] | None = None,
) -> Iterator[tuple[Harmony, Sample]]:
    """Each harmony of ``tune``, and its piece; see :func:`harmonisations`. ``progress`` is called
    after each step with how much is done, of the steps of all; what it raises stops them."""
    tokenizer = bundle.tokenizer
    if not isinstance(tokenizer, ChoraleTokenizer):
        raise UserError(
            f"melody: {bundle.folder} writes {tokenizer.name} tokens; harmonising needs a model of "
            "four voices: model=chorale, or one trained with tokenizer=chorale"
        )

    def told(step: float) -> None:
        if progress is not None:
            progress(number * len(tune.given) + step)

    for number in range(samples):
        harmony = harmonise(
            bundle.model,
            tokenizer,
            tune.given,
            fixed=tune.fixed,
            particles=particles,
            sampling=sampling,
            form=Form(tune),
            seed=(seed, number),
            progress=told,
        )
        told(len(tune.given))
        score, grid, free = tune.harmonised(harmony.grid), harmony.grid, ~tune.fixed
        new = (grid.pitches >= 0) & free
        new[1:] &= ~(grid.tied[1:] & free[:-1])
        yield harmony, Sample(score, 0.0, harmony.ids, int(new.sum()), score.duration, "melody")


def tune_of(
    score: Score,
    voices: Sequence[str],
    bars: str | None,
    phrase_ends: Sequence[int],
    figures: str | None,
    name: str = "",
) -> Tune:
    which = tuple(sorted(VOICES.index(voice) for voice in voices))
    try:
        return Tune.of(score, which, spans(bars), ends=phrase_ends, figures=figures)
    except UserError as error:
        raise UserError(f"melody={name}: {error}" if name else f"melody: {error}") from None


def _checked(harmony: Harmony, tune: Tune) -> str:
    """What a teacher would mark, in a line, with the bars of the file."""
    grid = harmony.grid
    report = voice_leading.report(grid.pitches, grid.tied, bar=tune.bar)
    faults = voice_leading.faults(grid.pitches, grid.tied, bar=tune.bar)
    marks = [f"{tune.where(fault.step)}: {fault.what}" for fault in faults[:4]]
    more = f" and {len(faults) - 4} more" if len(faults) > 4 else ""
    ending = "on no root-position triad"
    if report.final_triad:
        bass = int(grid.pitches[(grid.pitches >= 0).any(1)][-1, 3]) % 12
        home = tune.key is not None and bass == tune.key.tonic
        ending = "on the tonic" if home else "on a triad that is not the tonic"
    return (
        f"{harmony.nats_per_note:.3f} nats a token, {tune.key} in {tune.bars} bars, ends {ending}; "
        + (f"{'; '.join(marks)}{more}" if marks else "no faults of voice leading")
    )
