"""The functions of the package, as they are called from Python.

They take what a person has at hand - a model's name, a file, a preset - and say in one sentence
what was wrong with it (:class:`~musictx.errors.UserError`); the work is done in ``apps/``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from musictx.apps import generate as generating
from musictx.apps.render import render as render
from musictx.arguments import bundle_of, checked, music_of, sampling_of, seed_of, whole
from musictx.bundle import Bundle
from musictx.config import (
    EvaluateConfig,
    GenerateConfig,
    SamplingConfig,
    TokenSampling,
    TrainConfig,
)
from musictx.config.composing import Steered
from musictx.errors import UserError
from musictx.notes import Score
from musictx.sampling.events import OnEvent
from musictx.sampling.music import Sample
from musictx.sampling.processors import Processor
from musictx.sampling.stream import Stream
from musictx.tokens.vocab import SoftConstraint

if TYPE_CHECKING:
    from musictx.chorale.evaluation import ChoraleComparison
    from musictx.evaluate.likelihood import Likelihood
    from musictx.evaluate.nll import Evaluation
    from musictx.evaluate.sets import Comparison

#: A path, bytes, a Score, a ``mido.MidiFile`` or a ``pretty_midi.PrettyMIDI``.
Music = Any
Sampling = SamplingConfig | Mapping[str, Any] | str | None


def generate(
    model: Bundle | str | Path | None = None,
    *,
    primer: Music | list[Music] | None = None,
    seconds: float | None = None,
    tokens: int | None = None,
    samples: int = 1,
    keep: int | None = None,
    sampling: Sampling = None,
    seed: int | Sequence[int] | None = 0,
    include_primer: bool = True,
    primer_seconds: float | None = None,
    primer_tokens: int | None = None,
    end: str | None = None,
    bars: int | None = None,
    quantise: str | int = "none",
    density: float | str | None = None,
    loudness: float | str | None = None,
    register: float | str | None = None,
    polyphony: float | str | None = None,
    feel: str | None = None,
    guidance: float = 1.0,
    constraints: Sequence[SoftConstraint] = (),
    processors: Sequence[Processor] = (),
    context: int | None = None,
    progress: Callable[[int, float], None] | None = None,
    on_event: OnEvent | None = None,
) -> list[Sample]:
    """New pieces, or continuations of ``primer``; ``result.score`` is the music of each.

    model     a loaded model, its folder or its name (``musictx.generate("piano")``); None: the
              newest under runs/, or the one that comes with musictx
    primer    music to continue: a file, an example by name ("mozart_k545"), or what
              :func:`musictx.read` takes; or a list of these, continued side by side
    seconds, tokens, bars  length of the new music, the limit that is reached first counts; 30 s
              by default
    samples   how many pieces
    keep      only so many of them, those nearest to the primer, or to the corpus, the nearest first
    sampling  a :class:`SamplingConfig`, its options as a dict ({"temperature": 0.9}), or the name
              of a preset of conf/sampling ("safe")
    seed      the same seed gives the same music; None draws one and prints it; or a list with one
              for each of several primers
    end       "cut" at that length; "natural": the piece closes and falls silent by then; "model":
              or before, where the model ends it; None: "cut", for new chorales "model"
    quantise  grid for the new notes, by the primer's tempo: "16", "8", "8t" or "none"
    density, loudness, register, polyphony, feel, guidance  what the music is to be like, in numbers
              or words (docs/composing.md); all but density want a model with control tokens
    constraints, processors  further soft constraints and rules (docs/sampling.md)
    context   tokens that the model looks back on; None: as many as in training
    progress  called after each step with the tokens just drawn and the seconds that the slowest
              piece has now
    on_event  called with the number of a piece, from 0, and an :class:`Event` as each new note
              begins and ends while it is composed, in seconds of that piece. Nothing is drawn
              otherwise for it. What it or ``progress`` raises stops composing at once

    Raises :class:`UserError` for wrong arguments and for a primer without a note that the model's
    tokens can hold.
    """
    asked: dict[str, Any] = {"seconds": seconds, "tokens": tokens, "bars": bars, "end": end}
    asked |= {"primer_seconds": primer_seconds, "primer_tokens": primer_tokens}
    asked |= {"samples": samples, "keep": keep, "quantise": str(quantise)}
    asked |= {"feel": feel, "guidance": guidance, "context": context}
    checked(GenerateConfig, **asked)
    bundle = bundle_of(model)
    given: Score | list[Score] | None = None
    if isinstance(primer, list):
        given = [music_of(one, f"primer[{number}]") for number, one in enumerate(primer)]
    elif primer is not None:
        given = music_of(primer, "primer")
    if given == []:
        raise UserError("primer=[]: expected a piece of music, or several")
    return generating.generate(
        bundle,
        primer=given,
        sampling=sampling_of(sampling, SamplingConfig),
        seed=_seeds(seed, given),
        include_primer=include_primer,
        controls=_controls(density, loudness, register, polyphony),
        constraints=constraints,
        processors=processors,
        progress=progress,
        on_event=on_event,
        **asked,
    )


def _seeds(seed: Any, primer: Score | list[Score] | None) -> int | list[int]:
    if not isinstance(seed, list | tuple):
        return seed_of(seed)
    if not isinstance(primer, list) or len(seed) != len(primer):
        raise UserError(f"seed={seed}: expected a number, or a list with one for each primer")
    return [whole("seed", one, 0) for one in seed]


def stream(
    model: Bundle | str | Path | None = None,
    *,
    primer: Music | None = None,
    seconds: float | None = None,
    sampling: Sampling = None,
    seed: int | None = 0,
    primer_seconds: float | None = None,
    primer_tokens: int | None = None,
    constraints: Sequence[SoftConstraint] = (),
    processors: Sequence[Processor] = (),
    context: int | None = None,
) -> Stream:
    """New music, or a continuation of ``primer``, as an iterator of
    :class:`~musictx.sampling.stream.Event`: notes that begin and end, as soon as they are known.

    seconds   its length; None: without end, in memory that does not grow

    The other arguments are those of :func:`generate`. To stop, call ``close()`` or leave a ``with``
    block. Raises :class:`UserError` as there, and for a model whose tokens write notes with their
    length (MidiTok's), since these are known too late.
    """
    asked: dict[str, Any] = {"primer_seconds": primer_seconds, "primer_tokens": primer_tokens}
    checked(GenerateConfig, seconds=seconds, context=context, **asked)
    return generating.stream(
        bundle_of(model),
        None if primer is None else music_of(primer, "primer"),
        seconds=seconds,
        sampling=sampling_of(sampling, SamplingConfig),
        seed=seed_of(seed),
        constraints=constraints,
        processors=processors,
        context=context,
        **asked,
    )


def infill(
    music: Music,
    model: Bundle | str | Path | None = None,
    *,
    begin: float | str,
    end: float | str,
    tracks: str | None = None,
    voices: str | Sequence[str] | None = None,
    samples: int = 1,
    sampling: Sampling = None,
    seed: int | None = 0,
    density: float | str | None = None,
    loudness: float | str | None = None,
    register: float | str | None = None,
    polyphony: float | str | None = None,
    feel: str | None = None,
    guidance: float = 1.0,
    quantise: str | int = "none",
    progress: Callable[[float], None] | None = None,
    on_event: OnEvent | None = None,
) -> list[Sample]:
    """``music`` with everything that begins from ``begin`` to ``end`` composed anew, ``samples``
    times; all else stays.

    begin, end  bars by the meter of the music, the last one included (5, 8), or seconds ("12.5s")
    tracks      only these, by names or numbers from 1, separated by commas; None: all
    voices      of a chorale in four tracks, by a model of chorales: only these; None: all

    The model is one of chorales or has control tokens; other arguments as in :func:`generate`;
    ``progress`` is called with the seconds of all versions so far. Models of chorales, which
    develop many ways side by side, tell no events.
    Raises :class:`UserError` for wrong arguments and for another model.
    """
    from musictx.apps import infill as filling

    task = filling.gap(music_of(music, "music"), begin, end, tracks, voices)
    return _composed_around(
        model,
        task,
        samples,
        sampling,
        seed,
        controls=_controls(density, loudness, register, polyphony),
        feel=feel,
        guidance=guidance,
        quantise=quantise,
        progress=progress,
        on_event=on_event,
    )


def accompany(
    melody: Music,
    model: Bundle | str | Path | None = None,
    *,
    melody_track: str | None = None,
    samples: int = 1,
    sampling: Sampling = None,
    seed: int | None = 0,
    density: float | str | None = None,
    loudness: float | str | None = None,
    register: float | str | None = None,
    polyphony: float | str | None = None,
    feel: str | None = None,
    guidance: float = 1.0,
    quantise: str | int = "none",
    progress: Callable[[float], None] | None = None,
    on_event: OnEvent | None = None,
) -> list[Sample]:
    """``melody`` with an accompaniment on a track of its own, ``samples`` times.

    melody_track  where the melody is, by name or number from 1; None: the only track, the one
                  called melody, or else the highest notes

    The model has control tokens; other arguments as in :func:`generate` and :func:`infill`. Raises
    :class:`UserError` for wrong arguments and for a model without control tokens.
    """
    from musictx.apps import infill as filling

    task = filling.under(music_of(melody, "melody"), melody_track)
    return _composed_around(
        model,
        task,
        samples,
        sampling,
        seed,
        controls=_controls(density, loudness, register, polyphony),
        feel=feel,
        guidance=guidance,
        quantise=quantise,
        progress=progress,
        on_event=on_event,
    )


def _composed_around(
    model: Any, task: Any, samples: int, sampling: Sampling, seed: int | None, **options: Any
) -> list[Sample]:
    from musictx.apps.infill import composed

    options["quantise"] = str(options["quantise"])
    common = {name: options[name] for name in ("quantise", "feel", "guidance")}
    checked(Steered, samples=samples, **common)
    found = composed(
        bundle_of(model),
        task,
        samples=samples,
        seed=seed_of(seed),
        sampling=sampling_of(sampling, SamplingConfig),
        **options,
    )
    return list(found)


def _controls(
    density: float | str | None,
    loudness: float | str | None,
    register: float | str | None,
    polyphony: float | str | None,
) -> dict[str, float | str | None]:
    return {
        "density": density,
        "loudness": loudness,
        "register": register,
        "polyphony": polyphony,
    }


def harmonise(
    melody: Music,
    model: Bundle | str | Path | None = None,
    *,
    samples: int = 1,
    particles: int = 24,
    sampling: TokenSampling | Mapping[str, Any] | str | None = None,
    seed: int | None = 0,
    voices: Sequence[str] = ("soprano",),
    bars: str | None = None,
    phrase_ends: Sequence[int] = (),
    figures: str | None = None,
    progress: Callable[[float], None] | None = None,
) -> list[Sample]:
    """``samples`` four-part chorales with ``melody`` as one of their voices.

    melody     a file, an example by name ("ode_to_joy"), or what :func:`musictx.read` takes; its
               highest notes count
    model      as in :func:`generate`, of four voices; None: the newest such, or the one that comes
               with musictx
    particles  harmonisations written side by side, of which the likeliest survive: more, better

    voices     what stays: the voice that the melody is, or several of a file with a track for each
    bars       "5-8" or "3,5-8": of a file in four voices the bars in which the others are written
               anew
    phrase_ends  bars in which phrases end; default: under fermatas, or at long notes
    figures    of a bass, one word for each of its notes: "5 6 6/5 - #"
    progress   called after each step with the share that is done; what it raises stops it at once

    Raises :class:`UserError` for wrong arguments and for a model that does not write chorales.
    """
    from musictx.apps.harmonise import harmonisations
    from musictx.config import HarmoniseConfig

    asked: dict[str, Any] = {"bars": bars, "phrase_ends": list(phrase_ends), "figures": figures}
    HarmoniseConfig(voices=list(voices), **asked)  # what is wrong is said

    found = harmonisations(
        bundle_of(model, melody=True),
        music_of(melody, "melody"),
        samples=whole("samples", samples, 1),
        particles=whole("particles", particles, 1),
        sampling=sampling_of(sampling, TokenSampling),
        seed=seed_of(seed),
        voices=voices,
        progress=progress,
        **asked,
    )
    return [sample for _, sample in found]


def log_likelihood(model: Bundle | str | Path, music: Music) -> Likelihood:
    """-ln p of a piece under a model, nats: ``ids`` (n,), its tokens; ``nats`` (n,), of each given
    those before it; ``total``, of the whole piece, the smaller the likelier. Of several windows
    where the piece is longer than the model's context (:mod:`musictx.evaluate.likelihood`)."""
    from musictx.evaluate.likelihood import log_likelihood as measured

    return measured(bundle_of(model), music_of(music, "music"))


def train(*options: str) -> Path:
    """Train a model as ``musictx train`` does and return its folder.

    ``options`` are those of the command line: ``musictx.train("corpus.path=~/midi")``.
    """
    from musictx.apps import train as training

    config: TrainConfig = _composed("train", options)
    trained = training.run(config)
    if trained.model is None:
        raise UserError("train: a fast_dev_run leaves no model; leave trainer.fast_dev_run out")
    return trained.model


def evaluate(*options: str) -> Evaluation | Comparison | ChoraleComparison:
    """Measure a model as ``musictx evaluate`` does and return the result, such as an
    :class:`~musictx.evaluate.nll.Evaluation`.

    ``options`` are those of the command line: ``musictx.evaluate("model=piano", "split=test")``.
    """
    from musictx.apps import evaluate as evaluating

    config: EvaluateConfig = _composed("evaluate", options)
    return evaluating.run(config)


def _composed(command: str, options: tuple[str, ...]) -> Any:
    from musictx.compose import compose

    for option in options:
        if not isinstance(option, str):
            raise UserError(
                f"{command}: {option!r} is no option; write them as on the command line, such as "
                f'musictx.{command}("seed=1")'
            )
    return compose(command, options)
