"""A tiny model, a run of the engine and a constraint, for the tests of sampling."""

import numpy as np
import pytest
import torch

from musictx.sampling import engine
from musictx.sampling.constraints import Constraint, GrammarRow
from musictx.sampling.processors import Temperature
from musictx.tokens.vocab import BOS
from tests import compiler
from tests.untrained import network, spread

V = 12
GREEDY = [Temperature(0.0)]
CACHES = ["growing", pytest.param("native", marks=compiler.needed)]


def make(context=16, layers=2, scheme="huang", vocab=V, seed=0):
    """A tiny model with strong opinions, so that greedy choices are not ties."""
    position = scheme if isinstance(scheme, dict) else {"name": scheme}
    shape = {"layers": layers, "width": 16, "feedforward": 32, "context": context}
    return spread(network(vocab, seed=seed, dropout=0.3, position=position, **shape), 4)


def run(model, prompt, *, rows=1, max_tokens=8, seeds=None, **more):
    seeds = list(range(rows)) if seeds is None else seeds
    steps = list(engine.generate(model, prompt, max_tokens=max_tokens, seeds=seeds, **more))
    return torch.stack(steps, dim=1).tolist()


def nats(penalty, state, vocab, ids=(BOS,)):
    """(V,) what a penalty of one row takes off, zeros where it says that this is nothing."""
    found = penalty(GrammarRow(state), np.asarray(ids, np.int64))
    return np.zeros(vocab) if found is None else found


class Only(Constraint):
    """A constraint that allows the given ids."""

    def __init__(self, rows, ids):
        super().__init__([])
        self.mask = torch.zeros(rows, V, dtype=torch.bool)
        self.mask[:, list(ids)] = True

    def allowed(self):
        return self.mask

    def advance(self, ids):
        pass

    def done(self):
        return torch.zeros(len(self.mask), dtype=torch.bool)
