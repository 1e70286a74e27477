"""The entry point of the command ``synib``: what takes seconds is imported when Ctrl-C already ends in a sentence."""

import os
import sys

from synib.cli.interrupts import interrupt_exits


def main() -> None:
    """Run the command: a user's mistake is one sentence and exit code 2."""
    with interrupt_exits():
        from synib.cli.app import app

        try:
            app()
        except (ValueError, OSError) as mistake:
            if os.environ.get("SYNIB_DEBUG"):
                raise
            print(f"synib: {one_line(str(mistake))}", file=sys.stderr)
            sys.exit(2)


def one_line(text: str) -> str:
    """A sentence for a terminal: line ends and control characters, which names in files may hold, are escaped."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)
