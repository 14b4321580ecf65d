"""Changes of a document that a page might send, drawn at random."""

from __future__ import annotations

import copy

from hypothesis import strategies as st

from musictx.studio.change import Change, Track
from musictx.studio.config import StudioLimits
from musictx.studio.document import Document

LIMITS = StudioLimits()
NOTES = st.tuples(
    st.integers(0, 8000), st.integers(0, 3000), st.integers(0, 127), st.integers(1, 127)
).map(lambda n: (n[0] / 1000, (n[0] + n[1]) / 1000, n[2], n[3]))
SECONDS = st.integers(0, 8000).map(lambda n: n / 1000)
#: What a page does to tracks, marks, texts and notes, and what else it may send.
IN_FILES = ["track", "order", "delete", "lyrics", "meter", "key", "marks", "notes", "new", "undo"]
IN_FILES += ["tempo", "beats"]
ALL = [*IN_FILES, "edit", "lock", "pedals", "others"]


@st.composite
def changes(draw, document: Document, kinds: list[str] = ALL) -> Change:
    """A valid change of ``document``, of one of the ``kinds``; of "undo" an empty one."""
    notes, tracks = document.notes, list(document.tracks)
    some = (
        st.lists(st.sampled_from(sorted(notes)), unique=True, max_size=5) if notes else st.just([])
    )
    of = st.sampled_from([track.id for track in tracks]) if tracks else st.nothing()
    what = draw(st.sampled_from(kinds))
    if what == "undo" or not tracks:
        return Change()
    if what == "edit":
        removed, chosen = draw(some), draw(some)
        count = draw(st.integers(0, 4))
        return Change(
            "move 3 notes",
            remove=tuple(removed),
            add=tuple((document.next_id + i, *draw(NOTES), draw(of)) for i in range(count)),
            change=tuple((n, *draw(NOTES), draw(of)) for n in chosen if n not in removed),
        )
    if what == "lock":
        locked = draw(some)
        unlocked = tuple(n for n in draw(some) if n not in locked)
        return Change(lock=tuple(locked), unlock=unlocked)
    if what == "pedals":
        rows = st.lists(st.tuples(SECONDS, st.integers(0, 127), of), max_size=3)
        return Change(pedals=tuple(draw(rows)))
    if what == "others":
        return Change(name="a b", favourites=((1, 2),), fermatas=(draw(SECONDS),))
    if what == "track":
        at = draw(st.integers(0, len(tracks) - 1))
        name, program = draw(st.sampled_from(["", "Flute"])), draw(st.integers(0, 127))
        tracks[at] = tracks[at]._replace(name=name, program=program, volume=program)
        return Change(tracks=tuple(tracks))
    if what == "order":
        return Change(tracks=tuple(draw(st.permutations(tracks))))
    if what == "delete" and len(tracks) > 1:
        gone = tracks.pop(draw(st.integers(0, len(tracks) - 1))).id
        return Change(
            tracks=tuple(tracks), remove=tuple(n for n, row in notes.items() if row[4] == gone)
        )
    if what == "new":
        free = next(n for n in range(300) if all(n != track.id for track in tracks))
        tracks.insert(draw(st.integers(0, len(tracks))), Track(free, "new", 30, False))
        return Change(tracks=tuple(tracks), add=((document.next_id, 0.25, 0.75, 50, 50, free),))
    if what == "tempo":
        return Change(tempos=((0.0, draw(st.floats(20, 300))),))
    if what == "beats":  # another tempo, and all keeps its beats
        by = draw(st.floats(0.5, 2))
        return Change(
            change=tuple((i, n[0] * by, n[1] * by, *n[2:]) for i, n in notes.items()),
            tempos=tuple((time * by, bpm / by) for time, bpm in document.tempos),
            meters=tuple((time * by, *meter) for time, *meter in document.meters),
        )
    if what == "meter":
        return Change(meters=((0.0, draw(st.integers(1, 9)), 4),))
    if what == "key":
        return Change(keys=((0.0, draw(st.integers(-7, 7)), False),))
    if what == "marks":
        return Change(markers=((0.0, "A"), (0.5, "B")))
    if what == "lyrics":
        kept = tuple(row for row in document.lyrics if draw(st.booleans()))
        return Change(lyrics=tuple(sorted((*kept, (draw(st.sampled_from([0.0, 0.7])), "la-")))))
    return Change(
        remove=tuple(notes)[: draw(st.integers(0, 2))],
        add=((document.next_id, 0.5, 1.0, 60, 80, tracks[0].id),),
    )


def music(document: Document) -> Document:
    """What undo restores: the document without its counters of operations and of notes."""
    same = copy.deepcopy(document)
    same.revision = same.next_id = 0
    return same
