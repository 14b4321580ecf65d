"""New pieces in bars. First the bars that repeat earlier bars are chosen at random, then chords;
then the parts of an ensemble are composed over these chords. A piece, or a continuation with a
natural end, closes with a bar in which all parts hold a chord."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from typing import Any

import numpy as np

from musictx.apps import infill, parts
from musictx.apps.habits import LINES
from musictx.apps.tasks import Task
from musictx.bundle import Bundle
from musictx.chords import NAMES, Chord
from musictx.config import AccompanyConfig, GenerateConfig, scales
from musictx.config.composing import SteeringOptions
from musictx.data.statistics import notes_at_onsets
from musictx.keys import name_chords, sharps_of
from musictx.notes import KEY, NOTE, Score, until
from musictx.sampling.cadence import ClosingBar
from musictx.sampling.composer import Progress
from musictx.sampling.constants import USUAL_SECONDS
from musictx.sampling.continuation import end_time
from musictx.sampling.events import Event, emit_all
from musictx.sampling.idiom import Idiom
from musictx.sampling.penalties import pitch_classes, pitch_set
from musictx.sampling.primer import NO_PRIMER, Plan, Primer
from musictx.sampling.sample import Sample
from musictx.songs.chord_estimation import draw_chords, draw_repeats, tonic_triad
from musictx.songs.chord_sheet import with_markers, without_chords
from musictx.songs.constants import LOW_PITCH
from musictx.songs.drummers import KINDS
from musictx.tokens.tokenizer import Tokenizer


def new_piece(
    bundle: Bundle,
    plan: Plan,
    request: GenerateConfig,
    seed: Sequence[int],
    progress: Progress | None = None,
    on_event: Callable[[Event], None] | None = None,
) -> Sample:
    """Compose a new piece of ``request.bars`` or ``request.seconds``, the shorter one if both are
    set, or else of :data:`USUAL_SECONDS`, in the tempo and meter of ``plan``. No note lasts beyond
    its end; its meter and the requested key are marked. Unless it is a loop or ``end=cut``, the
    last whole bar of a piece of two bars or more is a held chord (:func:`closing`).

    progress  called with the seconds composed so far
    on_event  called whenever a note begins or ends
    """
    pitches = pitch_set(request.sampling, NO_PRIMER, bundle.tokenizer)  # raises for key=auto
    rng, beats = np.random.default_rng([*seed]), plan.score.beats
    primer, piece_end = Primer(plan=plan), USUAL_SECONDS
    if (ids_end := end_time(request, bundle.tokenizer, primer)) is not None:
        piece_end = float(primer.clock(bundle.tokenizer).seconds(ids_end))
    bars = beats.bar_at(piece_end + 1e-6) - 1  # complete bars
    closes = bars > 1 and request.end != "cut" and not request.loop
    if closes:
        composed_end = beats.seconds(beats.bar_line(0.0, bars - 1))  # the closing bar begins there
        piece_end = beats.seconds(beats.bar_line(0.0, bars))
    else:
        bars, composed_end = beats.bar_at(piece_end, ends=True), piece_end
    repeats = [] if request.loop else draw_repeats(bars, rng)
    quarters = beats.quarters(composed_end)
    if closes:
        quarters += 0.125  # into the closing bar, so that a chord is drawn for it
    top_p = Idiom.top_p if request.sampling.top_p is None else request.sampling.top_p
    major = _major_key(request)
    chords = draw_chords(beats, quarters, rng, major, repeats, top_p=top_p, closes=closes)
    chart = with_markers(plan.score, chords)
    add = _instruments(bundle, request, rng)
    task = Task(
        chart, chart, 0.0, composed_end, is_gap=False, tracks=(), add=add, repeats=(*repeats,)
    )
    (sample,) = infill.compose_versions(
        bundle,
        task,
        AccompanyConfig(**shared_options(request), add=",".join(add)),
        seed=int(rng.integers(2**31)),
        progress=progress,
        on_event=on_event and (lambda _, event: on_event(event)),
    )
    score = until(sample.score, composed_end)
    if closes:
        notes = closing(score, chords[-1][1], composed_end, piece_end, pitches)
        score = score.with_notes(np.concatenate([score.notes, notes]))
        if on_event is not None:
            emit_all(notes, on_event)
    if major is not None:
        _, mode = scales.key(request.sampling.key or "C", "key")
        keys = np.array([(0.0, sharps_of(major), mode == "minor")], KEY)
        score = replace(score, keys=keys)
    names = name_chords(score, chords)
    score = with_markers(without_chords(replace(score, meters=beats.meters)), names)
    return replace(sample, score=score, notes=len(score), seconds=piece_end, chords=names)


def closing_bar(request: GenerateConfig, tokenizer: Tokenizer, primer: Primer) -> ClosingBar | None:
    """The last whole bar of a continuation of ``primer`` with a natural end: all parts hold the
    tonic chord of the requested key, or else of the piece. It is empty if the continuation has no
    room for a bar before it; ``None`` if no length is requested."""
    ids_end = end_time(request, tokenizer, primer)
    if ids_end is None:
        return None
    clock = primer.clock(tokenizer)
    seam, piece_end = float(clock.seconds(primer.seconds)), float(clock.seconds(ids_end))
    beats = clock.beats
    lines = beats.seconds(beats.bar_lines(beats.quarters(piece_end + 1e-3))).tolist()
    if len(lines) < 2 or lines[-2] <= seam + 1e-3:
        return ClosingBar(piece_end, piece_end, lambda piece: piece.notes[:0])
    begin, end = lines[-2:]
    pitches = pitch_set(request.sampling, primer, tokenizer)

    def notes(piece: Score) -> np.ndarray:
        key = request.sampling.key
        if key is None or key == "auto":
            return closing(piece, tonic_triad(piece), begin, end, pitches)
        keynote, mode = scales.key(key, "key")
        quality = NAMES.index("min" if mode == "minor" else "maj")
        return closing(piece, Chord(keynote, quality), begin, end, pitches)

    return ClosingBar(begin, end, notes)


def closing(
    score: Score, chord: Chord, begin: float, end: float, pitches: np.ndarray
) -> np.ndarray:
    """The notes of a bar from ``begin`` to ``end``, in seconds, that closes ``score``.

    Each track that sounds in the two bars before holds tones of ``chord``: one near its last note
    if it has one voice, else the three nearest to its mean pitch. The highest of them in the
    highest track is the root, on which most tunes end (scripts/LOG.md). The track with the lowest
    note holds the root below them, without a third above a low root. Drums strike the bass drum and
    a cymbal. ``pitches`` (128,) bool: the allowed pitches.
    """

    def nearest(tones: np.ndarray, pitch: float | np.ndarray, count: int) -> np.ndarray:
        return tones[np.argsort(np.abs(tones - pitch), kind="stable")[:count]]

    recent = score.notes[score.notes["end"] > begin - 2 * (end - begin) + 1e-3]
    pitched = recent[~recent["drum"]]
    lowest = pitched[np.argsort(pitched["pitch"])[:1]]
    means = {t: pitched["pitch"][pitched["track"] == t].mean() for t in np.unique(pitched["track"])}
    highest_track = max(means, key=means.__getitem__, default=None)
    tones = np.flatnonzero(np.isin(np.arange(128) % 12, list(chord.classes)) & pitches)
    roots = tones[tones % 12 == chord.root]
    rows: list[tuple] = []
    for track in np.unique(recent["track"]).tolist():
        notes = recent[recent["track"] == track]
        is_drums = bool(notes["drum"].any())
        if is_drums:
            held = np.array([KINDS[kind][0] for kind in ("kick", "crash")])
        else:
            count = 3 if np.median(notes_at_onsets(notes)) > 1 else 1
            is_last = notes["start"] > notes["start"].max() - 1e-3
            centre = notes["pitch"].mean() if count > 1 else notes["pitch"][is_last].mean()
            held = nearest(tones, centre, count)
            if track in lowest["track"] and len(roots):
                root = nearest(roots, lowest["pitch"], 1)
                gap = 4 if root < LOW_PITCH else 0
                above = tones[tones > root + gap] if count > 1 else tones[:0]
                held = np.append(root, nearest(above, centre, count))
            if track == highest_track:
                others, highest = np.sort(held)[:-1], held.max(initial=0)
                if len(higher := roots[roots >= others.max(initial=0)]):
                    held = np.append(others, nearest(higher, highest, 1))
        velocity, program = int(notes["velocity"].mean()), int(notes["program"][0])
        rows += [(begin, end, pitch, velocity, program, is_drums, track) for pitch in held.tolist()]
    return np.array(rows, NOTE)


def shared_options(request: GenerateConfig) -> dict[str, Any]:
    """The options of ``request`` that ``infill`` and ``accompany`` share, with ``samples=1``."""
    options = {field.name: getattr(request, field.name) for field in fields(SteeringOptions)}
    return options | {"samples": 1}


def _major_key(request: GenerateConfig) -> int | None:
    """The tonic of the major key that has most of the pitch classes allowed by the options ``key``
    and ``scale``; ``None`` if neither is set. Ties go to the major key on the keynote, then to its
    relative major, then to the next one above the keynote."""
    sampling = request.sampling
    if sampling.key is None and sampling.scale is None:
        return None
    keynote, _ = scales.key(sampling.key or "C", "key")
    allowed, major = pitch_classes(sampling, NO_PRIMER), np.array(scales.SCALES["major"])
    tonics = [(keynote + interval) % 12 for interval in (0, 3, *range(12))]
    return max(tonics, key=lambda pitch_class: allowed[(pitch_class + major) % 12].sum())


def named_parts(bundle: Bundle, instruments: str) -> dict[str, int]:
    """Name -> program of the parts in ``instruments``, names separated by commas."""
    names = tuple(name.strip().lower() for name in instruments.split(","))
    return parts.find_parts(bundle, names, "instruments")


def _instruments(
    bundle: Bundle, request: GenerateConfig, rng: np.random.Generator
) -> tuple[str, ...]:
    """The names of the requested parts, or else of an ensemble of the corpus
    (:func:`draw_ensemble`). Of several names of a program, those in :data:`LINES`, the monophonic
    parts, are preferred."""
    if request.instruments is not None:
        return tuple(named_parts(bundle, request.instruments))
    available = parts.available_parts(bundle)
    names_of = {program: name for name, program in reversed(available.items())}
    names_of |= {available[name]: name for name in reversed(LINES) if name in available}
    default = [0] if 0 in names_of else [*names_of]
    programs = {*draw_ensemble(bundle.stats.ensembles or [(1.0, default)], rng)} & names_of.keys()
    names = {names_of[program] for program in programs or default}
    return tuple(name for name in available if name in names)


def draw_ensemble(
    ensembles: Sequence[tuple[float, Sequence[int]]], rng: np.random.Generator
) -> Sequence[int]:
    """The programs of one of ``ensembles`` (number of pieces, programs), drawn in proportion to the
    number of pieces."""
    counts = np.array([count for count, _ in ensembles], float)
    return ensembles[int(rng.choice(len(counts), p=counts / counts.sum()))][1]
