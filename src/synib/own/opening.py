"""Open a file or folder with the reader of its format."""

import difflib
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from synib.checks import shown
from synib.own.columns import Source
from synib.own.from_arrays import npy_folder, npz, safetensors
from synib.own.from_arrow import HuggingFace, Parquet
from synib.own.from_csv import CSV

READERS: dict[str, Callable[[Path], Source]] = {
    ".npz": npz,
    ".safetensors": safetensors,
    ".csv": CSV,
    ".parquet": Parquet,
}
METADATA: dict[str, Callable[[Path], Source]] = {"metadata.csv": CSV, "metadata.parquet": Parquet}  # beside media files


@contextmanager
def one_kind_of_error(path: object) -> Iterator[None]:
    """Convert memory and operating system errors to ``ValueError``."""
    try:
        yield
    except MemoryError as e:
        raise ValueError(f"{path} does not fit into memory, or is damaged.") from e
    except OSError as e:
        raise ValueError(f"{path} cannot be read: {e.strerror or e}.") from e


def open_source(location: str | os.PathLike[str]) -> Source:
    """Open a file or folder; its columns are known from the header, the data are read later."""
    if not isinstance(location, str | os.PathLike) or not str(location) or "\0" in str(location):
        raise ValueError(f"path must be that of a file or a folder; got {shown(location)}.")
    path = Path(location)
    if path.is_dir():
        if (path / "state.json").is_file() or (path / "dataset_dict.json").is_file():
            return HuggingFace(path)
        for name, reader in METADATA.items():
            if (path / name).is_file():
                return reader(path / name)
        arrays = sorted(path.glob("*.npy"))
        if not arrays:
            raise ValueError(
                f"The folder {path} holds neither metadata.csv nor .npy files, and was not written by datasets' save_to_disk."
            )
        return npy_folder(path, arrays)
    if not path.exists():
        folder = path.parent if path.parent.is_dir() else Path()
        suggestions = difflib.get_close_matches(path.name, (entry.name for entry in folder.iterdir()), 1)
        raise ValueError(f"{path} does not exist{f'; did you mean {folder / suggestions[0]}?' if suggestions else '.'}")
    if path.suffix.lower() not in READERS:
        raise ValueError(f"{path} must end in {', '.join(READERS)}, or be a folder; it ends in {path.suffix!r}.")
    if not path.is_file():
        raise ValueError(f"{path} is a device or a pipe; expected a file: copy its content into a file first.")
    if path.stat().st_size == 0:
        raise ValueError(f"{path} is empty.")
    return READERS[path.suffix.lower()](path)
