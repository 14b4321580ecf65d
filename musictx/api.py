"""The public functions of the package.

Their options are those of the commands (``musictx generate --help``), checked by
:func:`musictx.options.make_config`; the work is done in ``apps/``. A wrong argument is a
:class:`~musictx.errors.UserError` of one sentence. Type checkers and editors read
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
from musictx.apps.results import fresh_seed, say, suits_bars
from musictx.bundle import Bundle, load
from musictx.config import GenerateConfig
from musictx.errors import UserError, shown
from musictx.formats import CHORD_SUFFIXES, SUFFIXES, read
from musictx.hydra_config import compose
from musictx.notes import Score
from musictx.options import make_config
from musictx.sampling.constraints import Penalty
from musictx.sampling.constraints import checked as checked_penalties
from musictx.sampling.events import OnEvent
from musictx.sampling.processors import Processor
from musictx.sampling.processors import checked as checked_processors
from musictx.sampling.sample import Sample
from musictx.sampling.stream import Stream

if TYPE_CHECKING:
    from musictx.likelihood import Likelihood

#: A path, bytes, a Score, a ``mido.MidiFile`` or a ``pretty_midi.PrettyMIDI``.
Music = Any
Model: TypeAlias = Bundle | str | Path | None

#: Options of commands that are not options here: they are arguments of other types, or are about
#: the written files.
EXCLUDED = ("model", "model.path", "seed", "device", "limits", "repeats", "out", "render")
#: The options of generate that a stream has, too.
STREAM_OPTIONS = ("seconds", "primer_seconds", "sampling")


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

    model     a loaded model, its folder or its name; None: the newest under runs/, or the
              included one
    primer    music to continue: a file, an example by name ("mozart_k545"), or what
              :func:`musictx.read` takes; or a list of these, continued side by side
    seed      the same seed gives the same music; None draws one and prints it; or a list with one
              for each of several primers
    penalties, processors  functions that change the probabilities of the next id
              (docs/python.md, "A rule of your own")
    progress  called after each step with the number of drawn tokens and the length in seconds of
              the shortest of the pieces that are composed side by side
    on_event  called with the number of a piece, from 0, and an :class:`Event` when a new note is
              composed to begin or end; with ``candidates`` when a piece has been chosen, and in
              bars, with drums and other new parts, when it is finished. It does not change the
              music. If it or ``progress`` raises an exception, composing stops
    options   those of ``musictx generate``: seconds, bars, samples, form, key, density, ...;
              ``sampling`` is a dict of those of sampling, a :class:`SamplingConfig` or the name of
              a preset ("safe")

    Raises :class:`UserError` for wrong arguments and for a primer without a note that the model's
    tokens can hold. ::

        pieces = musictx.generate("piano", primer="mozart_k545", seconds=30, samples=2, seed=1)
    """
    functions = _user_functions(options, penalties, processors)
    config = make_config("generate", options, without=EXCLUDED)
    music: Score | list[Score] | None = None
    if isinstance(primer, list):
        music = [music_of(one, f"primer[{number}]") for number, one in enumerate(primer)]
    elif primer is not None:
        music = music_of(primer, "primer")
    if music == []:
        raise UserError("primer=[]: expected a piece of music, or several")
    first = music[0] if isinstance(music, list) else music
    return generating.generate(
        model_of(model, in_bars=suits_bars(config, first)),
        config,
        music,
        seed=_seeds(seed, music),
        **functions,
        progress=checked_function("progress", progress),
        on_event=checked_function("on_event", on_event),
    )


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

    options   ``seconds``, the length (without it the stream has no end, and its memory does not
              grow), ``primer_seconds`` and the options of sampling

    The other arguments are those of :func:`generate`. To stop, call ``close()`` or leave a ``with``
    block. Raises :class:`UserError` as :func:`generate` does, and for a model whose tokens write
    notes with their length (MidiTok's), since the end of a note would be drawn too late. ::

        with musictx.stream("piano", seconds=10) as events:
            for event in events:
                print(event.seconds, event.on, event.pitch)
    """
    functions = _user_functions(options, penalties, processors)
    without = [f.name for f in fields(GenerateConfig) if f.name not in STREAM_OPTIONS]
    config = make_config("generate", options, without=without)
    return generating.stream(
        model_of(model),
        config,
        None if primer is None else music_of(primer, "primer"),
        seed=seed_of(seed),
        **functions,
    )


def infill(
    music: Music,
    model: Model = None,
    *,
    begin: float | str,
    end: float | str,
    seed: int | None = 0,
    progress: Callable[[float], None] | None = None,
    on_event: OnEvent | None = None,
    **options: Any,
) -> list[Sample]:
    """Replace the notes of ``music`` that begin from ``begin`` to ``end``. Return a list of
    :class:`Sample`. Everything else stays, also in the file that :func:`musictx.write` writes.

    begin, end  bars of the music (5, 8), the last one included, or seconds ("12.5s")
    options     those of ``musictx infill``: tracks, samples, sampling, density, ...

    The model writes chorales or has control tokens. Other arguments are those of
    :func:`generate`; ``progress`` is called with the seconds of all versions so far. Models of
    chorales report no events. Raises :class:`UserError` for wrong arguments and other models. ::

        (piece,) = musictx.infill("song.mid", "song", begin=5, end=8, tracks="Bass")
    """
    config = make_config("infill", {"begin": begin, "end": end, **options}, without=EXCLUDED)
    return _composed_around(music_of(music, "music"), model, config, seed, progress, on_event)


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
    """Compose an accompaniment to ``melody`` on another track; all its tracks stay. Return a list
    of :class:`Sample`.

    chords    a chord sheet, such as ``| C | Am7 F | G |``, repeated from the bar of the melody's
              first note on; without a melody it is played once
    options   those of ``musictx accompany``: add, style, melody_track, samples, density, ...

    The model has control tokens. Other arguments are those of :func:`generate` and :func:`infill`.
    Raises :class:`UserError` for wrong arguments and for a model without control tokens. ::

        (piece,) = musictx.accompany("ode_to_joy", "song", add="bass,drums", seed=1)
    """
    config = make_config("accompany", {"chords": chords, **options}, without=EXCLUDED)
    if melody is None and chords is None:
        raise UserError("melody=None: expected a melody, or chords='| C | Am7 F | G |'")
    score = Score() if melody is None else music_of(melody, "melody")
    return _composed_around(score, model, config, seed, progress, on_event)


def _composed_around(
    score: Score, model: Model, config: Any, seed: int | None, progress: Any, on_event: Any
) -> list[Sample]:
    from musictx.apps.infill import compose_versions
    from musictx.apps.tasks import task_of

    task = task_of(config, score, ("begin", "end"))
    called = checked_function("progress", progress)
    more: dict[str, Any] = {"progress": called and (lambda _, seconds: called(seconds))}
    more["on_event"] = checked_function("on_event", on_event)
    bundle = model_of(model, in_bars=suits_bars(config, score))
    return list(compose_versions(bundle, task, config, seed=seed_of(seed), **more))


def log_likelihood(model: Bundle | str | Path, music: Music) -> Likelihood:
    """Compute the negative log-likelihood of a piece under a model, in nats.

    Return a :class:`~musictx.likelihood.Likelihood`: ``ids`` (n,), the tokens; ``nats`` (n,),
    -ln p of each token given the tokens before it; ``total``, their sum: the smaller, the likelier.
    A piece that is longer than the context of the model is measured in several windows. Arguments
    and errors are those of :func:`generate`. ::

        musictx.log_likelihood("piano", "mozart_k545").total
    """
    from musictx.likelihood import log_likelihood as measured

    return measured(model_of(model), music_of(music, "music"))


def train(*words: str) -> Path:
    """Train a model as ``musictx train`` does and return its folder.

    ``words`` are the arguments of the command line. Raises :class:`UserError` for wrong ones. ::

        folder = musictx.train("corpus.path=~/midi", "model=tiny", "trainer.max_steps=500")
    """
    from musictx.apps import train as training

    trained = training.run(compose(checked_words("train", words)))
    if trained.model is None:
        raise UserError("train: a fast_dev_run leaves no model; leave trainer.fast_dev_run out")
    return trained.model


def checked_words(command: str, words: Sequence[Any]) -> Sequence[str]:
    """Return ``words``. Raises :class:`UserError` if one of them is not text."""
    for word in words:
        if not isinstance(word, str):
            raise UserError(
                f"{command}: {word!r} is no option; write them as on the command line, such as "
                f'musictx.{command}("seed=1")'
            )
    return words


def model_of(model: Any, *, tokenizer: str | None = None, in_bars: bool = False) -> Bundle:
    """Return a loaded model, or load the one of a folder or name. By default it is the model that
    the command line chooses (:func:`musictx.shipped.find_latest`)."""
    if isinstance(model, Bundle):
        return model
    if model is None:
        model = shipped.find_latest(tokenizer=tokenizer, in_bars=in_bars)
    if shown(model).lower().endswith(SUFFIXES + CHORD_SUFFIXES):
        raise UserError(
            f"model={shown(model)}: expected a model, not music; "
            f"musictx.generate(primer={shown(repr(str(model)))}) continues a file"
        )
    return load(model)


def music_of(music: Any, name: str) -> Score:
    """Convert ``music`` (:data:`Music`, or a sample) to a Score. Errors begin with ``name``, the
    argument."""
    if isinstance(music, str) and not os.path.exists(os.path.expanduser(music)):
        music = shipped.examples().get(music, music)
    try:
        return read(getattr(music, "score", music))
    except UserError as error:
        raise UserError(f"{name}: {error}") from None


def seed_of(seed: Any) -> int:
    """Check and return ``seed``; draw and print one for None."""
    if seed is None:
        seed = fresh_seed()
        say(f"seed: {seed}")
    config: GenerateConfig = make_config("generate", {"seed": seed})
    return config.seed or 0


def _seeds(seed: Any, primer: Score | list[Score] | None) -> int | list[int]:
    if not isinstance(seed, list | tuple):
        return seed_of(seed)
    if not isinstance(primer, list) or len(seed) != len(primer):
        raise UserError(
            f"seed={shown(seed)}: expected a number, or a list with one for each primer"
        )
    return [seed_of(one) for one in seed]


def _user_functions(options: dict[str, Any], penalties: Any, processors: Any) -> dict[str, Any]:
    """Check ``penalties`` and ``processors``, functions of the caller. ``constraints``, the former
    name of ``penalties``, is taken out of ``options``."""
    if "constraints" in options:
        warnings.warn("constraints= is now penalties=", FutureWarning, stacklevel=3)
        penalties = options.pop("constraints")
    for name, value in (("penalties", penalties), ("processors", processors)):
        if not isinstance(value, list | tuple) or not all(map(callable, value)):
            raise UserError(f"{name}={shown(value)}: expected a list of functions")
    return {
        "penalties": checked_penalties(penalties),
        "processors": checked_processors(processors),
    }


def checked_function(name: str, value: Any) -> Any:
    """Return ``value``. Raises :class:`UserError` if it is neither a function nor None."""
    if value is not None and not callable(value):
        raise UserError(f"{name}={shown(value)}: expected a function")
    return value
