"""Makes ``python -m musictx`` the same as the command ``musictx``."""

import sys

from musictx.cli import main

sys.exit(main())
