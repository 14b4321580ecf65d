"""The penalties of new notes around given ones: against plain loops, and in composed music."""

from dataclasses import replace
from itertools import combinations, pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from musictx.chords import CHORDS, NONE
from musictx.config import SamplingConfig
from musictx.data.statistics import CorpusStats, Habit
from musictx.notes import DRUMS
from musictx.songs import constants, drummers, infill_penalties
from musictx.songs.drummers import IN_KIT, Drummer
from musictx.tokens.stream import CHORD, STREAM_NOTE
from tests.pieces import line, score, together
from tests.songs.test_bar_infill import BAR, TOKENS, gap, part_of, versions
from tests.songs.test_grouped import song as waltz

notes = st.tuples(st.integers(0, 100), st.integers(1, 60), st.integers(30, 90))


@given(
    st.lists(notes, max_size=8),
    st.lists(st.tuples(st.integers(1, 40), st.sampled_from(CHORDS)), max_size=6),
    st.integers(0, 120),
    st.integers(30, 90),
    st.booleans(),
    st.booleans(),
)
def test_a_note_that_outlasts_its_chord_or_clashes_costs(
    given_notes, gaps, step, pitch, composed, bass
):
    """Clashes cost where chords are composed, too. A bass may only last into a root."""
    steps, lengths = np.cumsum([gap for gap, _ in gaps]), np.arange(1, 100)
    chords = [(int(start), chord) for start, (_, chord) in zip(steps, gaps)]
    rows = [(start, start % 3, tone, length, 1) for start, length, tone in given_notes]
    rows += [(start, CHORD, chord.root, chord.quality, 0) for start, chord in chords]
    music, played = np.array(rows, STREAM_NOTE), infill_penalties.Bass() if bass else None
    costs = infill_penalties.overhang(music, pitch, step, lengths, composed, played)
    outlasts = constants.BAR_LINE_GAIN if bass else constants.OVERHANG_PENALTY
    for length, nats in zip(lengths.tolist(), costs.tolist()):
        leaves_chord = any(
            step < start < step + length
            and chord != NONE
            and pitch % 12 not in ([chord.root] if bass else chord.classes)
            for start, chord in chords
        )
        clashes = composed and any(
            step < start < step + length and (pitch - tone) % 12 in (1, 11)
            for start, _, tone in given_notes
        )
        assert nats == (outlasts if leaves_chord else constants.OVERHANG_PENALTY * clashes)


def accompaniment(music, parts, **options):
    """A region that is all of ``music`` in whole bars, in which ``parts`` are composed."""
    end = np.ceil(music.duration / BAR - 1e-6) * BAR
    return part_of(music, 0.0, end, parts, **options)


def whole_notes(pitches, chords):
    """Four bars, each with one note of every pitch: the first as a tune, a second one on a bass."""
    voices = (
        line(*[pitch] * 4, every=BAR, program=program, track=program)
        for pitch, program in zip(pitches, (73, 33))
    )
    return together(*voices, meter=(3, 4), markers=tuple(chords))


def major_chords(roots):
    return [(BAR * bar, f"{'CxxxxFxGxA'[root]}:maj") for bar, root in enumerate(roots)]


def test_a_bass_begins_with_each_chord_on_its_root(monkeypatch):
    """Strengths that hardly a logit outweighs, of chords that share their tones."""
    names = ("C:maj", "A:min7", "F:maj7", "A:min")
    starts = [BAR * bar + BAR / 3 * (bar % 2) for bar in range(4)]
    tune = whole_notes([76], zip(starts, names))
    part = accompaniment(tune, (33,), habits={33: Habit(1, 30, 60, 1.0)})
    for name in ("BAR_LINE_GAIN", "ROOT_GAIN", "OVERHANG_PENALTY"):
        monkeypatch.setattr(constants, name, 60.0)
    for made in versions(part, [(0,), (1,)], SamplingConfig()):
        notes = made.new[made.new["program"] == 33]
        for start, root in zip(starts, (0, 9, 5, 9)):
            (pitch,) = notes["pitch"][np.abs(notes["start"] - start) < 1e-3]
            assert pitch % 12 == root


@pytest.mark.parametrize("has_bass", [True, False])
def test_an_accompaniment_without_a_bass_has_low_roots(has_bass, monkeypatch):
    """From the lowest usual pitch of a bass to the highest."""
    monkeypatch.setattr(constants, "ROOT_GAIN", 60.0)
    roots = (0, 9, 5, 7)
    music = whole_notes([71, 50] if has_bass else [71], major_chords(roots))
    stats = CorpusStats(parts={33: Habit(1, 48, 59)})
    part = accompaniment(music, (0,), habits={0: Habit(4, 36, 87, 4.0)}, stats=stats)
    low = []
    for made in versions(part, [(4,), (5,), (6,)], SamplingConfig()):  # none holds a root over
        for bar, root in enumerate(roots):
            pitches = made.new["pitch"][np.abs(made.new["start"] - BAR * bar) < 1e-3]
            low += [pitches.min() == 48 + root] if len(pitches) else []
    assert low
    assert all(low) != has_bass


def test_the_low_notes_of_an_accompaniment_without_a_bass_last_only_into_their_roots(monkeypatch):
    monkeypatch.setattr(constants, "OVERHANG_PENALTY", 60.0)
    roots = (0, 9, 5, 7)
    stats = CorpusStats(parts={33: Habit(1, 36, 59)})
    music, habits = whole_notes([71], major_chords(roots)), {0: Habit(4, 36, 87, 4.0)}
    part = accompaniment(music, (0,), habits=habits, stats=stats)
    high = 0
    for made in versions(part, [(0,), (1,), (2,)], SamplingConfig()):
        for start, end, pitch, *_ in made.new.tolist():
            for bar in range(int(start / BAR + 1e-6) + 1, 4):
                if end > BAR * bar + 1e-6:
                    classes = [(roots[bar] + step) % 12 for step in (0, 4, 7)]
                    assert pitch % 12 in (classes if pitch > 59 else classes[:1])
                    high += pitch > 59 and pitch % 12 != roots[bar]
    assert high


def test_a_tune_in_a_gap_leads_into_the_note_after_it(monkeypatch):
    """Within the last bar; before that it goes anywhere. It is kept playing, unlike before
    a gap at the end."""
    kept = []
    filling = lambda row, parts: kept.append(parts) or iter(())  # noqa: E731
    monkeypatch.setattr(constants, "LEAP_PENALTY", 200.0)
    monkeypatch.setattr(infill_penalties, "filling_parts", filling)
    tune = line(*[60, 72] * 8, every=BAR / 2)
    _, part = gap(tune, 2 * BAR, 4 * BAR, habits={0: Habit(1, 40, 90, 4.0)})
    for made in versions(part, [(0,), (1,), (2,)]):
        far = np.abs(made.new["pitch"] - 60.0)[made.new["start"] < 3 * BAR - 1e-3]
        near = made.new["pitch"][made.new["start"] > 3 * BAR + 1e-3]
        assert far.max() > 4
        assert {*near.tolist()} == {60}
    versions(gap(tune, 6 * BAR, 8 * BAR)[1])
    assert [kept[0], kept[-1]] == [{0, CHORD}, set()]


def test_intervals_on_low_notes_are_fourths_or_wider(monkeypatch):
    monkeypatch.setattr(constants, "CLASH_PENALTY", 40.0)
    habits = {part: Habit(4, 36, 59, 4.0) for part in (0, 33)}
    part = accompaniment(whole_notes([76], []), (0, 33), habits=habits)
    close = [
        min(one["pitch"], other["pitch"])
        for made in versions(part, [(0,), (1,)], SamplingConfig())
        for one, other in combinations(made.new, 2)
        if one["start"] < other["end"] - 1e-3 and other["start"] < one["end"] - 1e-3
        if 0 < abs(int(one["pitch"]) - int(other["pitch"])) < 5
    ]
    assert min(close) >= constants.LOW_PITCH


@pytest.mark.parametrize(("pitch", "high"), [(66, 87), (66, 127), (50, 87)])
def test_an_accompaniment_lies_below_a_tune_but_not_below_a_bass(pitch, high, monkeypatch):
    """Also while the tune rests, until the third bar; not if a register overrides its range."""
    monkeypatch.setattr(constants, "CLASH_PENALTY", 20.0)
    stats, habits = CorpusStats(parts={33: Habit(1, 48, 59)}), {0: Habit(4, 36, high, 4.0)}
    given = whole_notes([pitch], [])
    given = given.with_notes(given.notes[2:])
    part = accompaniment(given, (0,), habits=habits, stats=stats)
    new = [made.new["pitch"] for made in versions(part, [(0,), (1,)], SamplingConfig())]
    assert (max(map(max, new)) <= pitch) == ((pitch, high) == (66, 87))


@pytest.mark.parametrize("habits", [True, False])
def test_accompaniments_keep_the_rhythm_of_the_bar_before(habits, monkeypatch):
    """A gain that no logit outweighs; the rhythm of the tune is no part of it."""
    monkeypatch.setattr(constants, "REPEAT_GAIN", 60.0)
    starts = [BAR * n + BAR / 3 * (n % 3) for n in range(5)]
    notes = [(start, start + 0.2, 70 + n, 64, 73, False, 73) for n, start in enumerate(starts)]
    habits_of_parts = {0: Habit(52, 36, 87, 8.0, longest=0.01)}
    part = accompaniment(score(notes, meter=(3, 4)), (0,), habits=habits_of_parts)
    kept = []
    for made in versions(part, [(0,), (1,), (2,)], SamplingConfig(habits=habits)):
        bars, at = np.divmod(np.round(96 * made.new["start"] / BAR), 96)
        rhythms = [set(at[bars == bar].tolist()) for bar in range(5)]
        kept += [now == before for before, now in pairwise(rhythms) if before]
    assert kept
    assert all(kept) == habits


@pytest.mark.parametrize(("voices", "drone"), [(1, []), (4, []), (1, [(0, 4 * BAR, 48)])])
def test_only_tunes_may_leave_their_chords(voices, drone, monkeypatch):
    """A cost that no logit outweighs keeps parts of several voices to the chords."""
    monkeypatch.setattr(constants, "CLASH_PENALTY", 60.0)
    chart = score(drone, meter=(3, 4), markers=tuple(major_chords([0, 5, 7, 0])))
    habits = {73: Habit(voices, 55, 80, 4.0)}
    part = part_of(chart, 0.0, 4 * BAR, (73,), habits=habits)
    outside = []
    for made in versions(part, [(0,), (1,), (2,)], SamplingConfig()):
        for start, pitch in made.new[["start", "pitch"]].tolist():
            root = (0, 5, 7, 0)[int(start / BAR + 1e-6)]
            outside.append((pitch - root) % 12 not in (0, 4, 7))
    assert (np.mean(outside) > 0.3) == (voices == 1)


def test_new_notes_off_a_given_chord_cost_unless_habits_are_off_and_given_notes_do_not():
    notes = [(0.0, BAR, 60), (0.0, BAR, 61, 64, 33, False, 1)]
    part = accompaniment(score(notes, meter=(3, 4), markers=((0.0, "C:maj"),)), (33,))
    (row,) = part.rows(1)  # which begins a new note of the bass in its first bar
    while row.remaining and row.remaining[0].key < (0, 33):
        for token in row.remaining[0].ids:
            row.advance(token)
    for token in (TABLE.id("place", 0), TABLE.id("program", 33)):
        row.advance(token)

    def nats_of_pitches():
        costs = [penalty(row, []) for penalty in part.penalties()]
        return sum(cost for cost in costs if cost is not None)

    nats = nats_of_pitches()
    pitches = row.table.values_in("pitch").tolist()
    for token, pitch in enumerate(pitches, row.state.ids["pitch"].start):
        clash = constants.CLASH_PENALTY * (pitch % 12 in (0, 1, 2, 11))
        off_chord = 0.0 if pitch % 12 in (0, 4, 7) else constants.CLASH_PENALTY + clash
        root = constants.ROOT_GAIN * (pitch % 12 == 0)
        assert nats[token] == (0.0 if pitch == 61 else off_chord - root), pitch
    part.sampling = SamplingConfig(habits=False)
    assert nats_of_pitches().max() == 0


#: One drum of each kind, in order.
DRUMS_OF_KINDS = np.array(sorted(tones[0] for tones in drummers.KINDS.values()))
TABLE = TOKENS.vocabulary
TONES = np.asarray(TABLE.value_of[slice(*TABLE.range("drum"))])
KICK, SNARE, HAT, TOM, CRASH, RIDE, SIDE_STICK, PEDAL_HAT = range(8)


@settings(max_examples=40)
@given(st.integers(0, 10**6), st.sampled_from([1.0, 2.0]))
def test_the_probabilities_of_strokes_multiply_to_that_of_the_bar(seed, weight):
    """Oracle: whether a kind is struck at a step does not depend on other strokes."""
    random = np.random.default_rng(seed)
    rates = random.uniform(0.05, 0.9, (8, 6))
    drummer = Drummer(rates, weight, DRUMS_OF_KINDS)
    rates = rates[drummers.KIND_OF[DRUMS_OF_KINDS]]
    played = random.random((8, 6)) < rates
    total, step, struck = 0.0, 0, []
    for onset, drum in sorted((onset, drum) for drum, onset in np.argwhere(played).tolist()):
        nats = drummer.log_prob_silence(step, struck)
        nats[step:-1] += [
            drummer.log_prob_hit(n, struck if n == step else []) for n in range(step, 6)
        ]
        total += nats[onset]
        if weight == 1:
            next_onset = nats[step + (DRUMS_OF_KINDS[-1] in struck) :]
            assert np.exp(next_onset).sum() == pytest.approx(1.0)
        struck = struck if onset == step else []
        later = max(struck, default=-1) < DRUMS_OF_KINDS
        may = np.where(later, drummer.log_prob_drum(onset, struck), -np.inf)
        hit = drummer.log_prob_hit(onset, struck)
        total += may[drum] - hit
        if weight == 1:
            assert np.log(np.exp(may).sum()) == pytest.approx(hit)
        step, struck = onset, [*struck, int(DRUMS_OF_KINDS[drum])]
    total += drummer.log_prob_silence(step, struck)[-1]
    assert total == pytest.approx(weight * np.log(np.where(played, rates, 1 - rates)).sum())


def test_of_each_kind_one_drum_is_struck_at_a_time():
    """Although between two crashes there may be a ride, or a tom between two hats."""
    rates = np.full((8, 96), [0.9, *[0.0] * 95])
    drummer = Drummer(rates, 1.0, TONES)
    for struck, next_ones in (([42, 43], [46]), ([49, 51], [57])):
        nats = drummer.log_prob_drum(0, struck)[np.isin(TONES, next_ones)]
        assert (nats <= np.log(constants.LEAST_PROBABILITY)).all()
    assert drummer.log_prob_hit(0, [49, 51]) == np.log(constants.LEAST_PROBABILITY), "none left"


@pytest.mark.parametrize("is_common", [True, False])
@pytest.mark.slow
def test_drummers_strike_no_drum_outside_of_the_kit(is_common):
    """In any meter, although the model strikes others."""
    score = TOKENS.round_trip(common(waltz(bars=4)) if is_common else waltz(bars=4))
    drummer = Drummer(np.full((8, 96), 0.3), 1.0, TONES)
    for players in ([drummer], []):
        (made,) = versions(accompaniment(score, (DRUMS,), drummers=players))
        assert IN_KIT[made.new["pitch"]].all() == bool(players)


def common(score):
    """The notes of a score in bars of 4/4 instead."""
    meters = score.meters[:1].copy()
    meters["numerator"], meters["denominator"] = 4, 4
    return replace(score, meters=meters)


def test_each_version_has_another_drummer():
    """Also in 3/4."""
    rates = [np.zeros((8, 96)), np.zeros((8, 96))]
    rates[0][KICK, ::24], rates[1][KICK, 12::24] = 0.95, 0.95
    both = [Drummer(some, 4.0, TONES) for some in rates]
    _, part = gap(waltz(bars=8), 0.0, 8.0, (DRUMS,), is_gap=False, drummers=both)
    for number, made in enumerate(versions(part, [(0, 0), (0, 1)])):
        kicks = made.new[np.isin(made.new["pitch"], drummers.KINDS["kick"])]
        off = np.round(kicks["start"] * 48).astype(int) % 24
        assert (off == 12 * number).mean() > 0.8


def test_drummers_of_common_time_play_the_beats_of_other_meters():
    rates = np.zeros((3, 96))
    rates[KICK, [0, 54]], rates[SNARE, [24, 72]], rates[HAT, ::12] = 0.9, 0.9, 0.9
    for meter, kicks, snares in (
        ((2, 4), [0], [24]),
        ((3, 4), [0], [24, 48]),
        ((6, 8), [0], [36]),
        ((12, 8), [0, 84], [36, 108]),
    ):
        played = drummers.in_meter(rates, *drummers.beats_of(*meter))
        assert [row.nonzero()[0].tolist() for row in played[:2]] == [kicks, snares]
        np.testing.assert_array_equal(played[HAT, ::12], 0.9)
    assert not any(drummers.beats_of(*meter)[0] for meter in ((5, 4), (7, 8), (3, 8)))


def test_a_style_is_written_and_read():
    rates = np.round(np.random.default_rng(0).random((8, 24)) * 9) / 9
    expected = np.zeros((8, 96))
    places = [24 * quarter + place for quarter in range(4) for place in drummers.PLACES]
    expected[:, places] = rates.clip(0, constants.GREATEST_PROBABILITY)
    for kinds in (8, 6):  # 6: of a card of version 1.0
        expected[kinds:] = 0.0
        np.testing.assert_allclose(drummers.from_text(drummers.to_text(rates[:kinds])), expected)


@pytest.mark.parametrize("marked", [True, False])
def test_a_fill_ends_a_section_and_a_crash_begins_the_next(marked):
    """Sections begin at two marks, or have eight bars. A fill is the second half of its bar."""
    rates, fill = np.zeros((8, 96)), np.zeros((8, 96))
    rates[HAT, ::12], fill[TOM, 48::12] = 0.95, 0.95
    score = TOKENS.round_trip(common(waltz(bars=16)))  # 12 bars of 4/4, two seconds each
    if marked:
        score = replace(score, markers=((4.0, "verse"), (12.0, "chorus"), (13.0, "C:maj")))
    some = [Drummer(rates, 2.0, TONES, fill)]
    (made,) = versions(part_of(score, 0.0, 24.0, (DRUMS,), drummers=some))
    bar, step = np.divmod(np.round(made.new["start"] * 48).astype(int), 96)
    begins = {2, 6} if marked else {8}
    kinds = drummers.KIND_OF[made.new["pitch"]]
    fills = np.isin(bar + 1, [*begins]) & (step >= 48)
    assert (kinds[fills] == TOM).mean() > 0.8 > 0.2 > (kinds[~fills] == TOM).mean()
    assert (kinds[np.isin(bar + 1, [*begins]) & (step < 48)] == HAT).mean() > 0.6
    for begin in begins:  # without hats, with which crashes would be soft
        assert {*kinds[(bar == begin) & (step == 0)].tolist()} == {KICK, CRASH}
    without_hits = Drummer(rates, constants.STYLE_WEIGHT, TONES, np.zeros((8, 96)))
    assert without_hits.closing.log_prob_hit(0, []) == without_hits.log_prob_hit(0, [])


@pytest.mark.parametrize(("begin", "section"), [(0.0, 8), (0.5, 8), (1.5, 9)])
def test_sections_are_counted_from_the_bar_line_nearest_to_the_first_note(begin, section):
    """In bars of two seconds: a note on the second beat is no pick-up, one on the last beat is."""
    score = TOKENS.round_trip(common(waltz(bars=16)))
    score = score.with_notes(score.notes[score.notes["start"] >= begin - 1e-6])
    assert part_of(score, begin, 24.0, (DRUMS,)).sections == {section}


def test_the_drummers_of_song_keep_a_beat(song):
    """Styles of songs have a backbeat. Crashes only begin sections. Each of the fills is played."""
    card, options = song.card["drummers"], (song, {"drums": DRUMS}, None)
    players, few = (drummers.choose_drummers(*options, density) for density in (0.0, 2.0))
    assert few[0].log_prob_silence(0, [])[-1] > 0.5 * players[0].log_prob_silence(0, [])[-1]
    bars = {tuple(player.closing.log_prob_silence(48, [])[48:].tolist()) for player in players}
    assert len(bars) >= len(card[drummers.FILLS]) > len(card[drummers.USUAL])
    for style, texts in card.items():
        for rates in map(drummers.from_text, texts):
            assert not rates[CRASH].any()
            if style == drummers.FILLS:
                assert not rates[:, :48].any()
                assert rates[:, 84:].any()
            elif style == "jazz":
                assert rates.sum(1).argmax() == RIDE
                assert rates[RIDE, 24 + 16] > 0.5
            else:
                assert rates[KICK, 0] > 0.4
            assert rates[[HAT, RIDE, PEDAL_HAT]].sum() > 3 or style == drummers.FILLS
            if style in (drummers.USUAL, "funk", "hiphop", "pop", "rock", "soul"):
                assert rates[SNARE, [24, 72]].min() > 0.5
