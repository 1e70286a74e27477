"""A limit on the memory that reading a file may take, checked before allocation, so that no file exhausts the machine."""

import os
from pathlib import Path

SHARE = 0.6  # of the available memory
CGROUPS = (("memory.max", "memory.current"), ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes"))


class Budget:
    """The memory for the content of one file.

    Args:
        path: The file, for error messages.
    """

    def __init__(self, path: Path) -> None:
        self.path, self.taken = path, 0
        self.available = available_memory()

    @property
    def limit(self) -> int:
        """The most bytes that may be taken."""
        return int(SHARE * self.available)

    def take(self, size: int) -> None:
        """Reserve ``size`` more bytes; ``ValueError`` if that exceeds the limit."""
        self.taken += size
        if self.taken > self.limit:
            raise ValueError(
                f"{self.path} needs at least {in_words(self.taken)} of memory; {in_words(self.available)} are available, "
                f"of which {SHARE:.0%} may be used. Read fewer modalities or rows, or save the vectors as float32 in a folder "
                "of .npy files, which are not loaded into memory."
            )


def available_memory() -> int:
    """Bytes that can be allocated without swapping: the machine's free memory, or the cgroup's if that is less."""
    free = 2**62
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        free = next(1024 * int(line.split()[1]) for line in lines if line.startswith("MemAvailable:"))
    except (OSError, StopIteration, ValueError):
        names = getattr(os, "sysconf_names", {})
        if "SC_PHYS_PAGES" in names:
            free = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    for limit, used in CGROUPS:
        try:
            maximum = int(Path("/sys/fs/cgroup", limit).read_text())
            free = min(free, max(0, maximum - int(Path("/sys/fs/cgroup", used).read_text())))
        except (OSError, ValueError):
            continue
    return free


def in_words(size: float) -> str:
    """A size such as 3.8 MB."""
    for unit in ("bytes", "kB", "MB"):
        if size < 1000:
            return f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:,.3g} GB"
