"""Time and pitch of tokens, as a model of two axes is told."""

import pytest
import yaml

from musictx.attention.positions.coordinates import readers, token_coordinates
from musictx.errors import ConfigError
from musictx.tokens.build import build


@pytest.mark.parametrize("tracks", ["piano", "programs"])
def test_every_id_has_its_time_and_pitch(tracks):
    tokenizer = build(name="performance", low=21, high=108, tracks=tracks)
    found = token_coordinates(tokenizer)
    assert yaml.safe_load(yaml.safe_dump(found)) == found
    read = readers(found)
    vocabulary = tokenizer.vocabulary
    for i in range(tokenizer.size):
        kind, value = vocabulary.token(i)
        assert read["time"].steps_of[i] == (value if kind == "time_shift" else 0)
        assert read["pitch"].pitch_of[i] == (value if kind in ("note_on", "note_off") else -1)
    assert read["pitch"].differences == (-88, 88), (
        "87 semitones between A0 and C8, and a row each for none"
    )


@pytest.mark.parametrize("ties", [False, True])
def test_chorales_have_voices_and_pitches(ties):
    tokenizer = build("chorale", ties=ties)
    found = token_coordinates(tokenizer)
    assert yaml.safe_load(yaml.safe_dump(found)) == found
    assert (found["kind"], found["voices"]) == ("grid", 4)
    read = readers(found)
    assert list(read) == ["voice", "pitch"]
    for i in range(tokenizer.size):
        kind, value = tokenizer.vocabulary.token(i)
        assert read["pitch"].pitch_of[i] == (value if kind == "pitch" else -1)


def test_tokens_whose_time_does_not_add_up_are_refused():
    pytest.importorskip("miditok")
    with pytest.raises(ConfigError, match=r"two_d: expected tokenizer=performance.*not docs"):
        token_coordinates(build(name="docs.examples.remi:Remi"))
