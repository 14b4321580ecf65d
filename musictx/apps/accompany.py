"""``musictx accompany FILE``: see :mod:`musictx.apps.infill`, which composes both."""

from musictx.apps.infill import results, run

__all__ = ["results", "run"]
