"""``musictx generate``: a model folder -> new music, or the continuation of a primer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from musictx import musicxml
from musictx.apps import parts
from musictx.apps.results import (
    Result,
    Work,
    check_notation,
    new_notes,
    progress_of,
    read_music,
    wanted_of,
)
from musictx.bundle import Bundle
from musictx.config import GenerateConfig, SamplingConfig
from musictx.errors import UserError
from musictx.notes import Score
from musictx.sampling import timeline
from musictx.sampling.events import OnEvent
from musictx.sampling.music import ENDS, Progress, Sample, continuations
from musictx.sampling.primer import NOTHING, Primer, encode_primer
from musictx.sampling.processors import Processor
from musictx.sampling.steer import Steering, steering
from musictx.sampling.stream import Stream
from musictx.sampling.takes import Likeness, nearest
from musictx.tokens.controls import asked
from musictx.tokens.vocab import SoftConstraint

#: Seconds after which a piece ends that its model was to end.
LONGEST = 120.0


def generate(
    bundle: Bundle,
    primer: Score | Sequence[Score] | None = None,
    *,
    seconds: float | None = None,
    bars: int | None = None,
    tokens: int | None = None,
    samples: int = 1,
    keep: int | None = None,
    sampling: SamplingConfig | None = None,
    seed: int | Sequence[int] = 0,
    include_primer: bool = True,
    primer_seconds: float | None = None,
    primer_tokens: int | None = None,
    end: str | None = None,
    quantise: str = "none",
    controls: Mapping[str, str | float | None] | None = None,
    feel: str | None = None,
    guidance: float = 1.0,
    context: int | None = None,
    constraints: Sequence[SoftConstraint] = (),
    processors: Sequence[Processor] = (),
    progress: Progress | None = None,
    on_event: OnEvent | None = None,
) -> list[Sample]:
    """New pieces, or continuations of ``primer``; each result's ``score`` is the music.

    primer      or several, which are continued side by side: ``samples`` of the first, then of the
                second, and so on. Of longer ones only as many of the last tokens are read as the
                shortest has
    seconds, bars, tokens  length of the new music, the first limit reached ends it; by default
                30 s, or as long as the model likes where it ends the piece, up to two minutes
    keep        only so many of the samples, those nearest to the primer, or to the corpus; the
                nearest first (:mod:`musictx.sampling.takes`)
    seed        sample i of seed s is always the same; or one for each of several primers
    end         how a piece ends, one of :data:`~musictx.sampling.music.ENDS`; ``None``: "model"
                where it writes whole chorales, which are not to be cut in mid-phrase, else "cut"
    controls, feel, guidance  what the music is to be like (:mod:`musictx.tokens.controls`)
    constraints, processors  further soft constraints (:data:`~musictx.tokens.vocab.SoftConstraint`)
                and rules (:data:`~musictx.sampling.processors.Processor`)
    on_event    called with the number of a sample, those that are not kept included, and an event
                as each new note begins and ends; see :func:`~musictx.sampling.music.continuations`

    The other arguments are those of :class:`~musictx.config.GenerateConfig`. Raises ``UserError``
    for a primer without a note that the model's tokens can hold.
    """
    wanted = asked(controls or {}, feel)
    several = primer if isinstance(primer, Sequence) else [primer]
    primers = [primer_of(bundle, p, primer_seconds, primer_tokens) for p in several]
    found = pieces(
        bundle,
        primers,
        several,
        samples=samples,
        seeds=[seed] * len(primers) if isinstance(seed, int) else seed,
        sampling=sampling,
        end=end,
        seconds=seconds,
        bars=bars,
        tokens=tokens,
        include_primer=include_primer,
        quantise=quantise,
        context=context,
        steering=[steering(bundle, wanted, guidance, p.score) for p in primers],
        constraints=constraints,
        processors=processors,
        progress=progress,
        on_event=on_event,
    )
    takes, kept = sorted(found, key=lambda take: take[0]), list[Sample]()
    for number, given in enumerate(primers):
        mine = takes[number * samples : (number + 1) * samples]
        likeness = Likeness.to(given, bundle.card.get("note_limits"))
        kept += [sample for _, sample, _ in nearest(mine, keep, likeness)]
    return kept


def stream(
    bundle: Bundle,
    primer: Score | None = None,
    *,
    primer_seconds: float | None = None,
    primer_tokens: int | None = None,
    seed: int | Sequence[int] = 0,
    **options: Any,
) -> Stream:
    """New music, or a continuation, event by event; ``options`` are those of
    :class:`~musictx.sampling.stream.Stream`."""
    given = primer_of(bundle, primer, primer_seconds, primer_tokens)
    limits = bundle.card.get("note_limits")
    return Stream(bundle.model, bundle.tokenizer, given, seed=seed, note_limits=limits, **options)


def run(config: GenerateConfig) -> list[Result]:
    """Generate as ``config`` says; each piece is written, and its path printed, when it is done.

    Everything that can be wrong is found before the model is run: primer, model folder, name and
    the folder for the results. After Ctrl-C the pieces are written as far as they have come.
    """
    score = None
    if config.primer is not None:
        score = read_music(config.primer, "primer", "to continue", config.limits)
    wanted = wanted_of(config)
    work = Work.of(config, config.primer)
    bundle = work.bundle
    given = primer_of(
        bundle, score, config.primer_seconds, config.primer_tokens, config.primer or ""
    )
    steer = steering(bundle, wanted, config.guidance, given.score)
    if score is None and config.quantise != "none":
        raise UserError(
            f"quantise={config.quantise}: a new piece has no tempo to keep to; give a primer"
        )
    free = not bundle.tokenizer.beats and config.quantise == "none"
    on_beats = not free and (score is None or musicxml.has_notation(score))
    instead = "give a primer that keeps to its beats, with quantise=16"
    check_notation(config.out, on_beats, instead)
    if free and score is not None and timeline.on_grid(score):
        print(
            "your primer keeps to beats; this model counts in seconds, so its notes will lie off "
            "your grid: quantise=16 puts them on sixteenths",
            flush=True,
        )
    if score is not None and bundle.tokenizer.merged(score):
        print(
            "several tracks of your primer are one instrument to this model: its notes go to the "
            "one whose notes lie nearest",
            flush=True,
        )
    found: dict[int, Result] = {}
    likeness = Likeness.to(given, bundle.card.get("note_limits"))
    with progress_of("generating", *_total(config)) as progress:
        versions = pieces(
            bundle,
            [given],
            [score],
            seeds=[work.seed],
            steering=[steer],
            **asked_by(config),
            progress=progress,
        )
        for number, sample, why in nearest(versions, config.keep, likeness):
            found[number] = work.write(number, sample, new_notes(sample), sample.remark, why)
    return [found[number] for number in (found if config.keep else sorted(found))]


def asked_by(config: GenerateConfig) -> dict[str, Any]:
    """What ``config`` asks of :func:`pieces`, beside primers, seeds and steering."""
    names = ("samples", "sampling", "end", "seconds", "bars", "tokens")
    more = ("include_primer", "quantise", "context")
    return {name: getattr(config, name) for name in names + more}


def _total(config: GenerateConfig) -> tuple[float | None, str]:
    if config.tokens is not None and config.seconds is None:
        return float(config.tokens), "tokens"
    return config.seconds or (30.0 if config.bars is None else None), "seconds"


def primer_of(
    bundle: Bundle,
    music: Score | None,
    seconds: float | None = None,
    tokens: int | None = None,
    name: str = "",
) -> Primer:
    """``music``, or its beginning, in the tokens of the model; ``name`` is the option's value."""
    if music is None:
        for option, value in (("primer_seconds", seconds), ("primer_tokens", tokens)):
            if value is not None:
                raise UserError(f"{option}={value:g}: expected with a primer; give primer=FILE")
        return NOTHING
    name, tokenizer = name or "primer", bundle.tokenizer
    if tokenizer.bpm is not None and music.one_voice:
        raise UserError(
            f"primer={name}: this is one voice, and the model writes four; did you mean "
            f"`musictx harmonise {name}`?"
        )
    given = parts.as_trained(bundle, music)
    name = name if name == "primer" else f"primer={name}"
    return encode_primer(tokenizer, given, seconds=seconds, tokens=tokens, name=name)


def pieces(
    bundle: Bundle,
    primers: Sequence[Primer],
    files: Sequence[Score | None],
    *,
    samples: int,
    seeds: Sequence[int],
    end: str | None,
    seconds: float | None,
    bars: int | None,
    tokens: int | None,
    steering: Sequence[Steering],
    **options: Any,
) -> Iterator[tuple[int, Sample]]:
    """(number, sample) as each is done: ``samples`` of the first of ``primers``, by the first of
    ``seeds``, then those of the second; ``files`` are the music that the primers are from. The
    other arguments are those of :func:`~musictx.sampling.music.continuations`."""
    if end is None:
        end = "cut" if len(primers[0].ids) or bundle.tokenizer.bpm is None else "model"
    if end not in ENDS:
        raise UserError(f"end={end}: expected one of {', '.join(ENDS)}")
    if seconds is None and bars is None and tokens is None:
        seconds = LONGEST if end == "model" else 30.0
    found = continuations(
        bundle.model,
        bundle.tokenizer,
        [primer for primer in primers for _ in range(samples)],
        seeds=[(seed, number) for seed in seeds for number in range(samples)],
        end=end,
        seconds=seconds,
        bars=bars,
        tokens=tokens,
        note_limits=bundle.card.get("note_limits"),
        steering=[steer for steer in steering for _ in range(samples)],
        **options,
    )
    for number, sample in found:
        score = parts.as_given(bundle, sample.score, files[number // samples])
        yield number, replace(sample, score=score)
