"""docs/examples/remi.py makes MidiTok a tokenizer that obeys the laws of tokenizers."""

import numpy as np
import pytest
from hypothesis import assume, given, settings

from musictx.notes import Score
from musictx.pedal import fold_sustain
from musictx.tokens.build import build
from musictx.tokens.vocab import EOS
from tests.strategies import scores

pytest.importorskip("miditok")

NAME = "docs.examples.remi:Remi"
REMI = build(NAME)
quick = settings(max_examples=25)
pieces = scores(pitches=(15, 115))


def quantised(score: Score) -> list[tuple[int, int, int]]:
    """Return (start, length, pitch) in 32nd notes at 120 bpm, at most 12 beats long, sorted."""
    notes = score.notes
    start, end = (np.floor(notes[key] * 16 + 0.5).astype(int) for key in ("start", "end"))
    rows = zip(start, np.clip(end - start, 1, 96), notes["pitch"], notes["drum"])
    return sorted((int(s), int(d), int(p)) for s, d, p, drum in rows if not drum and 21 <= p <= 108)


@quick
@given(pieces)
def test_ids_decode_to_the_quantised_piece_and_the_grammar_accepts_them(piece):
    ids, left_out = REMI.encode_with_report(piece)
    decoded_score = REMI.decode(ids)
    folded = fold_sustain(piece)  # as docs/examples/remi.py does
    assert quantised(decoded_score) == quantised(folded)
    assert len(decoded_score) == len(piece) - sum(left_out.values())
    assert REMI.encode(decoded_score).tolist() == ids.tolist()
    state = REMI.grammar()
    for token_id in ids:
        state.advance(int(token_id))
    assert state.allowed()[EOS]
    assert state.notes == len(decoded_score)


@quick
@given(pieces)
def test_miditok_reads_the_same_notes(piece):
    ids = REMI.encode(piece)
    assume(len(ids))
    ours = [(round(s * 16), round(e * 16), p, v) for s, e, p, v, *_ in REMI.decode(ids).notes]
    decoded = REMI.remi.decode([(ids.astype(int) - REMI.shift).tolist()])
    per_step = decoded.ticks_per_quarter // 8
    (track,) = decoded.tracks
    theirs = [(n.time // per_step, (n.time + n.duration) // per_step, n.pitch, n.velocity)
              for n in track.notes]  # fmt: skip
    assert sorted(ours) == sorted(theirs)
