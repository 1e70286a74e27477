"""One file for each data set."""

from synib.data import affect, crema_d, features, hateful_memes, irony, ravdess
from synib.data.dataset import Dataset, Split
from synib.data.digits import DIGITS, digits
from synib.data.files import Source
from synib.data.parity import parity, spurious_xor
from synib.data.pid_xor import pid_xor

# What lies in files that a user brings, by the name that ``synib data`` knows: a line for each file of data sets.
SOURCES: dict[str, Source] = {
    source.name: source
    for source in (
        *affect.SOURCES,
        *features.SOURCES,
        crema_d.CREMA_D,
        ravdess.RAVDESS,
        hateful_memes.HATEFUL_MEMES,
        DIGITS,
    )
}

__all__ = [
    "SOURCES",
    "Dataset",
    "Split",
    "affect",
    "crema_d",
    "digits",
    "features",
    "hateful_memes",
    "irony",
    "parity",
    "pid_xor",
    "ravdess",
    "spurious_xor",
]
