"""``python -m synib.cli`` is the command ``synib``."""

from synib.cli import main

main()
