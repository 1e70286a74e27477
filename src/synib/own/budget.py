"""How much memory reading may take: asked before it is taken, so that no file ends the process or the machine."""

import os
from pathlib import Path

SHARE = 0.6  # of the memory that is available
CGROUPS = (("memory.max", "memory.current"), ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes"))


class Budget:
    """Memory for what is read of one file.

    Args:
        path: For the sentence.
    """

    def __init__(self, path: Path) -> None:
        self.path, self.taken = path, 0
        self.available = available_memory()

    @property
    def limit(self) -> int:
        """Bytes that may be taken."""
        return int(SHARE * self.available)

    def take(self, size: int) -> None:
        """Raise ``ValueError`` if so many more bytes are too many."""
        self.taken += size
        if self.taken > self.limit:
            raise ValueError(
                f"{self.path} needs {in_words(self.taken)} of memory or more, and {in_words(self.available)} are available, of "
                f"which {SHARE:.0%} may be used: read fewer modalities or rows, or save the vectors as float32 in a folder of "
                ".npy files, which need not be held in memory."
            )


def available_memory() -> int:
    """Bytes that can be had without swapping: what the machine says, or less where the process is confined to less."""
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
            most = int(Path("/sys/fs/cgroup", limit).read_text())
            free = min(free, max(0, most - int(Path("/sys/fs/cgroup", used).read_text())))
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
