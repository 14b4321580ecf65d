"""Repeats of MusicXML are played as musicians play them, with tempos, meters, chords and words, and
as plain loops over trees of sections play them."""

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import musictx
from musictx import musicxml
from musictx.config import Limits
from musictx.errors import UserError
from musictx.musicxml.repeats import Jump, RepeatError, playing_order
from musictx.musicxml.repeats import RepeatSigns as Signs
from tests.musicxml.pages import ENDINGS, bar, direction, document, measures, note, numbered, played


def sound(**attributes):
    return "<sound {}/>".format(" ".join(f'{k}="{v}"' for k, v in attributes.items()))


def words(text):
    return direction(f"<words>{text}</words>")


def sign(name):
    return direction(f"<{name}/>")


#: Form -> marks of the measures, numbers of the measures as a musician plays them.
FORMS = {
    "back to the last repeat's end": (
        [bar(), bar(backward=2), bar(), bar(backward=2), bar()], [0, 1, 0, 1, 2, 3, 2, 3, 4]),
    "a first ending for the verse that has none": (
        [bar(forward=True), bar(ending="1", stop="1", backward=2), bar(ending="3", stop="3")],
        [0, 1, 0, 1, 0, 2]),
    "a first ending whose beginning is missing": (
        [bar(forward=True), bar(stop=" ", backward=2), bar(ending="2", stop="2")], [0, 1, 0, 2]),
    "repeats after the jump too": (
        [bar(forward=True), bar(backward=2, after=words("Fine"), again=True), bar(),
         bar(after=words("D.C. al Fine"))],
        [0, 1, 0, 1, 2, 3, 0, 1, 0, 1]),
    "D.S. al Coda by signs alone": (
        [bar(), bar(before=sign("segno")), bar(after=sign("coda")),
         bar(after=words("D.S. al Coda")), bar(before=sign("coda")), bar()],
        [0, 1, 2, 3, 1, 2, 4, 5]),
    "two jumps by their names": (
        [bar(before=sound(segno="a")), bar(before=sound(segno="b")), bar(after=sound(tocoda="x")),
         bar(after=sound(tocoda="y")), bar(after=sound(dalsegno="b")), bar(before=sound(coda="x")),
         bar(after=sound(dalsegno="a")), bar(before=sound(coda="y"))],
        [0, 1, 2, 3, 4, 1, 2, 5, 6, 0, 1, 2, 3, 7]),
    "D.S. from a second ending": (
        [bar(before=sign("segno"), forward=True), bar(ending="1", stop="1", backward=2),
         bar(ending="2", stop="2", after=words("D.S. al Fine")), bar(after=words("Fine"))],
        [0, 1, 0, 2, 0, 2, 3]),
    "D.S. into a repeat with endings": (
        [bar(forward=True), bar(before=sign("segno")), *ENDINGS, bar(after=words("D.S."))],
        [0, 1, 2, 0, 1, 3, 4, 1, 3, 4]),
    "a repeat that programs alone see": (
        [bar(), bar(before=sound(**{"forward-repeat": "yes"})), bar(backward=2)], [0, 1, 2, 1, 2]),
}  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
def test_forms_are_played_as_musicians_play_them(form):
    bars, numbers = FORMS[form]
    assert played(bars) == numbers
    assert played(bars, repeats=False) == list(range(len(bars)))


def test_a_repeat_within_a_measure_divides_it_in_all_parts():
    middle = '<barline location="middle"><repeat direction="backward"/></barline>'
    first = measures(
        [bar()] * 2, lambda n: numbered(2 * n, 3) + middle * (n == 1) + numbered(2 * n + 1, 1)
    )
    second = measures([bar()] * 2, lambda n: numbered(10 + n, 3) + numbered(20 + n, 1))
    score = musicxml.read(document(second, first), bpm=60)
    divided = score.notes[score.notes["track"] == 1]
    assert (divided["pitch"] - 36).tolist() == [0, 1, 2, 0, 1, 2, 3]
    assert divided["start"].tolist() == [0, 3, 4, 7, 10, 11, 14]
    other = score.notes[score.notes["track"] == 0]
    assert (other["pitch"] - 36).tolist() == [10, 20, 11, 10, 20, 11, 21]


def test_a_pick_up_is_repeated_with_its_piece():
    marks = [bar(), bar(), bar(after=words("Fine")), bar(), bar(after=words("D.C. al Fine"))]
    lengths = [1, 4, 4, 4, 3]
    page = measures(marks, lambda n: numbered(n, lengths[n]))
    # A bar's rest is as short as the other parts there.
    other = measures(marks, lambda n: numbered(n, lengths[n]) if n else note("<rest/>", 4))
    data = document(page, other).replace(b'number="0"', b'number="0" implicit="yes"')
    notes = musicxml.read(data, bpm=60).notes
    notes = notes[notes["track"] == 0]
    assert (notes["pitch"] - 36).tolist() == [0, 1, 2, 3, 4, 0, 1, 2]
    assert notes["start"].tolist() == [0, 1, 5, 9, 13, 16, 17, 21]


def test_tempo_meter_key_chords_and_words_are_repeated_with_their_measures():
    chord = "<harmony><root><root-step>C</root-step></root><kind>major</kind></harmony>"
    change = (
        "<attributes><key><fifths>2</fifths></key>"
        "<time><beats>3</beats><beat-type>4</beat-type></time></attributes>"
    )
    key = "<attributes><key><fifths>-1</fifths></key></attributes>"
    bars = [
        bar(before=chord),
        bar(before=key, forward=True),
        bar(backward=2, before=change + sound(tempo=60) + chord.replace(">C<", ">D<")),
    ]
    lengths, lines = (4, 4, 3), [["in"], ["one", "two"], ["and"]]
    lyric = '<lyric number="{}"><text>{}</text></lyric>'

    def sung(number):
        texts = (lyric.format(n, text) for n, text in enumerate(lines[number], 1))
        return numbered(number, lengths[number], "".join(texts))

    score = musicxml.read(document(measures(bars, sung)))
    assert score.lyrics == ((0, "in"), (2, "one"), (4, "and"), (7, "two"), (9, "and"))
    assert score.notes["start"].tolist() == [0, 2, 4, 7, 9]
    assert score.tempos.tolist() == [(0, 120), (4, 60), (7, 120), (9, 60)]
    assert score.meters.tolist() == [(0, 4, 4), (4, 3, 4), (7, 4, 4), (9, 3, 4)]
    assert score.keys.tolist() == [(2, -1, False), (4, 2, False), (7, -1, False), (9, 2, False)]
    assert score.markers == ((0, "C:maj"), (4, "D:maj"), (7, "C:maj"), (9, "D:maj"))
    again = musicxml.read(musicxml.to_bytes(score))  # written out, pass by pass
    assert again.notes[["start", "pitch"]].tolist() == score.notes[["start", "pitch"]].tolist()


def test_a_note_tied_over_a_repeat_is_struck_again_where_its_beginning_is_not_played():
    start, stop = '<tie type="start"/>', '<tie type="stop"/>'
    ties = {0: start, 1: stop, 2: "", 3: ""}
    bars = [bar(forward=True), *ENDINGS, bar()]

    def same(number):
        return numbered(0 if number < 2 else number, 4, ties[number])

    score = musicxml.read(document(measures(bars, same)), bpm=60)
    assert score.notes[["start", "end", "pitch"]].tolist() == [
        (0, 8, 36), (8, 12, 36), (12, 16, 38), (16, 20, 39)
    ]  # fmt: skip


WRONG = {
    "no segno": [bar(), bar(after=words("D.S.")), bar()],
    "no fine": [bar(), bar(after=words("D.C. al Fine")), bar()],
    "a jump that is passed by": [
        bar(), bar(ending="1", stop="1", backward=2, after=words("D.C.")), bar(ending="2", stop="2")
    ],
}  # fmt: skip


@pytest.mark.parametrize("title", WRONG)
def test_impossible_repeats_are_ignored_and_counted(title):
    repairs = Counter()
    assert played(WRONG[title], repairs=repairs) == list(range(len(WRONG[title])))
    assert [text.split(",")[0] for text in repairs] == ["repeats that are not taken"]


def test_repeats_keep_to_the_limits():
    bars = [bar(), bar(backward=50)]
    for limits in (Limits(notes=99), Limits(events=99), Limits(seconds=100)):
        repairs = Counter()
        assert played(bars, limits=limits, repairs=repairs) == [0, 1]
        assert len(repairs) == 1
    assert len(played(bars, limits=Limits(notes=100))) == 100


def test_repeats_are_an_option_of_read(tmp_path):
    data = document(measures([bar(), bar(backward=2)]))
    path = tmp_path / "x.musicxml"
    path.write_bytes(data)
    for source in (path, data):
        assert (len(musictx.read(source)), len(musictx.read(source, repeats=False))) == (4, 2)
    with pytest.raises(UserError, match=r"^repeats="):
        musictx.read(path, repeats="no")


def tree_marks(tree):
    """Return the marks of a tree of repeats. Its branches are the number of plain sections,
    ("repeat", times, tree) or ("endings", tree, [numbers of each ending])."""
    marks = []
    for branch in tree:
        if isinstance(branch, int):
            marks += [Signs()] * branch
            continue
        inside = tree_marks(branch[2] if branch[0] == "repeat" else branch[1])
        inside[0] = inside[0]._replace(forward=True)
        if branch[0] == "repeat":
            inside[-1] = inside[-1]._replace(backward=branch[1])
        else:
            for numbers in branch[2]:
                back = 0 if numbers == branch[2][-1] else 2
                inside.append(Signs(ending=tuple(numbers), opens=True, backward=back))
        marks += inside
    return marks


def loops(tree, first=0):
    """Return the sections of a tree in the order in which loops play them, and their number."""
    sequence, place = [], first
    for branch in tree:
        if isinstance(branch, int):
            sequence += range(place, place + branch)
            place += branch
            continue
        body, stop = loops(branch[2] if branch[0] == "repeat" else branch[1], place)
        if branch[0] == "repeat":
            sequence += body * branch[1]
            place = stop
        else:
            for number in range(1, max(map(max, branch[2])) + 1):
                ending = next(i for i, numbers in enumerate(branch[2]) if number in numbers)
                sequence += [*body, stop + ending]
            place = stop + len(branch[2])
    return sequence, place


plain = st.integers(1, 2)
# A bar line begins or ends one repeat only, so plain bars surround each repeat.
verses = st.sampled_from([[[1], [2]], [[1, 2], [3]], [[1], [2], [3]]])


def surround(branches):
    body = st.tuples(plain, branches, plain).map(list)
    repeats = st.tuples(st.just("repeat"), st.integers(2, 3), body)
    return repeats | st.tuples(st.just("endings"), body, verses)


branches = plain | surround(plain) | surround(surround(plain))
trees = st.lists(branches, min_size=1, max_size=4)


@settings(max_examples=50)
@given(tree=trees)
def test_trees_of_repeats_are_played_as_loops(tree):
    numbers, count = loops(tree)
    marks = tree_marks(tree)
    assert len(marks) == count
    assert playing_order(marks) == numbers
    bars = []
    for mark in marks:
        number = ", ".join(map(str, mark.ending))
        bars.append(bar(forward=mark.forward, backward=mark.backward, ending=number, stop=number))
    assert played(bars) == numbers


names = st.sampled_from([(), ("",), ("a",)])
any_marks = st.builds(
    Signs,
    forward=st.booleans(),
    backward=st.sampled_from([0, 0, 2, 3, 1_000_000]),
    after_jump=st.booleans(),
    ending=st.lists(st.integers(0, 3), max_size=2).map(tuple),
    opens=st.booleans(),
    fine=st.booleans(),
    jump=st.sampled_from([None, None, Jump(None), Jump("", "coda"), Jump("a", "fine")]),
    **dict.fromkeys(("segno", "coda", "to_coda"), names),
)


@settings(max_examples=100)
@given(st.lists(any_marks, max_size=12))
def test_any_marks_have_an_order_or_a_reason(marks):
    try:
        numbers = playing_order(marks, most=2000)
    except RepeatError:
        return
    assert set(numbers) <= set(range(len(marks)))
    assert len(numbers) <= 2000
    if not any(mark.backward or mark.jump for mark in marks):
        assert numbers == list(range(len(marks)))


@pytest.mark.parametrize(
    "marks",
    [
        [Signs(forward=True, backward=0)] * 3000 + [Signs(backward=2)] * 3000,
        [Signs(backward=2, jump=Jump(None))] * 20_000,
        [Signs(), *[Signs(ending=(1,))] * 9000, Signs(ending=(1,), backward=2)]
        + [Signs(ending=tuple(range(2, 64)), opens=True, backward=2)] * 2,
        [Signs(segno=("",)), *[Signs(to_coda=("",), jump=Jump(""))] * 9000, Signs(coda=("",))],
        [Signs(forward=True, backward=1_000_000)] * 3,
    ],
    ids=["nested", "jumps", "endings", "codas", "times"],
)
def test_hostile_marks_are_refused(marks):
    with pytest.raises(RepeatError):
        playing_order(marks)
