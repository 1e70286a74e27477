"""``python -m synib.cli`` is the command ``synib``."""

import collections

from synib.cli import main

try:
    main()
finally:
    # If Ctrl-C comes while Python compiles source text, `python -m` ends by the signal and not with this command's exit code,
    # although the interrupt was handled. Compiling another text, as the creation of a named tuple does, clears that state.
    collections.namedtuple("Cleared", ())
