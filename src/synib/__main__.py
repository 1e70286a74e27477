"""``python -m synib`` is the command ``synib``."""

import synib.cli.__main__  # noqa: F401
