"""How a result came to be: code, versions, machine, seeds, and checksums of the data it was made from."""

import hashlib
import os
import platform
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import torch

import synib
from synib.data.files import Source, sha256
from synib.training.device import device_name, hardware

FEW = 16  # files, of which each has its own checksum
MADE = "made by code"  # instead of checksums, where no file was read
MOST = 2 * 2**30  # bytes of many files whose contents are read for a checksum; of more, names and sizes count
LIBRARIES = (
    "scipy", "scikit-learn", "torchmetrics", "cvxpy", "clarabel", "pyarrow", "safetensors", "torchjd", "transformers",
    "accelerate", "lightning", "ray", "pillow", "soundfile", "av", "matplotlib", "plotly",
)  # fmt: skip


def provenance(command: str, device: str, seeds: Iterable[int], data: Any) -> dict[str, Any]:
    """Everything that a results folder records of its making, as plain values.

    Args:
        command: What the user typed.
        device: Where it is trained.
        seeds: Of all models.
        data: Checksums, as :func:`of_sources` or :func:`of_path` makes them.
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
    """Of what decides numbers."""
    return {
        "synib": synib.__version__,
        "torch": torch.__version__,
        "numpy": np.__version__,
        "python": platform.python_version(),
    }


def libraries() -> dict[str, str]:
    """Versions of the other libraries that are installed, of those that some part of synib uses."""
    found = {}
    for name in LIBRARIES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


@cache
def code() -> Mapping[str, Any]:
    """The commit that this code is of, and whether its files were changed since; or that nobody can tell."""
    package = Path(synib.__file__).parent
    try:
        # A package that was installed into somebody's own checkout is not part of that.
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


def of_sources(asked: Mapping[str, tuple[Source, Path]]) -> Any:
    """Checksums of data sets: name → file → checksum; or that no file was read.

    Args:
        asked: What :func:`synib.data.files.record_sources` yielded.
    """
    found = {}
    for name, (source, folder) in sorted(asked.items()):
        found[name] = {k: v for paths in source.paths(folder) for k, v in checksums(folder, paths).items()}
    return found or MADE


def of_path(path: Path) -> dict[str, Any]:
    """Checksums of a user's own file, or of all files in a folder."""
    if path.is_dir():
        return {path.name: checksums(path, sorted(p for p in path.rglob("*") if p.is_file()))}
    return {path.name: checksums(path.parent, [path])}


def checksums(folder: Path, paths: Sequence[Path]) -> dict[str, str]:
    """File → its sha256; of many files one for all of them together.

    Args:
        folder: That they are in; only what comes after it is recorded.
        paths: The files.
    """
    named = {path.relative_to(folder).as_posix(): path for path in paths}
    if len(named) <= FEW:
        return {name: _sha256(path, *_stamp(path)) for name, path in named.items()}
    sizes = {name: path.stat().st_size for name, path in named.items()}
    whole = sum(sizes.values()) <= MOST
    account = hashlib.sha256()
    for name, path in named.items():
        account.update(f"{name} {sizes[name]} {_sha256(path, *_stamp(path)) if whole else ''}\n".encode())
    first = min(named)
    return {f"{first} and {len(named) - 1} more, {'contents' if whole else 'names and sizes'}": account.hexdigest()}


def _stamp(path: Path) -> tuple[int, int]:
    found = path.stat()
    return found.st_size, found.st_mtime_ns


@cache
def _sha256(path: Path, size: int, time: int) -> str:
    """Read once in a process, unless it changes."""
    return sha256(path)


def changed(before: Any, now: Any) -> list[str]:
    """Which data are others than recorded, by name; none where nothing was recorded."""
    if before is None or before == now:
        return []
    if not isinstance(before, Mapping) or not isinstance(now, Mapping):
        return ["the data"]
    return [str(name) for name in dict.fromkeys([*before, *now]) if before.get(name) != now.get(name)]
