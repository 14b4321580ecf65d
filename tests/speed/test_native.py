"""The compiled operator: its panels, its threads, numbers that are none, products of bfloat16
matrices, and what torch must know of it. That it computes what the specification says:
test_conformance.py."""

from __future__ import annotations

import ctypes
import os
import shutil
import signal

import hypothesis.strategies as st
import numpy as np
import pytest
import torch
from hypothesis import given, settings

from musictx.attention.terms import Terms
from musictx.speed import native
from musictx.speed.native import build, library, op
from tests import compiler
from tests.attention import cases
from tests.attention.cases import excess, table_job

pytestmark = pytest.mark.usefixtures("one_cache")


def test_several_panels_of_the_usual_size(kernel):
    torch.manual_seed(0)
    shares = excess("native", table_job(200, 2 * op.RUN + 50, 1500, rows=1))
    assert max(shares.values()) < 1, shares


@pytest.mark.parametrize("job", [(70, 70, 90), (3, 40, 40)], ids=str)
def test_products_of_its_own_where_torch_lends_none(kernel, job, monkeypatch):
    """As on Windows."""
    own = library.Library(build.built(library.SOURCE), library.Products(None, None, None))
    monkeypatch.setattr(library, "_outcome", own)
    torch.manual_seed(0)
    shares = excess("native", table_job(*job, rows=1))
    assert max(shares.values()) < 1, shares


def test_a_forked_process_has_threads_of_its_own(kernel):
    """A child has none of its parent's: it must not wait for them."""
    torch.manual_seed(0)
    q = torch.randn(2, 2, 60, 8)
    problem = op._problem(q, q, q, None, None, None, None, 0.3, 0.0, 0)
    out, log_sum = torch.empty(q.shape), torch.empty(q.shape[:3])
    problem.point(out=out, log_sum=log_sum)
    problem.threads = 2
    kernel.run(False, problem)
    child = os.fork()
    if not child:
        signal.alarm(20)
        kernel.run(False, problem)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0


def test_a_nan_is_never_hidden(kernel):
    """Training stops at a loss that is not a number only if it comes to be one."""
    torch.manual_seed(0)
    for name in "qkv":
        named = {n: torch.randn(1, 1, 20, 4) for n in "qkv"}
        named[name][0, 0, 10, 1] = float("nan")
        out = cases.directly(native)(*(named[n] for n in "qkv"), Terms(0.5))
        wrong = torch.isnan(out[0, 0]).all(-1) | torch.isnan(out[0, 0, :, 1])
        assert wrong[10]
        if name != "v":  # later values meet weights of 0, and 0 times NaN is NaN
            assert not wrong[:10].any()
        if name != "q":
            assert wrong[10:].all()


def test_logits_far_apart_neither_overflow_nor_leave_dust(kernel):
    q = torch.full((1, 1, 3, 4), 100.0)
    k = torch.tensor([-100.0, 100.0, 0.0])[None, None, :, None].expand(1, 1, 3, 4)
    v = torch.eye(4)[None, None, :3]
    out = cases.directly(native)(q, k, v, Terms(1.0))[0, 0]
    assert torch.equal(out, v[0, 0, [0, 1, 1]])


def test_no_tokens_at_all(kernel):
    q = torch.zeros(2, 2, 0, 4, requires_grad=True)
    out = cases.directly(native)(q, q, q, cases.huang({}, 2, 4))
    assert out.shape == (2, 2, 0, 4)
    out.sum().backward()
    assert q.grad is not None


def test_torch_knows_shapes_and_gradients_of_the_operator(kernel):
    q, k, v = (torch.randn(2, 2, 9, 4, requires_grad=True) for _ in range(3))
    table, bias = torch.randn(1, 9, 4, requires_grad=True), torch.randn(2, 9, requires_grad=True)
    pieces = torch.zeros(2, 9, dtype=torch.long)
    for args in (
        (q, k, v, table, bias, pieces, pieces, 0.5, 0.1, 3),
        (q, k, v, None, None, None, None, 0.5, 0.0, 0),
    ):
        torch.library.opcheck(
            op.attention,
            args,
            test_utils=("test_schema", "test_faketensor", "test_autograd_registration"),
        )
        log_sum = torch.zeros(2, 2, 9)
        torch.library.opcheck(
            op.attention_backward,
            (torch.randn(q.shape), torch.zeros(q.shape), log_sum, *args),
            test_utils=("test_schema", "test_faketensor"),
        )


def test_torchs_own_threads_are_left_as_they_were(kernel):
    address = library.products().set_threads
    if address is None:
        pytest.skip("torch's products come from another library than MKL")
    set_threads = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int)(address)
    before = set_threads(2)
    q = torch.randn(1, 2, 300, 8)
    cases.directly(native)(q, q, q, Terms(0.5))
    assert set_threads(before) == 2


def test_loading_leaves_tiny_numbers_alone(kernel):
    """Linked with -ffast-math, a library makes the whole process round them to zero."""
    assert float(torch.tensor(1e-40) * 0.5) > 0


EXPORT = """
#include "bf16_gemm.h"
#include <cstdint>
#include <vector>
#define MUSICTX_EXPORT extern "C" __attribute__((visibility("default")))
MUSICTX_EXPORT int there() {
#ifdef MUSICTX_BF16
  return 1;
#else
  return 0;
#endif
}
MUSICTX_EXPORT void product(int ta, int tb, int m, int n, int k, float alpha, const uint16_t* a,
                        int lda, const uint16_t* b, int ldb, float beta, float* c, int ldc) {
#ifdef MUSICTX_BF16
  std::vector<uint32_t> rows(bf16_gemm::packed_rows(m, k));
  std::vector<uint32_t> columns(bf16_gemm::packed_columns(n, k));
  bf16_gemm::product(ta ? 't' : 'n', tb ? 't' : 'n', m, n, k, alpha, a, lda, b, ldb, beta, c, ldc,
                 rows.data(), columns.data());
#endif
}
"""


@pytest.fixture(scope="module")
def product(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bf16")
    source = folder / "export.cpp"
    source.write_text(EXPORT)
    shutil.copy(library.SOURCE.with_name("bf16_gemm.h"), folder)
    compiled = ctypes.CDLL(str(build.built(source)))
    if not compiled.there():
        pytest.skip("this processor has no products of bfloat16 pairs")
    real, pointer, whole = ctypes.c_float, ctypes.c_void_p, ctypes.c_int
    compiled.product.argtypes = [
        *([whole] * 5),
        *(real, pointer, whole, pointer, whole),
        *(real, pointer, whole),
    ]
    return compiled.product


def matrix(random: np.random.Generator, rows: int, columns: int, margin: int) -> torch.Tensor:
    """Rows of ``columns`` numbers with ``margin`` more behind each, which are NaN."""
    full = torch.full((rows, columns + margin), float("nan"), dtype=torch.bfloat16)
    full[:, :columns] = torch.from_numpy(random.standard_normal((rows, columns)))
    return full


@compiler.needed
@settings(max_examples=100)
@given(
    shape=st.tuples(st.integers(1, 40), st.integers(1, 80), st.integers(1, 70)),
    transposed=st.tuples(st.booleans(), st.booleans()),
    margins=st.tuples(*[st.integers(0, 3)] * 3),
    add=st.booleans(),
    seed=st.integers(0, 2**32 - 1),
)
def test_it_is_the_product(product, shape, transposed, margins, add, seed):
    m, n, k = shape
    random = np.random.default_rng(seed)
    a = matrix(random, *((k, m) if transposed[0] else (m, k)), margins[0])
    b = matrix(random, *((n, k) if transposed[1] else (k, n)), margins[1])
    c = torch.from_numpy(random.standard_normal((m, n + margins[2]))).float()
    before, alpha = c.clone(), 0.7
    product(
        *(*transposed, m, n, k, alpha, a.data_ptr(), a.shape[1], b.data_ptr(), b.shape[1]),
        *(float(add), c.data_ptr(), c.shape[1]),
    )
    x = (a[:, :m].double().T if transposed[0] else a[:, :k].double())[:m]
    y = b[:, :k].double().T if transposed[1] else b[:, :n].double()
    size = x.abs() @ y.abs() + 1.0
    wanted = alpha * x @ y + (before[:, :n].double() if add else 0.0)
    assert ((c[:, :n].double() - wanted).abs() <= 4e-7 * k**0.5 * size).all()
    assert torch.equal(c[:, n:], before[:, n:]), "it wrote beyond its columns"
