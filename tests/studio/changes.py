"""Random changes of a document that a page might send."""

import copy
import json

from hypothesis import strategies as st

from musictx.studio.change import Change, Track
from musictx.studio.config import StudioLimits
from musictx.studio.document import Document

LIMITS = StudioLimits()
NOTES = st.tuples(
    st.integers(0, 8000), st.integers(0, 3000), st.integers(0, 127), st.integers(1, 127)
).map(lambda n: (n[0] / 1000, (n[0] + n[1]) / 1000, n[2], n[3]))
SECONDS = st.integers(0, 8000).map(lambda n: n / 1000)
#: Changes that are independent of the document, by their kind.
INDEPENDENT = {
    "none": st.just(Change()),
    "tempo": st.floats(20, 300).map(lambda bpm: Change(tempos=((0.0, bpm),))),
    "meter": st.integers(1, 9).map(lambda beats: Change(meters=((0.0, beats, 4),))),
    "key": st.integers(-7, 7).map(lambda sharps: Change(keys=((0.0, sharps, False),))),
    "markers": st.just(Change(markers=((0.0, "A"), (0.5, "B")))),
    "other": SECONDS.map(lambda t: Change(name="a b", favourites=((1, 2),), fermatas=(t,))),
}
#: The kinds of changes whose result a MIDI file can hold.
IN_FILES = ["track", "order", "delete", "lyrics", "meter", "key", "markers", "notes", "new track"]
IN_FILES += ["none", "tempo", "stretch"]
ALL = [*IN_FILES, "edit", "lock", "pedals", "other"]


@st.composite
def changes(draw, document: Document, kinds: list[str] = ALL) -> Change:
    """Draw a valid change of ``document``, of one of the ``kinds``."""
    notes, tracks = document.notes, list(document.tracks)
    kind = draw(st.sampled_from(kinds)) if tracks else "none"
    if kind in INDEPENDENT:
        return draw(INDEPENDENT[kind])
    track_ids = st.sampled_from([track.id for track in tracks])
    numbers = st.just([])
    if notes:
        numbers = st.lists(st.sampled_from(sorted(notes)), unique=True, max_size=5)

    def rows(numbers):
        return tuple((number, *draw(NOTES), draw(track_ids)) for number in numbers)

    match kind:
        case "edit":
            removed, changed = draw(numbers), draw(numbers)
            added = range(document.next_id, document.next_id + draw(st.integers(0, 4)))
            changed = rows(number for number in changed if number not in removed)
            return Change("move 3 notes", remove=tuple(removed), add=rows(added), change=changed)
        case "lock":
            locked, unlocked = draw(numbers), draw(numbers)
            return Change(lock=tuple(locked), unlock=tuple({*unlocked} - {*locked}))
        case "pedals":
            pedals = st.lists(st.tuples(SECONDS, st.integers(0, 127), track_ids), max_size=3)
            return Change(pedals=tuple(draw(pedals)))
        case "track":
            index = draw(st.integers(0, len(tracks) - 1))
            name, program = draw(st.sampled_from(["", "Flute"])), draw(st.integers(0, 127))
            tracks[index] = tracks[index]._replace(name=name, program=program, volume=program)
            return Change(tracks=tuple(tracks))
        case "order":
            return Change(tracks=tuple(draw(st.permutations(tracks))))
        case "delete" if len(tracks) > 1:
            deleted = tracks.pop(draw(st.integers(0, len(tracks) - 1))).id
            removed = tuple(n for n, note in notes.items() if note[4] == deleted)
            return Change(tracks=tuple(tracks), remove=removed)
        case "new track":
            free = next(n for n in range(300) if all(n != track.id for track in tracks))
            tracks.insert(draw(st.integers(0, len(tracks))), Track(free, "new", 30, False))
            note = (document.next_id, 0.25, 0.75, 50, 50, free)
            return Change(tracks=tuple(tracks), add=(note,))
        case "stretch":  # another tempo, in which everything stays on its beat
            factor = draw(st.floats(0.5, 2))
            return Change(
                change=tuple((i, n[0] * factor, n[1] * factor, *n[2:]) for i, n in notes.items()),
                tempos=tuple((time * factor, bpm / factor) for time, bpm in document.tempos),
                meters=tuple((time * factor, *meter) for time, *meter in document.meters),
            )
        case "lyrics":
            kept = tuple(row for row in document.lyrics if draw(st.booleans()))
            return Change(lyrics=tuple(sorted((*kept, (draw(st.sampled_from([0.0, 0.7])), "la-")))))
        case _:
            note = (document.next_id, 0.5, 1.0, 60, 80, tracks[0].id)
            return Change(remove=tuple(notes)[: draw(st.integers(0, 2))], add=(note,))


def music(document: Document) -> Document:
    """Return the part of the document that undo restores: all but its counters of operations and
    notes."""
    copied = copy.deepcopy(document)
    copied.revision = copied.next_id = 0
    return copied


def saved(document: Document) -> Document:
    """Return the document that is read from the database, which has its state as JSON."""
    return Document.from_state(json.loads(json.dumps(document.state())))
