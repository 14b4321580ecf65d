"""A simulated clock."""

import pytest

from musictx.live import jam, player, ports


class Time:
    """In place of the module ``time``: a clock that moves only by sleeping and composing."""

    def __init__(self):
        self.at = 100.0

    def monotonic(self):
        return self.at

    def sleep(self, seconds):
        self.at += seconds


@pytest.fixture
def time(monkeypatch):
    time = Time()
    for module in (jam, player, ports):
        monkeypatch.setattr(module, "time", time)
    return time
