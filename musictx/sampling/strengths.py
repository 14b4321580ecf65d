"""The numbers of sampling: how strong each penalty is, how far it looks, and where each comes from.

Nats are taken off logits, or added where something gains: 0.7 make an id half as likely, 3 make it
twenty times rarer. A source names an entry of scripts/LOG.md by its heading, or is "taste": chosen
by listening and never varied. Sizes of a token language, of General MIDI and of a file stay with
the code that needs them.
"""

from __future__ import annotations

# --------------------------------------------------------------------------------- penalties.py
#: Nats for each note a second too many or too few, of a density that is asked for and of one that
#: is only usual. "a density that is asked for": rank correlation .950 with 0.8; "the piano tuned
#: by preferences" and before: 0.2 instead of 0.1 gains nothing.
ASKED_GAIN, USUAL_GAIN = 0.8, 0.1
#: Nats for each ten of MIDI velocity that the music is too loud and ten that a note is, for each
#: octave that it is too high and octave that a note is. "loudness, register and fullness asked of
#: the piano are fed back", "song goes on, which bars are pulled back to, what is asked for".
LOUDNESS_GAIN, REGISTER_GAIN = 0.5, 1.5
#: Nats for each octave (twice as many notes at once) that the music is too full, at a release. "the
#: first GPU": .937 with 5, .787 with 2.
POLYPHONY_GAIN = 5.0
#: Nats for each pitch that is struck again too soon, among the last so many strikes, beyond the
#: corpus's share. "sampling for the piano with conditions": struck again .286 with 0.35, .260 with
#: 0.5 (real .219); "each soft constraint of the piano switched off once": .395 without.
REPETITION_GAIN, REPETITION_STRIKES = 0.5, 32

# --------------------------------------------------------------------------------- repetition.py
#: The first phrase of a piece ends so many seconds after its beginning; it may return so many
#: seconds after it was left. A phrase begins after a wait that is longer than this share of waits;
#: what is struck within so many seconds is one onset. "the piano comes back to its subject".
PHRASE_SECONDS, AWAY_SECONDS, BREATH_SHARE, ONSET_SECONDS = (3.0, 6.0), 8.0, 0.9, 0.02
#: Of the last so many intervals of the top line so many agree with those a long phrase ago, and the
#: pitch that followed gains so many nats for each. "melodies of the piano that return, rhythms that
#: stay, notes held into clashes".
INTERVALS_COMPARED, INTERVALS_AGREE, MELODY_GAIN = 8, 2, 1.5

# ----------------------------------------------------------------------------------- cadence.py
#: Notes struck within so many seconds of each other are one chord.
CHORD_SECONDS = 0.08
#: An ending takes so many seconds, and at most this share of the new music. Taste, as all of the
#: next lines but the 4 nats of notes that join a chord of fewer than three: "natural endings;
#: dropout; the piano went on for an hour" (23 of 24 close).
MOST_SECONDS, MOST_SHARE = 6.0, 0.5
#: Shares of the ending after which the last chord begins, and no note begins any more.
CHORD_FROM, SILENT_FROM = 0.5, 0.7
#: Nats on strikes at the end of the first part; what notes of the last chord and releases gain;
#: what ``eos`` gains where tokens have no releases.
STRIKE_NATS, CHORD_NATS, END_NATS = 3.0, 4.0, 6.0
#: The bass lies in the two octaves above this MIDI pitch, or above the lowest pitch of the request.
LOWEST_BASS_PITCH = 33

# ------------------------------------------------------------------------------------- steer.py
#: Music of fewer notes or seconds is too short to be measured, or to be brought to a close. Taste.
FEWEST_NOTES, SHORTEST_SECONDS = 8, 2.0

# ------------------------------------------------------------------- continuation.py, *infill.py
#: A version that has more than this share of its notes in common with another one is composed anew,
#: in bars; so many times at most. A region is given up after as many segments in which no time has
#: passed. Taste.
MOST_ALIKE, TRIES = 0.8, 8
#: Quarter notes by which the last note may reach over a bar line that new music begins on. Taste.
LAPS = 1 / 8
#: Shares of the context for earlier music and for given notes ahead, the rest is for new notes.
#: Taste, for windows as in training.
PAST_SHARE, AHEAD_SHARE = 0.4, 0.3
#: How long a segment of an accompaniment is. Taste.
SEGMENT_SECONDS = 10.0

# --------------------------------- no strengths: what options leave open, bounds of memory and time
#: Seconds of a piece of no given length; those after which one ends that its model was to end; bars
#: of a section where neither a file nor a request says.
USUAL_SECONDS, LONGEST_SECONDS, SECTION_BARS = 30.0, 120.0, 8
#: Pieces composed at once; more are composed in turn, so that memory is bounded. "16 rows against
#: one".
ROWS_AT_ONCE = 16
#: Without a limit in tokens: so many for each second asked for, then it ends. The densest piano
#: performances have about 200 a second; more means that time has stopped passing.
TOKENS_PER_SECOND = 500
