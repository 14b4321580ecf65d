"""Ctrl-C and SIGTERM: the first stops after the step, the second has its usual effect."""

import os
import signal
from types import SimpleNamespace

import pytest
import torch

from musictx.training.signals import Stopped, StopSignal


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_second_signal_has_its_usual_effect(number, capfd):
    seen = []
    outside = signal.signal(number, lambda *given: seen.append(given[0]))
    try:
        with StopSignal() as stop:
            os.kill(os.getpid(), number)
            assert (stop.received, seen) == (number, [])
            os.kill(os.getpid(), number)
            assert seen == [number]
        os.kill(os.getpid(), number)
        assert seen == [number, number]
    finally:
        signal.signal(number, outside)
    assert capfd.readouterr().err.count("stopping after this step") == 1


def trainer_of(reduce):
    return SimpleNamespace(world_size=3, strategy=SimpleNamespace(root_device="cpu", reduce=reduce))


@pytest.mark.parametrize("asked", range(3))
def test_a_signal_to_any_rank_stops_all_and_is_the_end_of_each(asked):
    ranks = [StopSignal() for _ in range(3)]

    def round_of_all():
        sent = [torch.tensor(float(rank.received)) for rank in ranks]  # as a collective does
        for rank in ranks:
            highest = trainer_of(lambda value, reduce_op: {"max": max}[reduce_op](value, *sent))
            rank.on_validation_end(highest, None)
        return [rank.agreed for rank in ranks]

    assert round_of_all() == [0] * 3
    ranks[asked]._receive(signal.SIGTERM, None)
    assert round_of_all() == [signal.SIGTERM] * 3
    for rank in ranks:
        with pytest.raises(Stopped):
            rank.on_train_batch_start(None)


def test_a_signal_while_the_ranks_agree_counts_at_the_next_agreement():
    stop = StopSignal()

    def reduce(value, reduce_op):
        if not stop.received:
            stop._receive(signal.SIGTERM, None)  # after this rank has sent its 0
        return value

    for agreed in (0, signal.SIGTERM):
        stop.on_validation_end(trainer_of(reduce), None)
        assert (stop.agreed, stop.received) == (agreed, signal.SIGTERM)
