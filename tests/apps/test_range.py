"""``low=``, ``high=`` and a scale are never passed, whatever the weights, by any command."""

import numpy as np
import pytest
from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st

import musictx
from musictx.errors import UserError
from musictx.notes import Score
from tests.pieces import score
from tests.untrained import saved

WHOLE = {"low": 21, "high": 108, "controls": True}
TOKENS = {
    "bars": ({"name": "notes"} | WHOLE, 5, 1500),
    "seconds": ({"name": "performance"} | WHOLE, 1, 256),
    "programs": ({"name": "performance", "tracks": "programs"} | WHOLE, 1, 256),
    "voices": ({"name": "chorale"}, 1, 256),
}
#: Key and scale -> their pitch classes.
ASKED = [
    ({}, {*range(12)}),
    ({"key": "Eb major"}, {3, 5, 7, 8, 10, 0, 2}),
    ({"key": "F#m"}, {6, 8, 9, 11, 1, 2, 4, 5}),
    ({"key": "Am", "scale": "pentatonic"}, {9, 0, 2, 4, 7}),
    ({"key": "C", "scale": "whole_tone"}, {0, 2, 4, 6, 8, 10}),
]
LIMITS = {
    "instruments": [0, 33, 73, 128],
    "parts": [[0, 3, 40, 84, 4.0], [33, 1, 30, 50, 1.0], [73, 1, 57, 81, 2.0], [128, 3, 35, 56, 9]],
}
COMMANDS = ("generate", "continue", "natural end", "infill", "accompany", "add", "chords")


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    card = {"note_limits": LIMITS, "corpus": {"tasks": {"melody": "73"}}}
    folder = tmp_path_factory.mktemp("models")
    return {
        name: musictx.load(saved(folder / name, card, tokens=tokens, group=group, context=context))
        for name, (tokens, group, context) in TOKENS.items()
    }


def song() -> Score:
    """Two hands and drums, two bars of 4/4 at 120."""
    rows = [(n / 4, n / 4 + 0.2, 67 + n % 7, 80, 0, False, 0) for n in range(16)]
    rows += [(n / 2, n / 2 + 0.5, 43 + n % 5, 80, 0, False, 1) for n in range(8)]
    rows += [(n / 2, n / 2 + 0.1, 36, 80, 0, True, 2) for n in range(8)]
    return score(rows)


def new_notes(command: str, model, sampling: dict, seed: int) -> np.ndarray:
    """The pitched notes that a command adds to :func:`song`."""
    music = song()
    call, more = {
        "generate": (musictx.generate, {"tokens": 300}),
        "natural end": (musictx.generate, {"seconds": 2, "end": "natural"}),
        "continue": (musictx.generate, {"seconds": 4, "primer": music}),
        "infill": (musictx.infill, {"music": music, "begin": 2, "end": 2}),
        "accompany": (musictx.accompany, {"melody": music}),
        "add": (musictx.accompany, {"melody": music, "add": "piano"}),
        "chords": (musictx.accompany, {"melody": None, "chords": "| C | G7 |"}),
    }[command]
    (made,) = call(model=model, seed=seed, sampling=sampling, **more)
    notes = made.score.notes[~made.score.notes["drum"]]
    if command in ("generate", "natural end", "chords"):
        return notes
    given = {(round(one["start"], 3), int(one["pitch"])) for one in music.notes}
    new = [(round(one["start"], 3), int(one["pitch"])) not in given for one in notes]
    return notes[np.array(new, bool)]


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("tokens", TOKENS)
@settings(max_examples=4, phases=[Phase.explicit, Phase.generate])
@given(
    low=st.integers(0, 126),
    width=st.integers(1, 30),
    key=st.sampled_from(ASKED),
    seed=st.integers(0, 99),
)
@example(low=69, width=1, key=ASKED[2], seed=51)  # given notes sound on all pitches that are left
@example(low=3, width=19, key=ASKED[1], seed=69)  # partly below the notes of the models
@example(low=110, width=9, key=ASKED[0], seed=0)  # above all notes of the models
def test_no_new_note_lies_outside(models, tokens, command, low, width, key, seed):
    if command in COMMANDS[{"bars": 7, "voices": 3}.get(tokens, 6) :]:
        return  # these tokens do not have it
    high = min(low + width, 127)
    asked, classes = {"low": str(low), "high": str(high)} | key[0], key[1]
    of_model = {*models[tokens].tokenizer.pitch_of.tolist()}
    inside = [p for p in of_model if low <= p <= high and p % 12 in classes]
    if not inside:
        with pytest.raises(UserError, match="holds a pitch of the scale"):
            new_notes(command, models[tokens], asked, seed)
        return
    pitches = new_notes(command, models[tokens], asked, seed)["pitch"].tolist()
    assert set(pitches) <= set(inside)
