"""One file for each data set."""

from synib.data.dataset import Dataset, Split
from synib.data.parity import parity
from synib.data.pid_xor import pid_xor
from synib.data.spurious_xor import spurious_xor

__all__ = ["Dataset", "Split", "parity", "pid_xor", "spurious_xor"]
