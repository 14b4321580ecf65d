"""The sampling loop: cached equals recomputed, rows equal separate runs, forbidden means never."""

import math

import numpy as np
import pytest
import torch

from musictx.errors import NotNumbers
from musictx.sampling import engine
from musictx.sampling.constraints import GrammarConstraint
from musictx.sampling.processors import Temperature
from musictx.tokens.vocab import BOS, CUT, EOS, PAD
from tests import compiler
from tests.sampling.engines import CACHES, GREEDY, Only, V, make, run
from tests.songs.features import test_lookahead
from tests.speed import test_step

caches = pytest.mark.parametrize("cache", CACHES)

SCHEMES = ["huang", "none", "sinusoidal"]


def recomputed(model, prompt, count, context):
    """Greedy by the plain definition: the whole prefix through the model for every id."""
    ids = list(prompt)
    for _ in range(count):
        with torch.no_grad():
            logits = model(torch.tensor([ids[-context:]]))[0, -1].double()
        logits[[PAD, BOS, CUT]] = -math.inf
        ids.append(int(logits.argmax()))
    return ids[len(prompt) :]


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("length", [1, 2, 7])
def test_cached_equals_recomputed_from_scratch(scheme, length):
    model = make(context=32, scheme=scheme)
    prompt = [BOS, *range(4, 4 + length - 1)]
    expected = recomputed(model, prompt, 20, context=32)
    got = run(model, prompt, max_tokens=20, processors=GREEDY)[0]
    end = expected.index(EOS) + 1 if EOS in expected else len(expected)
    assert got == expected[:end]


def test_what_comes_later_changes_nothing_before():
    """A longer run begins with the shorter one: nothing drawn depends on what is still to come."""
    model = make(context=8)
    long = run(model, [BOS, 4], max_tokens=30, constraint=Only(1, range(4, V)))[0]
    for count in (1, 5, 13):
        short = run(model, [BOS, 4], max_tokens=count, constraint=Only(1, range(4, V)))[0]
        assert short == long[:count]


def test_after_sliding_one_layer_sees_exactly_its_window():
    """With one layer a cached key depends on its own token only, so the window says it all."""
    model = make(context=16, layers=1)
    ids = [
        BOS,
        *run(
            model,
            [BOS],
            max_tokens=60,
            processors=GREEDY,
            constraint=Only(1, range(4, V)),
            cache="growing",
        )[0],
    ]
    drop = 16 // engine.SLIDE
    length = 1
    for n in range(1, len(ids)):
        with torch.no_grad():
            logits = model(torch.tensor([ids[n - length : n]]))[0, -1]
        assert ids[n] == 4 + int(logits[4:].argmax())
        length = length + 1 if length < 16 else 16 - drop + 1


def test_of_a_long_prompt_the_last_context_ids_count():
    model = make(context=8)
    tail = [4, 5, 6, 7, 8, 9, 10, 11]
    long = run(model, [BOS, 9, 9, 9, *tail], max_tokens=12)
    assert long == run(model, tail, max_tokens=12)
    assert long != run(model, [BOS, 9, 9, 9, *tail[:-1], 4], max_tokens=12)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_forked_rows_equal_separate_runs(scheme):
    model = make(context=16, scheme=scheme)
    together = run(model, [BOS, 5, 6], rows=4, max_tokens=30, seeds=[3, 1, 4, 1])
    assert together[1] == together[3]
    for row, seed in zip(together, [3, 1, 4, 1]):
        alone = run(model, [BOS, 5, 6], max_tokens=30, seeds=[seed])[0]
        assert row[: len(alone)] == alone
        assert set(row[len(alone) :]) <= {PAD}


@caches
def test_a_prompt_for_each_row_equals_separate_runs(cache):
    model = make(context=16)
    prompts = [[BOS, 4, 5], [BOS, 9, 8], [CUT, 6, 6]]
    more = {"rows": 3, "max_tokens": 10, "cache": cache}
    together = run(model, prompts, constraint=Only(3, range(4, V)), **more)
    for i, prompt in enumerate(prompts):
        alone = run(model, prompt, max_tokens=10, seeds=[i], constraint=Only(1, range(4, V)))
        assert together[i] == alone[0]


def test_torchs_own_random_state_is_neither_used_nor_moved():
    model = make()
    torch.manual_seed(1)
    state = torch.get_rng_state()
    first = run(model, [BOS], max_tokens=20)
    assert torch.equal(torch.get_rng_state(), state)
    torch.manual_seed(2)
    assert run(model, [BOS], max_tokens=20) == first


def test_without_a_constraint_pad_bos_and_cut_are_never_drawn():
    model = make(vocab=5)
    rows = run(model, [BOS], rows=8, max_tokens=60, processors=[Temperature(30.0)])
    for row in rows:
        end = row.index(EOS) if EOS in row else len(row)
        assert set(row[:end]) <= {4}


def test_a_finished_row_emits_pad_only_and_the_loop_ends_with_the_last_row():
    model = make(vocab=6)
    rows = run(model, [BOS], rows=6, max_tokens=200, processors=[Temperature(30.0)])
    ends = [row.index(EOS) for row in rows]
    assert len(set(ends)) > 1
    assert max(ends) == len(rows[0]) - 1
    for row, end in zip(rows, ends):
        assert EOS not in row[:end]
        assert set(row[end + 1 :]) <= {PAD}


def test_the_constraint_ends_the_loop_and_is_told_everything():
    model = make()
    constraint = Only(2, [5, 6], stop=4)
    rows = run(model, [BOS], rows=2, max_tokens=50, constraint=constraint)
    assert [list(step) for step in zip(*rows)] == constraint.told
    assert len(constraint.told) == 4


def test_nothing_is_drawn_if_the_constraint_is_done_from_the_start():
    model = make()
    constraint = Only(1, [5], stop=0)
    assert list(engine.generate(model, [BOS], max_tokens=5, seeds=[0], constraint=constraint)) == []


def test_processors_see_the_prompt_and_all_events_so_far():
    model = make()
    seen = []

    def remember(ids, logits):
        seen.append(ids[0].tolist())
        return logits

    out = run(model, [BOS, 4, 5], max_tokens=5, processors=[remember])[0]
    assert seen == [[BOS, 4, 5, *out[:n]] for n in range(len(out))]


def test_draws_follow_the_distribution():
    """Inverse distribution function: frequencies within five standard deviations, zeros never."""
    chances = torch.tensor([0.0, 0.5, 0.0, 0.3, 0.15, 0.05, 0.0], dtype=torch.float64)
    generator = np.random.default_rng(0)
    n = 20000
    logits = chances.log()[None]
    drawn = [int(engine.draw(logits, [generator], torch.tensor([False]))[0]) for _ in range(n)]
    counts = np.bincount(drawn, minlength=7)
    for count, p in zip(counts, chances.tolist()):
        assert abs(count - n * p) <= 5 * math.sqrt(n * p * (1 - p))


@pytest.mark.parametrize("point", [0.0, 0.5, 1.0 - 2**-53])
def test_a_draw_at_the_very_edge_is_an_allowed_id(point):
    class Fixed:
        def random(self):
            return point

    logits = torch.tensor([[-math.inf, 0.0, -math.inf, 0.0, -math.inf]], dtype=torch.float64)
    drawn = int(engine.draw(logits, [Fixed()], torch.tensor([False]))[0])
    assert drawn == (1 if point < 0.5 else 3)


def test_generation_uses_evaluation_mode_and_gives_the_mode_back():
    model = make().train()
    modes = []
    handle = model.register_forward_hook(
        lambda m, a, o: modes.append((m.training, o.requires_grad))
    )
    first = run(model, [BOS], max_tokens=10)
    handle.remove()
    assert set(modes) == {(False, False)}
    assert model.training
    assert run(model.eval(), [BOS], max_tokens=10) == first, "dropout was on"
    steps = engine.generate(model.train(), [BOS], max_tokens=10, seeds=[0])
    next(steps)
    steps.close()
    assert model.training


def test_a_broken_model_is_told_and_not_sampled():
    model = make()
    with torch.no_grad():
        model.embedding.weight.fill_(math.nan)
    with pytest.raises(NotNumbers, match="not numbers"):
        run(model, [BOS])


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"prompt": []}, "prompt"),
        ({"prompt": [[1, 4], [1, 5]], "rows": 3}, "prompt"),
        ({"context": 1}, "context"),
    ],
)
def test_arguments_that_do_not_fit_are_named(arguments, words):
    full = {"prompt": [BOS], "rows": 1, "max_tokens": 2} | arguments
    with pytest.raises(ValueError, match=words):
        run(make(), full.pop("prompt"), **full)


def test_memory_follows_what_is_drawn_not_what_may_be():
    """Ten billion ids a row would be 80 GB."""
    endless = [lambda _, logits: logits.index_fill(1, torch.tensor([EOS]), -math.inf)]
    arguments = {"max_tokens": 10**10, "seeds": [1], "processors": endless}
    steps = engine.generate(make(context=16), [BOS], **arguments)
    assert len([next(steps) for _ in range(70)]) == 70


@caches
def test_selected_rows_go_on_as_copies(cache):
    """Fork and resampling are one thing: a row chosen twice gives the logits of that row twice."""
    model = make(context=16)
    with torch.inference_mode():
        music = engine.Decoder(
            model, torch.tensor([[BOS]]), rows=3, capacity=16, longest=16, cache=cache
        )
        for ids in ([4, 5, 6], [7, 8, 9], [9, 4, 5]):
            music.append(torch.tensor(ids))
            if ids[0] == 7:
                music.select(torch.tensor([2, 2, 0]))
            music.step()
        assert music.past.tolist() == [[BOS, 6, 9, 9], [BOS, 6, 9, 4], [BOS, 4, 7, 5]]
        whole = model(music.past)[:, -1].double()
    assert torch.allclose(music.logits, whole, atol=1e-5)


@pytest.mark.parametrize("cache", ["native", "growing"])
@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_head_stays_in_sight_when_the_window_is_full(scheme, cache):
    """A full window is read again as ``cut``, the head and the latest ids."""
    model, prompt, head, context = make(scheme=scheme), [BOS, 9, 8, 7, 5], 3, 16
    if cache == "native" and not compiler.THERE:
        pytest.skip("no C++ compiler on this machine")
    found = run(
        model,
        prompt,
        max_tokens=40,
        head=head,
        processors=GREEDY,
        constraint=Only(1, range(4, V)),
        context=context,
        cache=cache,
    )[0]
    ids, read = list(prompt), list(prompt)
    for _ in range(40):
        with torch.no_grad():
            logits = model(torch.tensor([read]))[0, -1].double()
        logits[:4] = -math.inf
        ids.append(int(logits.argmax()))
        read.append(ids[-1])
        if len(read) > context:
            kept = context - context // engine.SLIDE
            read = [CUT, *prompt[1 : head + 1], *ids[-(kept - head - 1) :]]
    assert found == ids[len(prompt) :]


@compiler.needed
def test_groups_are_drawn_alike_by_every_step_while_windows_are_read_again():
    """Two rows under the grammar of bars, over three windows."""
    model, tokens = test_step.of_groups(), test_lookahead.TOKENS
    start = test_lookahead.window(stop=4)[:51]

    def drawn(cache):
        law = GrammarConstraint([tokens.grammar(start) for _ in range(2)], may_end=False)
        window = {"context": 60, "align": tokens.align, "head": 5, "cache": cache}
        return run(model, start, rows=2, max_tokens=60, constraint=law, **window)

    native = drawn("native")
    assert native[0] != native[1]
    assert native == drawn("growing")
