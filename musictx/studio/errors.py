"""What the studio answers to a request that it does not do: a sentence, and a status of HTTP."""

from __future__ import annotations

from typing import Any

from musictx.errors import UserError


class Refused(UserError):
    """A request that is answered by ``http`` and the sentence; ``more`` goes along as JSON."""

    def __init__(self, sentence: str, http: int = 400, **more: Any) -> None:
        super().__init__(sentence)
        self.http = http
        self.more = more
