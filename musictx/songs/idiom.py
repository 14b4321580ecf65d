"""The idiom of notes in bars: how the sampler composes with them; see
:mod:`musictx.sampling.idiom`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from musictx.apps.habits import ANY, corpus_habits, without_overridden_limits
from musictx.beats import BPM
from musictx.bundle import Bundle
from musictx.config import GenerateConfig
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
from musictx.sampling.constraints import RowConstraint, RowPenalty, never
from musictx.sampling.idiom import Idiom
from musictx.sampling.infill import NewNotes
from musictx.sampling.penalties import pitch_set
from musictx.sampling.primer import Plan, Primer
from musictx.sampling.region import Region
from musictx.sampling.sample import Sample
from musictx.sampling.steer import has_controls, unable
from musictx.sampling.strengths import FEWEST_NOTES
from musictx.songs import bar_codec, form
from musictx.songs.bar_codec import FIELDS_PER_NOTE
from musictx.songs.bar_constraint import PartLimits
from musictx.songs.bar_grammar import BarState
from musictx.songs.bar_tokens import BarTokenizer
from musictx.songs.bars import PER_SECOND, blank_piece
from musictx.songs.new_pieces import (
    closed_continuation,
    draw_ensemble,
    named_parts,
    new_piece,
)
from musictx.songs.penalties import bar_feedback, lacking_parts, on_first_beat, summed
from musictx.songs.repetition import as_in_earlier_bar, bar_return
from musictx.songs.strengths import BARS_TOP_P, PART_SECONDS, PART_SHARE
from musictx.tokens.stream import CHORD, STEPS
from musictx.tokens.tokenizer import GrammarState
from musictx.tokens.vocab import Vocabulary

#: Steps of a whole note.
WHOLE = 4 * STEPS


class BarIdiom(Idiom):
    """The idiom of models of notes in bars."""

    infill = "musictx.songs.infill:compose"
    prefix = staticmethod(bar_codec.control_prefix)
    tokenizer: BarTokenizer

    def plan(self, bundle: Bundle, options: Mapping[str, Any]) -> Plan:
        table = self.tokenizer.vocabulary
        meter, least, blank = None, None, blank_piece(options.get("tempo", BPM))
        default = "4/4" if "loop" in options else None  # a loop is of whole bars
        named = options.get("meter", default)
        if named is not None:
            numerator, denominator = meter = meter_of(named)
            most, last = (int(table.values(kind).max()) for kind in ("numerator", "place"))
            if numerator > most or numerator * WHOLE / denominator > last + 1:
                raise UserError(
                    f"meter={named}: expected at most {most} beats in a bar, and bars of "
                    f"at most {(last + 1) / WHOLE:g} whole notes"
                )
            blank = replace(blank, meters=np.array([(0.0, numerator, denominator)], METER))
        if "instruments" in options:
            asked = named_parts(bundle, options["instruments"])
            least = _fewest_notes(corpus_habits(bundle, asked))
        return Plan(blank, meter, least)

    def composer(
        self,
        bundle: Bundle,
        primers: Sequence[Primer],
        request: GenerateConfig,
        is_restricted: bool,
    ) -> Callable[..., Sample] | None:
        """Loops are composed to drawn chords (:func:`.new_piece`), and so are other new pieces by
        models with control tokens whose corpus has ensembles, unless they have to end where the
        model ends them, have a number of tokens, or are restricted. Continuations with a natural
        end close on a tonic (:func:`.closed_continuation`), with the same exceptions."""
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
        if request.end == "natural" and not is_new and has_fixed_end and not is_restricted:
            return lambda primer, _, *more: closed_continuation(bundle, primer, request, *more)
        return None

    def choose_parts(self, region: Region) -> Primer:
        """With habits, choose the instruments of a new piece whose plan names none: an ensemble of
        the corpus, drawn with the frequency with which it occurs there."""
        primer, stats = region.primer, region.stats
        plan, ensembles, habits = primer.plan, stats.ensembles, region.sampling.habits
        if len(primer.ids) or plan.parts is not None or not ensembles or not habits:
            return primer
        programs = draw_ensemble(ensembles, np.random.default_rng([*region.seed]))
        least = _fewest_notes({part: stats.parts.get(part, ANY) for part in programs})
        return replace(primer, plan=replace(plan, parts=least))

    def with_defaults(self, request: GenerateConfig, primers: Sequence[Primer]) -> GenerateConfig:
        """As in the base class. Pitches also get the temperature of ``note_on`` in continuations;
        in new pieces it would make single notes repeat."""
        sampling = request.sampling
        temperatures = sampling.temperatures
        if "note_on" in temperatures and all(len(primer.ids) for primer in primers):
            temperatures = {"pitch": temperatures["note_on"], **temperatures}
        top_p = BARS_TOP_P if sampling.top_p is None else sampling.top_p
        sampling = replace(sampling, top_p=top_p, temperatures=temperatures)
        return super().with_defaults(replace(request, sampling=sampling), primers)

    def silence(self, ids: np.ndarray, state: GrammarState, until: float) -> Iterator[int]:
        """Yield the ids of empty bars until the time ``until``, in seconds."""
        table = self.tokenizer.vocabulary
        bar, place = table.id("bar"), table.id("place")
        groups = ids.reshape(-1, self.tokenizer.group)
        group = groups[groups[:, 0] == bar][-1].tolist()
        while state.seconds < until - 1e-6:
            yield from [*group[:-1], place]

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
        table, pitches = self.tokenizer.vocabulary, pitch_set(sampling, region.primer)
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
        (:meth:`before_bar_line`). A new piece keeps to the meter of its plan, and its planned parts
        do not fall silent; with habits it begins on the first beat."""
        table, primer, penalties = self.tokenizer.vocabulary, region.primer, list[RowPenalty]()
        plan = primer.plan
        assert isinstance(state, BarState)
        if state.seconds < primer.seconds - 1e-6:
            groups = primer.ids.reshape(-1, FIELDS_PER_NOTE)
            line = groups[groups[:, 0] == table.id("bar")][-1]
            penalties.append(partial(bar_line, line=line, lines=state.lines + 1))
        if plan.meter:
            penalties.append(one_meter(table, plan.meter))
        if plan.parts:
            least = _at_density(plan.parts, region.steering.targets)
            penalties.append(summed(partial(lacking_parts, least=least, from_start=True)))
        penalties += [*self.program_penalties(region), *self.feedback_penalties(region)]
        if region.sampling.habits:
            penalties.append(summed(bar_return, as_in_earlier_bar))
            if not len(primer.ids):
                penalties.append(summed(on_first_beat))
        return [*penalties, *self._keep_playing(region, state)]

    def program_penalties(self, region: Region) -> list[RowPenalty]:
        """As in the base class for a new piece; a continuation keeps to its programs by
        :meth:`pitch_penalties`."""
        return [] if len(region.primer.ids) else super().program_penalties(region)

    def feedback_penalties(self, region: Region, *, given: bool = False) -> list[RowPenalty]:
        steer, chords = region.steering, self.tokenizer.chords
        if not (steer.targets or steer.usual_density):
            return []
        return [summed(partial(bar_feedback, steering=steer, chords=chords, given=given))]

    def _keep_playing(self, region: Region, state: BarState) -> list[RowPenalty]:
        """A penalty that keeps parts with :data:`FEWEST_NOTES` or more in the last seconds playing;
        empty without habits, or if a density is requested."""
        since = state.step - PART_SECONDS * PER_SECOND
        count = {part: state.begun(part, since) for part in state.onsets}
        least = {part: PART_SHARE * n for part, n in count.items() if n >= FEWEST_NOTES}
        if not region.sampling.habits or "density" in region.steering.targets or not least:
            return []
        return [summed(partial(lacking_parts, least=least))]


def _fewest_notes(usual: Mapping[int, Habit]) -> dict[int, float]:
    """Part -> the fewest notes that it should have in :data:`PART_SECONDS`."""
    return {part: PART_SHARE * PART_SECONDS * habit.density for part, habit in usual.items()}


def _at_density(least: Mapping[int, float], targets: Mapping[str, float]) -> dict[int, float]:
    """``least``, reduced in proportion if the target ``density`` is lower than the usual one of all
    parts together."""
    usual = sum(least.values()) / PART_SHARE / PART_SECONDS
    share = min(targets.get("density", usual) / usual, 1.0) if usual else 0.0
    return {part: share * notes for part, notes in least.items()}


def bar_line(
    row: RowConstraint, ids: np.ndarray, line: np.ndarray, lines: int
) -> np.ndarray | None:
    """Until a piece has so many ``lines``, forbid all but a bar line like ``line``, which may name
    any bar that is repeated."""
    state: Any = row.state
    if state.lines >= lines or state.at_repeat:
        return None
    return np.where(np.arange(state.table.size) == line[len(state.group)], 0.0, np.inf)


def one_meter(table: Vocabulary, meter: tuple[int, int]) -> RowPenalty:
    """Forbid bars of any other ``meter`` (numerator, denominator)."""
    other = np.zeros(table.size, bool)
    for kind, value in zip(("numerator", "denominator"), (meter[0], meter[1].bit_length() - 1)):
        other[table.slices[kind]] = True
        other[table.id(kind, value)] = False
    return never(other)
