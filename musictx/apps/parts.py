"""Parts of songs: convert the programs of tracks to programs of a model and back, and find the
parts that a model can write.

The option ``corpus.programs`` assigns programs to track names, so that tracks of one instrument can
be separate parts; the model's card has the mapping. A track with such a name is encoded with that
program, and afterwards gets its original program back. A new track gets the name of its program.

To the model a program is one part. If several tracks share a program, such as the two hands of a
piano, each is lent another program of the corpus while music is composed.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from itertools import chain

import numpy as np

from musictx.apps.tasks import tracks_by_name
from musictx.bundle import Bundle
from musictx.data.encode import with_programs
from musictx.data.statistics import MIDDLE_SECONDS
from musictx.errors import UserError
from musictx.likelihood import log_likelihood
from musictx.notes import DRUMS, Score
from musictx.sampling import timeline
from musictx.sampling.constants import FEWEST_NOTES

#: The first General MIDI program of a family -> the program of the whole family in the corpus of
#: songs (scripts/reproduce/songs.py).
FAMILIES = {
    **{0: 0, 8: 11, 16: 16, 24: 24, 29: 29, 32: 33, 40: 48},
    **{56: 61, 64: 65, 72: 73, 80: 80, 88: 88, 96: 81},
}
#: Name of a part -> its program, 128 for drums: a representative of :data:`FAMILIES`, or an
#: instrument of the string quartet. Counter-melodies are strings in the corpus of songs.
NAMES = {
    **{"melody": 73, "lead": 80, "piano": 0, "chords": 0, "organ": 16, "guitar": 24},
    **{"electric guitar": 29, "bass": 33, "violin": 40, "viola": 41, "cello": 42, "strings": 48},
    **{"mallets": 11, "brass": 61, "sax": 65, "flute": 73, "pad": 88, "drums": DRUMS},
    **{"counter-melody": 48},
}


def corpus_programs(bundle: Bundle) -> Mapping[str, int]:
    """Return {track name: program} of the model's corpus; empty if its tokens have no programs."""
    if "program" not in bundle.tokenizer.vocabulary.kinds:
        return {}
    return bundle.corpus.get("programs") or {}


def with_model_programs(
    bundle: Bundle, score: Score, lent: Mapping[int, int] | None = None
) -> Score:
    """Return ``score`` with the programs that the model was trained with. A track gets its program
    in ``lent`` (:func:`lend_programs`), or else that of its name in the corpus. A program that the
    corpus does not have is replaced by that of its family, if the corpus has that."""
    score = with_programs(score, corpus_programs(bundle))
    instruments, notes = bundle.stats.instruments, score.notes.copy()
    for program in set(notes["program"].tolist()) - (instruments or set(range(DRUMS))):
        if (representative := family_program(program)) in (instruments or ()):
            notes["program"][notes["program"] == program] = representative
    for track, program in (lent or {}).items():
        notes["program"][(notes["track"] == track) & ~notes["drum"]] = program
    return score.with_notes(notes)


def melody_program(bundle: Bundle) -> int | None:
    """Return the program of melodies in the model's corpus, or ``None``."""
    program = str((bundle.corpus.get("tasks") or {}).get("melody", ""))
    return int(program) if program.isdigit() else None


def find_melody_track(score: Score, program: int | None = None) -> int | None:
    """Return the track of the melody: the track called "melody", or the only track with the
    ``program``, or else the track with the highest mean pitch. ``None`` without pitched notes.
    Tracks with fewer than :data:`FEWEST_NOTES` notes count only if all tracks have fewer."""
    notes = score.notes[~score.notes["drum"]]
    numbers, counts = np.unique(notes["track"], return_counts=True)
    has_enough = counts >= FEWEST_NOTES
    tracks: list[int] = (numbers[has_enough] if has_enough.any() else numbers).tolist()
    if matches := {*tracks_by_name(score, "melody")} & {*tracks}:
        return min(matches)
    notes_of = {track: notes[notes["track"] == track] for track in tracks}
    with_program = [t for t in tracks if set(notes_of[t]["program"].tolist()) == {program}]
    if len(with_program) == 1:
        return with_program[0]
    mean_pitch = {track: float(notes_of[track]["pitch"].mean()) for track in tracks}
    return max(tracks, key=mean_pitch.__getitem__, default=None)


def lend_programs(
    bundle: Bundle,
    score: Score,
    *,
    first: Collection[int] = (),
    melodies: Collection[int] = (),
    new_parts: Collection[int] = (),
) -> dict[int, int]:
    """Choose programs so that each track is a separate part; return {track: lent program}.

    A track of ``score`` is lent a program if it shares its program with another track, or with one
    of the programs ``new_parts``. A track with several programs keeps them. The tracks
    ``melodies``, by default the melody of ``score``, get the corpus's program of melodies, unless
    it is taken. Every other track gets the free program under which the model gives the piece the
    highest probability: the tracks ``first`` before the others, then those with most notes. If no
    program is free, tracks in ``first`` share programs with each other; others share one that
    neither these nor ``new_parts`` use.
    """
    if "program" not in bundle.tokenizer.vocabulary.kinds:
        return {}
    pitched = [program for program in bundle.stats.parts if program not in (DRUMS, *new_parts)]
    notes, tune_program = with_model_programs(bundle, score).notes, melody_program(bundle)
    notes = notes[~notes["drum"]]
    tracks = np.unique(notes["track"]).tolist()
    notes_of = {track: notes[notes["track"] == track] for track in tracks}
    lent: dict[int, int] = {}
    if tune_program is not None and tune_program not in new_parts:
        lent = {track: tune_program for track in melodies if track in tracks}
    programs_of = {track: set(notes_of[track]["program"].tolist()) for track in tracks}
    programs_of |= {track: {program} for track, program in lent.items()}
    use_counts = Counter([*new_parts, *chain.from_iterable(programs_of.values())])
    sharing = {
        track
        for track, programs in programs_of.items()
        if track not in lent and len(programs) == 1 and use_counts[min(programs)] > 1
    }
    used = set(new_parts).union(*(programs_of[track] for track in tracks if track not in sharing))
    if not melodies and tune_program is not None and tune_program not in used:
        melody = find_melody_track(score)
        if melody is not None and melody in sharing:
            lent[melody], programs_of[melody] = tune_program, {tune_program}
            used.add(tune_program)
    remaining = sharing - {*lent}
    for track in sorted(remaining, key=lambda track: (track not in first, -len(notes_of[track]))):
        used_in_first = set().union(*(programs_of[other] for other in first if other in tracks))
        free = [program for program in pitched if program not in used]
        shareable = [p for p in pitched if (p in used_in_first) == (track in first)]
        candidates = free or shareable or [*programs_of[track]]
        lent[track] = _likeliest_program(bundle, score, lent, track, candidates)
        programs_of[track] = {lent[track]}
        used.add(lent[track])
    return lent


def _likeliest_program(
    bundle: Bundle, score: Score, lent: Mapping[int, int], track: int, programs: Sequence[int]
) -> int:
    """Return the one of ``programs`` with which ``track`` gives ``score`` the highest likelihood;
    other tracks have their ``lent`` programs. Only the :data:`MIDDLE_SECONDS` in which the track
    has most notes are measured."""
    if len(programs) == 1:
        return programs[0]
    start = score.notes["start"]
    starts = start[(score.notes["track"] == track) & ~score.notes["drum"]]
    # For each note, the number of notes in the excerpt that begins with it.
    counts = np.searchsorted(starts, starts + MIDDLE_SECONDS) - np.arange(len(starts))
    begin = starts[counts.argmax()]
    excerpt = replace(
        score.with_notes(score.notes[(start >= begin) & (start < begin + MIDDLE_SECONDS)]),
        markers=tuple(mark for mark in score.markers if begin <= mark[0] < begin + MIDDLE_SECONDS),
    )

    def negative_log_likelihood(program: int) -> float:
        piece = with_model_programs(bundle, excerpt, {**lent, track: program})
        return log_likelihood(bundle, piece).total if len(bundle.tokenizer.encode(piece)) else 0.0

    return min(programs, key=negative_log_likelihood)


def family_program(program: int) -> int:
    """Return the program that represents the family of ``program``."""
    return FAMILIES[max(first for first in FAMILIES if first <= program)]


def available_parts(bundle: Bundle) -> dict[str, int]:
    """Return {name: program, 128 for drums} of the parts that the model can write. The names are
    those of its corpus and of :data:`NAMES`; programs without a name are called "program 50"."""
    kinds = bundle.tokenizer.vocabulary.kinds
    programs = set(bundle.stats.instruments or range(DRUMS)) if "program" in kinds else {0}
    if "drum" not in kinds or not bundle.tokenizer.beats:  # event models infill no drums
        programs.discard(DRUMS)
    names = {name.lower(): program for name, program in corpus_programs(bundle).items()} | NAMES
    unnamed = (bundle.stats.instruments or frozenset()) - {*names.values()}
    names |= {f"program {program}": program for program in sorted(unnamed)}
    return {name: program for name, program in names.items() if program in programs}


def find_parts(bundle: Bundle, names: tuple[str, ...], option: str = "add") -> dict[str, int]:
    """Return {name: program} of the parts ``names``. Raises ``UserError`` naming ``option`` for a
    part that is not among :func:`available_parts`, or if two parts have one program."""
    available = available_parts(bundle)
    result: dict[str, int] = {}
    for name in names:
        if name not in available:
            raise UserError(f"{option}={name}: {refusal(bundle)}")
        if available[name] in result.values():
            raise UserError(f"{option}={name}: another part has this instrument in this model")
        result[name] = available[name]
    return result


def refusal(bundle: Bundle) -> str:
    """Return the end of an error message about a part that the model of ``bundle`` cannot write."""
    return f"this model writes only {', '.join(available_parts(bundle))}"


def with_file_programs(
    bundle: Bundle, score: Score, original: Score | None, includes_original: bool = True
) -> Score:
    """Return ``score`` with the programs that its notes have in ``original``, and with the tempo
    map of its file instead of detected beats.

    A new note gets the program that its track has in ``original`` at that time or, if ``score``
    has only new notes (not ``includes_original``), at the end. A new pitched track gets the name
    of its program in the corpus, if any."""
    notes, names = score.notes.copy(), dict(score.names)
    old_notes = Score().notes if original is None else original.notes
    timed_notes = notes.copy()
    if not includes_original:
        timed_notes["start"] = np.inf
    current = timeline.with_track_programs(timed_notes, old_notes)["program"].tolist()
    fields, old_programs = ["track", "drum", "start", "pitch"], defaultdict[tuple, list[int]](list)
    for *key, program in old_notes[[*fields, "program"]][::-1].tolist():
        old_programs[*key].append(program)
    keys = timed_notes[fields].tolist()
    notes["program"] = [(old_programs[k] or [p]).pop() for k, p in zip(keys, current)]
    name_of = {program: name for name, program in corpus_programs(bundle).items()}
    pitched, old_pitched = (table[~table["drum"]] for table in (notes, old_notes))
    for track in np.setdiff1d(pitched["track"], old_pitched["track"]).tolist():
        program = int(pitched["program"][pitched["track"] == track][0])
        names[track] = name_of.get(program, names.get(track, ""))
    names = {track: name for track, name in names.items() if name}
    return replace(score, notes=notes, names=names, pulse=None)
