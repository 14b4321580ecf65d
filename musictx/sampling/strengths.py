"""The constants of sampling: how strong each penalty is, how far it looks back, and its source.

Penalties are in nats, which are subtracted from a logit: 0.7 nats make an id half as likely, 3 nats
twenty times less likely. A source is the heading of an entry of scripts/LOG.md, in quotation marks,
or "taste": chosen by listening and never varied.

Not here: sizes that follow from tokens, from General MIDI or from files; how something is measured
in music (:mod:`musictx.data.statistics`); defaults of options (:mod:`musictx.config`).
"""

from __future__ import annotations

# ----------------------------------------------------------------- penalties.py, event_idiom.py
#: Nats for each note per second too many or too few: if the density is requested, or of notes in
#: bars; if it is only usual, of events. "a density that is asked for": rank correlation .950 with
#: 0.8. "the piano tuned by preferences": 0.2 instead of 0.1 gains nothing.
ASKED_GAIN, USUAL_GAIN = 0.8, 0.1
#: Nats for a velocity 10 above the target while the music is 10 too loud, and for a pitch an octave
#: above the target while the music is an octave too high. "loudness, register and fullness asked of
#: the piano are fed back", "song goes on, which bars are pulled back to, what is asked for".
LOUDNESS_GAIN, REGISTER_GAIN = 0.5, 1.5
#: Nats that releases gain while twice as many notes sound as the target. "the first GPU": rank
#: correlation .937 with 5, .787 with 2.
POLYPHONY_GAIN = 5.0
#: Nats for each pitch that was struck again too soon, in excess of the share in the corpus, among
#: this number of last strikes. "sampling for the piano with conditions": struck again .286 with
#: 0.35, .260 with 0.5 (real .219); "each soft constraint of the piano switched off once": .395
#: without.
REPETITION_GAIN, REPETITION_STRIKES = 0.5, 32

# --------------------------------------------------------------------------------- repetition.py
#: The first phrase ends between these seconds after its beginning; it may return this number of
#: seconds after its end. A phrase begins after a wait longer than this share of all waits. Strikes
#: within this number of seconds are one onset. "the piano comes back to its subject".
PHRASE_SECONDS, AWAY_SECONDS, BREATH_SHARE, ONSET_SECONDS = (3.0, 6.0), 8.0, 0.9, 0.02
#: The number of last intervals of the top line that are compared with earlier ones; the least
#: number that must agree; the nats that the next pitch gains for each of them. "melodies of the
#: piano that return, rhythms that stay, notes held into clashes".
INTERVALS_COMPARED, INTERVALS_AGREE, MELODY_GAIN = 8, 2, 1.5

# ----------------------------------------------------------------------------------- cadence.py
#: Notes struck within this number of seconds are one chord.
CHORD_SECONDS = 0.08
#: The greatest length of an ending in seconds, and as a share of the new music. Taste, as all
#: constants of cadence.py below, except that notes which join a chord gain 4 nats: "natural
#: endings; dropout; the piano went on for an hour" (23 of 24 pieces close).
MOST_SECONDS, MOST_SHARE = 6.0, 0.5
#: The shares of the ending after which the last chord begins, and after which no note begins.
CHORD_FROM, SILENT_FROM = 0.5, 0.7
#: The nats that strikes cost at the end of the first part; that releases, and notes of the last
#: chord, gain; that ``eos`` gains if tokens have no releases.
STRIKE_NATS, CHORD_NATS, END_NATS = 3.0, 4.0, 6.0
#: The last bass note lies in the two octaves above this MIDI pitch, or above the requested lowest
#: pitch.
LOWEST_BASS_PITCH = 33

# ----------------------------------------------------------------------- composer.py, primer.py
#: Music with fewer notes or seconds is too short to be measured or to be brought to a close. Taste.
FEWEST_NOTES, SHORTEST_SECONDS = 8, 2.0

# ------------------------------------------------------------------- continuation.py, *infill.py
#: In bars, a version that shares more than this share of its notes with another one is composed
#: again, at most this number of times. A region is given up after the same number of segments in
#: which no time has passed. Taste.
MOST_ALIKE, TRIES = 0.8, 8
#: The quarter notes by which the last note may extend beyond the bar line at which new music
#: begins. Taste.
LAPS = 1 / 8
#: The shares of the context for earlier music and for given notes ahead; the rest is for new notes.
#: Taste, as in the windows of training.
PAST_SHARE, AHEAD_SHARE = 0.4, 0.3
#: The length of a segment of an accompaniment, in seconds. Taste.
SEGMENT_SECONDS = 10.0

# ------------------------------------------------------------------------- musictx/apps/*.py
#: Notes of a melody with its accompaniment for each note of the melody, slightly fewer than in real
#: music, unless the density of the model's corpus is smaller. "accompaniments that were too dense".
NOTES_PER_MELODY_NOTE = 3.0
#: Semitones by which the mean pitch of a melody with its accompaniment is below that of the melody:
#: the accompaniment then lies 7.8 below. "loudness, register and fullness asked of the piano are
#: fed back", "accompaniments below their tune, from its first bar on".
SEMITONES_LOWER = 6.5
#: Semitones by which new notes may exceed the range of the other notes of their track; for a
#: second voice, the range of the melody. Taste.
MARGIN = 4
#: Density, loudness and other levels around a gap are measured within this many seconds before and
#: after it. Taste.
AROUND_SECONDS = 10.0

# ----------------------------------------------------------------- defaults, memory and time
#: The seconds of a piece without a requested length; the greatest length of a piece that the model
#: ends; the bars of a section if neither a file nor a request determines them.
USUAL_SECONDS, LONGEST_SECONDS, SECTION_BARS = 30.0, 120.0, 8
#: The number of pieces that are composed at once, so that memory is bounded. "16 rows against one".
ROWS_AT_ONCE = 16
#: Without a limit in tokens, a piece ends after this number of tokens for each requested second.
#: The densest piano performances have about 200; more means that time has stopped passing.
TOKENS_PER_SECOND = 500
