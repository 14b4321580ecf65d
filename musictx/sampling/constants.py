"""The constants of sampling, such as the strength of each penalty, with their sources.

Penalties are nats that are subtracted from a logit: 0.7 nats make an id half as likely, 3 nats
twenty times less likely. A bonus is added. A source is the heading of an entry of scripts/LOG.md,
in quotation marks, or "taste": chosen by listening and never varied.
"""

from __future__ import annotations

# ----------------------------------------------------------------- penalties.py, event_idiom.py
#: Nats for each note per second too many or too few: the first for a requested density of event
#: tokens and the usual one of bar tokens, the second for event tokens at the usual density.
#: "a density that is asked for": rank correlation .950 with 0.8. "the piano tuned by preferences":
#: 0.2 instead of 0.1 gains nothing.
REQUESTED_GAIN, USUAL_GAIN = 0.8, 0.1
#: Nats for a velocity 10 above the target while the music is 10 too loud, and for a pitch an octave
#: above the target while the music is an octave too high. "loudness, register and fullness asked of
#: the piano are fed back", "song goes on, which bars are pulled back to, what is asked for".
LOUDNESS_GAIN, REGISTER_GAIN = 0.5, 1.5
#: The bonus of releases while twice as many notes sound as the target. "the first GPU": rank
#: correlation .937 with 5, .787 with 2.
POLYPHONY_GAIN = 5.0
#: Nats for each repetition (:func:`.event_idiom.repetition`) among this number of last notes,
#: beyond the share of the corpus. "sampling for the piano with conditions": share .286
#: with 0.35, .260 with 0.5 (real .219); "each soft constraint of the piano switched off once": .395
#: without.
REPETITION_GAIN, REPETITION_NOTES = 0.5, 32

# --------------------------------------------------------------------------------- repetition.py
#: The shortest and the longest first phrase. This and the next three: "the piano comes back to its
#: subject".
PHRASE_SECONDS = 3.0, 6.0
#: The first phrase returns no sooner than this time after new music begins, or after it returned.
REPRISE_SECONDS = 8.0
#: A phrase begins after a wait of at least this quantile of all waits between onsets.
BREATH_QUANTILE = 0.9
#: Notes that begin within this many seconds of each other are one onset.
ONSET_SECONDS = 0.02
#: The number of last intervals of the top line that are compared with earlier ones; the minimum
#: number that must agree; the bonus of the next pitch for each of them. "melodies of the piano that
#: return, rhythms that stay, notes held into clashes".
INTERVALS_COMPARED, INTERVALS_AGREE, MELODY_GAIN = 8, 2, 1.5

# ----------------------------------------------------------------------------------- cadence.py
#: Notes that begin within this many seconds of each other are one chord. Taste, as are all
#: constants of cadence.py but CHORD_BONUS.
CHORD_SECONDS = 0.08
#: The maximum length of an ending in seconds, and as a share of the new music.
ENDING_SECONDS, ENDING_SHARE = 6.0, 0.5
#: The shares of the ending after which the last chord begins, and after which no note begins.
CHORD_START, SILENCE_START = 0.5, 0.7
#: The penalty of note-ons, which rises to this number until the last chord begins; the bonus of
#: ``eos`` at the end if tokens have no note-offs.
NOTE_ON_PENALTY, END_BONUS = 3.0, 6.0
#: The bonus of the last chord's notes, and of releases before and after it. "natural endings;
#: dropout; the piano went on for an hour": 23 of 24 pieces close.
CHORD_BONUS = 4.0
#: The last bass note lies in the two octaves from this pitch, or from the requested lowest pitch.
LOWEST_BASS_PITCH = 33

# ----------------------------------------------------------------------------- several modules
#: Music with fewer notes or seconds is too short to be measured or to be brought to a close. Taste.
FEWEST_NOTES, SHORTEST_SECONDS = 8, 2.0

# ---------------------------- composer.py, continuation.py, event_infill.py, songs/bar_infill.py
#: With bar tokens, a version that has more than this share of its notes in common with another one
#: is composed again, at most this number of times. Taste.
MOST_ALIKE, TRIES = 0.8, 8
#: A region is abandoned after this number of segments in which no time has passed. Taste.
STALLED_SEGMENTS = 8
#: The number of quarter notes by which the last note may extend beyond the bar line at which new
#: music begins. Taste.
OVERLAP_QUARTERS = 1 / 8
#: The shares of the context for earlier music and for given notes ahead; the rest is for new notes.
#: Taste, as in the windows of training.
PAST_SHARE, AHEAD_SHARE = 0.4, 0.3
#: The length of a segment of an accompaniment, in seconds. Taste.
SEGMENT_SECONDS = 10.0

# ------------------------------------------------------------------------------- musictx/apps/
#: Notes of melody and accompaniment together per melody note, slightly fewer than in real music,
#: unless the density of the model's corpus is smaller. "accompaniments that were too dense".
NOTES_PER_MELODY_NOTE = 3.0
#: The target of the mean pitch of melody and accompaniment together, in semitones below that of the
#: melody (measured: the accompaniment then lies 7.8 below). "loudness, register and fullness asked
#: of the piano are fed back", "accompaniments below their tune, from its first bar on".
SEMITONES_LOWER = 6.5
#: Semitones by which new notes may exceed the range of the other notes of their track, or for a
#: second voice, the range of the melody. Taste.
RANGE_MARGIN = 4
#: Density, loudness and other levels around a gap are measured within this many seconds before and
#: after it. Taste.
NEAR_SECONDS = 10.0

# ----------------------------------------------------------------- defaults, memory and time
#: The length of a piece for which none is requested; the maximum if the model ends such a piece.
USUAL_SECONDS, LONGEST_SECONDS = 30.0, 120.0
#: The bars of a section if neither a file nor a request determines them.
SECTION_BARS = 8
#: The maximum number of pieces in one batch, which bounds memory. "16 rows against one".
ROWS_AT_ONCE = 16
#: A piece ends after this number of tokens per requested second (and 1000 more). The densest piano
#: performances have about 200; more means that time has stopped passing.
TOKENS_PER_SECOND = 500
