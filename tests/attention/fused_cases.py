"""Cases of the fused kernel under Triton's interpreter, and plain float64 to compare with.

The interpreter must be chosen before anybody imports Triton: TRITON_INTERPRET=1.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

assert os.environ.get("TRITON_INTERPRET") == "1", __doc__

from triton.runtime import interpreter  # noqa: E402

from musictx.attention import fused  # noqa: E402
from musictx.attention.fused import Config  # noqa: E402
from musictx.attention.fused.config import Tile  # noqa: E402
from musictx.attention.terms import PLACE, Axis, Blocks, Span, Terms  # noqa: E402
from tests.attention import cases  # noqa: E402

torch.set_num_threads(1)
D = 16


def _interpreter_of_today() -> None:
    """Triton 3.6's interpreter under numpy 2.4: int() of an array of one element is gone. And it
    patches the language anew at every call of a device function, which takes a third of the time:
    once for each module and launch is enough.
    """
    patch = interpreter._patch_lang_tensor
    launch = interpreter.GridExecutor.__call__
    done: set[int] = set()

    def patched(tensor: Any, scope: Any) -> None:
        patch(tensor, scope)
        scope.set_attr(tensor, "__index__", lambda self: np.asarray(self.handle.data).item())

    def launched(self: Any, *args: Any, **kwargs: Any) -> None:
        done.clear()
        launch(self, *args, **kwargs)

    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        module = id(self.fn.__globals__)
        if module not in done:
            interpreter._patch_lang(self.fn)
            done.add(module)
        return self.rewrite()(*args, **kwargs)

    interpreter._patch_lang_tensor = patched
    interpreter.GridExecutor.__call__ = launched
    interpreter.InterpretedFunction.__call__ = call


_interpreter_of_today()


@dataclass
class Case:
    """Sizes and features of one comparison."""

    queries: int = 33
    keys: int | None = None
    rows: int = 50
    low: int = 0
    batch: int = 1
    table: bool = True
    bias: bool = False
    values: bool = False
    content: bool = False
    position: bool = False
    shared: bool = False
    dtype: torch.dtype = torch.float32
    pieces: list[list[int]] | None = None
    block: int | None = None
    causal: bool = True
    start: int | None = None  # where the first query stands; None: the queries are the last
    dropout: float = 0.0
    deterministic: bool = False
    heads: int = 2

    @property
    def length(self) -> int:
        return self.keys or self.queries

    def places(self) -> dict[str, Any]:
        """Arguments of ``attend`` that say where queries and keys stand and what hides keys."""
        start = self.length - self.queries if self.start is None else self.start
        at: tuple[Any, ...] = (Span(start, self.queries),) * 2
        over: tuple[Any, ...] = (Span(0, self.length),) * 2
        found: dict[str, Any] = {"causal": self.causal}
        if self.pieces is not None:
            ids = torch.tensor(self.pieces)
            places = (ids[:, :, None] == ids[:, None, :]).tril().sum(-1) - 1
            at, over = (at[0], places[:, -self.queries :]), (over[0], places)
            found |= {"query_pieces": ids[:, -self.queries :], "key_pieces": ids}
        return found | {"query_positions": at, "key_positions": over}

    def terms(self, learned: list[Any]) -> Terms:
        """``learned``: table, bias, values, content and position bias; None is not there."""
        table, bias, values, content, position = learned
        axes = ()
        if table is not None or bias is not None or values is not None:
            axes = (Axis(table=table, bias=bias, low=self.low, high=self.low + self.rows - 1),)
        blocks = None if self.block is None else Blocks(self.block, coordinate=PLACE)
        return Terms(D**-0.5, axes, content, position, values, blocks)


def config(side: int = 16) -> Config:
    return Config(*[Tile(side, 4, 1)] * 3)


def tensors(case: Case) -> tuple[Tensor | None, ...]:
    """q, k, v, table, bias, values, content and position bias, upstream."""
    lengths = (case.queries, case.length, case.length)
    qkv = [torch.randn(case.batch, case.heads, n, D).to(case.dtype) for n in lengths]
    heads = 1 if case.shared else case.heads
    shapes = {
        "table": (heads, case.rows, D),
        "bias": (heads, case.rows),
        "values": (heads, case.rows, D),
        "content": (case.heads, D),
        "position": (case.heads, D),
    }
    learned = [torch.randn(s) if getattr(case, name) else None for name, s in shapes.items()]
    return (*qkv, *learned, torch.randn_like(qkv[0]))


def kept(rows: Tensor, columns: Tensor, threshold: int) -> Tensor:
    """The hash of fused.common.kept, in int64 arithmetic."""
    mask = 2**32 - 1
    x = (rows.long()[..., :, None] & mask) ^ (columns.long()[..., None, :] & mask)
    x = x ^ (x >> 16)
    x = (x * 0x7FEB352D) & mask
    x = x ^ (x >> 15)
    x = (x * 0x846CA68B) & mask
    return (x >> 8) >= threshold


def oracle(case: Case, leaves: list[Any], keep: Any) -> Tensor:
    """Dense attention by the specification, with the weights that dropout keeps."""
    q, k, v, *learned = leaves
    terms, places = case.terms(learned), case.places()
    weights = cases.weights(q, k, terms, **places)
    if keep is not None:
        weights = weights * keep
    out = weights @ v
    if terms.value_table is not None:
        i, j = (places[name][0].tensor() for name in ("query_positions", "key_positions"))
        row = (i[:, None] - j).clamp(case.low, case.low + case.rows - 1) - case.low
        added = terms.value_table.expand(case.heads, -1, -1)[:, row]
        out = out + torch.einsum("bhij,hijd->bhid", weights, added)
    return out


def run(case: Case, cut: Config, inputs: tuple[Any, ...]) -> list[Tensor]:
    """Output and gradients of the kernel."""
    leaves = [None if x is None else x.clone().requires_grad_() for x in inputs[:-1]]
    out = cases.directly(fused)(
        *leaves[:3],
        case.terms(leaves[3:]),
        dropout=case.dropout,
        config=cut,
        deterministic=case.deterministic,
        **case.places(),
    )
    return [out, *torch.autograd.grad(out, [x for x in leaves if x is not None], inputs[-1])]


def errors(case: Case, cut: Config, inputs: tuple[Any, ...] | None = None) -> list[float]:
    """Relative error (norms) of output and gradients, kernel against float64."""
    inputs = tensors(case) if inputs is None else inputs
    state = torch.get_rng_state()
    results = run(case, cut, inputs)
    keep = None
    if case.dropout:
        torch.set_rng_state(state)
        batch, heads = inputs[0].shape[:2]
        rows = fused._random((batch, heads, case.queries), torch.device("cpu"))
        columns = fused._random((batch, heads, case.length), torch.device("cpu"))
        threshold = round(case.dropout * 2**24)
        keep = kept(rows, columns, threshold).double() / (1 - threshold / 2**24)
    exact = [None if x is None else x.double().requires_grad_() for x in inputs[:-1]]
    out = oracle(case, exact, keep)
    leaves = [x for x in exact if x is not None]
    wanted = [out, *torch.autograd.grad(out, leaves, inputs[-1].double())]
    assert len(wanted) == len(results)
    return [((a.double() - b).norm() / b.norm()).item() for a, b in zip(results, wanted)]
