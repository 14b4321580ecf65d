"""A take on its way through the composing thread."""

from __future__ import annotations

from dataclasses import dataclass, field

from musictx.studio.inputs import Input
from musictx.studio.models import Model
from musictx.studio.outcomes import Tracks
from musictx.studio.session import Session
from musictx.studio.takes import Take


@dataclass(eq=False)
class Job:
    """A take that waits or is composed."""

    session: Session
    take: Take
    model: Model
    source: Input
    tracks: list[Tracks] = field(default_factory=list)
    stopped: bool = False
