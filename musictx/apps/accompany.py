"""``musictx accompany FILE``: see :mod:`musictx.apps.infill`, which composes both."""

from musictx.apps.infill import run

__all__ = ["run"]
