"""The queue against what a plain list of arrivals says: turns, places, orders, companions."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from musictx.studio.queue import Queue

#: Items are (session, number); a step adds one of a session, takes, or removes one that waits.
steps = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.sampled_from("abcd")),
        st.tuples(st.just("take"), st.booleans()),
        st.tuples(st.just("remove"), st.integers(0, 20)),
    ),
    max_size=60,
)


def fits(chosen, item):
    return len(chosen) < 3 and item[1] % 2 == chosen[0][1] % 2


def run(script, check):
    queue, count = Queue(), 0
    for what, with_what in script:
        waiting = [item for session in "abcd" for item in queue.waiting(session)]
        if what == "add":
            count += 1
            queue.add(with_what, (with_what, count))
        elif what == "remove" and waiting:
            item = waiting[with_what % len(waiting)]
            assert queue.remove(item[0], item)
            assert not queue.remove(item[0], item)
        elif what == "take":
            check(queue, waiting, queue.take(fits) if with_what else queue.take())


@given(steps)
def test_nobody_waits_longer_than_one_turn_of_everybody_else(script):
    since: dict[str, dict[str, int]] = {}  # of each that waits: how often others were served since

    def check(queue, waiting, taken):
        sessions = {session for session, _ in waiting}
        for gone in [*since]:
            if gone not in sessions:
                del since[gone]
        served = {session for session, _ in taken}
        assert bool(taken) == bool(waiting)
        for session in sessions - served:
            mine = since.setdefault(session, {})
            for other in served:
                mine[other] = mine.get(other, 0) + 1
                assert mine[other] <= 1, "served twice while another waited"
        for session in served:
            since.pop(session, None)

    run(script, check)


@given(steps)
def test_within_a_session_the_first_is_taken_first_and_each_once(script):
    gone: set = set()

    def check(queue, waiting, taken):
        assert not gone & set(taken)
        gone.update(taken)
        for session in "abcd":
            of_this = [item for item in waiting if item[0] == session]
            mine = [item for item in taken if item[0] == session]
            assert mine == of_this[: len(mine)]
            assert queue.waiting(session) == of_this[len(mine) :]
        assert len(queue) == len(waiting) - len(taken)
        parities = {number % 2 for _, number in taken}
        assert len(taken) <= 3
        assert len(parities) <= 1

    run(script, check)


@given(steps)
def test_a_place_is_the_number_of_items_taken_until_then(script):
    queue = Queue()
    for number, (what, with_what) in enumerate(script):
        if what == "add":
            queue.add(with_what, (with_what, number))
        elif what == "take":
            queue.take()
    places = {
        item: queue.place(session, item) for session in "abcd" for item in queue.waiting(session)
    }
    assert queue.place("a", ("a", -1)) == queue.place("x", ("x", 1)) == 0
    order = []
    while taken := queue.take():
        order += taken
    assert places == {item: number for number, item in enumerate(order, 1)}
