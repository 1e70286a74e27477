"""The provenance of a result: code, versions, machine, seeds, and checksums of the data."""

import contextlib
import hashlib
import os
import platform
import subprocess
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import torch

import synib
from synib.data.files import LOOKED_UP, Source, sha256
from synib.training.device import device_name, hardware

FEW_FILES = 16  # up to so many files have a checksum each
SYNTHETIC = "made by code"  # instead of checksums, where no file was read
MOST_BYTES = 2 * 2**30  # of many files with more bytes, names and sizes are hashed instead of contents
LIBRARIES = (
    "scipy", "scikit-learn", "torchmetrics", "cvxpy", "clarabel", "pyarrow", "safetensors", "torchjd", "transformers",
    "accelerate", "lightning", "ray", "pillow", "soundfile", "av", "matplotlib", "plotly",
)  # fmt: skip


def provenance(command: str, device: str, seeds: Iterable[int], data: Any) -> dict[str, Any]:
    """The provenance record of a results folder, as plain values.

    Args:
        command: The command line.
        device: Device on which the models are trained.
        seeds: Seeds of all models.
        data: Checksums from :func:`data_read_by` or :func:`of_path`.
    """
    return {
        "command": command,
        "code": dict(code()),
        "versions": versions(),
        "libraries": libraries(),
        "hardware": hardware(),
        "device": device_name(device),
        "seeds": sorted(set(seeds)),
        "data": data,
    }


def versions() -> dict[str, str]:
    """Versions of the libraries that determine the numbers."""
    return {
        "synib": synib.__version__,
        "torch": torch.__version__,
        "numpy": np.__version__,
        "python": platform.python_version(),
    }


def libraries() -> dict[str, str]:
    """Versions of the other installed libraries that synib uses."""
    installed = {}
    for name in LIBRARIES:
        with contextlib.suppress(metadata.PackageNotFoundError):
            installed[name] = metadata.version(name)
    return installed


@cache
def code() -> Mapping[str, Any]:
    """The commit of this code and whether its files differ from it; or that it is not in a git checkout."""
    package = Path(synib.__file__).parent
    try:
        # A package that is installed inside the checkout of another project is not part of it.
        _git(package, "ls-files", "--error-unmatch", "__init__.py")
        return {
            "commit": _git(package, "rev-parse", "HEAD"),
            "changed": bool(_git(package, "status", "--porcelain", ".")),
        }
    except (OSError, subprocess.SubprocessError):
        return {"commit": "not a git checkout"}


def _git(folder: Path, *arguments: str) -> str:
    environment = {k: v for k, v in os.environ.items() if not k.startswith("GIT_")} | {"GIT_OPTIONAL_LOCKS": "0"}
    done = subprocess.run(
        ["git", *arguments], cwd=folder, env=environment, capture_output=True, text=True, check=True, timeout=30
    )
    return done.stdout.strip()


def data_read_by(call: Callable[[], object]) -> Any:
    """Checksums of the data sets that a call looks up: name → file → checksum; or that no file was read."""
    looked_up: dict[str, tuple[Source, Path]] = {}
    token = LOOKED_UP.set(looked_up)
    try:
        call()
    finally:
        LOOKED_UP.reset(token)
    sums = {}
    for name, (source, folder) in sorted(looked_up.items()):
        sums[name] = {k: v for paths in source.paths(folder) for k, v in checksums(folder, paths).items()}
    return sums or SYNTHETIC


def of_path(path: Path) -> dict[str, Any]:
    """Checksums of a user's own file, or of all files in a folder."""
    if path.is_dir():
        return {path.name: checksums(path, sorted(p for p in path.rglob("*") if p.is_file()))}
    return {path.name: checksums(path.parent, [path])}


def checksums(folder: Path, paths: Sequence[Path]) -> dict[str, str]:
    """File → SHA-256; a single checksum for many files.

    Args:
        folder: The folder of the files; paths are recorded relative to it.
        paths: The files.
    """
    named = {path.relative_to(folder).as_posix(): path for path in paths}
    if len(named) <= FEW_FILES:
        return {name: _sha256(path, *_stamp(path)) for name, path in named.items()}
    sizes = {name: path.stat().st_size for name, path in named.items()}
    read = sum(sizes.values()) <= MOST_BYTES
    together = hashlib.sha256()
    for name, path in named.items():
        together.update(f"{name} {sizes[name]} {_sha256(path, *_stamp(path)) if read else ''}\n".encode())
    first = min(named)
    return {f"{first} and {len(named) - 1} more, {'contents' if read else 'names and sizes'}": together.hexdigest()}


def _stamp(path: Path) -> tuple[int, int]:
    stat = path.stat()
    return stat.st_size, stat.st_mtime_ns


@cache
def _sha256(path: Path, size: int, time: int) -> str:
    """The checksum of a file, which is read again only if it has changed."""
    return sha256(path)


def changed(before: Any, now: Any) -> list[str]:
    """Names of the data sets that differ from the recorded ones; none if nothing was recorded."""
    if before is None or before == now:
        return []
    if not isinstance(before, Mapping) or not isinstance(now, Mapping):
        return ["the data"]
    return [str(name) for name in dict.fromkeys([*before, *now]) if before.get(name) != now.get(name)]
