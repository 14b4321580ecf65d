"""Streams: the events of the music that generate would write, one by one, without end."""

from concurrent.futures import ThreadPoolExecutor
from itertools import islice

import numpy as np
import pytest
import torch

from musictx.config import SamplingConfig
from musictx.errors import UserError
from musictx.notes import DRUMS
from musictx.sampling import engine
from musictx.sampling.constraints import GrammarConstraint
from musictx.sampling.primer import NOTHING, encode_primer
from musictx.sampling.stream import Stream
from musictx.tokens.build import build
from tests.sampling.pieces import TOKENIZERS, TUNE, make

torch.set_num_threads(1)


def stream(tokenizer, primer=NOTHING, *, context=32, seed=0, **more):
    more = {"sampling": SamplingConfig(rules=0)} | more
    return Stream(make(tokenizer, context=context), tokenizer, primer, seed=seed, **more)


def notes_of(events):
    """(start, end, pitch, velocity, track) of each note, from its two events."""
    open_notes, found = {}, []
    for event in events:
        key = (event.track, event.pitch)
        if event.on:
            assert key not in open_notes
            open_notes[key] = event
        else:
            began = open_notes.pop(key)
            found.append((began.seconds, event.seconds, event.pitch, began.velocity, event.track))
    assert not open_notes
    return sorted(found)


@pytest.mark.parametrize("name", TOKENIZERS)
@pytest.mark.parametrize("primed", [False, True])
def test_the_events_are_those_of_the_ids_decoded(name, primed):
    tokenizer = build(**TOKENIZERS[name])
    tune = TUNE if name != "chorale" else TUNE.with_notes(TUNE.notes[::4])
    primer = encode_primer(tokenizer, tune, seconds=2.0) if primed else NOTHING
    music = stream(tokenizer, primer, seconds=6.0, context=600)
    events = list(music)
    times = [event.seconds for event in events]
    assert times == sorted(times)
    assert times[-1] <= 6.0 + 1e-9
    drawn = list(music._ids)[len(primer.ids) :]
    decoded = tokenizer.decode([*primer.ids, *drawn]).notes
    new = decoded[len(tokenizer.decode(primer.ids)) if primed else 0 :]
    clock = primer.clock(tokenizer)
    seam = float(clock.seconds(primer.seconds))
    expected = sorted(
        (
            float(clock.seconds(n["start"])) - seam,
            min(6.0, float(clock.seconds(n["end"])) - seam),
            int(n["pitch"]),
            int(n["velocity"]),
        )
        for n in new
        if not n["drum"]
    )
    found = [note[:4] for note in notes_of(events) if note[4] != DRUMS]
    assert np.allclose(found, [e for e in expected if e[0] < 6.0 - 1e-6], atol=1e-6)
    assert sum(e.track == DRUMS and e.on for e in events) == int(new["drum"].sum())


@pytest.mark.parametrize("name", ["piano", "chorale"])
def test_without_end_the_same_ids_come_in_memory_that_does_not_grow(name):
    tokenizer, context = build(**TOKENIZERS[name]), 16
    model = make(tokenizer, context=context)

    def ids(max_tokens):
        law = GrammarConstraint([tokenizer.grammar()], may_end=False)
        options = {"constraint": law, "seeds": [3], "align": tokenizer.align}
        drawn = engine.generate(model, [1], max_tokens=max_tokens, **options)
        return [int(i[0]) for i in islice(drawn, 400)]

    assert ids(None) == ids(400)
    with torch.inference_mode():
        endless = engine.Decoder(
            model, torch.ones(1, 1, dtype=torch.int64), rows=1, capacity=context, longest=None,
            align=tokenizer.align,
        )  # fmt: skip
        for number in range(500):
            endless.append(torch.tensor([4 + number % 7]))
            endless.step()
            assert endless._ids.numel() <= 2 * engine.KEPT * context * tokenizer.align
            whole = (endless.length - 1 - (number + 1)) % tokenizer.align == 0
            assert whole  # forgotten in whole groups
    music = stream(tokenizer, context=context)
    assert len(list(islice(music, 600))) == 600
    assert len(music._ids) <= 2 * context * tokenizer.align
    assert len(music._events) < 100


def test_looking_back_on_less_is_possible_while_it_runs(piano):
    music = stream(piano, context=32)
    first = list(islice(music, 40))
    music.context = 8
    more = list(islice(music, 40))
    assert music.context == 8
    times = [event.seconds for event in first + more]
    assert times == sorted(times)
    again = stream(piano, context=32)
    assert list(islice(again, 40)) == first


def test_closing_it_stops_it(piano):
    with stream(piano) as music:
        next(music)
    assert list(music) == []


def test_streams_of_one_model_do_not_disturb_each_other(piano):
    model = make(piano)

    def events(seed):
        return list(Stream(model, piano, NOTHING, seed=seed, seconds=2.0))

    with ThreadPoolExecutor(3) as pool:
        assert list(pool.map(events, range(3))) == [events(seed) for seed in range(3)]


def test_tokens_with_lengths_are_refused():
    pytest.importorskip("miditok")
    remi = build(name="docs.examples.remi:Remi")
    with pytest.raises(UserError, match="Remi tokens write notes with their length"):
        Stream(make(remi), remi, NOTHING, seed=0)
