"""The constants that shape new chorales, each with its source.

A source is the heading of an entry of scripts/LOG.md, in quotation marks, or "not measured". Nats
are subtracted from logits, as in :mod:`musictx.sampling.constants`.

Elsewhere: the default strength of the rules (``sampling.rules``) and number of particles
(``particles``), which are options; what counts as a fault of voice leading, by which chorales are
also measured (:mod:`musictx.chorale.voice_leading`); the sizes of the grid
(:mod:`musictx.chorale.grid`); how phrases are found in a melody (:mod:`musictx.chorale.tune`).
"""

from __future__ import annotations

# ------------------------------------------------------------------------------------- rules.py
#: 19 of 20 training pieces of the JSB corpus have at least USUAL_BARS bars. For each further bar,
#: the logit of the end gains END_GAIN_PER_BAR nats, so that free pieces are about as long as those
#: of the corpus. "free chorales, how they end".
USUAL_BARS, END_GAIN_PER_BAR = 8.0, 0.25
#: A last bass note other than the tonic counts as this many faults. Not measured.
AWAY_FROM_TONIC = 3

# --------------------------------------------------------------------------------- particles.py
#: Particles are resampled when their effective number falls below this share of their number. The
#: usual threshold (Liu and Chen 1995); not measured.
RESAMPLE_BELOW = 0.5

# --------------------------------------------------------------------------------- harmonise.py
#: How often beats with a fault are composed again, in total and for one beat; beats before and
#: after the fault that are composed again with it. Not measured.
MAX_TRIES, MAX_TRIES_PER_BEAT, MARGIN_BEATS = 6, 2, 2
