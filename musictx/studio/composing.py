"""The interface of the composer to the routes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from musictx.studio.config import StudioConfig
from musictx.studio.session import Publish, Session
from musictx.studio.sessions import Sessions


class Composing(Protocol):
    """What ``musictx/studio/composer.py`` offers; any thread may call it. A Take is a dict as it
    goes to the page."""

    def models(self) -> list[dict[str, Any]]: ...
    def learn(self, name: str, folder: Path) -> None: ...
    def submit(self, session: Session, request: dict[str, Any]) -> dict[str, Any]: ...
    def takes(self, session: Session) -> list[dict[str, Any]]: ...
    def cancel(self, session: Session, number: int) -> None: ...
    def close(self) -> None: ...


Composers = Callable[[Sessions, Publish, StudioConfig], Composing]
