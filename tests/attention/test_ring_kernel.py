"""The kernel of decoding without a GPU: by Triton's interpreter, and through the compiler."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from musictx.attention import decode
from musictx.attention.terms import Axis, Blocks, Terms

CASES = Path(__file__).with_name("ring_kernel_cases.py")
COMPILE = """
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from musictx.attention.decode import kernel as s
floats = dict.fromkeys(("relative", "maximum", "total", "mean"), "*fp32")
whole = {"slots": "i32", "heads": "i32", "chunk": "i32", "stride_row": "i32",
         "stride_head": "i32", "low": "i32", "high": "i32", "scale": "fp32"}
for wholly in (True, False):
    signature = {"q": "*fp32", "k": "*bf16", "v": "*bf16", **floats, "out": "*fp32",
                 "position": "*i64", "first": "*i64", **whole}
    constants = {"D": 64, "BLOCK": s.BLOCK, "RELATIVE": True, "WHOLE": wholly}
    order = {name: signature.get(name, "constexpr") for name in s.parts.arg_names}
    attributes = {(s.parts.arg_names.index(n),): [["tt.divisibility", 16]] for n in ("q", "k", "v")}
    source = ASTSource(s.parts, order, constants, attributes)
    made = triton.compile(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": 4})
    text = made.asm["ptx"]
    wide = text.count("ld.global.v4") + text.count("ld.global.L1::evict_last.v4")
    print(wide, made.metadata.shared, text.count("st.local"))
"""


def _output(*command: str, **environment: str) -> str:
    pytest.importorskip("triton", reason="Triton is not installed (it is made for Linux)")
    inherited = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"}
    done = subprocess.run(
        [sys.executable, *command], capture_output=True, text=True, cwd=CASES.parents[2],
        env=inherited | environment,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


@pytest.mark.slow
def test_interpreted_it_equals_the_products() -> None:
    assert "equal" in _output(str(CASES), TRITON_INTERPRET="1", OMP_NUM_THREADS="1")


@pytest.mark.slow
def test_it_compiles_for_hopper_with_wide_loads_and_nothing_spilled() -> None:
    for line in _output("-c", COMPILE).splitlines():
        wide, shared, spilled = line.split()
        assert int(wide) >= 2, line  # keys and values, 16 bytes a thread
        assert int(shared) < 64 * 1024
        assert int(spilled) == 0


def test_what_it_cannot_do_is_named() -> None:
    q = torch.zeros(1, 2, 1, 16)
    axis = Axis(table=torch.zeros(2, 3, 16), high=2)
    shaw = Terms(1.0, (axis,), value_table=torch.zeros(2, 3, 16))
    assert decode.kernel_why_not(q, Terms(1.0, (axis,))) == (
        "it needs tensors on a CUDA GPU, not on cpu"
    )
    for terms in (shaw, Terms(1.0, (axis,), blocks=Blocks(4))):
        assert decode.kernel_why_not(q, terms) == "it knows no value_table and no blocks"
    assert "not 24" in str(decode.kernel_why_not(torch.zeros(1, 2, 1, 24), Terms(1.0)))
    assert decode.kernel_why_not(q.double(), Terms(1.0)) == "it computes in float32"
