"""Rendering: sound by a sampler of sound fonts, pictures of notes."""

from musictx.lazy import callable_package

callable_package(__name__, "musictx.render.app")
