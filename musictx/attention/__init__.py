"""Relative attention: one function, ``attend``, for a whole family of position schemes."""

from musictx.attention.api import IMPLEMENTATIONS, attend, why_not
from musictx.attention.terms import Axis, Blocks, Ring, Span, Terms

__all__ = ["IMPLEMENTATIONS", "Axis", "Blocks", "Ring", "Span", "Terms", "attend", "why_not"]
