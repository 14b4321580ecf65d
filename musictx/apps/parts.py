"""Parts of songs: how tracks map to the programs of a model and back, and what is usual in a part.

The option ``corpus.programs`` assigns programs to track names, so that tracks of one instrument can
be separate parts; the model's card keeps the mapping. A track with such a name is encoded with that
program and gets its original program back afterwards; new tracks get the names. Users request parts
by the names that musicians use, such as "bass".

To the model a program is one part. If several tracks share a program, such as the two hands of a
piano, each is lent a program of the corpus while music is composed.

What is usual in a part (:class:`~musictx.card.Habit`) is measured in the corpus, or in the tracks
around a gap.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

import numpy as np

from musictx.apps.tasks import AROUND_SECONDS, Task
from musictx.bundle import Bundle, read_config
from musictx.card import WINDOW_SECONDS, Habit
from musictx.config import AccompanyConfig, InfillConfig, SamplingConfig
from musictx.data.encode import programmed
from musictx.data.statistics import MIDDLE, at_once, densest, habit, parts_of, usual_length
from musictx.errors import UserError
from musictx.likelihood import log_likelihood
from musictx.notes import DRUMS, Score
from musictx.pedal import fold_sustain
from musictx.sampling import idiom
from musictx.sampling.steer import controls_of
from musictx.sampling.strengths import FEWEST_NOTES
from musictx.shipped import models

#: First General MIDI program of a family -> the program that represents this family in the corpus
#: of songs (scripts/reproduce/songs.py).
FAMILIES = {
    **{0: 0, 8: 11, 16: 16, 24: 24, 29: 29, 32: 33, 40: 48},
    **{56: 61, 64: 65, 72: 73, 80: 80, 88: 88, 96: 81},
}
#: Name of a part -> its program, 128 for drums: a program of :data:`FAMILIES`, or an instrument of
#: the string quartet.
NAMES = {
    **{"melody": 73, "lead": 80, "piano": 0, "chords": 0, "organ": 16, "guitar": 24},
    **{"electric guitar": 29, "bass": 33, "violin": 40, "viola": 41, "cello": 42, "strings": 48},
    **{"mallets": 11, "brass": 61, "sax": 65, "flute": 73, "pad": 88, "drums": DRUMS},
}
#: Notes of a melody and its accompaniment together for each note of the melody, as in real music
#: (slightly fewer for fast melodies); at most what is usual in the model's corpus (scripts/LOG.md).
ACCOMPANIED = 3.0
#: Semitones by which new notes of a track may exceed its existing range, and those of a lead the
#: range of the tune.
MARGIN = 4
#: The habit of a part without statistics: no limits.
ANY = Habit(DRUMS, 0, 127)
#: The lowest and the highest drum of General MIDI.
KIT = 35, 81
#: Parts that play one note at a time, even if other parts of their program play chords.
LINES = ("melody", "lead", "bass", "flute")


def programs(bundle: Bundle) -> Mapping[str, int]:
    """Name of a track -> its program; empty if the tokens of ``bundle`` have no programs."""
    if "program" not in bundle.tokenizer.kinds:
        return {}
    return bundle.corpus.get("programs") or {}


def as_trained(bundle: Bundle, score: Score, lent: Mapping[int, int] | None = None) -> Score:
    """``score`` with the programs that the model was trained with. A track gets its program in
    ``lent`` (:func:`lent`), or else the program of its name, or else keeps its own; a program that
    the corpus lacks is replaced by the one that represents its family, if the corpus has that."""
    score = programmed(score, programs(bundle))
    usual, notes = bundle.stats.instruments, score.notes.copy()
    for program in set(notes["program"].tolist()) - (usual or set(range(DRUMS))):
        if (representative := family(program)) in (usual or ()):
            notes["program"][notes["program"] == program] = representative
    for track, program in (lent or {}).items():
        notes["program"][(notes["track"] == track) & ~notes["drum"]] = program
    return score.with_notes(notes)


def melody_program(bundle: Bundle) -> int | None:
    """The program of melodies in the model's corpus; ``None`` if it has none."""
    program = str((bundle.corpus.get("tasks") or {}).get("melody", ""))
    return int(program) if program.isdigit() else None


def tune_of(score: Score, melody: int | None = None) -> int | None:
    """The track of the tune: the track named "melody", or the only track of the program ``melody``,
    or else the highest track. Tracks with fewer than :data:`FEWEST_NOTES` notes count only if no
    track has as many. ``None`` without pitched notes."""
    notes = score.notes[~score.notes["drum"]]
    numbers, counts = np.unique(notes["track"], return_counts=True)
    is_long = counts >= FEWEST_NOTES
    tracks: list[int] = (numbers[is_long] if is_long.any() else numbers).tolist()
    named = [track for track in tracks if score.names.get(track, "").strip().lower() == "melody"]
    if named:
        return named[0]
    of_track = {track: notes[notes["track"] == track] for track in tracks}
    of_program = [t for t in tracks if set(of_track[t]["program"].tolist()) == {melody}]
    if len(of_program) == 1:
        return of_program[0]
    height = {track: float(of_track[track]["pitch"].mean()) for track in tracks}
    return max(tracks, key=height.__getitem__, default=None)


def lent(
    bundle: Bundle,
    score: Score,
    *,
    first: Collection[int] = (),
    tunes: Collection[int] = (),
    wanted: Collection[int] = (),
) -> dict[int, int]:
    """Track -> lent program, so that each track is a separate part: for tracks of ``score`` that
    share their program with another track, or with the programs ``wanted`` for new parts.

    The tune, or else each of ``tunes``, gets the corpus's program of melodies. Every other track
    gets the free program under which the model gives the piece the highest probability. Tracks in
    ``first`` choose first, then tracks with more notes. If no program is free, a track outside
    ``first`` shares a program that is neither ``wanted`` nor used in ``first``, and a track in
    ``first`` shares one that is used there. A track with several programs keeps them.
    """
    if "program" not in bundle.tokenizer.kinds:
        return {}
    pitched = [program for program in bundle.stats.parts if program not in (DRUMS, *wanted)]
    notes, melody = as_trained(bundle, score).notes, melody_program(bundle)
    notes = notes[~notes["drum"]]
    tracks = np.unique(notes["track"]).tolist()
    notes_of = {track: notes[notes["track"] == track] for track in tracks}
    programs_of = {track: set(notes_of[track]["program"].tolist()) for track in tracks}
    chosen: dict[int, int] = {}
    if melody is not None and melody not in wanted:
        chosen = {track: melody for track in tunes if track in tracks}
    others = {track: own for track, own in programs_of.items() if track not in chosen}
    users = Counter(program for own in others.values() for program in own)  # of each program
    users.update({*chosen.values()})
    users.update(wanted)
    shared = [track for track, own in others.items() if len(own) == 1 and users[min(own)] > 1]
    programs_of |= {track: {program} for track, program in chosen.items()}
    taken = set(wanted).union(*(programs_of[track] for track in tracks if track not in shared))
    tune = None if tunes else tune_of(score)
    if tune is not None and tune in shared and melody is not None and melody not in taken:
        chosen[tune], programs_of[tune] = melody, {melody}
        taken.add(melody)
    undecided = {*shared} - {*chosen}
    for track in sorted(undecided, key=lambda track: (track not in first, -len(notes_of[track]))):
        used_in_first = set().union(*(programs_of[other] for other in first if other in tracks))
        free = [program for program in pitched if program not in taken]
        shareable = [p for p in pitched if (p in used_in_first) == (track in first)]
        candidates = free or shareable or [*programs_of[track]]
        chosen[track] = _likeliest(bundle, score, chosen, track, candidates)
        programs_of[track] = {chosen[track]}
        taken.add(chosen[track])
    return chosen


def _likeliest(
    bundle: Bundle, score: Score, lent: Mapping[int, int], track: int, programs: Sequence[int]
) -> int:
    """The one of ``programs`` for ``track`` under which ``score`` has the highest likelihood, while
    other tracks have their ``lent`` programs. Measured in the :data:`MIDDLE` seconds in which the
    track has most notes."""
    if len(programs) == 1:
        return programs[0]
    start = score.notes["start"]
    starts = start[(score.notes["track"] == track) & ~score.notes["drum"]]
    following = np.searchsorted(starts, starts + MIDDLE) - np.arange(len(starts))  # notes in time
    begin = starts[following.argmax()]
    excerpt = replace(
        score.with_notes(score.notes[(start >= begin) & (start < begin + MIDDLE)]),
        markers=tuple(mark for mark in score.markers if begin <= mark[0] < begin + MIDDLE),
    )

    def nats(program: int) -> float:
        piece = as_trained(bundle, excerpt, {**lent, track: program})
        return log_likelihood(bundle, piece).total if len(bundle.tokenizer.encode(piece)) else 0.0

    return min(programs, key=nats)


def family(program: int) -> int:
    """The program that represents the family of ``program``."""
    return FAMILIES[max(first for first in FAMILIES if first <= program)]


def of_model(bundle: Bundle) -> dict[str, int]:
    """Name -> program, 128 for drums, of the parts that the model can write, under the names of its
    corpus and of :data:`NAMES`."""
    kinds = bundle.tokenizer.kinds
    numbers = {0} if "program" not in kinds else set(range(DRUMS))
    if "program" in kinds:
        numbers = set(bundle.stats.instruments or numbers)
    if "drum" not in kinds or not idiom.of(bundle.tokenizer).drums:
        numbers.discard(DRUMS)
    names = {**{name.lower(): program for name, program in programs(bundle).items()}, **NAMES}
    return {name: program for name, program in names.items() if program in numbers}


def by_name(bundle: Bundle, names: tuple[str, ...], option: str = "add") -> dict[str, int]:
    """Name -> program of the parts ``names`` (:func:`of_model`). Raises ``UserError`` naming
    ``option`` for a part that the model cannot write, and for a program requested twice."""
    available = of_model(bundle)
    result: dict[str, int] = {}
    for name in names:
        if name not in available:
            raise UserError(f"{option}={name}: {refusal(bundle, name)}")
        if available[name] in result.values():
            raise UserError(f"{option}={name}: that part is asked for twice")
        result[name] = available[name]
    return result


def refusal(bundle: Bundle, name: str) -> str:
    """The error message for a part ``name`` that the model of ``bundle`` does not write."""
    cards = {other: read_config(folder)["card"] for other, folder in models().items()}
    able = [
        f"model={other} does"
        for other, card in cards.items()
        if NAMES.get(name) in card.get("note_limits", {}).get("instruments", ())
    ]
    others = " and ".join(able) or "nor does any that comes with musictx"
    return f"this model writes none ({others}); it writes {', '.join(of_model(bundle))}"


def as_given(bundle: Bundle, score: Score, original: Score | None) -> Score:
    """``score`` with the programs that its tracks have in ``original``, and with the tempo map of
    its file instead of detected beats. New tracks are named by their programs."""
    notes, names = score.notes.copy(), dict(score.names)
    name_of = {program: name for name, program in programs(bundle).items()}
    before = Score().notes if original is None else original.notes[~original.notes["drum"]]
    for track in np.unique(notes["track"]).tolist():
        on_track = (notes["track"] == track) & ~notes["drum"]
        originals = np.unique(before["program"][before["track"] == track])
        if len(originals) == 1:
            notes["program"][on_track] = originals[0]
        elif not len(originals) and on_track.any():
            names[track] = name_of.get(int(notes["program"][on_track][0]), names.get(track, ""))
    names = {track: name for track, name in names.items() if name}
    return replace(score, notes=notes, names=names, pulse=None)


# --------------------------------------------------------------------------- what is usual in them


def usual(bundle: Bundle, wanted: Mapping[str, int]) -> dict[int, Habit]:
    """Program -> habit in the model's card, for the parts ``wanted`` (name -> program); drums
    within the General MIDI kit, and :data:`LINES` with one voice."""
    result = {part: bundle.stats.parts.get(part, ANY) for part in wanted.values()}
    if DRUMS in result:
        kit = result[DRUMS]
        result[DRUMS] = kit._replace(low=max(kit.low, KIT[0]), high=min(kit.high, KIT[1]))
    lines = {part: result[part]._replace(voices=1) for n, part in wanted.items() if n in LINES}
    return result | lines


def asked(
    habits: Mapping[int, Habit], sampling: SamplingConfig, values: Mapping[str, float]
) -> dict[int, Habit]:
    """``habits`` without the limits that the request overrides. Of the ``values`` of controls,
    ``polyphony`` removes the limits on simultaneous notes and on their length, ``density`` that on
    notes within a few seconds; ``register``, and ``low`` and ``high`` of ``sampling``, remove that
    on pitches."""
    result = dict(habits)
    if "polyphony" in values:
        result = {
            part: habit._replace(voices=ANY.voices, longest=np.inf)
            for part, habit in result.items()
        }
    if "density" in values:
        result = {part: habit._replace(densest=np.inf) for part, habit in result.items()}
    if "register" in values or sampling.low is not None or sampling.high is not None:
        result = {
            part: habit if part == DRUMS else habit._replace(low=0, high=127)
            for part, habit in result.items()
        }
    return result


def accompanying(bundle: Bundle, task: Task, notes: int) -> float:
    """Notes per second that accompany a tune of this number of ``notes``; if 0, a tune of the
    density that is usual in the corpus. Infinite if the card has no such density."""
    tune = bundle.stats.parts.get(melody_program(bundle) or 0)
    if notes:
        return (ACCOMPANIED - 1) * notes / max(task.end - task.begin, 1.0)
    return np.inf if tune is None else (ACCOMPANIED - 1) * tune.density


def habits_of(
    bundle: Bundle,
    task: Task,
    wanted: Mapping[str, int],
    request: InfillConfig | AccompanyConfig,
    score: Score,
    composed: Collection[int],
) -> dict[int, Habit]:
    """The habit of each part to compose, without the limits that ``request`` overrides
    (:func:`asked`).

    wanted    name -> program of the parts that the request names: their habits are those of the
              corpus, but a lead has the range of the tune, and no part but drums has more notes
              than the usual accompaniment of that tune
    score     the file with the programs that the model was trained with
    composed  all parts to compose; in a gap their habits are measured in their tracks, and without
              names they are the usual accompaniment, as in the corpus

    A limit on simultaneous notes counts the new notes only; for tokens in bars it counts all tracks
    of a part.
    """
    habits = usual(bundle, wanted)
    tune_track = tune_of(score, melody_program(bundle))
    tunes = [track for track in task.melody or [tune_track] if track is not None]
    tune = score.notes["pitch"][np.isin(score.notes["track"], tunes) & ~score.notes["drum"]]
    if "lead" in wanted and len(tune):  # a second voice
        _, low, high, _ = map(int, habit([np.ones(1)], [tune], [0.0]))
        lead = habits[wanted["lead"]]
        habits[wanted["lead"]] = lead._replace(low=max(low - MARGIN, 0), high=high + MARGIN)
    pace = bundle.tokenizer.clock(task.score).pace(task.begin, task.end)
    if wanted:
        rate = accompanying(bundle, task, len(tune))
        habits = {
            part: usual
            if part == DRUMS
            else usual._replace(density=min(usual.density, rate * pace))
            for part, usual in habits.items()
        }
    if not task.is_gap and not wanted:
        habits = {
            part: usual._replace(density=0.0, densest=WINDOW_SECONDS * usual.density)
            for part, usual in bundle.stats.parts.items()
            if part in composed
        }
    if task.is_gap:
        in_bars = bundle.tokenizer.beats  # other tokens write the length that the pedal sustains
        notes = (score if in_bars else fold_sustain(score)).notes.copy()
        if "program" not in bundle.tokenizer.kinds:
            notes["program"] = 0
        on_tracks = notes[np.isin(notes["track"], task.tracks)]
        simultaneous = parts_of(notes if in_bars else on_tracks)
        for part, part_notes in parts_of(on_tracks).items():
            if len(part_notes) >= FEWEST_NOTES:
                habits[part] = _habit_around(task, part, part_notes, simultaneous[part], pace)
    return asked(habits, request.sampling, controls_of(request))


def _habit_around(
    task: Task, part: int, notes: np.ndarray, simultaneous: np.ndarray, pace: float
) -> Habit:
    """The habit of a part around a gap, with the density of the seconds before and after the gap.

    notes         notes of the part on the tracks to compose
    simultaneous  notes among which those that sound at once are counted
    pace          seconds of the file in one second of the ids
    """
    start = notes["start"]
    first, last = max(task.begin - AROUND_SECONDS, 0.0), task.end + AROUND_SECONDS
    near = (start >= first) & (start < last) & ~((start >= task.begin) & (start < task.end))
    span = task.begin - first + max(min(last, task.score.duration) - task.end, 0.0)
    if near.sum() >= FEWEST_NOTES:
        rate = near.sum() / span
    else:
        rate = len(notes) / max(float(np.ptp(start)), 1.0)
    row = habit([at_once(simultaneous)], [notes["pitch"]], [rate * pace])
    voices, low, high = map(int, row[:3])
    margin = 0 if part == DRUMS else MARGIN
    return Habit(
        voices,
        max(low - margin, 0),
        min(high + margin, 127),
        row[3],
        densest(notes, WINDOW_SECONDS * pace),
        np.inf if part == DRUMS else usual_length(notes["end"] - start) / pace,
    )
