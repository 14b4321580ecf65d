"""Scores from a model: primers go in, their continuations come out.

Between :mod:`~musictx.sampling.engine`, which knows ids only, and the programs, which know files:
here lengths and note limits become constraints, and what was drawn is decoded, ended and laid into
the piece that it continues.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from torch import Tensor

from musictx.config import SamplingConfig, scales
from musictx.config.checks import DAY
from musictx.data import layout
from musictx.errors import UserError
from musictx.model.transformer import MusicTransformer
from musictx.notes import Score
from musictx.sampling import ending, engine, soft, timeline
from musictx.sampling import processors as reshape
from musictx.sampling.constraints import GrammarConstraint
from musictx.sampling.primer import Primer
from musictx.sampling.processors import Processor
from musictx.sampling.soft import NoteLimits
from musictx.sampling.steer import Guidance, Steering
from musictx.sampling.timeline import Timeline
from musictx.tokens.controls import HERE
from musictx.tokens.vocab import BOS, CUT, EOS, PAD, SoftConstraint, Tokenizer

#: Without a limit in tokens: so many for each second asked for, then it ends. The densest piano
#: performances have about 200 a second; more means that time has stopped passing.
TOKENS_PER_SECOND = 500

#: How a piece may end.
ENDS = ("cut", "model", "natural")

#: Pieces written at once; more are made in turn, so that memory is bounded.
ROWS_AT_ONCE = 16

#: Called after each step: (tokens just drawn, seconds that the slowest row has now written)
Progress = Callable[[int, float], None]


@dataclass(frozen=True)
class Sample:
    """One piece that was written.

    score    the music, with or without the primer as asked
    seam     seconds in ``score`` at which the new part begins; 0.0 without a primer in it
    ids      (n,) uint16, the new events
    notes    notes struck in the new part
    seconds  length of the new part
    ended    what ended it: "seconds", "tokens", "model" (it drew the end), "stuck" (no time
             passed), "interrupted"
    """

    score: Score
    seam: float
    ids: np.ndarray
    notes: int
    seconds: float
    ended: str

    @property
    def remark(self) -> str | None:
        """What the listener should know, in one sentence; ``None`` if all is as asked."""
        if self.ended == "interrupted":
            return f"interrupted after {self.seconds:.1f} s of new music"
        if self.notes == 0:
            why = {
                "seconds": f"the model was silent for all of the {self.seconds:.1f} s",
                "tokens": f"the limit of {len(self.ids)} tokens came before its first note",
                "model": "the model ended the piece at once",
                "stuck": f"{len(self.ids)} tokens passed without a note",
            }[self.ended]
            return f"no new notes: {why}; try another seed, a higher temperature or more length"
        if self.ended == "stuck":
            return f"ended after {len(self.ids)} tokens because hardly any time passed in them"
        return None


@dataclass(frozen=True)
class Length:
    """How long new music is to be; the first limit reached ends it, a note still open is closed
    there. ``bars`` count from the first bar line at or after the end of the primer."""

    seconds: float | None = None
    tokens: int | None = None
    bars: int | None = None

    def __post_init__(self) -> None:
        if self.seconds is None and self.tokens is None and self.bars is None:
            raise UserError("seconds: expected a length; give seconds, bars, tokens or several")

    def until(self, tokenizer: Tokenizer, primer: Primer) -> float | None:
        """The seconds of the tokens at which the music after ``primer`` ends.

        Raises ``UserError`` where the piece would be longer than a MIDI file can be, a day.
        """
        line = Timeline(tokenizer, primer.score)
        seam = float(line.placed(primer.seconds))
        ends = [] if self.seconds is None else [seam + self.seconds]
        if self.bars is not None:
            if primer.score is None and not tokenizer.beats:
                raise UserError(
                    f"bars={self.bars}: this model counts in seconds, not in bars; give a primer "
                    "with a meter, or seconds"
                )
            ends.append(line.after_bars(seam, self.bars))
        if not ends:
            return None
        if min(ends) > DAY:
            raise UserError(
                f"{'bars' if self.seconds is None else 'seconds'}: the piece with its primer would "
                f"be {min(ends):.0f} s long, expected at most {DAY} s, a day"
            )
        return line.read(min(ends))


def continue_each(
    model: MusicTransformer, tokenizer: Tokenizer, primers: Sequence[Primer], **asked: Any
) -> list[Sample]:
    """One continuation of each of ``primers`` (equal ones: as many samples of it), in their order.

    The arguments are those of :func:`continuations`.
    """
    found = dict(continuations(model, tokenizer, primers, **asked))
    return [found[number] for number in range(len(primers))]


def continuations(
    model: MusicTransformer,
    tokenizer: Tokenizer,
    primers: Sequence[Primer],
    *,
    seeds: Sequence[Sequence[int]],
    seconds: float | None = None,
    tokens: int | None = None,
    bars: int | None = None,
    sampling: SamplingConfig | None = None,
    end: str = "cut",
    include_primer: bool = True,
    quantise: str = "none",
    context: int | None = None,
    note_limits: Mapping[str, Any] | None = None,
    steering: Sequence[Steering] = (),
    constraints: Sequence[SoftConstraint] = (),
    processors: Sequence[Processor] = (),
    progress: Progress | None = None,
) -> Iterator[tuple[int, Sample]]:
    """Yield (number of the primer, its continuation) as each is done.

    seeds            one a primer, two whole numbers or more. A row draws by its own seed; it
                     depends on the other rows only where primers differ in length: rows of a batch
                     read as many ids as the shortest has, the others the last of theirs.
    seconds, tokens, bars  length of the new part, see :class:`Length`.
    end              one of :data:`ENDS`. ``cut``: at its length, notes that still sound end there;
                     ``model``: or before, where the model ends it after a new note; ``natural``:
                     it closes towards its length and falls silent, no note is cut
                     (:mod:`musictx.sampling.ending`).
    include_primer   the score begins with the primer as it stands in its file; otherwise it has
                     only the notes struck after it, and time counts from its end (from the last
                     bar line before it, if it keeps to beats).
    quantise         grid for the new notes, by the primer's tempo: "16", "8", "8t" or "none".
    context          ids the model looks back on; default its own.
    note_limits      what is usual in the corpus (:class:`~musictx.sampling.soft.NoteLimits`), from
                     the model's card, for the options of ``sampling`` that leave it to the corpus.
    steering         what each is to be like (:mod:`musictx.sampling.steer`), all with one guidance
                     and one density that is asked for; none by default.
    constraints, processors  further soft constraints and rules, before those of ``sampling``.

    If it is interrupted (Ctrl-C), what there is of each piece still comes, then the interrupt.
    """
    if not primers or len(seeds) != len(primers):
        raise ValueError(f"seeds: expected one for each of {len(primers)} primers, at least one")
    length, sampling = Length(seconds, tokens, bars), sampling or SamplingConfig()
    limits, context = NoteLimits.of(note_limits), context or int(model.config["context"])
    steering = steering or [Steering()] * len(primers)
    if steering[0].density is not None:
        sampling = replace(sampling, density=steering[0].density)
    rules = [*processors, *reshape.build(sampling, tokenizer)]
    guided = len(steering[0].rows) > 1
    if guided:
        rules.insert(0, Guidance(steering[0].guidance))
    for first in range(0, len(primers), ROWS_AT_ONCE):
        pieces = list(primers[first : first + ROWS_AT_ONCE])
        some = pieces * (1 + guided)  # with guidance each a second time, unsteered
        batch = _Batch(tokenizer, some, length, end)
        fronts, marks = _around(tokenizer, steering[first : first + ROWS_AT_ONCE], pieces)
        steps = engine.generate(
            model,
            prompts([primer.ids for primer in some], context, tokenizer.align, fronts, marks),
            rows=len(some),
            max_tokens=batch.most_tokens,
            processors=rules,
            constraint=batch.constraint,
            soft=soft.together(
                tokenizer,
                [
                    *batch.endings(sampling),
                    *constraints,
                    *soft.build(tokenizer, sampling, limits, some),
                ],
            ),
            groups=tokenizer.kind_of,
            seeds=list(seeds[first : first + ROWS_AT_ONCE]) * (1 + guided),
            context=context,
            align=tokenizer.align,
            head=len(fronts[0]),
        )
        interrupt: KeyboardInterrupt | None = None
        try:
            for ids in steps:
                count = batch.take(ids)
                if progress is not None:
                    progress(count, batch.written())
                for row in batch.finished():
                    if row < len(pieces):
                        yield first + row, batch.sample(row, include_primer, quantise)
        except KeyboardInterrupt as stop:
            interrupt = stop
        for row in batch.finished(all_rows=True):
            if row < len(pieces):
                stopped = interrupt is not None
                yield first + row, batch.sample(row, include_primer, quantise, stopped)
        if interrupt is not None:
            raise interrupt


def _around(
    tokenizer: Tokenizer, steering: Sequence[Steering], pieces: Sequence[Primer]
) -> tuple[list[np.ndarray], list[int]]:
    """What stands before the past of each row, and after it, in music that is steered or whose
    primers are not played but written: then the new music begins after a mark of its own."""
    levels = [row for rows in zip(*(steer.rows for steer in steering)) for row in rows]
    written = all(p.score is not None and timeline.on_grid(p.score) for p in pieces)
    if steering[0].levels is None or not (written or any(map(any, levels))):
        return [np.empty(0, np.int64)] * len(levels), []
    table: Any = tokenizer
    fronts = [layout.front(table.vocabulary, row) for row in levels]
    return fronts, [table.vocabulary.id(HERE)] * written


def prompts(
    pasts: Sequence[np.ndarray],
    context: int,
    align: int = 1,
    fronts: Sequence[np.ndarray] | None = None,
    marks: Sequence[int] = (),
) -> np.ndarray:
    """What the model reads first: (rows, n + 1) int64, or one row for all if they are alike.

    Each is ``bos`` and a past of n ids, or ``cut`` and the last n of a longer one; n is the length
    of the shortest past, or what the context holds after the first id; a multiple of ``align``
    where a past is cut, so that pasts of whole groups are cut between groups. ``fronts``, all
    equally long, stand after the first id of each, ``marks`` at the end."""
    if fronts is None:
        fronts = [np.empty(0, np.int64)] * len(pasts)
    same = all(past is pasts[0] for past in pasts)
    if same and all(np.array_equal(one, fronts[0]) for one in fronts):
        pasts = pasts[:1]
    around = 1 + len(fronts[0]) + len(marks)
    n = min([context - around, *map(len, pasts)])
    if n < max(map(len, pasts)):
        n -= n % align
    rows = np.empty((len(pasts), around + n), np.int64)
    for row, past, given in zip(rows, pasts, fronts):
        first = BOS if len(past) == n else CUT
        row[:] = [first, *given, *past[len(past) - n :], *marks]
    return rows


class _Batch:
    """The rows that are written at once: what was drawn, how long they are to be."""

    def __init__(
        self, tokenizer: Tokenizer, primers: list[Primer], length: Length, end: str
    ) -> None:
        self.tokenizer, self.primers, self.length, self.end = tokenizer, primers, length, end
        states = {id(primer): primer.state(tokenizer) for primer in primers}
        self.until = [length.until(tokenizer, primer) for primer in primers]
        self._before = [states[id(primer)].notes for primer in primers]
        self.constraint = GrammarConstraint(
            [states[id(primer)].copy() for primer in primers],
            may_end=end != "cut",
            until=[np.inf if until is None else until for until in self.until],
        )
        self.drawn: list[list[int]] = [[] for _ in primers]
        self._told: set[int] = set()
        new = [0.0 if u is None else u - p.seconds for u, p in zip(self.until, primers)]
        enough = int(max(new) * TOKENS_PER_SECOND) + 1000
        limits = [enough] * any(new) + [length.tokens] * (length.tokens is not None)
        self.most_tokens = min(n for n in limits if n is not None)

    def endings(self, sampling: SamplingConfig) -> list[SoftConstraint]:
        """The constraint that closes the rows, if they are to have a natural end."""
        if self.end != "natural":
            return []
        until = [-np.inf if end is None else end for end in self.until]
        lengths = [end - primer.seconds for end, primer in zip(until, self.primers)]
        if min(lengths) < ending.LEAST - 1e-6:
            raise UserError(
                f"end=natural: expected a length of at least {ending.LEAST:g} seconds; give "
                "seconds or bars"
            )
        begins = [end - ending.closing(length) for end, length in zip(until, lengths)]
        named = sampling.key not in (None, "auto")
        key = scales.key(str(sampling.key), "sampling.key") if named else None
        low = None if sampling.low is None else scales.pitch(sampling.low, "sampling.low")
        return [ending.Ending(self.tokenizer, begins, until, key, low)]

    def take(self, ids: Tensor) -> int:
        """One id a row; how many rows still write."""
        count = 0
        for row, token_id in zip(self.drawn, ids.tolist()):
            if token_id != PAD:
                row.append(token_id)
                count += 1
        return count

    def written(self) -> float:
        """Seconds that the slowest row has."""
        return min(s.seconds - p.seconds for s, p in zip(self.constraint.states, self.primers))

    def finished(self, all_rows: bool = False) -> list[int]:
        """Rows that have ended and were not told before."""
        done = self.constraint.done().tolist()
        rows = [r for r, ended in enumerate(done) if (ended or all_rows) and r not in self._told]
        self._told.update(rows)
        return rows

    def sample(self, row: int, include: bool, grid: str, interrupted: bool = False) -> Sample:
        """Decode the row, end it where it is to end, tell new notes from old."""
        primer, until, drawn = self.primers[row], self.until[row], self.drawn[row]
        line = Timeline(self.tokenizer, primer.score)
        written = self.constraint.states[row].seconds
        ended = "interrupted" if interrupted else "stuck"
        if drawn and drawn[-1] == EOS:
            ended, drawn = "model", drawn[:-1]
        elif until is not None and written >= until - 1e-6:
            ended, written = "seconds", until
        elif self.length.tokens is not None and len(drawn) >= self.length.tokens:
            ended = "tokens"
        ids = np.asarray(drawn, dtype=np.uint16)
        decoded = self.tokenizer.decode(np.concatenate([primer.ids, ids]))
        notes = decoded.notes.copy()
        for name in ("start", "end"):
            notes[name] = line.placed(notes[name])
        seam, stop = float(line.placed(primer.seconds)), float(line.placed(written))
        old, new = notes[: self._before[row]], notes[self._before[row] :]
        given = primer.score
        if given is not None:
            new = timeline.quantised(new, line.clock, grid)
            new = timeline.on_tracks(new, given, self.tokenizer)
        if until is not None:
            limit = float(line.placed(until))
            new = new[new["start"] < limit]
            if self.end != "natural":
                old["end"] = np.minimum(old["end"], max(limit, seam))
                new["end"] = np.minimum(new["end"], max(limit, seam))
        if not include:
            score = timeline.alone(given or decoded, new, line.beginning(seam))
        elif given is not None:
            score = timeline.joined(given, old, new, seam)
        else:
            score = decoded.with_notes(np.concatenate([old, new]))
        return Sample(
            score=score,
            seam=seam if include and len(primer.ids) else 0.0,
            ids=ids,
            notes=len(new),
            seconds=max(stop - seam, 0.0),
            ended=ended,
        )
