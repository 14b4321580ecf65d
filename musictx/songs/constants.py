"""Constants for sampling music in bars, with their sources; :mod:`musictx.sampling.constants` has
those for all music, and says what penalties and sources are.

Elsewhere: sizes of tokens and windows (``bar_codec.py``), and how chords, sections, repeated bars
and beats are detected (``chord_estimation.py``, ``sections.py``, ``repeats.py``, ``tracking.py``).
"""

from __future__ import annotations

# ------------------------------------------------------------------------------------- idiom.py
#: The default of ``sampling.top_p`` in continuations: with less, their bars are too similar. Music
#: composed to chords keeps the usual default, with which it follows its chords better. "asked and
#: fed back in bars; how strongly what stood some bars ago counts".
BARS_TOP_P = 0.99

# --------------------------------------------------------------------------------- penalties.py
#: The penalty on a new note for each doubling of the number of sounding notes over its target (rank
#: correlation .965) and of the density over a requested one, and on a length for each doubling and
#: each sounding note over the target.
#: "song goes on, which bars are pulled back to, what is asked for".
CROWD_GAIN, LENGTH_GAIN = 4.0, 0.5
#: The least share of its usual notes that a part should have, the bonus of its next note for each
#: note that it lacks, and the seconds that count where music is continued, so that a part may rest
#: for half of them. Same source: second basses that were silent 7 of 8 times, then never.
PART_SHARE, PART_GAIN, PART_SECONDS = 0.5, 3.0, 16.0

#: Distances in bars, about a section, and the bonus of a bar line that repeats the bar there. Same
#: source, and "new songs close".
RETURN_BARS, RETURN_GAIN = range(7, 13), 0.9
#: The bonus of the next note of the bar that is repeated; with it, repeated bars are as similar to
#: the original as in songs: "subjects that return"; accompaniments and variations: "fewer constants
#: of the sampler", "a blind verdict". Also, in accompaniments and gaps, of the rhythm of the bar
#: before: "accompaniments that keep a figure", "continued songs that stood still".
REPEAT_GAIN = 1.0
#: In a new section, the penalties on the chord that an earlier section has at the same place, and
#: on a pitch class that begins there. "styles of drums, and new sections that are unlike the
#: first": AABA recognised in 8 of 10 (4 of 10 without); "fewer constants of the sampler": 3 of 6.
SAME_ROOT, SAME_PITCH = 3.0, 1.5

# -------------------------------------------------------------------------- infill_penalties.py
#: The bonus of a note of a silent bass at a bar line, and of the root of the chord. "form by a
#: plan, drums and a bass to songs": bars begun .201, then .711 (songs .848); roots .486, then
#: .889. The bass of a slash chord is requested, so its bonus is greater.
BAR_LINE_GAIN, ROOT_GAIN = 7.0, 2.0
SLASH_GAIN = 2 * BAR_LINE_GAIN
#: The penalty on a note that is not a tone of its given chord, or is a semitone from a sounding
#: given note. "what an accompaniment does beside known notes and chords": clashes .080, then .049
#: (songs .055); chord tones .895, then .950. Also on an accompanying note above a tune, and on an
#: interval of less than a fourth above a note below LOW_PITCH, C3 ("accompaniments with a lead-in":
#: .057, then .021 of the low notes; songs .013).
CLASH_PENALTY, LOW_PITCH = 1.0, 48
#: The penalty on each semitone between a note at the end of a gap and the next given note of its
#: part. "gaps that lead into what follows": .11 of the tunes leap by more than a fifth (.33
#: without, songs 0).
LEAP_PENALTY = 0.6
#: The penalty on a note that outlasts its chord (for a bass it is BAR_LINE_GAIN: "plain words, and
#: basses that begin their bars") or, where chords are composed, lasts into a clash with a given
#: note. Same source as CLASH_PENALTY, and "melodies of the piano that return, rhythms that stay,
#: notes held into clashes".
OVERHANG_PENALTY = 2.5

# ------------------------------------------------------------------------ infill.py, bar_infill.py
#: The mean velocity of a melody with its accompaniment, divided by that of the melody: the median
#: of 40 songs, never varied.
LOUDNESS_RATIO = 0.87
#: How many bars ahead the model reads given notes when it composes an accompaniment. Taste.
LOOKAHEAD_BARS = 8
#: The bars that are composed before an accompaniment and left out. "accompaniments with a lead-in":
#: kept by readers 10 of 28, without 5.
LEAD_IN_BARS = 4
#: The share of the notes of a rejected version, too similar to an earlier one, that are penalised
#: in the next try. "new songs for an ensemble, variations that differ": with all of them AABA was
#: recognised in 3 of 6 pieces, with half in 4.
RARER_SHARE = 0.5

# -------------------------------------------------------------------------------------- form.py
#: The share of a repeated section with a prime that is composed anew: its end. Taste.
PRIMED_SHARE = 0.5

# ---------------------------------------------------------------------------------- drummers.py
#: The least and the greatest probability of a stroke. Taste.
LEAST_PROBABILITY, GREATEST_PROBABILITY = 0.02, 0.95
#: The weight of a drummer whose style was requested; the usual ones have 1. "styles of drums, and
#: new sections that are unlike the first": half the weight leaves fewer styles nearest their own.
STYLE_WEIGHT = 2.0
