"""The entry point of the command ``synib``: slow imports come after Ctrl-C is handled."""

import os
import sys

from synib.cli.interrupts import interrupt_exits


def main() -> None:
    """Run the command: a user error prints one sentence and returns exit code 2."""
    with interrupt_exits():
        from synib.cli.app import app

        try:
            app()
        except (ValueError, OSError) as error:
            if os.environ.get("SYNIB_DEBUG"):
                raise
            print(f"synib: {one_line(str(error))}", file=sys.stderr)
            sys.exit(2)


def one_line(text: str) -> str:
    """One line for a terminal: line ends and control characters, which file names may contain, are escaped."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)
