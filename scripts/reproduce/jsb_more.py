"""Chorales with more than one network: an ensemble, the training split and the piece as memory.

    python -m scripts.reproduce.jsb_more path=Jsb16thSeparated.json aside=runs/jsb/aside-0.json
        models=A,B,C siblings=D,E [split=valid]

``models`` are (calibrated) model folders trained on the training split, ``siblings`` such that were
trained on that of ``aside``, a file that scripts/reproduce/calibrate.py makes: training pieces, of
which its "valid" ones were set aside. Each row adds to the one before, and each is a proper
distribution of the next note, told in nats a note on whole pieces:

- the first model; the mean of all models' probabilities;
- mixed with what followed in the training split after the longest of the last 32, 16, 8, 4 or 2
  steps (and the voices of this step so far), in intervals from the last bass note;
- mixed with the note that followed the longest passage of this piece that ends here, of all voices
  and of the next voice alone, when it stood earlier in the piece.

How much a memory counts depends on the length, count and purity of what was found; these weights
are fitted (expectation-maximisation) on the pieces set aside, to the siblings and to the rest of
the training split as memory. No piece of ``split`` has a part in any of them.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch

from musictx import bundle
from musictx.chorale.grid import VOICES, Grid
from musictx.errors import UserError
from musictx.tokens.vocab import BOS
from scripts.words import options, run

Pieces = Sequence[np.ndarray]
#: Steps that are looked for in the training split, the longest first.
ORDERS = (32, 16, 8, 4, 2)
#: Steps of a passage that is looked for in the piece: of all voices, and of one.
SHORTEST = {"all": 4, "own": 8}
#: A weight is fitted to at least so many tokens.
FEWEST = 20
REST = -99


class Expert(NamedTuple):
    """Of every token: what kind of thing was found (-1: nothing), and the probability of the token
    by it."""

    kind: np.ndarray
    right: np.ndarray


def read(path: str, split: str) -> Pieces:
    return [np.array(piece) for piece in json.loads(Path(path).read_text())[split]]


@torch.inference_mode()
def network(folders: Iterable[str], pieces: Pieces) -> np.ndarray:
    """The probability of every token, the mean over the models."""
    found = []
    for folder in folders:
        loaded, mine = bundle.load(folder), []
        for piece in pieces:
            ids = torch.from_numpy(loaded.tokenizer.encode_grid(Grid.joined(piece)).astype(int))
            logits = loaded.model(torch.cat([torch.tensor([BOS]), ids[:-1]])[None])[0].double()
            mine.append(logits.softmax(-1).gather(1, ids[:, None])[:, 0].numpy())
        found.append(np.concatenate(mine))
    return np.mean(found, axis=0)


def contexts(piece: np.ndarray) -> Iterable[tuple[list[tuple], int, int]]:
    """Of each token: its contexts by :data:`ORDERS`, where intervals are counted from, itself."""
    for step, voice in np.ndindex(piece.shape):
        home = int(piece[step - 1, -1]) if step else 0
        above = np.where(piece >= 0, piece - home, REST)
        now, token = above[step, :voice].tolist(), int(above[step, voice])
        keys = [
            (order, voice, above[step - order : step].tobytes(), *now) if step >= order else ()
            for order in ORDERS
        ]
        yield keys, home, token


def followed(training: Pieces) -> dict[tuple, Counter[int]]:
    """What followed each context in the training split."""
    table: dict[tuple, Counter[int]] = defaultdict(Counter)
    for piece in training:
        for keys, _, token in contexts(piece):
            for key in filter(None, keys):
                table[key][token] += 1
    return table


def in_training(table: dict[tuple, Counter[int]], pieces: Pieces) -> Expert:
    kind, right = [], []
    for piece in pieces:
        for keys, _, token in contexts(piece):
            at = next((n for n, key in enumerate(keys) if key in table), None)
            counts = Counter[int]() if at is None else table[keys[at]]
            total = counts.total()
            pure = 0 if len(counts) == 1 else 1 + (max(counts.values(), default=0) <= 0.8 * total)
            size = min(int(np.log2(max(total, 1))), 4)
            kind.append(-1 if at is None else (at * 5 + size) * 3 + pure)
            right.append(counts[token] / max(total, 1))
    return Expert(np.array(kind), np.array(right))


def latest_match(line: list) -> list[tuple[int, int]]:
    """For each place of ``line`` the length of the longest passage that ends just before it and
    stood earlier, and the place after that earlier one; the latest of equal ones."""
    count, found, run = len(line), [(0, 0)], np.zeros(len(line) + 1, int)
    for at in range(1, count):
        new = np.zeros(count + 1, int)
        for earlier in range(1, at):
            if line[at - 1] == line[earlier - 1]:
                new[earlier] = run[earlier - 1] + 1
        run = new
        best = max(range(1, at), key=lambda j: (run[j], j), default=0)
        found.append((int(run[best]), best))
    return found


def in_piece(pieces: Pieces, own: bool) -> Expert:
    kind, right = [], []
    for piece in pieces:
        steps = [tuple(step) for step in piece.tolist()]
        lines = [piece[:, v].tolist() for v in range(len(VOICES))] if own else [steps] * len(VOICES)
        matches = [latest_match(line) for line in (lines if own else lines[:1])]
        for step in range(len(piece)):
            agreed = True
            for voice, line in enumerate(lines):
                length, at = matches[voice if own else 0][step]
                moved = len(set(line[step - min(length, 32) : step])) > 2
                good = length >= SHORTEST["own" if own else "all"] and moved and agreed
                same = good and piece[at, voice] == piece[step, voice]
                agreed = own or not good or bool(same)
                kind.append(min(int(np.log2(length)), 6) * 4 + voice if good else -1)
                right.append(float(same))
    return Expert(np.array(kind), np.array(right))


def fitted(known: np.ndarray, expert: Expert) -> dict[int, float]:
    """The weight of each kind of ``expert`` beside the probabilities ``known``."""
    weights = {}
    for kind in set(expert.kind.tolist()) - {-1}:
        mine = expert.kind == kind
        weight = 0.3
        if mine.sum() >= FEWEST:
            for _ in range(50):
                theirs = weight * expert.right[mine]
                weight = float((theirs / ((1 - weight) * known[mine] + theirs + 1e-12)).mean())
            weights[kind] = weight
    return weights


def mixed(known: np.ndarray, expert: Expert, weights: dict[int, float]) -> np.ndarray:
    share = np.array([weights.get(kind, 0.0) for kind in expert.kind.tolist()])
    return (1 - share) * known + share * expert.right


def main(words: list[str]) -> dict[str, float]:
    defaults = {"path": "", "aside": "", "models": "", "siblings": "", "split": "valid"}
    given = options(words, defaults)
    for name in ("path", "aside"):
        if not Path(given[name]).is_file():
            raise UserError(f"{name}={given[name]}: expected a JSON file of chorales")
    test, training = read(given["path"], given["split"]), read(given["path"], "train")
    aside, others = read(given["aside"], "valid"), read(given["aside"], "train")
    models, siblings = given["models"].split(","), given["siblings"].split(",")
    rows: dict[str, float] = {}

    def say(name: str, known: np.ndarray) -> None:
        rows[name] = float(-np.log(known).mean())
        print(f"{rows[name]:.4f}  {name}", flush=True)

    say("one network", network(models[:1], test))
    known, fit = network(models, test), network(siblings, aside)
    say(f"the mean of {len(models)}", known)
    memories: dict[str, Callable[[Pieces, Pieces], Expert]] = {
        "the training split": lambda memory, pieces: in_training(followed(memory), pieces),
        "the piece, all voices": lambda _, pieces: in_piece(pieces, own=False),
        "the piece, own voice": lambda _, pieces: in_piece(pieces, own=True),
    }
    for name, expert in memories.items():
        theirs = expert(others, aside)
        weights = fitted(fit, theirs)
        fit, known = mixed(fit, theirs, weights), mixed(known, expert(training, test), weights)
        say(f"and {name}", known)
    return rows


if __name__ == "__main__":
    run(main)
