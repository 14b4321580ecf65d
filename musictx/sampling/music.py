"""Scores from a model: a primer goes in, its continuation comes out.

Between :mod:`~musictx.sampling.engine`, which knows ids only, and the programs, which know files:
here the primer is encoded and cut, the lengths become a constraint, and what was drawn is decoded,
ended and told about.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import torch

from musictx.config import SamplingConfig
from musictx.errors import UserError
from musictx.model.transformer import MusicTransformer
from musictx.notes import NOTE, Score
from musictx.sampling import engine, processors
from musictx.sampling.constraints import All, Constraint, GrammarConstraint
from musictx.sampling.held import KINDS, HeldNotes
from musictx.tokens.vocab import BOS, CUT, EOS, PAD, SoftConstraint, Tokenizer, Vocabulary

#: Without a limit in tokens: so many for each second asked for, then it ends. The densest piano
#: performances have about 200 a second; more means that time has stopped passing.
TOKENS_PER_SECOND = 500

#: Pieces written side by side; more are made in turn, so that memory is bounded.
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
    ended    what ended it: "seconds", "tokens", "model" (it drew the end), "stuck" (no time passed)
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
class Primer:
    """The beginning that a model is to continue: its ids, and the seconds at which they stop."""

    ids: np.ndarray
    seconds: float


def encode_primer(
    tokenizer: Tokenizer,
    score: Score,
    *,
    seconds: float | None = None,
    tokens: int | None = None,
    name: str = "primer",
) -> Primer:
    """``score`` as ids, whole or its first ``seconds`` / ``tokens``, whichever is shorter.

    The cut falls between two events: no event after ``seconds`` is kept, and notes held at the cut
    are left open, so the model decides when they end. Raises ``UserError`` if no note is left, with
    the reason.
    """
    if len(score) == 0:
        raise UserError(f"{name}: this file holds no notes; give one with music to continue")
    ids, left_out = tokenizer.encode_with_report(score)
    if len(ids) == 0:
        raise UserError(
            f"{name}: none of its {len(score)} notes can be written in this model's tokens"
            f"{_reasons(left_out)}; give a primer with other notes"
        )
    state = tokenizer.grammar()
    kept, moment = 0, 0.0
    for token_id in ids.tolist():
        if tokens is not None and kept == tokens:
            break
        state.advance(token_id)
        if seconds is not None and state.seconds > seconds + 1e-6:
            break
        kept, moment = kept + 1, state.seconds
    if len(tokenizer.decode(ids[:kept])) == 0:
        raise UserError(
            f"{name}: its first {kept} tokens (primer_seconds={seconds}, primer_tokens={tokens}) "
            "hold no note yet; ask for more of it"
        )
    return Primer(ids[:kept], moment)


def _reasons(left_out: Mapping[str, int]) -> str:
    told = ", ".join(f"{reason}: {count}" for reason, count in left_out.items() if count)
    return f" ({told})" if told else ""


def continue_music(
    model: MusicTransformer,
    tokenizer: Tokenizer,
    primer: Primer | None = None,
    *,
    seconds: float | None = 30.0,
    tokens: int | None = None,
    samples: int = 1,
    sampling: SamplingConfig | None = None,
    seed: int = 0,
    include_primer: bool = True,
    may_end: bool = False,
    context: int | None = None,
    habits: Mapping[str, float] | None = None,
    progress: Progress | None = None,
) -> list[Sample]:
    """``samples`` continuations of ``primer``, or new pieces without one.

    seconds, tokens  length of the new part; the first limit reached ends it, a note still open is
                     closed there. One of them must be given.
    seed             sample i of seed s is always the same, however many are made together.
    include_primer   the score begins with the primer (as tokens hold it); otherwise it has only the
                     notes struck after it, and time counts from its end.
    may_end          let the model end the piece before the length is reached (after a new note).
    context          ids the model looks back on; default its own.
    habits           what the corpus does (:mod:`musictx.evaluate.note_limits`), for the options of
                     ``sampling`` that leave it to the corpus.
    """
    if seconds is None and tokens is None:
        raise UserError("seconds: expected a length; give seconds, tokens or both")
    primer = Primer(np.empty(0, np.uint16), 0.0) if primer is None else primer
    context = int(model.config["context"]) if context is None else context
    until = None if seconds is None else primer.seconds + seconds
    state = tokenizer.grammar(primer.ids)
    sampling = sampling or SamplingConfig()
    results: list[Sample] = []
    for first in range(0, samples, ROWS_AT_ONCE):
        numbers = range(first, min(samples, first + ROWS_AT_ONCE))
        grammar = GrammarConstraint([state.copy() for _ in numbers], may_end=may_end, until=until)
        drawn: list[list[int]] = [[] for _ in numbers]
        for ids in engine.generate(
            model,
            prompt(primer.ids, context, tokenizer.align),
            rows=len(numbers),
            max_tokens=ceiling(seconds, tokens),
            processors=[*soft(tokenizer, sampling), *processors.build(sampling)],
            constraint=All(
                grammar, *wishes(tokenizer, sampling, habits or {}, primer.ids, len(numbers))
            ),
            groups=tokenizer.kind_of,
            seeds=[(seed, number) for number in numbers],
            context=context,
            align=tokenizer.align,
        ):
            count = 0
            for row, token_id in zip(drawn, ids.tolist()):
                if token_id != PAD:
                    row.append(token_id)
                    count += 1
            if progress is not None:
                progress(count, min(s.seconds for s in grammar.states) - primer.seconds)
        for row, state_after in zip(drawn, grammar.states):
            results.append(
                finish(
                    tokenizer,
                    primer,
                    row,
                    state_after.seconds,
                    until=until,
                    tokens=tokens,
                    include_primer=include_primer,
                )
            )
    return results


def soft(tokenizer: Tokenizer, sampling: SamplingConfig) -> list[processors.Processor]:
    """The tokens' own soft constraints as processors."""

    def processor(constraint: SoftConstraint) -> processors.Processor:
        return lambda ids, logits: logits - torch.from_numpy(constraint((), ids.numpy()))

    return [processor(one) for one in tokenizer.soft_constraints(sampling)]


def wishes(
    tokenizer: Tokenizer,
    sampling: SamplingConfig,
    habits: Mapping[str, float],
    past: np.ndarray,
    rows: int,
) -> list[Constraint]:
    """What the options ask for beyond the grammar, where the tokens have a word for it."""
    vocabulary = getattr(tokenizer, "vocabulary", None)
    if not isinstance(vocabulary, Vocabulary) or not set(KINDS) <= set(vocabulary.kinds):
        return []
    longest, most = sampling.longest_note, sampling.most_notes
    longest = habits.get("longest_note") if longest is None else longest
    most = int(habits.get("most_notes", 0)) if most is None else most
    return [
        HeldNotes(
            vocabulary,
            past,
            rows=rows,
            step_seconds=tokenizer.to_config()["step_ms"] / 1000,
            restrike=sampling.restrike,
            longest=longest or None,
            most=most or None,
        )
    ]


def prompt(past: np.ndarray, context: int, align: int = 1) -> np.ndarray:
    """What the model reads first: ``[bos] past``, or ``[cut]`` and as much of its end as fits, from
    a multiple of ``align`` events on."""
    if len(past) < context:
        return np.concatenate([[BOS], past]).astype(np.int64)
    first = len(past) - (context - 1)
    return np.concatenate([[CUT], past[first + -first % align :]]).astype(np.int64)


def ceiling(seconds: float | None, tokens: int | None) -> int:
    if seconds is None:
        assert tokens is not None
        return tokens
    enough = int(seconds * TOKENS_PER_SECOND) + 1000
    return enough if tokens is None else min(enough, tokens)


def finish(
    tokenizer: Tokenizer,
    primer: Primer,
    row: list[int],
    written: float,
    *,
    until: float | None,
    tokens: int | None,
    include_primer: bool,
) -> Sample:
    """Decode ``row`` (its time is ``written`` s), end it at ``until``, tell new notes from old."""
    ended = "stuck"
    if row and row[-1] == EOS:
        ended, row = "model", row[:-1]
    elif until is not None and written >= until - 1e-6:
        ended, written = "seconds", until
    elif tokens is not None and len(row) >= tokens:
        ended = "tokens"
    new = np.asarray(row, dtype=np.uint16)
    score = tokenizer.decode(np.concatenate([primer.ids, new]))
    notes = score.notes.copy()
    fresh = _fresh(notes, tokenizer.decode(primer.ids).notes)
    if until is not None:
        inside = ~fresh | (notes["start"] < until)
        notes, fresh = notes[inside], fresh[inside]
        notes["end"] = np.minimum(notes["end"], max(until, primer.seconds))
    seam = primer.seconds
    if not include_primer:
        notes = notes[fresh]
        for name in ("start", "end"):
            notes[name] = np.maximum(notes[name] - seam, 0.0)
        score, seam = Score(), 0.0
    return Sample(
        score=score.with_notes(notes),
        seam=seam,
        ids=new,
        notes=int(fresh.sum()),
        seconds=max(written - primer.seconds, 0.0),
        ended=ended,
    )


def _fresh(notes: np.ndarray, old: np.ndarray) -> np.ndarray:
    """(n,) bool: which of ``notes`` are not among ``old``.

    A note is known by all but its end, since a note held over the seam gets its end from the model,
    and its track, since a new instrument may renumber them; of equal ones the first are the old.
    """
    keys = [name for name in NOTE.names or () if name not in ("end", "track")]
    left = Counter(note.tobytes() for note in _columns(old, keys))
    fresh = np.ones(len(notes), dtype=bool)
    for i, note in enumerate(_columns(notes, keys)):
        key = note.tobytes()
        if left[key] > 0:
            left[key] -= 1
            fresh[i] = False
    return fresh


def _columns(notes: np.ndarray, names: list[str]) -> np.ndarray:
    packed = np.empty(len(notes), dtype=[(name, NOTE[name]) for name in names])
    for name in names:
        packed[name] = notes[name]
    return packed
