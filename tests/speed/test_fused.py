"""The fused kernel without a GPU: by Triton's interpreter, and through the compiler for Hopper."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from musictx.attention.job import Job, Setting
from musictx.attention.terms import Span, Terms
from musictx.speed import fused
from musictx.speed.fused import masks
from tests.attention import cases

KERNELS = Path(__file__).with_name("fused_kernels.py")
ROOT = KERNELS.parents[2]
PLAIN = Terms(scale=0.25)


@pytest.mark.slow
def test_interpreted() -> None:
    """The conformance tests and fused_kernels.py, in a process that starts with the
    interpreter."""
    pytest.importorskip("triton", reason="Triton is not installed")
    environment = os.environ | {"TRITON_INTERPRET": "1", "OMP_NUM_THREADS": "1"}
    files = [KERNELS, ROOT / "tests" / "attention" / "test_conformance.py"]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", "fused"]
    command += map(str, files)
    process = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=environment)
    assert process.returncode == 0, process.stdout[-6000:] + process.stderr[-3000:]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:TRITON_DEFAULT_FP_FUSION")  # a message of Triton about itself
@pytest.mark.filterwarnings("ignore:AnnAssign:DeprecationWarning")  # from Python 3.13 on
def test_the_kernels_compile_for_hopper() -> None:
    """Two programs of each pass fit on a multiprocessor (228 KiB of shared memory) and use tensor
    cores, with the configuration for bfloat16 and head size 64. Needs no GPU."""
    triton = pytest.importorskip("triton", reason="Triton is not installed")
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    from musictx.speed.fused import forward, key, query
    from musictx.speed.fused.problem import choose_tiles

    types = {"natural_scale": "fp32", "inverse_share": "fp32"}
    for type_of, names in (
        ("*fp32", "BIASES LSE INNER DE DBIAS"),
        ("*i32", "KEY_FIRST QUERY_STOP ROW_RANDOM COLUMN_RANDOM QUERY_CODES KEY_CODES"),
        ("*bf16", "Q K V E OUT DO DQ DK DV"),
    ):
        types |= dict.fromkeys(names.split(), type_of)
    off = dict.fromkeys(("BIAS", "BIAS_GRADIENT", "PACKED", "DROP", "EDGE"), False)
    fixed = off | {"TABLE": True, "D": 64, "SKEW": triton.language.float16, "PRECISION": "tf32"}
    tiles = choose_tiles(torch.bfloat16, 64)
    for kernel, tile in (
        (forward.forward, tiles.forward),
        (query.backward_query, tiles.query),
        (key.backward_key, tiles.key),
    ):
        names, constants = kernel.arg_names, fixed | {"T": tile.side}
        kinds = {n: "constexpr" if n in constants else types.get(n, "i32") for n in names}
        aligned = [(i,) for i, n in enumerate(names) if kinds[n][0] == "*"]
        source = ASTSource(
            kernel,
            kinds,
            {(i,): constants[n] for i, n in enumerate(names) if n in constants},
            {at: [["tt.divisibility", 16]] for at in aligned},
        )
        options = {"num_warps": tile.warps, "num_stages": tile.stages}
        compiled = triton.compile(source, target=GPUTarget("cuda", 90, 32), options=options)
        assert compiled.metadata.shared <= 112 * 1024
        assert "wgmma.mma_async" in compiled.asm["ptx"]


SPANS = (Span(0, 4), Span(0, 4))


def test_unsupported_tensors(monkeypatch: pytest.MonkeyPatch) -> None:
    def why_not(*shape: int, dtype: torch.dtype = torch.float32) -> str | None:
        return cases.why_not(fused, PLAIN, *SPANS, True, torch.zeros(shape, dtype=dtype))

    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    assert "cuda" in str(why_not(1, 1, 4, 64))
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    monkeypatch.setattr(fused, "find_spec", lambda name: None)
    assert "not installed" in str(why_not(1, 1, 4, 64))
    monkeypatch.setattr(fused, "find_spec", lambda name: name)
    assert "float64" in str(why_not(1, 1, 4, 64, dtype=torch.float64))
    assert "48" in str(why_not(1, 1, 4, 48))
    assert why_not(1, 1, 4, 64) is None
    assert "torch.func" in str(fused.unsupported_reason(Job(tangents=True)))
    monkeypatch.setattr(torch, "are_deterministic_algorithms_enabled", lambda: True)
    assert "deterministic" in str(why_not(1, 1, 4, 64))  # its sums have no fixed order


def test_pieces_that_change_in_place_get_a_new_mask() -> None:
    pieces, spans = torch.tensor([[0, 0, 1, 1]]), ((Span(0, 4),), (Span(0, 4),))
    setting = Setting(*spans, True, pieces, pieces)
    masks.mask(setting)
    pieces[0, 1] = 1
    changed, again = masks.mask(setting), masks.mask(Setting(*spans, True, pieces, pieces.clone()))
    assert all(map(torch.equal, changed, again))
