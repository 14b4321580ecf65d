"""Whatever is changed in a piece that began with a MIDI file is in the file that is written; but
the ends of notes of one pitch that overlap, which MIDI cannot say."""

import numpy as np
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from musictx import midi
from musictx.studio import exchange
from musictx.studio.change import Change
from tests.midi.test_edit import files


@st.composite
def changes(draw, document):
    """One of those that a page sends."""
    notes, tracks = document.notes, list(document.tracks)
    what = draw(
        st.sampled_from(["track", "order", "tempo", "beats", "meter", "key", "marks", "notes"])
    )
    if what == "track":
        at = draw(st.integers(0, len(tracks) - 1))
        name, program = draw(st.sampled_from(["", "Flute"])), draw(st.integers(0, 127))
        tracks[at] = tracks[at]._replace(name=name, program=program, volume=program)
        return Change(tracks=tuple(tracks))
    if what == "order":
        return Change(tracks=tuple(reversed(tracks)))
    if what == "tempo":
        return Change(tempos=((0.0, draw(st.floats(20, 300))),))
    if what == "beats":  # another tempo, and all keeps its beats
        by = draw(st.floats(0.5, 2))
        return Change(
            remove=tuple(notes),
            add=tuple((i, n[0] * by, n[1] * by, *n[2:]) for i, n in notes.items()),
            tempos=tuple((time * by, bpm / by) for time, bpm in document.tempos),
            meters=tuple((time * by, *meter) for time, *meter in document.meters),
        )
    if what == "meter":
        return Change(meters=((0.0, draw(st.integers(1, 9)), 4),))
    if what == "key":
        return Change(keys=((0.0, draw(st.integers(-7, 7)), False),))
    if what == "marks":
        return Change(markers=((0.0, "A"), (0.5, "B")))
    return Change(
        remove=tuple(notes)[: draw(st.integers(0, 2))],
        add=((document.next_id, 0.5, 1.0, 60, 80, tracks[0].id),),
    )


def heard(notes):
    """What counts of notes, by pitch and program, in the order of their beginnings."""
    program = np.where(notes["drum"], 0, notes["program"])
    return sorted(zip(notes["pitch"].tolist(), program.tolist(), notes["drum"].tolist()))


@settings(deadline=None, max_examples=100)
@given(files(), st.data())
def test_what_is_changed_is_in_the_file(data, more):
    score = midi.read(data)
    assume(score.file)
    document = exchange.document_of(score)
    for _ in range(more.draw(st.integers(1, 3))):
        document.apply(more.draw(changes(document)))
    ordered = exchange.in_order(document)
    wanted, written = exchange.score_of(ordered), exchange.in_file(ordered, data)
    back = midi.read(exchange.mixed(ordered, written, midi.to_bytes(written)))
    assert heard(back.notes) == heard(wanted.notes)
    found, expected = np.sort(back.notes["start"]), np.sort(wanted.notes["start"])
    np.testing.assert_allclose(found, expected, atol=0.006)
    assert [text for _, text in back.markers] == [text for _, text in wanted.markers]
    exchange.controllers_of(ordered, data)
