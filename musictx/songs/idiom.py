"""The idiom of bar tokens (:mod:`musictx.sampling.idiom`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from musictx.apps.habits import NO_LIMITS, without_overridden_limits
from musictx.bundle import Bundle
from musictx.config import GenerateConfig, SamplingConfig
from musictx.data import statistics
from musictx.data.statistics import WINDOW_SECONDS, CorpusStats, Habit, densest
from musictx.errors import UserError
from musictx.notes import DRUMS
from musictx.sampling.cadence import ClosingBar
from musictx.sampling.constants import FEWEST_NOTES, RANGE_MARGIN
from musictx.sampling.constraints import RowPenalty
from musictx.sampling.idiom import Idiom
from musictx.sampling.infill import NewNoteLimits
from musictx.sampling.penalties import pitch_set
from musictx.sampling.primer import Plan, Primer
from musictx.sampling.processors import Processor, of_sampling
from musictx.sampling.region import Region
from musictx.sampling.sample import Sample
from musictx.sampling.steer import has_controls, no_controls_message
from musictx.songs import bar_codec, bars, form, penalties
from musictx.songs.bar_codec import FIELDS_PER_NOTE, split_bars
from musictx.songs.bar_constraint import PartLimits
from musictx.songs.bar_grammar import BarState
from musictx.songs.bar_tokens import BarTokenizer
from musictx.songs.constants import BARS_TOP_P, PART_SECONDS, PART_SHARE
from musictx.songs.infill_penalties import BASS
from musictx.songs.new_pieces import closing_bar, draw_ensemble, named_parts, new_piece
from musictx.songs.penalties import SparsePenalty
from musictx.tokens.stream import CHORD
from musictx.tokens.tokenizer import GrammarState


class BarIdiom(Idiom):
    """How music is composed in bar tokens."""

    infill = "musictx.songs.infill:compose"
    prefix = staticmethod(bar_codec.control_prefix)
    tokenizer: BarTokenizer

    def plan(self, bundle: Bundle, options: Mapping[str, Any]) -> Plan:
        default = "4/4" if "loop" in options else None  # a loop has whole bars
        blank = bars.blank_piece(options.get("tempo"), options.get("meter", default))
        programs = None
        if "instruments" in options:
            programs = tuple(named_parts(bundle, options["instruments"]).values())
        return Plan(blank, programs)

    def composer(
        self,
        bundle: Bundle,
        primers: Sequence[Primer],
        request: GenerateConfig,
        is_restricted: bool,
    ) -> Callable[..., Sample] | None:
        """As in the base class. Forms are composed by :class:`.form.FormComposer`, loops by
        :func:`.new_piece`. So are other new pieces if the model has control tokens and ensembles,
        unless ``end=model`` or ``tokens`` is set or ``is_restricted``."""
        if is_restricted and (request.form is not None or request.loop):
            option = "loop=true" if request.form is None else f"form={request.form}"
            raise UserError(f"{option}: expected no penalties or processors with it")
        is_steered = has_controls(self.tokenizer)
        if request.form is not None:
            if not is_steered:
                raise UserError(f"form={request.form}: {no_controls_message(self.tokenizer)}")
            return lambda primer, score, *rest: form.FormComposer(
                bundle, request, primer.plan, score, *rest
            ).sample()
        has_ensembles = is_steered and bool(bundle.stats.ensembles)
        is_new = not any(len(primer.ids) for primer in primers)
        ends_by_time = request.end != "model" and request.tokens is None
        if request.loop or (has_ensembles and is_new and ends_by_time and not is_restricted):
            return lambda primer, _, *rest: new_piece(bundle, primer.plan, request, *rest)
        return None

    def choose_parts(self, region: Region) -> Primer:
        """As in the base class. With habits, the instruments of a new piece whose plan names none
        are an ensemble of the corpus (:func:`.draw_ensemble`)."""
        primer, ensembles = region.primer, region.stats.ensembles
        is_open = not len(primer.ids) and primer.plan.parts is None
        if not (is_open and ensembles and region.sampling.habits):
            return primer
        programs = draw_ensemble(ensembles, np.random.default_rng([*region.seed]))
        return replace(primer, plan=replace(primer.plan, parts=tuple(programs)))

    def with_defaults(self, request: GenerateConfig, primers: Sequence[Primer]) -> GenerateConfig:
        """As in the base class, but continuations come to a close (:meth:`closing_bar`), and the
        default of ``sampling.top_p`` is :data:`BARS_TOP_P`."""
        is_continued = all(len(primer.ids) for primer in primers)
        if request.end is None and request.tokens is None and is_continued:
            request = replace(request, end="natural")
        top_p = BARS_TOP_P if request.sampling.top_p is None else request.sampling.top_p
        sampling = replace(request.sampling, top_p=top_p)
        return super().with_defaults(replace(request, sampling=sampling), primers)

    def processors(self, sampling: SamplingConfig) -> list[Processor]:
        """As in the base class; ``pitch`` has the temperature of ``note_on`` by default."""
        temperatures = sampling.temperatures
        default = {"pitch": temperatures["note_on"]} if "note_on" in temperatures else {}
        return of_sampling(sampling, self.tokenizer.vocabulary, self.top_p, default)

    def closing_bar(self, request: GenerateConfig, primer: Primer) -> ClosingBar | None:
        """:func:`.new_pieces.closing_bar` for a continuation with ``end=natural``, unless
        ``tokens`` is set."""
        if request.end != "natural" or request.tokens is not None or not len(primer.ids):
            return None
        return closing_bar(request, self.tokenizer, primer)

    def silence(self, ids: np.ndarray, state: GrammarState, until: float) -> Iterator[int]:
        """Yield the ids of empty bars like the last one, until the caller has advanced ``state`` to
        the time ``until``, in seconds."""
        vocabulary = self.tokenizer.vocabulary
        *line, _ = split_bars(ids, vocabulary)[-1][0].tolist()
        while state.seconds < until - 1e-6:
            yield from (*line, vocabulary.id("place"))  # place 0: these bars do not end early

    def without_bar_line(self, primer: Primer) -> Primer:
        """``primer`` without a bar line at its end, since the model is to choose which bar repeats:
        the line of an empty bar only copies the distance of the line before it."""
        last = len(primer.ids) - FIELDS_PER_NOTE
        is_line = last > 0 and primer.ids[last] == self.tokenizer.vocabulary.id("bar")
        return replace(primer, ids=primer.ids[:last]) if is_line else primer

    def pitch_penalties(self, region: Region) -> list[RowPenalty]:
        """As in the base class. New notes are also limited to the parts of the primer or, in a new
        piece, of its plan or else the corpus, and with habits to those of :meth:`_habits`."""
        habits, sampling = self._habits(region.primer, region.stats), region.sampling
        if not sampling.habits:
            habits = dict.fromkeys(habits, NO_LIMITS)
        habits = without_overridden_limits(habits, sampling, region.steering.targets)
        pitches = pitch_set(sampling, region.primer, self.tokenizer)
        parts = [CHORD, *habits] if self.tokenizer.chords else [*habits]
        table, score = self.tokenizer.vocabulary, region.primer.score
        parts_in_file = statistics.parts_of(score.notes) if score else {}
        shared = {p for p, notes in parts_in_file.items() if len(np.unique(notes["track"])) > 1}
        limits = NewNoteLimits(table, parts=parts, habits=habits, pitches=pitches)

        def penalty(row: Any, past: np.ndarray) -> np.ndarray | None:
            if row.done:
                return None
            mask = row.state.allowed().copy()
            PartLimits(limits, row.state, shared=shared).restrict(mask)
            return np.where(mask, 0.0, np.inf)

        return [penalty]

    def _habits(self, primer: Primer, stats: CorpusStats) -> dict[int, Habit]:
        """{part: its habit}. In a new piece it is that of the corpus. In a continuation a part
        keeps its polyphony and about its pitch range in the primer; drums, and parts with few notes
        there, may also have those of the corpus. The most notes in ``WINDOW_SECONDS`` are the most
        in the primer, or the usual number of the corpus if that is greater."""
        usual = stats.parts
        if not len(primer.ids):
            programs = primer.plan.parts or stats.instruments or range(DRUMS + 1)
            return {part: usual.get(part, NO_LIMITS) for part in programs}
        habits = {}
        for part, notes in statistics.parts_of(primer.notes).items():
            counts, onsets = statistics.notes_at_onsets(notes), densest(notes, WINDOW_SECONDS)
            voices, low, high, *_ = statistics.measure_habit([counts], [notes["pitch"]], [0.0])
            in_corpus = usual.get(part, NO_LIMITS)
            if part != DRUMS and len(notes) >= FEWEST_NOTES:
                low, high = low - RANGE_MARGIN, high + RANGE_MARGIN
            else:
                voices = max(voices, in_corpus.voices)
                low, high = min(low, in_corpus.low), max(high, in_corpus.high)
            most = int(max(onsets, WINDOW_SECONDS * in_corpus.density))
            habits[part] = Habit(voices, low, high, densest=most)
        return habits

    def penalties(self, region: Region, state: GrammarState) -> list[RowPenalty]:
        """As in the base class. A continuation begins with the bar line that
        :meth:`without_bar_line` took from its primer. A new piece keeps the meter of its plan, and
        parts keep playing (:meth:`_keep_playing`). With habits, sections and bars are repeated,
        melodies repeat pitches as often as the corpus, and a new piece begins on the first beat."""
        vocabulary, primer = self.tokenizer.vocabulary, region.primer
        assert isinstance(state, BarState)
        sparse = self._keep_playing(region, state)
        if state.seconds < primer.seconds - 1e-6:
            line, count = split_bars(primer.ids, vocabulary)[-1][0], state.line_count + 1
            sparse.append(partial(penalties.first_bar_line, line=line, line_count=count))
        if region.sampling.habits:
            habits = self._habits(primer, region.stats)
            melodies = {p for p, h in habits.items() if h.voices == 1 and p not in (BASS, DRUMS)}
            rate = region.stats.repetition_rate
            same = partial(penalties.same_pitch, parts=melodies, target=rate)
            sparse += [penalties.section_return, penalties.as_in_repeated_bar, same]
            if not len(primer.ids):
                sparse.append(penalties.on_first_beat)
        planned = primer.plan.score.meters.tolist()
        meters = [penalties.one_meter(vocabulary, *meter) for _, *meter in planned]
        return [*meters, *super().penalties(region, state), penalties.sum_penalties(*sparse)]

    def feedback_penalties(self, region: Region) -> list[RowPenalty]:
        steer, chords = region.steering, self.tokenizer.chords
        if not (steer.targets or steer.usual_density or steer.usual_polyphony):
            return []
        feedback = partial(penalties.bar_feedback, steering=steer, has_chords=chords)
        return [penalties.sum_penalties(feedback)]

    def _keep_playing(self, region: Region, state: BarState) -> list[SparsePenalty]:
        """The penalty that keeps parts playing, if any: in a new piece the planned parts, at a
        lower density if that is requested; in a continuation, with habits and without a requested
        density, the parts with at least :data:`FEWEST_NOTES` notes in the last ``PART_SECONDS``."""
        primer, requested = region.primer, region.steering.targets.get("density")
        usual, share = dict[int, float](), PART_SHARE
        if not len(primer.ids):
            habits = region.stats.parts
            usual = {part: habits.get(part, NO_LIMITS).density for part in primer.plan.parts or ()}
            if requested is not None and (total := sum(usual.values())):
                share *= min(requested / total, 1.0)
        elif region.sampling.habits and requested is None:
            since = state.step - PART_SECONDS * bars.STEPS_PER_SECOND
            count = {part: state.count_onsets(part, since) for part in state.onsets}
            usual = {p: n / PART_SECONDS for p, n in count.items() if n >= FEWEST_NOTES}
        rates = {part: share * density for part, density in usual.items()}
        keep = partial(penalties.lacking_parts, rates=rates, seam=primer.seconds)
        return [keep] if rates else []
