"""A piece in sections: ``form=AABA bars=8``.

A new letter is a section that continues the piece and differs from earlier sections. A repeated
letter begins with a copy of the section's first bar and continues with a variation of the section
in the same chords, about as similar as repeated sections are in songs (scripts/LOG.md). If the
letter has a prime, the second half of the section is composed anew. The last bar of the piece is
not varied. The last bar of a new section before a repeated one is composed again, so that it leads
to the repetition.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from musictx.apps import infill, parts, tasks
from musictx.bundle import Bundle
from musictx.chords import name_changes, parse_name
from musictx.config import GenerateConfig, InfillConfig
from musictx.config.generate import sections_of
from musictx.errors import UserError
from musictx.keys import name_chords
from musictx.notes import Score, until
from musictx.sampling import timeline
from musictx.sampling.composer import Progress, continuations
from musictx.sampling.constants import SECTION_BARS
from musictx.sampling.constraints import Penalty
from musictx.sampling.events import Event, emit_all
from musictx.sampling.idiom import idiom_of
from musictx.sampling.primer import Plan, Primer
from musictx.sampling.sample import Sample
from musictx.songs.bar_tokens import BarredScore
from musictx.songs.chord_estimation import estimate_chords
from musictx.songs.chord_sheet import with_markers, without_chords
from musictx.songs.constants import PRIMED_SHARE
from musictx.songs.new_pieces import new_piece, shared_options
from musictx.songs.penalties import section_contrast

#: The most bars of a primer, which is the first section.
MAX_BARS = 64
#: Notes that begin at most this many seconds before a bar line belong to the bar after it.
NEAR_SECONDS = 0.005


class FormComposer:
    """Composes a piece in the form ``request.form``, section by section. The first section is
    ``primer`` or, for ``None``, a new section by ``plan``; bar 0 is its first bar. ``on_event`` is
    called with the events of the piece once it is complete.

    piece         the primer, then the complete bars composed so far
    section_bars  the number of bars in a section
    lead_bars     the number of bars before the first section: rests and a pick-up
    bar_count     the number of bars of the piece without these
    """

    def __init__(
        self,
        bundle: Bundle,
        request: GenerateConfig,
        plan: Plan,
        primer: Score | None,
        seed: Sequence[int],
        progress: Progress | None,
        on_event: Callable[[Event], None] | None,
    ) -> None:
        self.bundle, self.request, self.plan = bundle, request, plan
        self.progress, self.on_event = progress, on_event
        self.tokenizer: Any = bundle.tokenizer
        self.seeds = ([*seed, step] for step in itertools.count())  # a different one at each step
        self.section_bars = request.bars or SECTION_BARS
        self.lead_bars = self.bar_count = 0
        self.piece = Score()
        if primer is None:
            return
        beats = primer.beats
        begin = float(self.tokenizer.clock(primer).offset)
        self.lead_bars = max(beats.bar_at(begin) - 1, int(beats.pickup))
        last = beats.bar_at(primer.duration, ends=True)
        self.section_bars = request.bars or last - self.lead_bars
        if not len(primer) or self.section_bars > MAX_BARS:
            raise UserError(
                f"form={request.form}: the primer is its first section and has {self.section_bars} "
                f"bars, expected 1 to {MAX_BARS}; give bars"
            )
        chords = name_changes(primer) or estimate_chords(primer)
        self.piece = with_markers(without_chords(primer), chords)
        self._cut(min(last - self.lead_bars, self.section_bars))

    def sample(self) -> Sample:
        """Compose all sections."""
        sections = sections_of(self.request.form or "")
        names, bars, given_bars = [name for name, _ in sections], self.section_bars, self.bar_count
        for number, name in enumerate(names):
            if name in names[:number]:
                self._repeat_section(names.index(name) * bars)
            else:
                earlier = {names.index(letter) for letter in names[:number]}
                self._continue_to((number + 1) * bars, sorted(earlier))
        for number, (name, primes) in enumerate(sections):
            stop, is_last = (number + 1) * bars, number + 1 == len(sections)
            if name in names[:number]:
                new_bars = max(round(PRIMED_SHARE * bars), 1) if primes else 0
                varied_stop = stop - max(new_bars, is_last)
                self._recompose_bars(stop - bars + 1, varied_stop, is_variation=True)
                self._recompose_bars(varied_stop, stop - is_last)  # the last bar of the piece stays
            elif not is_last and names[number + 1] in names[: number + 1] and stop > given_bars:
                self._recompose_bars(stop - 1, stop)
        titles = [
            (self._seconds(number * bars), name + primes)
            for number, (name, primes) in enumerate(sections)
        ]
        score = with_markers(self.piece, titles)
        seam = self._seconds(given_bars) if given_bars else 0.0
        new_notes = score.notes[score.notes["start"] >= seam - NEAR_SECONDS]
        if self.on_event is not None:
            emit_all(new_notes, self.on_event)
        length = self._seconds(len(sections) * bars) - seam
        new = [mark for mark in score.markers if mark[0] >= seam - NEAR_SECONDS]
        chords = tuple(mark for mark in new if parse_name(mark[1]) is not None)
        no_ids = np.empty(0, np.uint16)
        return Sample(score, seam, no_ids, len(new_notes), length, "seconds", chords)

    def _line(self, bar: int) -> float:
        """Quarter notes from the beginning of the piece to the beginning of ``bar``."""
        return self.piece.beats.bar_line(0.0, self.lead_bars + bar)

    def _seconds(self, bar: int) -> float:
        """Seconds from the beginning of the piece to the beginning of ``bar``."""
        return self.piece.beats.seconds(self._line(bar))

    def _cut(self, bars: int) -> None:
        """Cut off the piece after ``bars`` bars of its sections."""
        end = self._seconds(bars)
        piece = until(timeline.cut(self.piece, end - NEAR_SECONDS), end)
        meters = piece.meters[piece.meters["time"] < end - NEAR_SECONDS]
        markers = tuple(marker for marker in piece.markers if marker[0] < end - NEAR_SECONDS)
        self.piece = replace(piece, markers=markers, meters=meters)
        self.bar_count = bars

    def _continue_to(self, stop: int, earlier: Sequence[int]) -> None:
        """Continue the piece to ``stop`` bars, in contrast to the sections numbered ``earlier``, or
        begin it if it has no notes. A pick-up is not counted, so a piece that begins with one may
        need a second continuation."""
        if not len(self.piece):
            request = replace(self.request, form=None, bars=stop)
            progress = self._progress_from(0.0)
            sample = new_piece(self.bundle, self.plan, request, next(self.seeds), progress)
            self.piece = parts.with_file_programs(self.bundle, sample.score, None)
            self._cut(stop)
        while self.bar_count < stop:
            primer, grid = self._primer()
            penalties = self._contrast(grid, stop, earlier) if earlier else []
            bars = stop - self.bar_count
            request = replace(self.request, form=None, bars=bars, samples=1, end="cut")
            ((_, sample),) = continuations(
                self.bundle,
                [primer],
                request,
                seeds=[next(self.seeds)],
                penalties=penalties,
                progress=self._progress_from(self.piece.duration),
            )
            score = with_markers(sample.score, name_chords(sample.score, sample.chords))
            self.piece = parts.with_file_programs(self.bundle, score, self.piece)
            beats = self.piece.beats
            self.lead_bars = max(self.lead_bars, int(beats.pickup))
            bars = beats.bar_at(sample.seam + sample.seconds) - 1 - self.lead_bars
            self._cut(min(max(bars, self.bar_count + 1), stop))

    def _contrast(self, grid: BarredScore, stop: int, earlier: Sequence[int]) -> list[Penalty]:
        """The penalty on similarity to the sections numbered ``earlier``, for a section that ends
        with the bar before ``stop``; an empty list if bars differ in length."""
        lines = grid.bars.lines[grid.bars.added_bars + self.lead_bars :]
        bar_lengths = {int(length) for length in np.diff(lines[: self.bar_count + 1])}
        if len(bar_lengths) > 1:
            return []
        lines = (lines - grid.bars.lines[grid.first]).tolist()
        penalty = section_contrast(
            grid.stream,
            [lines[number * self.section_bars] for number in earlier],
            lines[stop - self.section_bars],
            self.section_bars,
            steps=bar_lengths.pop(),
            drums=bool(self.piece.notes["drum"].mean() > 0.5),
        )
        return [penalty]

    def _primer(self) -> tuple[Primer, BarredScore]:
        """The piece up to the next bar to compose, as a primer, and its notes in bars."""
        lent = parts.lend_programs(self.bundle, self.piece)
        score = parts.with_model_programs(self.bundle, self.piece, lent)
        end = score.beats.seconds(self._line(self.bar_count) + 1 / 8)  # within the next bar
        grid = self.tokenizer.grid(score, self.tokenizer.clock(score).offset, end)
        stream = grid.stream
        notes = stream.in_bars(0, len(stream.bars) - 1).notes
        ids = self.tokenizer.write(stream._replace(notes=notes))
        primer = Primer.of(self.tokenizer, ids, score)
        return idiom_of(self.tokenizer).without_bar_line(primer), grid

    def _repeat_section(self, source: int) -> None:
        """Append a copy of the section that begins with the bar ``source``, and of its chords."""
        begin, end = self._seconds(source), self._seconds(source + self.section_bars)
        beats = self.piece.beats
        shift = self._line(self.bar_count) - self._line(source)  # in quarter notes

        def move(seconds: Any) -> Any:
            return beats.seconds(beats.quarters(seconds) + shift)

        def is_in_section(times: Any) -> Any:
            return (times >= begin - NEAR_SECONDS) & (times < end - NEAR_SECONDS)

        notes = self.piece.notes[is_in_section(self.piece.notes["start"])].copy()
        notes["start"], notes["end"] = move(notes["start"]), move(np.minimum(notes["end"], end))
        pedals = self.piece.pedals[is_in_section(self.piece.pedals["time"])].copy()
        pedals["time"] = move(pedals["time"])
        chords = [
            (max(float(move(time)), 0.0), text)
            for time, text in self.piece.markers
            if is_in_section(time) and parse_name(text) is not None
        ]
        self.piece = replace(
            with_markers(self.piece, chords),
            notes=np.concatenate([self.piece.notes, notes]),
            pedals=np.concatenate([self.piece.pedals, pedals]),
        )
        self.bar_count += self.section_bars

    def _recompose_bars(self, first: int, stop: int, *, is_variation: bool = False) -> None:
        """Compose the bars from ``first`` to before ``stop`` again, on all tracks and to the same
        chords; with ``is_variation`` as a variation of these bars."""
        begin = self._seconds(first)
        if first >= stop or begin >= self.piece.duration - NEAR_SECONDS:
            return
        track_count = len({*self.piece.notes["track"]})
        bar = self.lead_bars + first + 1 - self.piece.beats.pickup  # a pick-up is bar 0
        request = InfillConfig(
            **shared_options(self.request),
            begin=str(bar),
            end=str(bar + stop - first - 1),
            tracks=",".join(str(track + 1) for track in range(track_count)),
        )
        (sample,) = infill.compose_versions(
            self.bundle,
            replace(tasks.gap_task(self.piece, request), is_variation=is_variation),
            request,
            seed=int(np.random.SeedSequence(next(self.seeds)).generate_state(1)[0]),
            progress=self._progress_from(begin),
        )
        self.piece = replace(sample.score, file=b"")

    def _progress_from(self, begin: float) -> Progress | None:
        """The progress callback for music that begins ``begin`` seconds into the piece, if any."""
        progress = self.progress
        return progress and (lambda count, seconds: progress(count, begin + seconds))
