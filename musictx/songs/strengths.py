"""Constants for sampling in bars; those for all music, and what a source is, are in
:mod:`musictx.sampling.strengths`.

Not here: sizes of tokens and windows (``bar_codec.py``, ``repeats.py``), and how
chords, sections, repeated bars and beats are found in music (``chord_estimation.py``,
``sections.py``, ``repeats.py``, ``tracking.py``).
"""

from __future__ import annotations

# ------------------------------------------------------------------------------------- idiom.py
#: ``sampling.top_p`` of pieces of notes in bars: with less their bars are too alike, but what is
#: written around given notes keeps to its chords. "asked and fed back in bars; how strongly what
#: stood some bars ago counts".
BARS_TOP_P = 0.99

# --------------------------------------------------------------------------------- penalties.py
#: Nats for each octave (twice as many notes at once) that the music is too full where a new note
#: comes (.965 with 4), and for each note at once too many and octave of a note's length. "song goes
#: on, which bars are pulled back to, what is asked for".
CROWD_GAIN, LENGTH_GAIN = 4.0, 0.5
#: A part has at least this share of its usual notes; each note that it lacks makes a new one
#: likelier by so many nats: within so many seconds where music in bars is continued (a part may
#: rest for half of them). "song goes on, which bars are pulled back to, what is asked for": second
#: basses that stayed silent 7 of 8, then none.
PART_SHARE, PART_GAIN, PART_SECONDS = 0.5, 3.0, 16.0

#: A section returns from so many bars ago and gains so many nats. "song goes on, which bars are
#: pulled back to, what is asked for", "new songs close". What came next in the bar that is repeated
#: gains so many: then bars that repeat are as like their earlier ones as in songs. "subjects that
#: return". So do bars of accompaniments, and of variations: "fewer constants of the sampler", "a
#: blind verdict"; so does, in accompaniments and gaps, the rhythm of the bar before:
#: "accompaniments that keep a figure", "continued songs that stood still".
RETURN_BARS, RETURN_GAIN, REPEAT_GAIN = range(7, 13), 0.9, 1.0
#: Nats in a new section for the chord that an earlier one has at a place, and for a note of a pitch
#: class that begins there. "styles of drums, and new sections that are unlike the first": AABA
#: recognised in 8 of 10 (4 of 10); "fewer constants of the sampler": in 3 of 6 without.
SAME_ROOT, SAME_PITCH = 3.0, 1.5

# -------------------------------------------------------------------------- infill_penalties.py
#: Nats gained at a bar line by a note of a silent bass, and by the root of the chord. "form by
#: a plan, drums and a bass to songs": bars begun .201, then .711 (.848); roots .486, .889.
ON_LINE, ON_ROOT = 7.0, 2.0
#: The cost in nats of a note that is no tone of its given chord, or is a semitone from a sounding
#: given note. "what an accompaniment does beside known notes and chords": clashes .080, then .049
#: (.055); chord tones .895, then .950. Also that of an accompanying note above a tune, and of an
#: interval of less than a fourth on a note below this MIDI pitch, C3 ("accompaniments with a
#: lead-in": .057, then .021 of the low notes; songs .013).
CLASH, LOW = 1.0, 48
#: The cost in nats of each semitone between a note at the end of a gap and the next given note of
#: its part. "gaps that lead into what follows": .11 of the tunes leap by more than a fifth (.33
#: without, songs 0).
LEADING = 0.6
#: The cost in nats of a note that outlasts its chord or, where chords are composed, lasts into a
#: clash with a given note. The same entry and "melodies of the piano that return, rhythms that
#: stay, notes held into clashes".
OVERHANG = 2.5

# ------------------------------------------------------------------------ infill.py, bar_infill.py
#: The mean velocity of a melody with its accompaniment, divided by that of the melody alone: the
#: median of 40 songs, never varied.
QUIETER = 0.87
#: The bars ahead whose given notes the model reads when it composes an accompaniment. Taste.
LOOKAHEAD_BARS = 8
#: The bars that are composed before an accompaniment and left out. "accompaniments with a lead-in":
#: kept by readers 10 of 28, without 5.
LEAD_IN_BARS = 4
#: Of a version that is too like another one, this share of the notes is made rarer at the next try.
#: "new songs for an ensemble, variations that differ": with all of them AABA was recognised in 3 of
#: 6 pieces, with half in 4.
RARER_SHARE = 0.5

# -------------------------------------------------------------------------------------- form.py
#: The share of a returning section with a prime that is composed anew: its end. Taste.
PRIMED = 0.5

# ---------------------------------------------------------------------------------- drummers.py
#: The least and the greatest probability of a stroke. Taste.
RAREST, SUREST = 0.02, 0.95
#: The weight of a drummer whose style was asked for; the usual ones have 1. "styles of drums, and
#: new sections that are unlike the first": half the weight leaves fewer styles nearest their own.
STYLE_WEIGHT = 2.0
