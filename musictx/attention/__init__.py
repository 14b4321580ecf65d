"""Relative attention: one function, ``attend``, and one module, for a whole family of schemes."""

from musictx.attention import positions
from musictx.attention.api import IMPLEMENTATIONS, attend, why_not
from musictx.attention.module import RelativeAttention
from musictx.attention.terms import Axis, Blocks, Span, Terms

__all__ = [
    "IMPLEMENTATIONS",
    "Axis",
    "Blocks",
    "RelativeAttention",
    "Span",
    "Terms",
    "attend",
    "positions",
    "why_not",
]
