"""The idiom of notes in bars: how the sampler composes with them; see
:mod:`musictx.sampling.idiom`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from musictx.apps.habits import ANY, without_overridden_limits
from musictx.beats import BPM
from musictx.bundle import Bundle
from musictx.config import GenerateConfig, SamplingConfig
from musictx.config.generate import meter_of
from musictx.data.statistics import (
    WINDOW_SECONDS,
    CorpusStats,
    Habit,
    at_once,
    densest,
    habit,
    parts_of,
)
from musictx.errors import UserError
from musictx.notes import DRUMS, METER
from musictx.sampling.cadence import ClosingBar
from musictx.sampling.constraints import RowPenalty
from musictx.sampling.idiom import Idiom
from musictx.sampling.infill import NewNotes
from musictx.sampling.penalties import pitch_set
from musictx.sampling.primer import Plan, Primer
from musictx.sampling.processors import Processor, of_sampling
from musictx.sampling.region import Region
from musictx.sampling.sample import Sample
from musictx.sampling.steer import has_controls, unable
from musictx.sampling.strengths import FEWEST_NOTES
from musictx.songs import bar_codec, form
from musictx.songs.bar_codec import FIELDS_PER_NOTE, by_bar
from musictx.songs.bar_constraint import PartLimits
from musictx.songs.bar_grammar import BarState
from musictx.songs.bar_tokens import BarTokenizer
from musictx.songs.bars import LONGEST_BAR, NUMERATORS, PER_SECOND, blank_piece, is_writable
from musictx.songs.infill_penalties import BASS
from musictx.songs.new_pieces import closing_bar, draw_ensemble, named_parts, new_piece
from musictx.songs.penalties import (
    SparsePenalty,
    as_in_repeated_bar,
    bar_feedback,
    first_bar_line,
    lacking_parts,
    on_first_beat,
    one_meter,
    same_pitch,
    section_return,
    summed,
)
from musictx.songs.strengths import BARS_TOP_P, PART_SECONDS, PART_SHARE
from musictx.tokens.stream import CHORD, STEPS
from musictx.tokens.tokenizer import GrammarState


class BarIdiom(Idiom):
    """The idiom of models of notes in bars."""

    infill = "musictx.songs.infill:compose"
    prefix = staticmethod(bar_codec.control_prefix)
    tokenizer: BarTokenizer

    def plan(self, bundle: Bundle, options: Mapping[str, Any]) -> Plan:
        playing, blank = None, blank_piece(options.get("tempo", BPM))
        default = "4/4" if "loop" in options else None  # a loop is of whole bars
        named = options.get("meter", default)
        if named is not None:
            meter = meter_of(named)
            if not is_writable(*meter):
                raise UserError(
                    f"meter={named}: expected at most {NUMERATORS} beats in a bar, and bars of "
                    f"at most {LONGEST_BAR / (4 * STEPS):g} whole notes"
                )
            blank = replace(blank, meters=np.array([(0.0, *meter)], METER))
        if "instruments" in options:
            playing = tuple(named_parts(bundle, options["instruments"]).values())
        return Plan(blank, playing)

    def composer(
        self,
        bundle: Bundle,
        primers: Sequence[Primer],
        request: GenerateConfig,
        is_restricted: bool,
    ) -> Callable[..., Sample] | None:
        """Loops are composed to drawn chords (:func:`.new_piece`), and so are other new pieces by
        models with control tokens whose corpus has ensembles, unless they have to end where the
        model ends them, have a number of tokens, or are restricted."""
        if is_restricted and (request.form is not None or request.loop):
            option = "loop=true" if request.form is None else f"form={request.form}"
            raise UserError(f"{option}: expected no penalties and processors with it")
        is_steered = has_controls(self.tokenizer)
        if request.form is not None:
            if not is_steered:
                raise UserError(f"form={request.form}: {unable(self.tokenizer)}")
            return lambda primer, score, *more: form.piece(
                bundle, score, primer.plan, request, *more
            )
        has_ensembles = is_steered and bool(bundle.stats.ensembles)
        is_new = not any(len(primer.ids) for primer in primers)
        has_fixed_end = request.end != "model" and request.tokens is None
        if request.loop or (has_ensembles and is_new and has_fixed_end and not is_restricted):
            return lambda primer, _, *more: new_piece(bundle, primer.plan, request, *more)
        return None

    def choose_parts(self, region: Region) -> Primer:
        """With habits, choose the instruments of a new piece whose plan names none: an ensemble of
        the corpus, drawn with the frequency with which it occurs there."""
        primer, stats = region.primer, region.stats
        plan, ensembles, habits = primer.plan, stats.ensembles, region.sampling.habits
        if len(primer.ids) or plan.parts is not None or not ensembles or not habits:
            return primer
        programs = draw_ensemble(ensembles, np.random.default_rng([*region.seed]))
        return replace(primer, plan=replace(plan, parts=tuple(programs)))

    def with_defaults(self, request: GenerateConfig, primers: Sequence[Primer]) -> GenerateConfig:
        """As in the base class; continuations come to a close (:meth:`closing_bar`)."""
        is_continued = all(len(primer.ids) for primer in primers)
        if request.end is None and request.tokens is None and is_continued:
            request = replace(request, end="natural")
        top_p = BARS_TOP_P if request.sampling.top_p is None else request.sampling.top_p
        sampling = replace(request.sampling, top_p=top_p)
        return super().with_defaults(replace(request, sampling=sampling), primers)

    def processors(self, sampling: SamplingConfig) -> list[Processor]:
        """As in the base class; ``pitch`` has the temperature of ``note_on`` unless it has one."""
        temperatures = sampling.temperatures
        usual = {"pitch": temperatures["note_on"]} if "note_on" in temperatures else {}
        return of_sampling(sampling, self.tokenizer.vocabulary, self.top_p, usual)

    def closing_bar(self, request: GenerateConfig, primer: Primer) -> ClosingBar | None:
        """A continuation with a natural end closes on a tonic, unless it has a number of tokens."""
        if request.end != "natural" or request.tokens is not None or not len(primer.ids):
            return None
        return closing_bar(request, self.tokenizer, primer)

    def silence(self, ids: np.ndarray, state: GrammarState, until: float) -> Iterator[int]:
        """Yield the ids of empty bars until the time ``until``, in seconds."""
        table = self.tokenizer.vocabulary
        *line, _ = by_bar(ids, table)[-1][0].tolist()
        while state.seconds < until - 1e-6:
            yield from (*line, table.id("place"))

    def before_bar_line(self, primer: Primer) -> Primer:
        """The model writes the bar line, which names the earlier bar that the next bar repeats. A
        given line would have the distance of the line before it, and the next bar would be as far
        from the bar that it repeats."""
        whole = len(primer.ids) - FIELDS_PER_NOTE
        is_line = whole > 0 and primer.ids[whole] == self.tokenizer.vocabulary.id("bar")
        return replace(primer, ids=primer.ids[:whole]) if is_line else primer

    def pitch_penalties(self, region: Region) -> list[RowPenalty]:
        """Limit new notes to the parts of the primer or, for a new piece, of its plan or the
        corpus, and to the pitches that ``region.sampling`` allows.

        With habits a part is also limited to the polyphony and the pitch range that it has in the
        corpus, extended by those that it has in the primer. Within a few seconds, a part of the
        primer begins no more notes than in its densest seconds there, or than are usual in the
        corpus.
        """
        habits, sampling = self._habits(region.primer, region.stats), region.sampling
        if not sampling.habits:
            habits = dict.fromkeys(habits, ANY)
        habits = without_overridden_limits(habits, sampling, region.steering.targets)
        table = self.tokenizer.vocabulary
        pitches = pitch_set(sampling, region.primer, self.tokenizer)
        parts = [*[CHORD] * self.tokenizer.chords, *habits]
        new = NewNotes(table, parts=parts, habits=habits, pitches=pitches)

        def penalty(row: Any, past: np.ndarray) -> np.ndarray | None:
            if row.done:
                return None
            mask = row.state.allowed().copy()
            PartLimits(new, row.state).restrict(mask)
            return np.where(mask, 0.0, np.inf)

        return [penalty]

    def _habits(self, primer: Primer, stats: CorpusStats) -> dict[int, Habit]:
        """Part -> its habit in the corpus, extended to what the part does in the primer."""
        usual = stats.parts
        if not len(primer.ids):
            playing = primer.plan.parts or stats.instruments or range(DRUMS + 1)
            return {part: usual.get(part, ANY) for part in playing}
        habits = {}
        for part, notes in parts_of(primer.notes).items():
            here = habit([at_once(notes)], [notes["pitch"]], [0.0])
            in_corpus, onsets = usual.get(part, ANY), densest(notes, WINDOW_SECONDS)
            habits[part] = Habit(
                max(here.voices, in_corpus.voices),
                min(here.low, in_corpus.low),
                max(here.high, in_corpus.high),
                densest=int(max(onsets, WINDOW_SECONDS * in_corpus.density)),
            )
        return habits

    def penalties(self, region: Region, state: GrammarState) -> list[RowPenalty]:
        """The penalties of one row. A continuation from a bar line on begins with that line
        (:meth:`before_bar_line`). A new piece keeps to the meter of its plan; with habits it begins
        on the first beat."""
        table, primer = self.tokenizer.vocabulary, region.primer
        assert isinstance(state, BarState)
        sparse = self._keep_playing(region, state)
        if state.seconds < primer.seconds - 1e-6:
            line = by_bar(primer.ids, table)[-1][0]
            sparse.append(partial(first_bar_line, line=line, lines=state.lines + 1))
        if region.sampling.habits:
            habits = self._habits(primer, region.stats)
            tunes = {p for p, h in habits.items() if h.voices == 1 and p not in (BASS, DRUMS)}
            steady = partial(same_pitch, parts=tunes, target=region.stats.repetition_rate)
            sparse += [section_return, as_in_repeated_bar, steady]
            sparse += [] if len(primer.ids) else [on_first_beat]
        meters = [one_meter(table, n, m) for _, n, m in primer.plan.score.meters.tolist()]
        return [*meters, *super().penalties(region, state), summed(*sparse)]

    def feedback_penalties(self, region: Region) -> list[RowPenalty]:
        steer, chords = region.steering, self.tokenizer.chords
        if not (steer.targets or steer.usual_density):
            return []
        return [summed(partial(bar_feedback, steering=steer, chords=chords))]

    def _keep_playing(self, region: Region, state: BarState) -> list[SparsePenalty]:
        """The penalty that keeps parts playing: the planned parts of a new piece, at a lower
        density if one is requested; of a primer, with habits and without a requested density, the
        parts with :data:`FEWEST_NOTES` or more in its last seconds."""
        primer, asked = region.primer, region.steering.targets.get("density")
        usual, share = dict[int, float](), PART_SHARE
        if not len(primer.ids):
            habits = region.stats.parts
            usual = {part: habits.get(part, ANY).density for part in primer.plan.parts or ()}
            if asked is not None and (total := sum(usual.values())):
                share *= min(asked / total, 1.0)
        elif region.sampling.habits and asked is None:
            since = state.step - PART_SECONDS * PER_SECOND
            count = {part: state.begun(part, since) for part in state.onsets}
            usual = {p: n / PART_SECONDS for p, n in count.items() if n >= FEWEST_NOTES}
        rates = {part: share * density for part, density in usual.items()}
        keep = partial(lacking_parts, rates=rates, from_start=not len(primer.ids))
        return [keep] if rates else []
