"""How much more likely music is where notes around it are known: infill and accompaniment.

Windows of a split are arranged as in training (``data/tasks.py``), and the notes that would be
composed are scored twice: given what is known ahead, and in a plain window, given only what was
before. The same events count both times, but for the first after ``here``, whose time is divided
there in one of the two.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from torch.nn import functional as F

from musictx.data import layout
from musictx.data.shards import Shards
from musictx.data.tasks import EventWindow, Tasks
from musictx.data.windows import EvaluationWindows, evenly_spread
from musictx.errors import UserError
from musictx.evaluate.nll import check_split
from musictx.model.transformer import MusicTransformer
from musictx.tokens import events as ev
from musictx.tokens.controls import CONTROLS
from musictx.tokens.vocab import BOS, CUT

#: Seconds of the spans that are filled.
SPANS = (2.0, 8.0)


@dataclass(frozen=True)
class Conditional:
    """Nats a note of what would be composed.

    given      with the notes known ahead: after the span, or of the melody
    plain      with the notes before alone
    notes      how many were scored;  windows  in how many windows
    """

    task: str
    split: str
    given: float
    plain: float
    notes: int
    windows: int

    def to_dict(self) -> dict[str, Any]:
        """Everything, as JSON can hold it."""
        return asdict(self)

    def __str__(self) -> str:
        known = {"infill": "what follows", "accompany": "the melody"}[self.task]
        rows = [
            (f"given {known}", f"{self.given:.4f} nats a note"),
            ("without", f"{self.plain:.4f} nats a note"),
            ("difference", f"{self.plain - self.given:.4f}"),
            ("measured", f"{self.notes:,} notes in {self.windows} windows of {self.split}"),
        ]
        return "\n".join(f"{name:<20} {value}" for name, value in rows)


@torch.inference_mode()
def conditional(
    model: MusicTransformer,
    tokenizer: Any,
    shards: Shards,
    split: str,
    task: str,
    *,
    windows: int = 64,
    melody: str = "skyline",
    seed: int = 0,
    progress: Callable[[int, int], None] | None = None,
) -> Conditional:
    """Score ``task`` (infill or accompany) in so many windows, spread evenly over ``split``.

    melody  what is known in accompany, as in :class:`musictx.data.tasks.Tasks`

    Raises ``UserError`` where no window suits the task.
    """
    check_split(shards, split)
    context = model.config.context
    rows = EvaluationWindows(shards, split, context)
    chosen = evenly_spread(windows, len(rows))
    tasks = Tasks(tokenizer, {}, melody, spans=SPANS, locked=0.0)
    sums, notes, count = np.zeros(2), 0, 0
    training = model.training
    model.eval()
    try:
        for done, number in enumerate(chosen, 1):
            place = rows.table[number]
            piece = rows.pieces[place.piece]
            ids = shards.tokens(piece.number)[place.start : place.stop]
            begins = piece.begins and place.start == 0
            random = np.random.default_rng([seed, number])
            pair = _pair(tasks, task, ids, context, begins, random)
            if pair is not None:
                sums += [_nats(model, ids, counted) for ids, counted in pair[:2]]
                notes += pair[2]
                count += 1
            if progress is not None:
                progress(done, len(chosen))
    finally:
        model.train(training)
    if not notes:
        raise UserError(f"task={task}: no window of split={split} suits it; give more windows")
    given, plain = (sums / notes).tolist()
    return Conditional(task, split, given, plain, notes, count)


Scored = tuple[np.ndarray, np.ndarray]


def _pair(
    tasks: Tasks,
    task: str,
    ids: np.ndarray,
    context: int,
    begins: bool,
    random: np.random.Generator,
) -> tuple[Scored, Scored, int] | None:
    """The window with what is known and without it, as (ids, which of them count), and how many
    notes count."""
    table = tasks.vocabulary
    room = context - layout.IDS_AROUND
    window = EventWindow.of(ids[:room], table)
    if len(ids) < room // 2:
        return None
    arranged = tasks.arrange(task, window, random, room)
    if arranged is None or arranged.known is None or arranged.here is None:
        return None
    stop, here, known = arranged.stop, arranged.here, arranged.known
    events, step = window.events, window.events["step"]
    before, rest = step < here, (step >= here) & (step <= stop)
    made = layout.parts(
        table,
        [0] * len(CONTROLS),
        events[before],
        events[rest],
        stop=stop,
        here=here,
        known=events[known],
        free=context - 1,
    )
    if len(made.front) < len(CONTROLS) + 4:
        return None
    own = ~known[rest]
    own[:1] = False
    first = [BOS if begins else CUT]
    whole = ev.write(events[before | rest], table, stop).astype(np.int64)
    skipped = np.zeros(int(before.sum()), bool)
    plain = np.concatenate([[False], _leading(whole, np.append(skipped, own), tasks)])
    around = np.zeros(1 + len(made.front) + len(made.past), bool)
    given = np.concatenate([around, _leading(made.rest, own, tasks)])
    struck = own & ev.struck(events[rest])
    if not struck.any():
        return None
    return (
        (np.concatenate([first, *made]), given),
        (np.concatenate([first, whole]), plain),
        int(struck.sum()),
    )


def _leading(ids: np.ndarray, own: np.ndarray, tasks: Tasks) -> np.ndarray:
    """Which ``ids`` lead to one of the ``own`` events: its shifts, program, velocity and itself."""
    table = tasks.vocabulary
    names = [kind for kind in ("note_on", "note_off", "drum") if kind in table.kinds]
    event = np.isin(table.kind_of[ids], [table.kinds.index(name) for name in names])
    number: np.ndarray = np.cumsum(event) - event
    return np.append(own, False)[np.minimum(number, len(own))]


def _nats(model: MusicTransformer, ids: np.ndarray, counted: np.ndarray) -> float:
    device = next(model.parameters()).device
    row = torch.from_numpy(ids).to(device)[None]
    logits = model(row[:, :-1])[0].float()
    loss = F.cross_entropy(logits, row[0, 1:], reduction="none").cpu().double().numpy()
    return float(loss[counted[1:]].sum())
