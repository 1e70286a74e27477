"""``python -m synib.cli`` is the command ``synib``."""

import collections

from synib.cli import main

try:
    main()
finally:
    # If Ctrl-C came while Python compiled a text, `python -m` ends by the signal and not with our exit code, although the
    # interrupt was handled; compiling another text, as making a named tuple does, clears that.
    collections.namedtuple("Cleared", ())
