"""``python -m musictx`` is ``musictx``."""

import sys

from musictx.cli import main

sys.exit(main())
