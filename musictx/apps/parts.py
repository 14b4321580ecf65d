"""Parts of songs that a model keeps apart by programs: on the way in and on the way out.

``corpus.programs`` gave tracks of one instrument a program each by their names, and the model's
card remembers them. A track of such a name is read in that program, and goes back with its own; new
tracks get the names.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from musictx.bundle import Bundle
from musictx.data.encode import programmed
from musictx.notes import Score


def programs(bundle: Bundle) -> Mapping[str, int]:
    """Name of a track -> its program, where the tokens of ``bundle`` keep programs apart."""
    if "program" not in bundle.tokenizer.kinds:
        return {}
    found: Mapping[str, int] = (bundle.card.get("corpus") or {}).get("programs") or {}
    return found


def as_trained(bundle: Bundle, score: Score) -> Score:
    """``score`` with the programs that the model knows its tracks by."""
    return programmed(score, programs(bundle))


def as_given(bundle: Bundle, score: Score, given: Score | None) -> Score:
    """``score`` with the program that each track has in ``given``, new tracks named by theirs."""
    notes, names = score.notes.copy(), dict(score.names)
    name_of = {program: name for name, program in programs(bundle).items()}
    before = Score().notes if given is None else given.notes[~given.notes["drum"]]
    for track in np.unique(notes["track"]).tolist():
        mine = (notes["track"] == track) & ~notes["drum"]
        theirs = np.unique(before["program"][before["track"] == track])
        if len(theirs) == 1:
            notes["program"][mine] = theirs[0]
        elif not len(theirs) and mine.any():
            names[track] = name_of.get(int(notes["program"][mine][0]), names.get(track, ""))
    return replace(score, notes=notes, names={k: name for k, name in names.items() if name})
