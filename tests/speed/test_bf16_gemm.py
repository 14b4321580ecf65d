"""Products of bfloat16 matrices (native/bf16_gemm.h) against float64: any shape, stride, order."""

from __future__ import annotations

import ctypes
import shutil

import hypothesis.strategies as st
import numpy as np
import pytest
import torch
from hypothesis import given, settings

from musictx.speed.native import build, library
from tests import compiler

pytestmark = compiler.needed

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


@settings(max_examples=300)
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
