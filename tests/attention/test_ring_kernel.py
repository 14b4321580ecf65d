"""The kernel of decoding without a GPU: by Triton's interpreter. Compiled: test_fused.py."""

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


@pytest.mark.slow
def test_interpreted_it_equals_the_products() -> None:
    pytest.importorskip("triton", reason="Triton is not installed (it is made for Linux)")
    environment = os.environ | {"TRITON_INTERPRET": "1", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, CASES], capture_output=True, text=True, cwd=CASES.parents[2],
        env=environment,
    )  # fmt: skip
    assert "equal" in done.stdout, done.stderr[-3000:]


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
