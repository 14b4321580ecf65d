"""The order of sections: as plain loops over trees have it."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from musictx.musicxml.repeats import Jump, Marks, NoOrder, order
from tests.musicxml.pages import bar, played


# A tree of music, as a page and as plain loops over it.
def marked(tree):
    """The marks of a tree: an int is so many plain sections; ("repeat", times, trees);
    ("endings", trees, [numbers of each ending])."""
    marks = []
    for branch in tree:
        if isinstance(branch, int):
            marks += [Marks()] * branch
            continue
        inside = marked(branch[2] if branch[0] == "repeat" else branch[1])
        inside[0] = inside[0]._replace(forward=True)
        if branch[0] == "repeat":
            inside[-1] = inside[-1]._replace(backward=branch[1])
        else:
            for numbers in branch[2]:
                back = 0 if numbers == branch[2][-1] else 2
                inside.append(Marks(ending=tuple(numbers), opens=True, backward=back))
        marks += inside
    return marks


def loops(tree, first=0):
    """The order in which the sections of a tree are played, and how many there are."""
    sequence, at = [], first
    for branch in tree:
        if isinstance(branch, int):
            sequence += range(at, at + branch)
            at += branch
            continue
        body, stop = loops(branch[2] if branch[0] == "repeat" else branch[1], at)
        if branch[0] == "repeat":
            sequence += body * branch[1]
            at = stop
        else:
            for number in range(1, max(map(max, branch[2])) + 1):
                place = next(i for i, numbers in enumerate(branch[2]) if number in numbers)
                sequence += [*body, stop + place]
            at = stop + len(branch[2])
    return sequence, at


plain = st.integers(1, 2)
# A bar line is the beginning, and the end, of one repeat only: plain bars stand around each.
numbered = st.sampled_from([[[1], [2]], [[1, 2], [3]], [[1], [2], [3]]])


def around(branches):
    body = st.tuples(plain, branches, plain).map(list)
    one = st.tuples(st.just("repeat"), st.integers(2, 3), body)
    two = st.tuples(st.just("endings"), body, numbered)
    return one | two


branches = plain | around(plain) | around(around(plain))
trees = st.lists(branches, min_size=1, max_size=4)


@settings(deadline=None, max_examples=120)
@given(tree=trees)
def test_trees_of_repeats_are_played_as_loops(tree):
    numbers, count = loops(tree)
    marks = marked(tree)
    assert len(marks) == count
    assert order(marks) == numbers
    bars = []
    for mark in marks:
        number = ", ".join(map(str, mark.ending))
        bars.append(bar(forward=mark.forward, backward=mark.backward, ending=number, stop=number))
    assert played(bars) == numbers


@settings(deadline=None, max_examples=120)
@given(tree=trees, data=st.data())
def test_after_a_jump_everything_comes_once_with_its_last_endings(tree, data):
    numbers, count = loops(tree)
    marks = marked([*tree, 1])
    once = list(range(count))
    for group in _groups(marks):
        once = [n for n in once if n not in group[:-1]]
    target = data.draw(st.sampled_from([n for n in once if not marks[n].ending]))
    marks[target] = marks[target]._replace(segno=("",))
    marks[-1] = marks[-1]._replace(jump=Jump("", ""))
    after = [n for n in once if n >= target]
    assert order([*marks, Marks()]) == [*numbers, count, *after, count, count + 1]
    stop = data.draw(st.sampled_from(after))
    marks[stop] = marks[stop]._replace(fine=True)
    assert order([*marks, Marks()]) == [*numbers, count, *[n for n in after if n <= stop]]
    marks[stop] = marks[stop]._replace(fine=False, to_coda=("",))
    coda = [Marks(), Marks(coda=("",), forward=True, backward=2)]
    begin = len(marks) + 1
    after = [n for n in after if n <= stop]
    assert order([*marks, *coda]) == [*numbers, count, *after, begin, begin]


def _groups(marks):
    """Endings side by side."""
    groups = []
    for n, mark in enumerate(marks):
        if mark.ending and groups and groups[-1][-1] == n - 1 and mark.ending[0] != 1:
            groups[-1].append(n)
        elif mark.ending:
            groups.append([n])
    return groups


names = st.sampled_from([(), ("",), ("a",)])
any_marks = st.builds(
    Marks,
    forward=st.booleans(),
    backward=st.sampled_from([0, 0, 2, 3, 1_000_000]),
    again=st.booleans(),
    ending=st.lists(st.integers(0, 3), max_size=2).map(tuple),
    opens=st.booleans(),
    fine=st.booleans(),
    jump=st.sampled_from([None, None, Jump(None), Jump("", "coda"), Jump("a", "fine")]),
    **dict.fromkeys(("segno", "coda", "to_coda"), names),
)


@settings(deadline=None, max_examples=200)
@given(st.lists(any_marks, max_size=12))
def test_any_marks_have_an_order_or_a_reason(marks):
    try:
        numbers = order(marks, most=2000)
    except NoOrder:
        return
    assert set(numbers) <= set(range(len(marks)))
    assert len(numbers) <= 2000
    if not any(mark.backward or mark.jump for mark in marks):
        assert numbers == list(range(len(marks)))


@pytest.mark.parametrize(
    "marks",
    [
        [Marks(forward=True, backward=0)] * 3000 + [Marks(backward=2)] * 3000,
        [Marks(backward=2, jump=Jump(None))] * 20_000,
        [Marks(), *[Marks(ending=(1,))] * 9000, Marks(ending=(1,), backward=2)]
        + [Marks(ending=tuple(range(2, 64)), opens=True, backward=2)] * 2,
        [Marks(segno=("",)), *[Marks(to_coda=("",), jump=Jump(""))] * 9000, Marks(coda=("",))],
        [Marks(forward=True, backward=1_000_000)] * 3,
    ],
    ids=["nested", "jumps", "endings", "codas", "times"],
)
def test_hostile_marks_are_refused(marks):
    with pytest.raises(NoOrder):
        order(marks)
