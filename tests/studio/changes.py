"""Documents, and changes that a page might ask for, drawn at random."""

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
NAMES = st.sampled_from(["piano", "Bass", "Стол", "a b"])


@st.composite
def changes(draw, document: Document) -> Change:
    """A valid change of ``document``."""
    tracks = list(document.tracks)
    new_tracks = None
    if draw(st.booleans()):
        used = {note[4] for note in document.notes.values()}
        tracks = [t for t in tracks if t.id in used or draw(st.booleans())]
        free = next(n for n in range(300) if n not in {t.id for t in tracks})
        tracks.append(Track(free, draw(NAMES), draw(st.integers(0, 127)), draw(st.booleans())))
        new_tracks = tuple(tracks)
    of = st.sampled_from([track.id for track in tracks])
    there = sorted(document.notes)
    some = st.lists(st.sampled_from(there), unique=True, max_size=5) if there else st.just([])
    removed = draw(some)
    left = [n for n in there if n not in removed]
    chosen = draw(st.lists(st.sampled_from(left), unique=True, max_size=5)) if left else []
    first = document.next_id
    added = [(first + i, *draw(NOTES), draw(of)) for i in range(draw(st.integers(0, 4)))]
    numbers = left + [row[0] for row in added]
    locked = draw(st.lists(st.sampled_from(numbers), unique=True, max_size=5)) if numbers else []
    half = len(locked) // 2
    pedals = st.lists(st.tuples(SECONDS, st.integers(0, 127), of), max_size=3).map(tuple)
    tempos = st.lists(st.tuples(SECONDS, st.floats(10, 400)), max_size=3).map(tuple)
    meters = st.lists(
        st.tuples(SECONDS, st.integers(1, 9), st.sampled_from([2, 4, 8])), max_size=3
    ).map(tuple)
    texts = st.none() | st.lists(st.tuples(SECONDS, NAMES), max_size=3).map(tuple)
    keys = st.lists(st.tuples(SECONDS, st.integers(-7, 7), st.booleans()), max_size=2).map(tuple)
    return Change(
        label=draw(st.sampled_from(["", "move 3 notes"])),
        remove=tuple(removed),
        add=tuple(added),
        change=tuple((n, *draw(NOTES), draw(of)) for n in chosen),
        lock=tuple(locked[:half]),
        unlock=tuple(locked[half:]),
        name=draw(st.none() | NAMES),
        tracks=new_tracks,
        pedals=draw(st.none() | pedals),
        tempos=draw(st.none() | tempos),
        meters=draw(st.none() | meters),
        markers=draw(texts),
        lyrics=draw(texts),
        favourites=draw(st.none() | st.just(((1, 2),))),
        keys=draw(st.none() | keys),
        fermatas=draw(st.none() | st.lists(SECONDS, max_size=3).map(tuple)),
    )


def music(document: Document) -> Document:
    """What undo restores: the document without its counters of operations and of notes."""
    same = copy.deepcopy(document)
    same.revision = same.next_id = 0
    return same
