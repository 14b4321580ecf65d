"""The functions of the package, as they are called from Python.

They take what a person has at hand - a model's name, a file, a preset - and say in one sentence
what was wrong with it (:class:`~musictx.errors.UserError`); the work is done in ``apps/``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from musictx.apps import generate as generating
from musictx.arguments import (
    as_list,
    bundle_of,
    constraints_of,
    music_of,
    optional_function,
    processors_of,
    seed_of,
    steered_request,
    whole_number,
)
from musictx.bundle import Bundle
from musictx.chords import is_chart
from musictx.config import (
    AccompanyConfig,
    CompareConfig,
    EvaluateConfig,
    GenerateConfig,
    InfillConfig,
    SamplingConfig,
    TrainConfig,
)
from musictx.errors import UserError, shown
from musictx.notes import Score
from musictx.sampling.events import OnEvent
from musictx.sampling.music import Sample
from musictx.sampling.processors import Processor
from musictx.sampling.stream import Stream
from musictx.tokens.vocab import SoftConstraint

if TYPE_CHECKING:
    from musictx.evaluate.comparison import Comparison
    from musictx.evaluate.likelihood import Likelihood
    from musictx.evaluate.nll import Evaluation

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
    sampling: Sampling = None,
    seed: int | Sequence[int] | None = 0,
    include_primer: bool = True,
    primer_seconds: float | None = None,
    end: str | None = None,
    bars: int | None = None,
    form: str | None = None,
    quantise: str | int = "none",
    density: float | str | None = None,
    loudness: float | str | None = None,
    register: float | str | None = None,
    polyphony: float | str | None = None,
    guidance: float = 1.0,
    constraints: Sequence[SoftConstraint] = (),
    processors: Sequence[Processor] = (),
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
    sampling  a :class:`SamplingConfig`, its options as a dict ({"temperature": 0.9}), or the name
              of a preset of conf/sampling ("safe")
    seed      the same seed gives the same music; None draws one and prints it; or a list with one
              for each of several primers
    end       "cut" at that length; "natural": the piece closes and falls silent by then; "model":
              or before, where the model ends it; None: "cut", for new chorales "model"
    form      sections by letters, such as "AABA", each of ``bars`` bars: by default 8, or those of
              the primer, which is the first; by models that count bars ("song")
    quantise  grid for the new notes, by the primer's tempo: "16", "8", "8t" or "none"
    density, loudness, register, polyphony, guidance  what the music is to be like, in numbers
              or words (docs/composing.md); all but density want a model with control tokens
    constraints, processors  further soft constraints and rules (docs/sampling.md)
    progress  called after each step with the tokens just drawn and the seconds that the slowest
              piece has now
    on_event  called with the number of a piece, from 0, and an :class:`Event` as each new note
              begins and ends while it is composed, in seconds of that piece. Nothing is drawn
              otherwise for it. What it or ``progress`` raises stops composing at once

    Raises :class:`UserError` for wrong arguments and for a primer without a note that the model's
    tokens can hold.
    """
    request = steered_request(
        GenerateConfig,
        sampling,
        density,
        seconds=seconds,
        tokens=tokens,
        bars=bars,
        form=form,
        end=end,
        samples=samples,
        include_primer=include_primer,
        primer_seconds=primer_seconds,
        quantise=quantise,
        loudness=loudness,
        register=register,
        polyphony=polyphony,
        guidance=guidance,
    )
    music: Score | list[Score] | None = None
    if isinstance(primer, list):
        music = [music_of(one, f"primer[{number}]") for number, one in enumerate(primer)]
    elif primer is not None:
        music = music_of(primer, "primer")
    if music == []:
        raise UserError("primer=[]: expected a piece of music, or several")
    first = music[0] if isinstance(music, list) else music
    return generating.generate(
        bundle_of(model, score=first, on_beats=form is not None),
        request,
        music,
        seed=_seeds(seed, music),
        constraints=constraints_of(constraints),
        processors=processors_of(processors),
        progress=optional_function("progress", progress),
        on_event=optional_function("on_event", on_event),
    )


def _seeds(seed: Any, primer: Score | list[Score] | None) -> int | list[int]:
    if not isinstance(seed, list | tuple):
        return seed_of(seed)
    if not isinstance(primer, list) or len(seed) != len(primer):
        raise UserError(
            f"seed={shown(seed)}: expected a number, or a list with one for each primer"
        )
    return [whole_number("seed", one, 0) for one in seed]


def stream(
    model: Bundle | str | Path | None = None,
    *,
    primer: Music | None = None,
    seconds: float | None = None,
    sampling: Sampling = None,
    seed: int | None = 0,
    primer_seconds: float | None = None,
    constraints: Sequence[SoftConstraint] = (),
    processors: Sequence[Processor] = (),
) -> Stream:
    """New music, or a continuation of ``primer``, as an iterator of
    :class:`~musictx.sampling.stream.Event`: notes that begin and end, as soon as they are known.

    seconds   its length; None: without end, in memory that does not grow

    The other arguments are those of :func:`generate`. To stop, call ``close()`` or leave a ``with``
    block. Raises :class:`UserError` as there, and for a model whose tokens write notes with their
    length (MidiTok's), since these are known too late.
    """
    request = steered_request(
        GenerateConfig,
        sampling,
        seconds=seconds,
        primer_seconds=primer_seconds,
    )
    return generating.stream(
        bundle_of(model),
        request,
        None if primer is None else music_of(primer, "primer"),
        seed=seed_of(seed),
        constraints=constraints_of(constraints),
        processors=processors_of(processors),
    )


def infill(
    music: Music,
    model: Bundle | str | Path | None = None,
    *,
    begin: float | str,
    end: float | str,
    tracks: str | int | Sequence[str | int] | None = None,
    samples: int = 1,
    sampling: Sampling = None,
    seed: int | None = 0,
    density: float | str | None = None,
    loudness: float | str | None = None,
    register: float | str | None = None,
    polyphony: float | str | None = None,
    guidance: float = 1.0,
    quantise: str | int = "none",
    progress: Callable[[float], None] | None = None,
    on_event: OnEvent | None = None,
) -> list[Sample]:
    """``music`` with everything that begins from ``begin`` to ``end`` composed anew, ``samples``
    times; all else stays, also in the MIDI file that :func:`musictx.write` makes of it.

    begin, end  bars by the meter of the music, the last one included (5, 8), or seconds ("12.5s")
    tracks      only these, by names or numbers from 1, separated by commas; None: all but drums

    The model is one of chorales or has control tokens; other arguments as in :func:`generate`;
    ``progress`` is called with the seconds of all versions so far. Models of chorales, which
    develop many ways side by side, tell no events.
    Raises :class:`UserError` for wrong arguments and for another model.
    """
    request = steered_request(
        InfillConfig,
        sampling,
        density,
        begin=shown(begin),
        end=shown(end),
        tracks=None if tracks is None else _joined("tracks", tracks),
        samples=samples,
        loudness=loudness,
        register=register,
        polyphony=polyphony,
        guidance=guidance,
        quantise=quantise,
    )
    return _composed_around(music_of(music, "music"), model, request, seed, progress, on_event)


def _joined(name: str, tracks: Any) -> str:
    return ",".join(shown(track) for track in as_list(name, tracks))


def accompany(
    melody: Music | None = None,
    model: Bundle | str | Path | None = None,
    *,
    chords: str | None = None,
    add: str | Sequence[str] | None = None,
    style: str | None = None,
    melody_track: str | int | None = None,
    samples: int = 1,
    sampling: Sampling = None,
    seed: int | None = 0,
    density: float | str | None = None,
    loudness: float | str | None = None,
    register: float | str | None = None,
    polyphony: float | str | None = None,
    guidance: float = 1.0,
    quantise: str | int = "none",
    progress: Callable[[float], None] | None = None,
    on_event: OnEvent | None = None,
) -> list[Sample]:
    """``melody``, all its tracks as they are, with an accompaniment on a track of its own,
    ``samples`` times.

    chords        a sheet to follow, such as ``| C | Am7 F | G |``, from the bar of the melody's
                  first note on, over and over; without a melody as long as the sheet is
    add           parts to compose to all that is there, by name, separated by commas: "bass,drums"
    style         of the drums, such as "rock"
    melody_track  where the melody is, by name or number from 1; None: the only track, the one
                  called melody, or else the highest notes

    The model has control tokens; other arguments as in :func:`generate` and :func:`infill`. Raises
    :class:`UserError` for wrong arguments and for a model without control tokens.
    """
    request = steered_request(
        AccompanyConfig,
        sampling,
        density,
        chords=chords,
        add=None if add is None else _joined("add", add),
        style=style,
        melody_track=None if melody_track is None else _joined("melody_track", melody_track),
        samples=samples,
        loudness=loudness,
        register=register,
        polyphony=polyphony,
        guidance=guidance,
        quantise=quantise,
    )
    if melody is None and chords is None:
        raise UserError("melody=None: expected a melody, or chords='| C | Am7 F | G |'")
    score = Score() if melody is None else music_of(melody, "melody")
    return _composed_around(score, model, request, seed, progress, on_event)


def _composed_around(
    score: Score,
    model: Bundle | str | Path | None,
    request: InfillConfig | AccompanyConfig,
    seed: int | None,
    progress: Callable[[float], None] | None,
    on_event: OnEvent | None,
) -> list[Sample]:
    from musictx.apps.infill import composed
    from musictx.apps.tasks import task_of

    task = task_of(request, score)
    more: dict[str, Any] = {
        "progress": optional_function("progress", progress),
        "on_event": optional_function("on_event", on_event),
    }
    with_chords = getattr(request, "chords", None) is not None or is_chart(score)
    bundle = bundle_of(model, score=score, on_beats=with_chords)
    return list(composed(bundle, task, request, seed=seed_of(seed), **more))


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


def evaluate(*options: str) -> Evaluation:
    """Measure the likelihood of a corpus as ``musictx evaluate`` does and return the result, such
    as an :class:`~musictx.evaluate.nll.Evaluation`.

    ``options`` are those of the command line: ``musictx.evaluate("model=piano", "split=test")``.
    """
    from musictx.apps import evaluate as command

    config: EvaluateConfig = _composed("evaluate", options)
    return command.run(config)


def compare(*options: str) -> Comparison:
    """Measure samples beside real music as ``musictx compare`` does and return the result.

    ``options`` are those of the command line:
    ``musictx.compare("samples=generated", "against=~/midi")``.
    """
    from musictx.apps import compare as command

    config: CompareConfig = _composed("compare", options)
    return command.run(config)


def _composed(command: str, options: tuple[str, ...]) -> Any:
    from musictx.compose import compose

    for option in options:
        if not isinstance(option, str):
            raise UserError(
                f"{command}: {option!r} is no option; write them as on the command line, such as "
                f'musictx.{command}("seed=1")'
            )
    return compose(command, options)
