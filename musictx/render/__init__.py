"""Rendering: sound by a SoundFont sampler, and pictures of notes."""

from musictx.lazy import callable_package

callable_package(__name__, "musictx.render.app")
