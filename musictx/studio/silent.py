"""Stands in until the composer is there."""

from __future__ import annotations

from typing import Any


class Silent:
    def __init__(self, sessions: Any, publish: Any, config: Any) -> None: ...
    def models(self) -> list[dict[str, Any]]:
        return []

    def submit(self, session: Any, request: dict[str, Any]) -> dict[str, Any]:
        raise NotImplementedError

    def takes(self, session: Any) -> list[dict[str, Any]]:
        return []

    def cancel(self, session: Any, number: int) -> None: ...
    def close(self) -> None: ...
