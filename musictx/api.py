"""The public functions of the package.

Their options are those of the commands (``musictx generate --help``), checked by
:func:`musictx.options.make_config`; ``apps/`` does the work. Wrong arguments raise
:class:`~musictx.errors.UserError` with a message of one sentence. Type checkers and editors read
``musictx/__init__.pyi``, which ``scripts/stub.py`` writes from the dataclasses of options.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Sequence
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from musictx import shipped
from musictx.apps import generate as generating
from musictx.apps.results import fresh_seed, print_line, suits_bars
from musictx.bundle import Bundle, load
from musictx.config import GenerateConfig
from musictx.errors import UserError, memory_errors, shown
from musictx.formats import read
from musictx.hydra_config import compose
from musictx.notes import Score
from musictx.options import make_config
from musictx.sampling.constraints import Penalty
from musictx.sampling.events import OnEvent
from musictx.sampling.processors import Processor
from musictx.sampling.sample import Sample
from musictx.sampling.stream import Stream

if TYPE_CHECKING:
    from musictx.likelihood import Likelihood

#: What :func:`musictx.read` takes (a path, bytes, a Score, a ``mido.MidiFile``, ...), or a Sample.
Music = Any
Model: TypeAlias = Bundle | str | Path | None

#: Options of commands that the functions do not take: they are arguments of another type here, or
#: concern the written files.
EXCLUDED = ("model", "model.path", "seed", "device", "limits", "repeats", "out", "render")
#: The options of generate that also apply to a stream.
STREAM_OPTIONS = ("seconds", "primer_seconds", "sampling")


@memory_errors()
def generate(
    model: Model = None,
    *,
    primer: Music | list[Music] | None = None,
    seed: int | Sequence[int] | None = 0,
    penalties: Sequence[Penalty] = (),
    processors: Sequence[Processor] = (),
    progress: Callable[[int, float], None] | None = None,
    on_event: OnEvent | None = None,
    **options: Any,
) -> list[Sample]:
    """Compose new pieces, or continuations of ``primer``. Return a list of :class:`Sample`.

    model     a loaded model, its folder or its name. None: the newest model under runs/, or else
              an included one
    primer    music to continue: the name of an example ("mozart_k545"), or a file or anything else
              that :func:`musictx.read` takes; or a list of these, which are continued in one batch
    seed      the same seed gives the same music; a list has one seed for each primer. None: a
              random seed, which is printed
    penalties, processors  functions that change the probabilities of the next id
              (docs/python.md, "A rule of your own")
    progress  called after each step with the number of tokens drawn, and the length in seconds of
              the shortest piece in the batch
    on_event  called with the index of a piece and an :class:`Event` when one of its new notes
              begins or ends: during composing or, if notes may still change, when the piece is
              finished (with ``candidates``: chosen). It does not change the music. An exception in
              it or in ``progress`` stops composing
    options   those of ``musictx generate``: seconds, bars, samples, form, key, density, ...;
              ``sampling`` is the name of a preset ("safe"), a :class:`SamplingConfig`, or a dict
              of its fields

    Raises :class:`UserError` for wrong arguments, and for a primer with no note that the model's
    tokens can represent. ::

        pieces = musictx.generate("piano", primer="mozart_k545", seconds=30, samples=2, seed=1)
    """
    functions = _user_functions(options, penalties, processors)
    config = make_config("generate", options, without=EXCLUDED)
    music: Score | list[Score] | None = None
    if isinstance(primer, list):
        music = [to_score(one, f"primer[{number}]") for number, one in enumerate(primer)]
    elif primer is not None:
        music = to_score(primer, "primer")
    if music == []:
        raise UserError("primer=[]: expected a piece of music, or several")
    first = music[0] if isinstance(music, list) else music
    return generating.generate(
        load_model(model, in_bars=suits_bars(config, first)),
        config,
        music,
        seed=_seeds(seed, music),
        **functions,
        progress=check_function("progress", progress),
        on_event=check_function("on_event", on_event),
    )


@memory_errors()
def stream(
    model: Model = None,
    *,
    primer: Music | None = None,
    seed: int | None = 0,
    penalties: Sequence[Penalty] = (),
    processors: Sequence[Processor] = (),
    **options: Any,
) -> Stream:
    """Compose new music, or a continuation of ``primer``. Return an iterator of
    :class:`~musictx.sampling.stream.Event`: the beginnings and ends of notes as they are drawn.

    options   ``seconds``, the length (by default the stream never ends, in constant memory),
              ``primer_seconds`` and the options of sampling

    The other arguments are those of :func:`generate`. To stop, call ``close()`` or leave a ``with``
    block. Raises :class:`UserError` as :func:`generate` does, and for a model whose tokens store
    notes with their length, since these are drawn too late to be played at once. ::

        with musictx.stream("piano", seconds=10) as events:
            for event in events:
                print(event.seconds, event.on, event.pitch)
    """
    functions = _user_functions(options, penalties, processors)
    without = [f.name for f in fields(GenerateConfig) if f.name not in STREAM_OPTIONS]
    config = make_config("generate", options, without=without)
    score = None if primer is None else to_score(primer, "primer")
    seed = check_seed(seed)
    return generating.stream(load_model(model), config, score, seed=seed, **functions)


@memory_errors()
def infill(
    music: Music,
    model: Model = None,
    *,
    begin: float | str | None = None,
    end: float | str | None = None,
    seed: int | None = 0,
    progress: Callable[[float], None] | None = None,
    on_event: OnEvent | None = None,
    **options: Any,
) -> list[Sample]:
    """Replace the notes of ``music`` that begin from ``begin`` to ``end``. Return a list of
    :class:`Sample`. Everything else stays, also in the file that :func:`musictx.write` writes.

    begin, end  the first and the last bar to replace (5, 8), or seconds ("12.5s"); required
    options     those of ``musictx infill``: tracks, samples, sampling, density, ...
    progress    called with the seconds composed so far in all versions

    The other arguments are those of :func:`generate`. The model must have control tokens or be one
    of chorales, which reports no events. Raises :class:`UserError` for other models and for wrong
    arguments. ::

        (piece,) = musictx.infill("song.mid", "song", begin=5, end=8, tracks="Bass")
    """
    config = make_config("infill", {"begin": begin, "end": end, **options}, without=EXCLUDED)
    return _compose_task(to_score(music, "music"), model, config, seed, progress, on_event)


@memory_errors()
def accompany(
    melody: Music | None = None,
    model: Model = None,
    *,
    chords: str | None = None,
    seed: int | None = 0,
    progress: Callable[[float], None] | None = None,
    on_event: OnEvent | None = None,
    **options: Any,
) -> list[Sample]:
    """Compose an accompaniment for ``melody`` on further tracks; its own tracks stay. Return a list
    of :class:`Sample`.

    chords    a chord sheet, such as ``| C | Am7 F | G |``. It begins in the bar of the melody's
              first note and is repeated; without a melody it is played once
    options   those of ``musictx accompany``: add, style, melody_track, samples, density, ...

    The other arguments are those of :func:`infill`. Raises :class:`UserError` for wrong arguments
    and for a model without control tokens. ::

        (piece,) = musictx.accompany("ode_to_joy", "song", add="bass,drums", seed=1)
    """
    config = make_config("accompany", {"chords": chords, **options}, without=EXCLUDED)
    if melody is None and chords is None:
        raise UserError("melody=None: expected a melody, or chords='| C | Am7 F | G |'")
    score = Score() if melody is None else to_score(melody, "melody")
    return _compose_task(score, model, config, seed, progress, on_event)


def _compose_task(
    score: Score, model: Model, config: Any, seed: int | None, progress: Any, on_event: Any
) -> list[Sample]:
    from musictx.apps.infill import compose_versions
    from musictx.apps.tasks import task_of

    task = task_of(config, score, ("begin", "end"))
    listeners: dict[str, Any] = {"on_event": check_function("on_event", on_event)}
    if check_function("progress", progress) is not None:
        listeners["progress"] = lambda _, seconds: progress(seconds)
    bundle = load_model(model, in_bars=suits_bars(config, score))
    return list(compose_versions(bundle, task, config, seed=check_seed(seed), **listeners))


@memory_errors()
def log_likelihood(model: Bundle | str | Path, music: Music) -> Likelihood:
    """Compute the negative log-likelihood of a piece under a model, in nats.

    Return a :class:`~musictx.likelihood.Likelihood`: ``ids`` (n,), the tokens; ``nats`` (n,),
    -ln p of each token given the tokens before it; and ``total``, the sum of ``nats``. A piece
    longer than the context of the model is measured in several windows. ``model`` and ``music``
    are as in :func:`generate` and :func:`musictx.read`; wrong ones raise :class:`UserError`. ::

        musictx.log_likelihood("piano", "mozart_k545").total
    """
    from musictx import likelihood

    return likelihood.log_likelihood(load_model(model), to_score(music, "music"))


@memory_errors()
def train(*words: str) -> Path:
    """Train a model as ``musictx train`` does; return the model folder.

    ``words`` are arguments as on the command line. Raises :class:`UserError` for wrong ones. ::

        folder = musictx.train("corpus.path=~/midi", "model=tiny", "trainer.max_steps=500")
    """
    from musictx.apps import train as training

    trained = training.run(compose([*map(str, words)]))
    if trained.model is None:
        raise UserError("train: a fast_dev_run saves no model; leave trainer.fast_dev_run out")
    return trained.model


def load_model(model: Any, *, tokenizer: str | None = None, in_bars: bool = False) -> Bundle:
    """Return ``model``; a folder or name is loaded. ``None``: the model that the command line would
    choose (:func:`musictx.shipped.find_latest`)."""
    if isinstance(model, Bundle):
        return model
    if model is None:
        model = shipped.find_latest(tokenizer=tokenizer, in_bars=in_bars)
    return load(model)


def to_score(music: Any, name: str) -> Score:
    """Convert ``music``, :data:`Music` or the name of an example, to a Score. Error messages begin
    with ``name``, the name of the argument."""
    if isinstance(music, str) and not os.path.exists(os.path.expanduser(music)):
        music = shipped.examples().get(music, music)
    try:
        return read(getattr(music, "score", music))
    except UserError as error:
        raise UserError(f"{name}: {error}") from None


def check_seed(seed: Any) -> int:
    """Return ``seed`` if it is valid. ``None``: a random seed, which is printed."""
    if seed is None:
        seed = fresh_seed()
        print_line(f"seed: {seed}")
    return int(make_config("generate", {"seed": seed}).seed)


def _seeds(seed: Any, primer: Score | list[Score] | None) -> int | list[int]:
    if not isinstance(seed, list | tuple):
        return check_seed(seed)
    if not isinstance(primer, list) or len(seed) != len(primer):
        raise UserError(
            f"seed={shown(seed)}: expected a number, or a list with one for each primer"
        )
    return [check_seed(one) for one in seed]


def _user_functions(options: dict[str, Any], penalties: Any, processors: Any) -> dict[str, Any]:
    """Check the caller's functions ``penalties`` and ``processors``, and return them by name.
    ``constraints``, the former name of ``penalties``, is removed from ``options``."""
    if "constraints" in options:
        warnings.warn("constraints= is now penalties=", FutureWarning, stacklevel=4)
        penalties = options.pop("constraints")
    for name, value in (("penalties", penalties), ("processors", processors)):
        if not isinstance(value, list | tuple) or not all(map(callable, value)):
            raise UserError(f"{name}={shown(value)}: expected a list of functions")
    return {"penalties": penalties, "processors": processors}


def check_function(name: str, value: Any) -> Any:
    """Return ``value``. Raises :class:`UserError` if it is neither a function nor None."""
    if value is not None and not callable(value):
        raise UserError(f"{name}={shown(value)}: expected a function")
    return value
