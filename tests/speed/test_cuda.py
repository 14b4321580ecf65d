"""The kernels of attention in CUDA C++ without a GPU: the same source on an emulated block, held
against plain loops in float64; and what NVIDIA's compiler makes of it."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

pytest.importorskip("triton", reason="Triton is not installed (it is made for Linux)")

from musictx.attention.setting import Setting
from musictx.attention.terms import Axis, Span, Terms
from musictx.speed import fused
from musictx.speed.cuda import compile, kernel
from tests import compiler as cxx
from tests.speed import emulated

HALF, BRIEF = torch.float16, torch.bfloat16
#: Files with the backward pass of heads of 64.
BACKWARD = ("backward", *kernel.OVERLAPPED_SHARED)
each_backward = pytest.mark.parametrize("file", BACKWARD)


@pytest.fixture(autouse=True)
def _taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel, "chosen", True)
    monkeypatch.setattr(kernel, "FAILED", {})
    torch.manual_seed(0)


@pytest.fixture
def emulation(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Starts kernels on the CPU, as the arguments of ``emulated.launcher`` say."""

    def set_up(**how: Any) -> None:
        monkeypatch.setattr(kernel, "launch", emulated.launcher(**how))

    set_up()
    return set_up


@pytest.fixture
def chosen(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Takes the backward pass of a file."""

    def choose(file: str) -> None:
        monkeypatch.setattr(kernel, "overlapped", file if file in kernel.OVERLAPPED_SHARED else "")

    return choose


def tensors(
    length: int, rows: int, size: int = 64, dtype: torch.dtype = BRIEF, heads: int = 1,
    shared: bool = False, batch: int = 1, apart: bool = False,
) -> list[Tensor]:  # fmt: skip
    """q, k, v, the table and the gradient of the output; ``apart``: heads between the tokens."""

    def normal() -> Tensor:
        if apart:
            return torch.randn(batch, length, heads, size).to(dtype).transpose(1, 2)
        return torch.randn(batch, heads, length, size).to(dtype)

    table = torch.randn(1 if shared else heads, rows, size).to(dtype)
    *inputs, up = normal(), normal(), normal(), table, normal()
    return [*(x.requires_grad_() for x in inputs), up]


def computed(
    inputs: list[Tensor], pieces: Tensor | None = None, dropout: float = 0.0
) -> list[Tensor]:
    """Output and gradients by the kernels."""
    *(q, k, v, table), up = inputs
    torch.manual_seed(5)
    terms = Terms(q.shape[-1] ** -0.5, (Axis(table=table, high=table.shape[1] - 1),))
    span = (Span(0, q.shape[2]),)
    out = fused.attend(q, k, v, terms, Setting(span, span, True, pieces, pieces, dropout))
    if q.shape[-1] not in kernel.SIZES["backward"]:
        return [out.detach()]
    return [out.detach(), *torch.autograd.grad(out, (q, k, v, table), up)]


def loops(inputs: list[Tensor], pieces: Tensor | None = None, dropout: float = 0.0) -> list[Tensor]:
    """The same in float64, query by query."""
    *leaves, up = (x.detach().double() for x in inputs)
    q, k, v, table = (x.requires_grad_() for x in leaves)
    batch, heads, length, size = q.shape
    torch.manual_seed(5)
    random = [torch.randint(-(2**31), 2**31, q.shape[:3], dtype=torch.int32) for _ in "qk"]
    threshold = round(dropout * 2**24)
    rows = []
    for b in range(batch):
        for h in range(heads):
            learned = table[h % len(table)]
            for i in range(length):
                distance = (i - torch.arange(i + 1)).clamp(max=len(learned) - 1)
                logits = (k[b, h, : i + 1] + learned[distance]) @ q[b, h, i] * size**-0.5
                if pieces is not None:
                    other = pieces[b, : i + 1] != pieces[b, i]
                    logits = logits.masked_fill(other, float("-inf"))
                weights = logits.softmax(-1)
                if dropout:
                    row, columns = random[0][b, h, i], random[1][b, h, : i + 1].tolist()
                    kept = torch.tensor([hashed(int(row) ^ j) >= threshold for j in columns])
                    weights = weights * kept / (1 - threshold / 2**24)
                rows.append(weights @ v[b, h, : i + 1])
    out = torch.stack(rows).view(q.shape)
    return [out.detach(), *torch.autograd.grad(out, (q, k, v, table), up)]


def hashed(x: int) -> int:
    """24 bits of a hash of 32: what dropout compares."""
    x &= 0xFFFFFFFF
    x ^= x >> 16
    x = x * 0x7FEB352D & 0xFFFFFFFF
    x ^= x >> 15
    return (x * 0x846CA68B & 0xFFFFFFFF) >> 8


def worst(got: list[Tensor], want: list[Tensor]) -> float:
    """The largest relative error; NaN counts as infinite."""
    errors = [float((a.double() - b).norm() / b.norm()) for a, b in zip(got, want)]
    return max(e if e == e else float("inf") for e in errors)


@pytest.mark.slow
@cxx.needed
@each_backward
@pytest.mark.parametrize(
    ("shape", "how"),
    [
        ({"length": 130, "rows": 130, "heads": 2, "apart": True}, {}),
        ({"length": 63, "rows": 500}, {"order": 2}),
        ({"length": 450, "rows": 60}, {"late": 3, "order": 1}),  # tiles of clipped distances
        ({"length": 450, "rows": 300}, {"late": 3}),
        ({"length": 100, "rows": 30, "size": 32, "batch": 2, "heads": 2, "shared": True}, {}),
        ({"length": 140, "rows": 140, "size": 128, "dtype": HALF}, {}),
    ],
)
def test_it_is_what_plain_loops_compute(emulation, chosen, file, shape, how):
    chosen(file)
    emulation(**how)
    inputs = tensors(**shape)
    assert worst(computed(inputs), loops(inputs)) < (1e-3 if "dtype" in shape else 6e-3)
    assert not kernel.FAILED


@pytest.mark.slow
@cxx.needed
@pytest.mark.parametrize(("length", "rows"), [(330, 60), (200, 200)])
def test_products_of_single_warps(emulation, monkeypatch, length, rows):
    monkeypatch.setattr(kernel, "warpgroups", False)
    emulation(late=3)
    inputs = tensors(length, rows, heads=2)
    assert worst(computed(inputs), loops(inputs)) < 6e-3


@pytest.mark.slow
@cxx.needed
@each_backward
@pytest.mark.parametrize("order", ["sorted", "any"])
def test_pieces_and_dropout(emulation, chosen, file, order):
    """float16; the same weights are dropped as in Triton: speed/fused/tile.py has the same hash."""
    chosen(file)
    emulation(late=3)
    inputs = tensors(200, 70, dtype=HALF, batch=2)
    pieces = torch.randint(0, 3, (2, 200))
    pieces = pieces.sort(1)[0] if order == "sorted" else pieces
    want = loops(inputs, pieces, 0.2)
    assert worst(computed(inputs, pieces, 0.2), want) < 1e-3
    assert worst(computed(inputs, pieces, 0.3), want) > 0.05  # so others would be noticed


@pytest.mark.slow
@cxx.needed
@each_backward
def test_equal_bits_whenever_copies_land_and_warps_run(emulation, chosen, file):
    """And whenever products of warpgroups read what they multiply."""
    chosen(file)
    inputs = tensors(280, 100)
    results = []
    for how in ({}, {"late": 1}, {"late": 3}, {"order": 1}, {"late": 2}, {"late": 3, "order": 2}):
        emulation(**how)
        results.append(computed(inputs))
    assert all(torch.equal(a, b) for other in results[1:] for a, b in zip(results[0], other))


FAULTS = {
    "table one row off": ("off = 8 + b - w", "off = 9 + b - w - (b > 5)"),
    "mask one key late": ("if (left < 0) c[n][0]", "if (left < -1) c[n][0]"),
    "pool mixed up": ("pick(t.g > j, n0[j], n1[6 - j])", "pick(t.g > j, n0[j], n1[j])"),
    "clipped too early": ("((i0 - 62 - rows) / 64 + 1)", "((i0 - 62 - rows) / 64 + 3)"),
    "no barrier": ("__syncthreads();            // buffer P is full", "//"),
    "no barrier between": ("__syncthreads();            // P, dS and dG", "//"),
    "by distance, one off": ("const int d = d0 + 8 * a", "const int d = d0 + 1 + 8 * a"),
    "another chunk": ("const int chunk = d0 + 64, piece", "const int chunk = d0 + 128, piece"),
    "ring not cleared": ("AT_DG + at, 0u)", "AT_DG + at, 0x40004000u)"),
    "clipped gradients lost": ("        spread_far(t, r, dtable);\n", "\n"),
    # of overlapped.cu and balanced.cu
    "no first barrier": ("__syncthreads();            // keys, values and table", "//"),
    "no second barrier": ("__syncthreads();            // all have left", "//"),
    "sums not awaited": ("    multiply_wait<LEFT>(both);\n    if", "    if"),
    "rows not turned": ("const int a = turned(row & 7)", "const int a = row & 7"),
    "distance, one off": ("const int below = first ? 14 : -2", "const int below = first ? 14 : 2"),
    "chunk of another tile": ("slot(d0 + 128) * CELLS", "slot(d0 + 192) * CELLS"),
    "not cleared": ("store16(t.base + AT_P + at, 0u)", "store16(t.base + AT_P + at, 0x40004000u)"),
    "sums of another row": ("sum_of(j) +", "sum_of(j + 1) +"),
    "other half of the head": ("half * (WHOLE ? 64 * PITCH : HEAD)", "(1 - half) * HEAD"),
    "one buffer": ("AT_DS + P * CELLS, ds", "AT_DS, ds"),
    "rows of another tile": ("slot(d0 + 128) * TABLE_TILE);", "slot(d0 + 64) * TABLE_TILE);"),
}  # fmt: skip


def planted() -> list[tuple[str, str]]:
    """(file of the backward pass, name of a fault in it or in the forward pass)."""
    return [
        (file, name)
        for file in BACKWARD
        for name, (text, _) in FAULTS.items()
        if any(compile.source(x).count(text) == 1 for x in ("forward", file))
    ]


@pytest.mark.slow
@cxx.needed
@pytest.mark.parametrize(("file", "name"), planted())
def test_faults_are_noticed(emulation, chosen, file, name):
    """Planted in the source, each gives something wrong or stops the emulation."""
    chosen(file)
    inputs = tensors(300, 50)
    want = loops(inputs)
    errors = []
    for how in ({"late": 3}, {"late": 3, "order": 2}, {"late": 2, "order": 1}):
        emulation(fault=FAULTS[name], **how)
        try:
            errors.append(worst(computed(inputs), want))
        except emulated.Stopped:
            errors.append(float("inf"))
    assert max(errors) > 0.02


def test_what_is_left_to_triton(monkeypatch):
    """In silence, and so is all on other GPUs than Hopper."""
    monkeypatch.setattr(kernel, "launch", None)

    def able(*where: int, **more: Any) -> bool:
        from musictx.speed.fused.problem import Problem

        *(q, k, v, table), _ = tensors(20, 7, **more)
        problem = Problem(
            q[:, :, where[0] :] if where else q, k, v, table, None, *[None] * 6, 0, 6, 0.1, 0.0
        )
        return kernel.able("backward", problem)

    assert able()
    assert not able(dtype=torch.float32)
    assert not able(size=16)
    assert not able(size=128)
    assert not able(3)  # the queries are the last of the keys
    assert not kernel._aligned(torch.zeros(4, 65, dtype=HALF)[:, :64])
    assert not kernel._aligned(torch.zeros(257, dtype=HALF)[1:].view(4, 64))
    monkeypatch.setattr(kernel, "chosen", None)
    assert not able()
    for capability, taken in (((8, 0), False), ((9, 0), True), ((10, 0), False)):
        monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device, c=capability: c)
        assert kernel.taken(torch.device("cuda")) == taken


def test_where_it_cannot_be_started_triton_takes_over_with_a_line(monkeypatch, capsys):
    def fails(*_: Any) -> None:
        raise RuntimeError("cuModuleLoadData: CUDA_ERROR_NO_BINARY_FOR_GPU (209)")

    from musictx.speed.fused.problem import Problem

    monkeypatch.setattr(kernel, "launch", fails)
    *(q, k, v, table), _ = tensors(20, 7)
    problem = Problem(q, k, v, table, None, *[None] * 6, 0, 6, 0.1, 0.0)
    log_sum = torch.empty(1, 1, 20)
    assert not kernel.forward(problem, torch.empty_like(q), log_sum)
    assert not kernel.forward(problem, torch.empty_like(q), log_sum)
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "NO_BINARY" in said


nvrtc = pytest.mark.skipif(
    compile.why_not() is not None,
    reason=f"{compile.why_not()} (pip install nvidia-cuda-nvrtc)",
)


@nvrtc
@pytest.mark.slow
@pytest.mark.parametrize("name", ["forward", *BACKWARD])
def test_warpgroups_are_not_made_to_wait(name):
    """The compiler says so where it puts products of warpgroups in a row."""
    code, said = compile.compiled(
        compile.source(name),
        [
            *compile.options_for("sm_90a", ["WGMMA=1", "MIN_BLOCKS=1", "TURNED=1"]),
            "--ptxas-options=-v",
        ],
    )
    assert "serializ" not in said
    assert " 0 bytes spill stores" in said
    assert code


@nvrtc
@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "flags", "registers"),
    [
        ("forward", ["HEAD=64", "MIN_BLOCKS=2"], 128),
        ("forward", ["HEAD=64", "MIN_BLOCKS=1", "PACKED=1", "DROP=1", "FLOAT16=1"], 255),
        ("forward", ["HEAD=128", "MIN_BLOCKS=1"], 255),
        ("backward", ["HEAD=64", "MIN_BLOCKS=1"], 255),
    ],
)
def test_machine_code_for_hopper(name, flags, registers, tmp_path):
    """Products by the matrix units, and hardly a register that has to wait in memory: of 2,700
    instructions (forward) and 5,100."""
    import triton

    options = [*compile.options_for("sm_90", flags), "--ptxas-options=-v"]
    code, said = compile.compiled(compile.source(name), options)
    assert int(re.search(r"Used (\d+) registers", said)[1]) <= registers
    (path := tmp_path / "code.cubin").write_bytes(code)
    tool = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "nvdisasm"
    done = subprocess.run([tool, "-c", path], capture_output=True, text=True, check=True)
    names = re.findall(r"/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+\s+)?([A-Z0-9_]+)", done.stdout)
    assert sum(one == "HMMA" for one in names) >= 200
    assert sum(one == "LDSM" for one in names) >= 100
    assert sum(one in ("LDL", "STL") for one in names) <= 60
