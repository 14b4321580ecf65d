"""Parts of songs that a model keeps apart by programs: on the way in and on the way out.

``corpus.programs`` gave tracks of one instrument a program each by their names, and the model's
card remembers them. A track of such a name is read in that program, and goes back with its own; new
tracks get the names. What is to be composed is asked for by what musicians call it.

To the model a program is one part. Tracks that share one, such as the hands of a piano, are lent a
program of the corpus each while music is composed.

What is usual in a part (:class:`~musictx.card.Habit`) is what the corpus has, or what its tracks
have around a gap.
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

#: Program of General MIDI -> the one that stands for its family in the corpus of songs
#: (scripts/reproduce/songs.py), by the first program of each family.
FAMILIES = {
    **{0: 0, 8: 11, 16: 16, 24: 24, 29: 29, 32: 33, 40: 48},
    **{56: 61, 64: 65, 72: 73, 80: 80, 88: 88, 96: 81},
}
#: What musicians call a part -> its program, 128 for drums: one of a family, or of the quartet.
NAMES = {
    **{"melody": 73, "lead": 80, "piano": 0, "chords": 0, "organ": 16, "guitar": 24},
    **{"electric guitar": 29, "bass": 33, "violin": 40, "viola": 41, "cello": 42, "strings": 48},
    **{"mallets": 11, "brass": 61, "sax": 65, "flute": 73, "pad": 88, "drums": DRUMS},
}
#: A melody and its accompaniment have so many notes for each of the melody's, as real music has (a
#: bit fewer with fast melodies), but no more than is usual in the model's corpus (scripts/LOG.md).
ACCOMPANIED = 3.0
#: New notes of a track reach so many semitones beyond those it has, a lead's beyond the tune's.
MARGIN = 4
#: A part without statistics.
ANY = Habit(DRUMS, 0, 127)
#: The lowest and the highest drum of General MIDI.
KIT = 35, 81
#: Parts of one note at a time, whatever else their program plays.
LINES = ("melody", "lead", "bass", "flute")


def programs(bundle: Bundle) -> Mapping[str, int]:
    """Name of a track -> its program, where the tokens of ``bundle`` keep programs apart."""
    if "program" not in bundle.tokenizer.kinds:
        return {}
    return bundle.corpus.get("programs") or {}


def as_trained(bundle: Bundle, score: Score, lent: Mapping[int, int] | None = None) -> Score:
    """``score`` with the programs that the model knows its tracks by: those of their names, else
    their own, or that of their family; of tracks in ``lent`` (:func:`lent`) the one there."""
    score = programmed(score, programs(bundle))
    usual, notes = bundle.stats.instruments, score.notes.copy()
    for program in set(notes["program"].tolist()) - (usual or set(range(DRUMS))):
        if (stands := family(program)) in (usual or ()):
            notes["program"][notes["program"] == program] = stands
    for track, program in (lent or {}).items():
        notes["program"][(notes["track"] == track) & ~notes["drum"]] = program
    return score.with_notes(notes)


def melody_program(bundle: Bundle) -> int | None:
    """The program that the corpus of the model has for tunes."""
    program = str((bundle.corpus.get("tasks") or {}).get("melody", ""))
    return int(program) if program.isdigit() else None


def tune_of(score: Score, melody: int | None = None) -> int | None:
    """The track of the tune: the one called melody, or the only one of the program ``melody``, or
    else the highest of the tracks with at least :data:`FEWEST_NOTES` notes; if no track has as
    many, the highest of all."""
    notes = score.notes[~score.notes["drum"]]
    every, count = np.unique(notes["track"], return_counts=True)
    tracks = (every[count >= FEWEST_NOTES] if (count >= FEWEST_NOTES).any() else every).tolist()
    named = [one for one in tracks if score.names.get(one, "").strip().lower() == "melody"]
    programs = {one: set(notes["program"][notes["track"] == one].tolist()) for one in tracks}
    alone = [one for one in tracks if programs[one] == {melody}]
    height = {one: float(notes["pitch"][notes["track"] == one].mean()) for one in tracks}
    some = named or (alone if len(alone) == 1 else tracks)
    return some[0] if named else max(some, key=height.__getitem__, default=None)


def lent(
    bundle: Bundle,
    score: Score,
    *,
    first: Collection[int] = (),
    tunes: Collection[int] = (),
    wanted: Collection[int] = (),
) -> dict[int, int]:
    """Track -> program, of tracks that share a program with another one of ``score``, or have one
    of those ``wanted`` for new parts, so that each is a part of its own.

    The tune gets the program that the corpus has for tunes, and so do all of ``tunes``. Each of the
    others gets, of the programs that no other part has, the one for which the model finds the piece
    likeliest: what the corpus has in its place. Tracks in ``first`` choose first, then those of
    more notes; where no program is left, tracks share one that none of these and nothing ``wanted``
    has. A track of several programs keeps them.
    """
    if "program" not in bundle.tokenizer.kinds:
        return {}
    pitched = [program for program in bundle.stats.parts if program not in (DRUMS, *wanted)]
    notes, melody = as_trained(bundle, score).notes, melody_program(bundle)
    notes = notes[~notes["drum"]]
    notes_of = {one: notes[notes["track"] == one] for one in np.unique(notes["track"]).tolist()}
    has = {track: set(some["program"].tolist()) for track, some in notes_of.items()}
    chosen: dict[int, int] = {}
    if melody is not None and melody not in wanted:
        chosen = {track: melody for track in tunes if track in has}
    count = Counter(one for track in has if track not in chosen for one in has[track])
    count.update({*chosen.values()})
    count.update(wanted)
    shared = [t for t in has if t not in chosen and len(has[t]) == 1 and count[min(has[t])] > 1]
    has |= {track: {melody} for track in chosen if melody is not None}
    taken = set(wanted).union(*(has[track] for track in has if track not in shared))
    tune = None if tunes else tune_of(score)
    if tune is not None and tune in shared and melody is not None and melody not in taken:
        chosen[tune], has[tune] = melody, {melody}
        taken.add(melody)
    for track in sorted(
        {*shared} - {*chosen}, key=lambda one: (one not in first, -len(notes_of[one]))
    ):
        composed = set().union(*(has[one] for one in first if one in has))
        free = [one for one in pitched if one not in taken]
        others = [one for one in pitched if (one in composed) == (track in first)]
        chosen[track] = _likeliest(bundle, score, chosen, track, free or others or [*has[track]])
        has[track] = {chosen[track]}
        taken.add(chosen[track])
    return chosen


def _likeliest(
    bundle: Bundle, score: Score, lent: Mapping[int, int], track: int, programs: Sequence[int]
) -> int:
    """Of ``programs`` the one of ``track`` for which the model finds ``score`` likeliest, with the
    ``lent`` ones of others: in the :data:`MIDDLE` seconds in which the track has most notes."""
    if len(programs) == 1:
        return programs[0]
    start = score.notes["start"]
    starts = start[(score.notes["track"] == track) & ~score.notes["drum"]]
    within = np.searchsorted(starts, starts + MIDDLE) - np.arange(len(starts))
    begin = starts[within.argmax()]
    excerpt = replace(
        score.with_notes(score.notes[(start >= begin) & (start < begin + MIDDLE)]),
        markers=tuple(one for one in score.markers if begin <= one[0] < begin + MIDDLE),
    )

    def nats(program: int) -> float:
        piece = as_trained(bundle, excerpt, {**lent, track: program})
        return log_likelihood(bundle, piece).total if len(bundle.tokenizer.encode(piece)) else 0.0

    return min(programs, key=nats)


def family(program: int) -> int:
    """The program that stands for the family of another."""
    return FAMILIES[max(first for first in FAMILIES if first <= program)]


def of_model(bundle: Bundle) -> dict[str, int]:
    """Name -> program, 128 for drums, of the parts that the model writes: those of its corpus, and
    of :data:`NAMES`."""
    kinds = bundle.tokenizer.kinds
    numbers = {0} if "program" not in kinds else set(range(DRUMS))
    if "program" in kinds:
        numbers = set(bundle.stats.instruments or numbers)
    if "drum" not in kinds or not idiom.of(bundle.tokenizer).drums:
        numbers.discard(DRUMS)
    names = {**{name.lower(): program for name, program in programs(bundle).items()}, **NAMES}
    return {name: program for name, program in names.items() if program in numbers}


def by_name(bundle: Bundle, names: tuple[str, ...], option: str = "add") -> dict[str, int]:
    """The parts that ``names`` ask for, as :func:`of_model` has them; ``UserError`` naming
    ``option`` for another."""
    writes = of_model(bundle)
    result: dict[str, int] = {}
    for name in names:
        if name not in writes:
            raise UserError(f"{option}={name}: {refusal(bundle, name)}")
        if writes[name] in result.values():
            raise UserError(f"{option}={name}: that part is asked for twice")
        result[name] = writes[name]
    return result


def refusal(bundle: Bundle, name: str) -> str:
    """The sentence for a part that the model of ``bundle`` does not write."""
    cards = {other: read_config(folder)["card"] for other, folder in models().items()}
    able = [
        f"model={other} does"
        for other, card in cards.items()
        if NAMES.get(name) in card.get("note_limits", {}).get("instruments", ())
    ]
    others = " and ".join(able) or "nor does any that comes with musictx"
    return f"this model writes none ({others}); it writes {', '.join(of_model(bundle))}"


def as_given(bundle: Bundle, score: Score, original: Score | None) -> Score:
    """``score`` with the program that each track has in ``original``, new tracks named by theirs,
    on the beats of its file."""
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
    """Program -> what is usual in it, of parts by name: as the model's card says."""
    result = {part: bundle.stats.parts.get(part, ANY) for part in wanted.values()}
    if DRUMS in result:
        kit = result[DRUMS]
        result[DRUMS] = kit._replace(low=max(kit.low, KIT[0]), high=min(kit.high, KIT[1]))
    lines = {part: result[part]._replace(voices=1) for n, part in wanted.items() if n in LINES}
    return result | lines


def asked(
    habits: Mapping[int, Habit], sampling: SamplingConfig, values: Mapping[str, float]
) -> dict[int, Habit]:
    """``habits`` but for what the request sets: notes at once and lengths (``polyphony`` among the
    ``values`` of controls), notes in a few seconds (``density``), pitches (``register``, and
    ``low`` and ``high`` of ``sampling``)."""
    result = dict(habits)
    if "polyphony" in values:
        result = {p: one._replace(voices=ANY.voices, longest=np.inf) for p, one in result.items()}
    if "density" in values:
        result = {part: one._replace(densest=np.inf) for part, one in result.items()}
    if "register" in values or sampling.low is not None or sampling.high is not None:
        result = {
            part: one if part == DRUMS else one._replace(low=0, high=127)
            for part, one in result.items()
        }
    return result


def accompanying(bundle: Bundle, task: Task, notes: int) -> float:
    """Notes a second that accompany a tune of so many ``notes``; without any, a tune that is usual
    in the corpus; infinite where the card has none."""
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
    """What is usual in each part that is ``composed``: of an accompaniment, and of parts ``wanted``
    by name, in the corpus, but that a lead lies where the tune does, and that none has more notes
    than what accompanies that tune; of tracks in themselves; but for what the ``request`` says of
    notes at once and of pitches. ``score`` is the file with the programs that the model knows. A
    bound on notes at once counts new notes alone; in bars, all tracks of a part."""
    habits = usual(bundle, wanted)
    tune_track = tune_of(score, melody_program(bundle))
    tunes = [one for one in task.melody or [tune_track] if one is not None]
    tune = score.notes["pitch"][np.isin(score.notes["track"], tunes) & ~score.notes["drum"]]
    if "lead" in wanted and len(tune):  # a second voice
        _, low, high, _ = map(int, habit([np.ones(1)], [tune], [0.0]))
        lead = habits[wanted["lead"]]
        habits[wanted["lead"]] = lead._replace(low=max(low - MARGIN, 0), high=high + MARGIN)
    pace = bundle.tokenizer.clock(task.score).pace(task.begin, task.end)
    if wanted:
        rate = accompanying(bundle, task, len(tune))
        habits = {
            part: one if part == DRUMS else one._replace(density=min(one.density, rate * pace))
            for part, one in habits.items()
        }
    if not task.is_gap and not wanted:
        habits = {
            part: one._replace(density=0.0, densest=WINDOW_SECONDS * one.density)
            for part, one in bundle.stats.parts.items()
            if part in composed
        }
    if task.is_gap:
        in_bars = bundle.tokenizer.beats  # elsewhere a note lasts as long as the pedal sustains it
        notes = (score if in_bars else fold_sustain(score)).notes.copy()
        if "program" not in bundle.tokenizer.kinds:
            notes["program"] = 0
        written = notes[np.isin(notes["track"], task.tracks)]
        together = parts_of(notes if in_bars else written)
        for part, part_notes in parts_of(written).items():
            if len(part_notes) >= FEWEST_NOTES:
                habits[part] = _habit_around(task, part, part_notes, together[part], pace)
    return asked(habits, request.sampling, controls_of(request))


def _habit_around(
    task: Task, part: int, written: np.ndarray, together: np.ndarray, pace: float
) -> Habit:
    """What is usual in a part around a gap: of its notes on the tracks that are ``written``, of all
    of them ``together`` how many sound at once; as dense as in the seconds before and after the
    gap, with ``pace`` seconds of the file for one of the tokens."""
    start = written["start"]
    first, last = max(task.begin - AROUND_SECONDS, 0.0), task.end + AROUND_SECONDS
    near = (start >= first) & (start < last) & ~((start >= task.begin) & (start < task.end))
    span = task.begin - first + max(min(last, task.score.duration) - task.end, 0.0)
    if near.sum() >= FEWEST_NOTES:
        rate = near.sum() / span
    else:
        rate = len(written) / max(float(np.ptp(start)), 1.0)
    row = habit([at_once(together)], [written["pitch"]], [rate * pace])
    most, low, high = map(int, row[:3])
    more = 0 if part == DRUMS else MARGIN
    return Habit(
        most,
        max(low - more, 0),
        min(high + more, 127),
        row[3],
        densest(written, WINDOW_SECONDS * pace),
        np.inf if part == DRUMS else usual_length(written["end"] - start) / pace,
    )
