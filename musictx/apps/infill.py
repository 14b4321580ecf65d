"""``musictx infill FILE from=5 to=8``, ``musictx accompany FILE``: new notes around known ones."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from musictx import musicxml
from musictx.apps import parts
from musictx.apps.harmonise import pieces
from musictx.apps.results import (
    Result,
    Work,
    check_notation,
    new_notes,
    progress_of,
    read_music,
    wanted_of,
)
from musictx.beats import Beats
from musictx.bundle import Bundle
from musictx.chorale.gap import Gap
from musictx.config import AccompanyConfig, InfillConfig, SamplingConfig
from musictx.config.harmonise import VOICES
from musictx.errors import UserError
from musictx.notes import Score
from musictx.sampling import fill, soft, timeline
from musictx.sampling.events import OnEvent
from musictx.sampling.music import Sample
from musictx.sampling.soft import NoteLimits
from musictx.sampling.steer import FEWEST, has_controls, steering, unable
from musictx.shipped import FOUR_VOICES
from musictx.tokens.controls import asked, measured

#: A part that is to be composed is as dense as the music so many seconds around it.
AROUND = 10.0
#: A melody and its accompaniment have so many notes for each of the melody's, as real music has (a
#: bit fewer with fast melodies), but no more than is usual in the model's corpus (scripts/LOG.md).
ACCOMPANIED = 3.0
#: Options that a gap in a chorale does not know.
NOT_OF_VOICES = (*soft.OF_EVENTS, "key", "scale", "low", "high", "outside", "phrases")


@dataclass(frozen=True)
class Task:
    """Notes to be composed for a piece.

    kept     the notes that stay, as they stand in the file;  begin, end  seconds in it
    closes   whether ``kept`` goes on after ``end``;  tracks  for new notes; empty: a new one
    around   what the controls measure (:mod:`musictx.tokens.controls`) in the music around a gap;
             of a melody that is accompanied its density
    score    the file of a gap;  voices  of a chorale to be written anew, empty: all
    particles  ways to write them that a model of chorales develops
    """

    kept: Score
    begin: float
    end: float
    closes: bool
    tracks: tuple[int, ...]
    around: Mapping[str, float] = field(default_factory=dict)
    score: Score | None = None
    voices: tuple[str, ...] = ()
    particles: int = 24


def gap(
    score: Score,
    begin: str | float | None,
    end: str | float | None,
    tracks: str | None,
    voices: str | Sequence[str] | None = None,
    particles: int = 24,
) -> Task:
    """Everything that begins from ``begin`` to ``end``, in ``tracks`` or, of a chorale, ``voices``,
    is to be composed anew."""
    clock = Beats(score)
    start, stop = moment("from", begin, clock), moment("to", end, clock)
    if not 0 <= start < stop:
        raise UserError(f"to={end}: expected a place after from={begin}")
    if start >= score.duration:
        bars = clock.bar(float(clock.quarters(score.duration)))[0]
        raise UserError(
            f"from={begin}: the file ends before that, after {score.duration:.1f} s, in bar {bars}"
        )
    notes = score.notes
    chosen = sorted(set(notes["track"].tolist()))
    if tracks is not None:
        chosen = [find_track(score, name, "tracks") for name in str(tracks).split(",")]
    inside = (notes["start"] >= start - 1e-6) & (notes["start"] < stop - 1e-6)
    kept = score.with_notes(notes[~(inside & np.isin(notes["track"], chosen))])
    first, last = max(start - AROUND, 0.0), min(stop + AROUND, score.duration)
    near = notes[(notes["start"] >= first) & (notes["start"] < last)].copy()
    for name in ("start", "end"):
        near[name] -= first
    around = measured(near, last - first) if len(near) >= FEWEST else {}
    named = voices.split(",") if isinstance(voices, str) else voices or ()
    chorale = score, tuple(name.strip().lower() for name in named), particles
    if not set(chorale[1]) <= set(VOICES):
        raise UserError(f"voices={voices}: expected one or more of {', '.join(VOICES)}")
    return Task(kept, start, stop, True, tuple(chosen), around, *chorale)


def under(score: Score, melody_track: str | None) -> Task:
    """An accompaniment is to be composed to one track of ``score``, which alone is kept."""
    notes = score.notes
    if melody_track is not None:
        notes = notes[notes["track"] == find_track(score, melody_track, "melody_track")]
    elif len(set(notes["track"].tolist())) > 1:
        named = [track for track, name in score.names.items() if name.strip().lower() == "melody"]
        mine = np.isin(notes["track"], named)
        notes = notes[mine] if mine.any() else highest(notes[~notes["drum"]])
    if not len(notes):
        raise UserError("melody: this file holds no notes, or only drums; give one with a melody")
    kept = score.with_notes(notes)
    kept = replace(kept, pedals=kept.pedals[np.isin(kept.pedals["track"], notes["track"])])
    begin, end = float(notes["start"].min()), float(notes["end"].max())
    return Task(kept, begin, end, False, (), {"density": len(notes) / max(end - begin, 1.0)})


def moment(option: str, given: str | float | None, clock: Beats) -> float:
    """A bar or ``12.5s`` as seconds: where a bar begins (``from``) or ends (``to``)."""
    text = "" if given is None else str(given).strip()
    if seconds := re.fullmatch(r"(\d+(?:\.\d*)?|\.\d+)\s*s", text):
        return float(seconds[1])
    if not re.fullmatch(r"[1-9]\d{0,5}", text):
        came = ": missing; give" if given is None else f"={given}: expected"
        raise UserError(f"{option}{came} a bar, {option}=5, or seconds, {option}=12.5s")
    bars = int(text) - (option == "from")
    return float(clock.seconds(clock.bar_line(0.0, bars)))


def find_track(score: Score, wanted: str, option: str) -> int:
    """A track by its name, in capitals or not, or by its number from 1 among those with notes."""
    tracks = sorted(set(score.notes["track"].tolist()))
    name = wanted.strip().lower()
    for track in tracks:
        if score.names.get(track, "").strip().lower() == name:
            return track
    if name.isdigit() and 1 <= int(name) <= len(tracks):
        return tracks[int(name) - 1]
    known = ", ".join(f"{n} {score.names.get(t, '')}".strip() for n, t in enumerate(tracks, 1))
    raise UserError(f"{option}={wanted}: expected a track by name or number: {known}")


def highest(notes: np.ndarray) -> np.ndarray:
    """The notes above which none sounds when they begin."""
    kept = [
        note
        for note in notes
        if not np.any(
            (notes["start"] <= note["start"])
            & (notes["end"] > note["start"])
            & (notes["pitch"] > note["pitch"])
        )
    ]
    return np.array(kept, notes.dtype)


def composed(
    bundle: Bundle,
    task: Task,
    *,
    samples: int = 1,
    seed: int = 0,
    sampling: SamplingConfig | None = None,
    controls: Mapping[str, str | float | None] | None = None,
    feel: str | None = None,
    guidance: float = 1.0,
    quantise: str = "none",
    progress: Callable[[float], None] | None = None,
    on_event: OnEvent | None = None,
) -> Iterator[Sample]:
    """Each version of a ``task``, as it is done. Sample i of seed s is always the same.

    progress  called with the seconds of all versions so far;  on_event  with the number of a
    version and an event as each new note begins and ends (:mod:`musictx.sampling.events`; not by
    models of chorales). What they raise stops all.

    A gap is filled by a model of chorales too. Raises ``UserError`` for another model without
    control tokens.
    """
    wanted = asked(controls or {}, feel)
    if bundle.tokenizer.name == FOUR_VOICES and task.score is not None:
        if wanted or guidance != 1:
            raise UserError(f"{next(iter(wanted), 'guidance')}: {unable(bundle.tokenizer)}")
        if quantise not in ("none", "16"):
            raise UserError(f"quantise={quantise}: a model of chorales writes sixteenths; give 16")
        span = Gap.between(task.score, task.begin, task.end, task.voices, task.tracks)
        sampling = sampling or SamplingConfig()
        soft.refuse(sampling, NOT_OF_VOICES, "where voices of a chorale are written anew")
        steps = len(span.given)

        def told(step: float) -> None:
            if progress is not None:
                progress((task.end - task.begin) * step / steps)

        for _, sample in pieces(bundle, span, samples, task.particles, sampling, seed, told):
            yield replace(sample, seam=task.begin, seconds=task.end - task.begin, ended="seconds")
        return
    if task.voices:
        raise UserError(
            f"voices={','.join(task.voices)}: expected a model of four voices, model=chorale; of "
            "another name tracks="
        )
    if not has_controls(bundle.tokenizer):
        raise UserError(f"model: {unable(bundle.tokenizer)}")
    limits = NoteLimits.of(bundle.card.get("note_limits"))
    if sampling is not None and sampling.density is not None:
        wanted = {"density": sampling.density, **wanted}
    elif not task.closes:
        density = min(ACCOMPANIED * task.around["density"], limits.density or np.inf)
        wanted = {"density": density, **wanted}
    steer = steering(bundle, {**task.around, **wanted}, guidance)
    steer = replace(steer, density=wanted.get("density"))
    known, programs = as_trained(bundle, task.kept, task)
    placed = partial(_placed, bundle, task, known, programs, quantise)
    sampling = sampling or SamplingConfig()
    if steer.density is not None:
        sampling = replace(sampling, density=steer.density)
    part = fill.Part(
        bundle.model,
        bundle.tokenizer,  # type: ignore[arg-type]
        known,
        task.begin,
        task.end,
        closes=task.closes,
        segment=np.inf if task.closes else fill.SEGMENT,
        programs=programs,
        steering=steer,
    )
    versions = fill.compose(
        part,
        [(seed, number) for number in range(samples)],
        sampling=sampling,
        limits=replace(limits, density=task.around.get("density")),
        placed=placed,
        progress=progress,
        on_event=on_event,
    )
    for version in versions:
        yield _sample(bundle, task, placed(version.new), version.done)


def _placed(
    bundle: Bundle,
    task: Task,
    known: Score,
    programs: Collection[int] | None,
    quantise: str,
    new: np.ndarray,
) -> np.ndarray:
    """``new`` notes on their tracks and on the grid that is asked for."""
    new = timeline.quantised(new, Beats(task.kept), quantise)
    mine = np.isin(known.notes["track"], task.tracks)
    if mine.any():
        return timeline.on_tracks(new, known.with_notes(known.notes[mine]), bundle.tokenizer)
    if task.tracks:  # nothing is left on them
        new["track"] = task.tracks[0]
    else:  # each program beside what is there
        new["track"] = _first_free(task.kept)
        if programs is not None:
            new["track"] += np.searchsorted(sorted(programs), new["program"]).astype("u2")
    return new


def _first_free(score: Score) -> int:
    """A track after all that are there."""
    return max([*score.names, *score.notes["track"].tolist()], default=-1) + 1


def _sample(bundle: Bundle, task: Task, new: np.ndarray, done: bool) -> Sample:
    kept, names = task.kept, dict(task.kept.names)
    if not task.tracks:
        for number, track in enumerate(np.unique(new["track"]).tolist(), 1):
            names[track] = "accompaniment" if number == 1 else f"accompaniment {number}"
    notes = np.concatenate([kept.notes, new])
    score = parts.as_given(bundle, replace(kept, notes=notes, names=names), kept)
    seam, ended = task.begin if task.closes else 0.0, "seconds" if done else "stuck"
    return Sample(score, seam, np.empty(0, np.uint16), len(new), task.end - task.begin, ended)


def as_trained(bundle: Bundle, kept: Score, task: Task) -> tuple[Score, Collection[int] | None]:
    """``kept`` with its tracks on the programs that the model was trained with, and the programs of
    new notes; None: any."""
    if "program" not in bundle.tokenizer.kinds:
        return kept, None
    by_name, known = parts.programs(bundle), parts.as_trained(bundle, kept)
    melody = ((bundle.card.get("corpus") or {}).get("tasks") or {}).get("melody", "")
    if task.tracks:
        mine = known.notes[np.isin(known.notes["track"], task.tracks) & ~known.notes["drum"]]
        return known, set(mine["program"].tolist()) or None
    if str(melody).isdigit():
        notes = known.notes.copy()
        notes["program"][~notes["drum"]] = int(melody)
        known = known.with_notes(notes)
    others = set(by_name.values()) - {int(melody)} if str(melody).isdigit() else set()
    return known, others or {0}


def run(config: InfillConfig | AccompanyConfig) -> list[Result]:
    """Compose as ``config`` says; each version is written, and its path printed, as it is done."""
    if isinstance(config, InfillConfig):
        option, path = "file", config.file
    else:
        option, path = "melody", config.melody
    if path is None:
        raise UserError(f"{option}: missing; give a MIDI file")
    score = read_music(path, option, "to work on", config.limits)
    task, asked_for = task_of(config, score), asked_by(config)
    work = Work.of(config, path)
    beats = work.bundle.tokenizer.beats or config.quantise != "none"
    instead = "give a file that keeps to its tempo marks, with quantise=16"
    check_notation(config.out, beats and musicxml.has_notation(score), instead)
    found: list[Result] = []
    length = (task.end - task.begin) * config.samples
    with progress_of("composing", length, "seconds") as progress:
        versions = composed(
            work.bundle,
            task,
            seed=work.seed,
            **asked_for,
            progress=lambda seconds: progress(1, seconds),
        )
        for sample in versions:
            found.append(work.write(len(found), sample, new_notes(sample), sample.remark))
    return found


def task_of(config: InfillConfig | AccompanyConfig, score: Score) -> Task:
    """What ``config`` asks to be composed for the music in its file."""
    if isinstance(config, AccompanyConfig):
        return under(score, config.melody_track)
    chorale = config.voices, config.particles
    return gap(score, config.begin, config.end, config.tracks, *chorale)


def asked_by(config: InfillConfig | AccompanyConfig) -> dict[str, Any]:
    """What ``config`` asks of :func:`composed`, beside the task and the seed."""
    names = ("samples", "sampling", "guidance", "quantise")
    return {"controls": wanted_of(config)} | {name: getattr(config, name) for name in names}
