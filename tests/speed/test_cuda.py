"""Attention in CUDA C++ without a GPU: the same source on an emulated block, compared with the
specification in float64; and its machine code from NVIDIA's compiler."""

import re
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

pytest.importorskip("triton", reason="Triton is not installed (it is made for Linux)")

from musictx.attention.job import Setting
from musictx.attention.terms import Axis, Span, Terms
from musictx.speed import fused
from musictx.speed.cuda import compile, kernel
from tests import compiler as cxx
from tests.attention import cases
from tests.speed import emulated

FLOAT16, BFLOAT16 = torch.float16, torch.bfloat16


@pytest.fixture(autouse=True)
def _enable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel, "enabled", True)
    monkeypatch.setattr(kernel, "FAILED", {})
    torch.manual_seed(0)


@pytest.fixture
def emulation(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Emulate launches on the CPU; call it with other arguments of ``emulated.launcher``."""

    def set_up(**options: Any) -> None:
        monkeypatch.setattr(kernel, "launch", emulated.launcher(**options))

    set_up()
    return set_up


def tensors(
    length: int, rows: int, size: int = 64, dtype: torch.dtype = BFLOAT16, heads: int = 1,
    shared: bool = False, batch: int = 1, interleaved: bool = False,
) -> list[Tensor]:  # fmt: skip
    """q, k, v, table and the gradient of the output; ``interleaved``: (B, T, H, D) in memory."""

    def normal() -> Tensor:
        if interleaved:
            return torch.randn(batch, length, heads, size).to(dtype).transpose(1, 2)
        return torch.randn(batch, heads, length, size).to(dtype)

    table = torch.randn(1 if shared else heads, rows, size).to(dtype)
    *inputs, up = normal(), normal(), normal(), table, normal()
    return [*(x.requires_grad_() for x in inputs), up]


def computed(
    inputs: list[Tensor], pieces: Tensor | None = None, dropout: float = 0.0
) -> list[Tensor]:
    *(q, k, v, table), up = inputs
    torch.manual_seed(5)
    terms = Terms(q.shape[-1] ** -0.5, (Axis(table=table, high=table.shape[1] - 1),))
    span = (Span(0, q.shape[2]),)
    out = fused.attend(q, k, v, terms, Setting(span, span, True, pieces, pieces, dropout))
    if q.shape[-1] not in kernel.SIZES["backward"]:
        return [out.detach()]
    return [out.detach(), *torch.autograd.grad(out, (q, k, v, table), up)]


def exact(inputs: list[Tensor], pieces: Tensor | None = None, dropout: float = 0.0) -> list[Tensor]:
    """The same results by the specification in float64."""
    *leaves, up = (x.detach().double() for x in inputs)
    q, k, v, table = (x.requires_grad_() for x in leaves)
    terms = Terms(q.shape[-1] ** -0.5, (Axis(table=table, high=table.shape[1] - 1),))
    weights = cases.weights(q, k, terms, query_pieces=pieces, key_pieces=pieces)
    if dropout:
        torch.manual_seed(5)
        words = [torch.randint(-(2**31), 2**31, q.shape[:3], dtype=torch.int32) for _ in "qk"]
        threshold = round(dropout * 2**24)
        keep = hash_bits(words[0][..., None].long() ^ words[1][..., None, :].long()) >= threshold
        weights = weights * keep / (1 - threshold / 2**24)
    out = weights @ v
    return [out.detach(), *torch.autograd.grad(out, (q, k, v, table), up)]


def hash_bits(x: Tensor) -> Tensor:
    """24 bits of a hash of 32 bits, which dropout compares with its threshold."""
    x = x & 0xFFFFFFFF
    x = (x ^ x >> 16) * 0x7FEB352D & 0xFFFFFFFF
    x = (x ^ x >> 15) * 0x846CA68B & 0xFFFFFFFF
    return x >> 8


def worst(got: list[Tensor], want: list[Tensor]) -> float:
    """The largest relative error; NaN counts as infinite."""
    errors = [float((a.double() - b).norm() / b.norm()) for a, b in zip(got, want)]
    return max(e if e == e else float("inf") for e in errors)


#: Three pairs of batch row and head at a time, with 150 tokens each.
FEW = {"change": ("TOKENS_AT_ONCE = 32768", "TOKENS_AT_ONCE = 450")}


@pytest.mark.slow
@cxx.needed
@pytest.mark.parametrize(
    ("shape", "how"),
    [
        ({"length": 130, "rows": 130, "heads": 2, "interleaved": True}, {}),
        ({"length": 63, "rows": 500}, {"order": 2}),
        ({"length": 450, "rows": 60}, {"late": 3, "order": 1}),  # tiles of clipped distances
        ({"length": 450, "rows": 300}, {"late": 3}),
        ({"length": 150, "rows": 30, "size": 32, "batch": 2, "heads": 2, "shared": True}, FEW),
        ({"length": 140, "rows": 140, "size": 128, "dtype": FLOAT16}, {}),
    ],
)
def test_it_equals_the_specification(emulation, shape, how):
    emulation(**how)
    inputs = tensors(**shape)
    assert worst(computed(inputs), exact(inputs)) < (1e-3 if "dtype" in shape else 6e-3)
    assert not kernel.FAILED


@pytest.mark.slow
@cxx.needed
@pytest.mark.parametrize("order", ["sorted", "any"])
def test_pieces_and_dropout(emulation, order):
    """In float16. Triton drops the same weights, since speed/fused/tile.py has the same hash."""
    emulation(late=3)
    inputs = tensors(200, 70, dtype=FLOAT16, batch=2)
    pieces = torch.randint(0, 3, (2, 200))
    pieces = pieces.sort(1)[0] if order == "sorted" else pieces
    got = computed(inputs, pieces, 0.2)
    assert worst(got, exact(inputs, pieces, 0.2)) < 1e-3
    assert worst(got, exact(inputs, pieces, 0.3)) > 0.05  # dropping other weights is noticed


@pytest.mark.slow
@cxx.needed
def test_bits_do_not_depend_on_when_copies_land_and_warps_run(emulation):
    """Nor on when the products of warpgroups read their operands."""
    inputs = tensors(280, 100)
    results = []
    for how in ({}, {"late": 1}, {"late": 2, "order": 1}, {"late": 3, "order": 2}):
        emulation(**how)
        results.append(computed(inputs))
    assert all(torch.equal(a, b) for other in results[1:] for a, b in zip(results[0], other))


def problem(q: Tensor, k: Tensor, v: Tensor, table: Tensor) -> Any:
    from musictx.speed.fused.problem import Problem

    return Problem(q, k, v, table, None, *[None] * 5, 0, 6, 0.1, 0.0)


def test_what_is_left_to_triton(monkeypatch):
    """Problems that the kernel does not support, without a message; all problems on other GPUs."""
    monkeypatch.setattr(kernel, "launch", None)

    def is_supported(start: int = 0, **more: Any) -> bool:
        q, *others, _ = tensors(20, 7, **more)
        return kernel.can_run("backward", problem(q[:, :, start:] if start else q, *others))

    assert is_supported()
    assert not is_supported(dtype=torch.float32)
    assert not is_supported(size=16)
    assert not is_supported(size=128)
    assert not is_supported(3)  # the queries are the last of the keys
    assert not kernel._aligned(torch.zeros(4, 65, dtype=FLOAT16)[:, :64])
    assert not kernel._aligned(torch.zeros(257, dtype=FLOAT16)[1:].view(4, 64))
    monkeypatch.setattr(kernel, "enabled", None)
    assert not is_supported()
    for capability, taken in (((8, 0), False), ((9, 0), True), ((10, 0), False)):
        monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device, c=capability: c)
        assert kernel.is_used(torch.device("cuda")) == taken


def test_triton_takes_over_with_one_message_if_the_launch_fails(monkeypatch, capsys):
    def fails(*_: Any) -> None:
        raise RuntimeError("cuModuleLoadData: CUDA_ERROR_NO_BINARY_FOR_GPU (209)")

    monkeypatch.setattr(kernel, "launch", fails)
    job = problem(*tensors(20, 7)[:4])
    for _ in range(2):
        assert not kernel.forward(job, torch.empty_like(job.q), torch.empty(1, 1, 20))
    message = capsys.readouterr().err
    assert message.count("\n") == 1
    assert "NO_BINARY" in message


nvrtc = pytest.mark.skipif(
    compile.why_not() is not None, reason=f"{compile.why_not()} (pip install nvidia-cuda-nvrtc)"
)


@nvrtc
@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "size", "everything", "registers"),
    [
        ("forward", 64, False, 128),
        ("forward", 64, True, 255),
        ("forward", 128, False, 255),
        ("backward", 64, False, 255),
        ("backward", 64, True, 255),
    ],
)
def test_machine_code_for_hopper(name, size, everything, registers):
    q = torch.empty(0, dtype=FLOAT16 if everything else BFLOAT16)
    codes = q if everything else None
    p = SimpleNamespace(q=q, size=size, query_codes=codes, threshold=int(everything))
    flags = kernel.defines(name, p)
    options = compile.options_for("sm_90a" if "WGMMA=1" in flags else "sm_90", flags)
    _, log = compile.compile_source(compile.source(name), [*options, "--ptxas-options=-v"])
    assert "serializ" not in log
    assert int(re.search(r"Used (\d+) registers", log)[1]) <= registers
