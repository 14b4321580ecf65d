"""Rendering: sound by a SoundFont sampler, and pictures of notes."""

from musictx.lazy import make_callable

make_callable(__name__, "musictx.render.app")
