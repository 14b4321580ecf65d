"""Who is composed for next: sessions take turns, so that nobody waits for all that another has
asked for."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Queue(Generic[T]):
    """Items that wait, in their order within each session; sessions are served in turn.

    A session whose item was taken goes to the end of the turns. Nobody so waits longer than one
    turn of everybody else for each of their own items.
    """

    def __init__(self) -> None:
        self._waiting: dict[str, deque[T]] = {}  # in the order of the turns

    def __len__(self) -> int:
        return sum(map(len, self._waiting.values()))

    def waiting(self, session: str) -> list[T]:
        """What waits of a session, in its order."""
        return list(self._waiting.get(session, ()))

    def add(self, session: str, item: T) -> None:
        """Put an item behind those of its session; a session without any goes to the end of the
        turns."""
        self._waiting.setdefault(session, deque()).append(item)

    def remove(self, session: str, item: T) -> bool:
        """Take an item out; False if it does not wait."""
        mine = self._waiting.get(session, deque())
        if item not in mine:
            return False
        mine.remove(item)
        if not mine:
            del self._waiting[session]
        return True

    def place(self, session: str, item: T) -> int:
        """How many are taken up to this item, itself counted, if each is taken alone and nothing
        new comes; 0 for one that does not wait."""
        mine = self._waiting.get(session, deque())
        if item not in mine:
            return 0
        before, found, ours = mine.index(item), 1, False
        for name, items in self._waiting.items():
            ours |= name == session
            most = before if ours else before + 1  # those later in the turns come once less often
            found += before if name == session else min(len(items), most)
        return found

    def take(self, fits: Callable[[list[T], T], bool] = lambda chosen, item: False) -> list[T]:
        """The next item and those that run with it: of each session, in turn, its first items as
        long as they fit with those that are chosen already. Empty if nothing waits."""
        chosen: list[T] = []
        served: list[str] = []
        for name, items in self._waiting.items():
            count = len(chosen)
            while items and (not chosen or fits(chosen, items[0])):
                chosen.append(items.popleft())
            if len(chosen) > count:
                served.append(name)
        for name in served:  # to the end of the turns, if anything of theirs waits still
            items = self._waiting.pop(name)
            if items:
                self._waiting[name] = items
        return chosen
