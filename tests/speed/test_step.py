"""The step in C++ computes what the forward pass does: every scheme and feature."""

import ctypes
import platform
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from musictx import chorale, config
from musictx.model import KVCache, MusicTransformer
from musictx.model.rounding import dequantise, quantise
from musictx.speed import step as step_room
from musictx.speed.native import build
from musictx.speed.step import NativeStep
from tests import compiler
from tests.chorale.features.test_grid import PITCHES, VOCAB, VOICED, music
from tests.model.features import test_conditions, test_motif_memory
from tests.model.models import GRID as ON_GRID
from tests.model.models import position_of
from tests.songs import test_grouped
from tests.songs.features import test_lookahead
from tests.untrained import spread

EVENTS = {"steps": [[4, 8, 1]], "starts": [[8, 14, 60]], "ends": [[14, 20, 60]]}

pytestmark = compiler.needed

#: Tolerances relative to the norm of the logits: with float32; with int8, where inputs are rounded
#: to 1 part in 65,000 of the largest, so that about one in a hundred keys and values is rounded to
#: the next integer; and with int8 if the reference does not round keys and values. A wrong slot or
#: scale causes errors of 0.1 and more.
CLOSE, CLOSE_IN_BYTES, ROUNDED = 1e-5, 3e-3, 2e-2
V = 24
SCHEMES: dict[str, dict[str, Any]] = {name: {} for name in (*config.SCHEMES, ON_GRID)} | {
    "huang_shared": {"name": "huang", "shared": True},
    "huang_clipped": {"name": "huang", "max_distance": 5},
    "huang_local": {"block": 4},
    "shaw": {"max_distance": 6},
    "t5": {"max_distance": 32},
}
INTERVALS = {"name": "intervals", "inputs": [1, 4], "outputs": [1, 3], "pitches": [[6, 12, 60]]}


def make(scheme: str = "huang", **more: Any) -> MusicTransformer:
    """A model whose parameters are all random; ``more`` overrides the arguments below."""
    torch.manual_seed(0)
    position = position_of(**{"name": scheme, "vocab": V} | SCHEMES.get(scheme, {}))
    shape = {"layers": 2, "width": 32, "heads": 4, "feedforward": 48, "context": 32, "dropout": 0.4}
    features = [INTERVALS] if scheme in ("none", ON_GRID) else []
    options = {"vocab_size": V, "position": position, "features": features} | shape | more
    return spread(MusicTransformer(**options).eval(), 1.5)


def stepped(model: MusicTransformer, ids: Tensor, prompt: int, window: int) -> Tensor:
    """Logits after ids prompt - 1, prompt, ..., by steps in C++."""
    with torch.no_grad():
        cache = model.new_cache(rows=len(ids), capacity=window)
        found = [model(ids[:, :prompt], cache=cache)[:, -1]]
        step = NativeStep(model, cache, rows=len(ids), capacity=window)
        found += [step(token).clone() for token in ids[:, prompt:].unbind(1)]
    return torch.stack(found, dim=1)


def same(got: Tensor, want: Tensor, close: float = CLOSE) -> None:
    assert (got - want).norm() < close * want.norm()


def round_weights(model: MusicTransformer) -> MusicTransformer:
    """Round the weights of the model as in an int8 model folder, and return it."""
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.copy_(dequantise(*quantise(parameter)))
    return model


def forward(model: MusicTransformer, ids: Tensor, prompt: int, window: int) -> Tensor:
    """Logits after ids prompt - 1, prompt, ...: by one pass until the cache is full, then by a pass
    for each id, before which the cache slides by one."""
    with torch.no_grad():
        cache = model.new_cache(rows=len(ids), capacity=window)
        found = [model(ids[:, :window], cache=cache)[:, prompt - 1 :]]
        for token in ids[:, window:, None].unbind(1):
            cache.slide(1)
            found.append(model(token, cache=cache))
    return torch.cat(found, dim=1)


def prefilled(model: MusicTransformer, ids: Tensor, window: int) -> Any:
    with torch.no_grad():
        cache = model.new_cache(rows=len(ids), capacity=window)
        model(ids, cache=cache)
    return cache


@pytest.fixture(params=[False, True], ids=["in_float32", "in_bytes"])
def in_bytes(request: Any, monkeypatch: Any) -> bool:
    """Whether weights are int8. Then caches in torch round keys and values, as the C++ step."""
    append = KVCache.append

    def rounding(self: KVCache, n: int, k: Tensor, v: Tensor) -> Any:
        return append(self, n, dequantise(*quantise(k)), dequantise(*quantise(v)))

    if request.param:
        monkeypatch.setattr(KVCache, "append", rounding)
    return request.param


#: Each scheme with two windows, which end within a word of four slots or at its end, within the
#: first panel of keys or beyond it, or after all ids.
WINDOWS = [(x, (11, 64, 70, 150)[(i + j) % 4]) for i, x in enumerate(SCHEMES) for j in (0, 1)]


@pytest.mark.parametrize(("scheme", "window"), WINDOWS)
def test_it_equals_a_pass_in_and_after_the_window(scheme: str, window: int, in_bytes: bool) -> None:
    """Up to 150 tokens: more than a panel of keys, the context and every table; a full window
    slides by 40. With int8 weights, both have rounded keys and values."""
    model = round_weights(make(scheme)) if in_bytes else make(scheme)
    ids = torch.randint(V, (2, min(window + 40, 150)))
    close = CLOSE_IN_BYTES if in_bytes else CLOSE
    same(stepped(model, ids, 5, window), forward(model, ids, 5, window), close)


@pytest.mark.parametrize(
    "shape",
    [
        {"gates": True, "first_values": True},
        {"tied": False, "width": 48, "heads": 2, "layers": 1},
        {"width": 160, "heads": 1, "feedforward": 65},
        {"vocab_size": 300},
        {"width": 30, "heads": 3, "feedforward": 70},  # no whole words of four int8
        {"position": {"name": "rotary", "periods": [4, 6], "concat_sinusoids": 8}},
    ],
    ids=str,
)
def test_every_shape(shape: dict[str, Any]) -> None:
    model = make("huang", **shape)
    ids = torch.randint(V, (3, 300))  # 256 position embeddings are computed at once
    for close in (CLOSE, ROUNDED):
        same(stepped(model, ids, 3, 400), model(ids).detach()[:, 2:], close)
        round_weights(model)


def sounds(rows: int) -> Tensor:
    return torch.randint(4, V, (rows, 120))


def given_ahead(rows: int) -> Tensor:
    return torch.tensor([test_conditions.window(seed, rest=60) for seed in range(rows)])


NOISY = [
    {"name": "token_noise", "share": 0.5, "pitches": PITCHES},
    {"name": "intervals", "inputs": [1, 4, 30], "outputs": [1, 3, 40], "pitches": PITCHES},
    VOICED[0],
]
SOUNDS = {"name": "sounding", **EVENTS, "loudness": [[20, 24, 1]]}
ECHOES = {"name": "echoes", **test_motif_memory.GIVEN}
CONDITIONS = {"name": "conditions", **test_conditions.GIVEN}
#: (vocab_size, number of rows -> ids, features). Several features at a time, because each
#: combination is compiled.
FEATURES: list[tuple[int, Callable[[int], Tensor], list[dict[str, Any]]]] = [
    (VOCAB, music, VOICED),
    (VOCAB, music, NOISY),
    (V, sounds, [SOUNDS | {"recent": 3}]),
    (V, sounds, [SOUNDS | {"recent": 2, "chords": 2, "resets": [[22, 24, 0]]}]),
    (test_motif_memory.VOCAB, partial(test_motif_memory.music, count=160), [ECHOES]),
    (test_conditions.VOCAB, given_ahead, [CONDITIONS | {"chords": 0}]),
    (test_conditions.VOCAB, given_ahead, [CONDITIONS | {"chords": 2}]),
]


@pytest.mark.parametrize("window", [400, 55])
@pytest.mark.parametrize(("vocab_size", "pieces", "features"), FEATURES)
def test_features(
    vocab_size: int, pieces: Callable[[int], Tensor], features: list[dict[str, Any]], window: int
) -> None:
    model = make(vocab_size=vocab_size, features=features)
    ids = pieces(3)[:, : window + 40]
    for close in (CLOSE, ROUNDED):
        same(stepped(model, ids, 3, window), forward(model, ids, 3, window), close)
        round_weights(model)


def windows(rows: int, length: int) -> Tensor:
    """Bars that repeat each other, some of them given in advance."""
    return torch.tensor([test_lookahead.window(seed, stop=12)[:length] for seed in range(rows)])


@pytest.mark.parametrize("prompt", [1, 5, 104])
@pytest.mark.parametrize(
    "shape",
    [
        {"gates": True, "first_values": True},
        {"position": {"name": "sinusoidal"}, "tied": False},
        {"position": {"name": "rotary"}, "width": 160, "heads": 1},
    ],
    ids=str,
)
def test_groups_of_ids_as_one_token(shape: dict[str, Any], prompt: int) -> None:
    model, ids = test_grouped.model(**shape), windows(2, 405)
    want = model(ids).detach()[:, prompt - 1 :]
    same(stepped(model, ids, prompt, 405), want)


def test_groups_continue_after_load_and_select(in_bytes: bool) -> None:
    model, ids, order = test_grouped.model(), windows(3, 400), torch.tensor([2, 0, 0])
    if in_bytes:
        round_weights(model)
    with torch.no_grad():
        step = NativeStep(model, prefilled(model, ids[:1, :33], 400), rows=3, capacity=400)
        for token in ids[:, 33:72].unbind(1):
            step(token)
        step.load(prefilled(model, ids[:, :200], 400))  # as when a full window is read again
        found = [step(token).clone() for token in ids[:, 200:282].unbind(1)]
        step.select(order)
        found += [step(token).clone() for token in ids[order, 282:].unbind(1)]
        whole, chosen = (model(x, cache=model.new_cache(3, 400)) for x in (ids, ids[order]))
    want = torch.cat([whole[:, 200:282], chosen[:, 282:]], 1)
    same(torch.stack(found, 1), want, CLOSE_IN_BYTES if in_bytes else CLOSE)


def test_any_number_of_threads_gives_the_same_bits() -> None:
    model = make(width=512, heads=8, feedforward=1024, layers=1)
    ids = torch.randint(V, (2, 40))
    previous, found = torch.get_num_threads(), []
    start = prefilled(model, ids[:, :3], 4)
    try:
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            step = NativeStep(model, start, rows=2, capacity=40)
            found.append(torch.stack([step(t).clone() for t in ids[:, 3:].unbind(1)]))
    finally:
        torch.set_num_threads(previous)
    assert torch.equal(found[0], found[1])
    assert torch.equal(found[0], found[2])


def test_a_library_of_more_features_in_another_order(monkeypatch) -> None:
    """As in a wheel, whose library serves models with any of its features."""
    model = make(vocab_size=VOCAB, features=VOICED)  # the last one scales what the others add
    headers = step_room._headers(model)
    noise = Path(chorale.__file__).parent / "features/noise.h"
    monkeypatch.setattr(build, "FLAGS", [f.replace("-O3", "-O0") for f in build.FLAGS])  # quick
    library = ctypes.CDLL(
        str(build.library_path(step_room.SOURCE, (("TokenNoise", noise), *headers[::-1])))
    )
    monkeypatch.setattr(step_room, "_library", lambda headers: library)
    ids = music(3)[:, :60]
    same(stepped(model, ids, 2, 60), forward(model, ids, 2, 60))


@pytest.mark.parametrize("without", ["-mno-avx512f", "-mno-avx2"])
def test_a_cpu_without_avx512_or_avx2(without: str, monkeypatch) -> None:
    """AVX2 also multiplies pairs of int16; without it, inputs stay float32."""
    if platform.machine() not in ("x86_64", "AMD64"):
        pytest.skip("not an x86 processor")
    monkeypatch.setattr(build, "FLAGS", (*build.FLAGS, without))
    library = ctypes.CDLL(str(build.library_path(step_room.SOURCE)))
    monkeypatch.setattr(step_room, "_library", lambda headers: library)
    model = make("huang", width=72, heads=2)
    ids = torch.randint(V, (5, 80))
    for close in (CLOSE, ROUNDED):
        got = stepped(model, ids, 7, 80)
        same(got, model(ids).detach()[:, 6:], close)
        assert torch.equal(got[2:3, 1:], stepped(model, ids[2:3], 7, 80)[:, 1:])
        round_weights(model)


@pytest.mark.parametrize("bad", [torch.nan, torch.inf])
def test_nan_and_infinity_give_nan(in_bytes: bool, bad: float) -> None:
    model = round_weights(make("huang")) if in_bytes else make("huang")
    with torch.no_grad():
        model.blocks[0].attention_norm.weight[3] = bad
    step = NativeStep(model, prefilled(model, torch.ones(1, 2).long(), 9), rows=1, capacity=9)
    assert bool(step(torch.ones(1).long()).isnan().all())


@pytest.mark.parametrize("scheme", ["huang", "shaw", "two_d", "huang_local"])
def test_rows_with_a_shared_beginning_equal_single_rows(scheme: str, in_bytes: bool) -> None:
    """The beginning, more than a panel, is read once for all rows until it leaves the window."""
    model = round_weights(make(scheme)) if in_bytes else make(scheme)
    ids = torch.randint(V, (6, 150))
    ids[:, :100] = ids[:1, :100]
    once, each = (prefilled(model, ids[:rows, :100], 110) for rows in (1, 6))
    shared = NativeStep(model, once, rows=6, capacity=110)
    own = NativeStep(model, each, rows=6, capacity=110)
    alone = [NativeStep(model, once, rows=1, capacity=110) for _ in ids]
    for n, token in enumerate(ids[:, 100:].unbind(1)):
        got = shared(token).clone()
        if n == 20:
            shared.select(torch.arange(6))
        for row, step in enumerate(alone):
            assert torch.equal(got[row], step(token[row : row + 1])[0])
        torch.testing.assert_close(got, own(token), rtol=1e-3, atol=1e-3)
