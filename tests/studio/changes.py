"""Random changes of a document that a page might send."""

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
#: The kinds of changes whose result a MIDI file can hold.
IN_FILES = ["track", "order", "delete", "lyrics", "meter", "key", "markers", "notes", "new track"]
IN_FILES += ["none", "tempo", "stretch"]
ALL = [*IN_FILES, "edit", "lock", "pedals", "other"]


@st.composite
def changes(draw, document: Document, kinds: list[str] = ALL) -> Change:
    """Draw a valid change of ``document``, of one of the ``kinds``."""
    notes, tracks = document.notes, list(document.tracks)
    kind = draw(st.sampled_from(kinds)) if tracks else "none"
    numbers = (
        st.lists(st.sampled_from(sorted(notes)), unique=True, max_size=5) if notes else st.just([])
    )
    track_ids = st.sampled_from([track.id for track in tracks]) if tracks else st.nothing()
    match kind:
        case "none":
            return Change()
        case "edit":
            removed, changed = draw(numbers), draw(numbers)
            count = draw(st.integers(0, 4))
            return Change(
                "move 3 notes",
                remove=tuple(removed),
                add=tuple(
                    (document.next_id + i, *draw(NOTES), draw(track_ids)) for i in range(count)
                ),
                change=tuple(
                    (n, *draw(NOTES), draw(track_ids)) for n in changed if n not in removed
                ),
            )
        case "lock":
            locked = draw(numbers)
            unlocked = tuple(n for n in draw(numbers) if n not in locked)
            return Change(lock=tuple(locked), unlock=unlocked)
        case "pedals":
            rows = st.lists(st.tuples(SECONDS, st.integers(0, 127), track_ids), max_size=3)
            return Change(pedals=tuple(draw(rows)))
        case "other":
            return Change(name="a b", favourites=((1, 2),), fermatas=(draw(SECONDS),))
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
        case "tempo":
            return Change(tempos=((0.0, draw(st.floats(20, 300))),))
        case "stretch":  # another tempo, in which everything stays on its beat
            factor = draw(st.floats(0.5, 2))
            return Change(
                change=tuple((i, n[0] * factor, n[1] * factor, *n[2:]) for i, n in notes.items()),
                tempos=tuple((time * factor, bpm / factor) for time, bpm in document.tempos),
                meters=tuple((time * factor, *meter) for time, *meter in document.meters),
            )
        case "meter":
            return Change(meters=((0.0, draw(st.integers(1, 9)), 4),))
        case "key":
            return Change(keys=((0.0, draw(st.integers(-7, 7)), False),))
        case "markers":
            return Change(markers=((0.0, "A"), (0.5, "B")))
        case "lyrics":
            kept = tuple(row for row in document.lyrics if draw(st.booleans()))
            return Change(lyrics=tuple(sorted((*kept, (draw(st.sampled_from([0.0, 0.7])), "la-")))))
        case _:
            return Change(
                remove=tuple(notes)[: draw(st.integers(0, 2))],
                add=((document.next_id, 0.5, 1.0, 60, 80, tracks[0].id),),
            )


def music(document: Document) -> Document:
    """Return the part of the document that undo restores: all but its counters of operations and
    notes."""
    copied = copy.deepcopy(document)
    copied.revision = copied.next_id = 0
    return copied
