"""Data sets on disk: their files, sources and licences, and a check that the files are complete."""

import hashlib
import itertools
import os
from collections.abc import Callable, Iterable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from synib.checks import shown

ROOT = "SYNIB_DATA"
LONGEST = 255  # bytes of a file's name

# Where a data set that is looked up is noted, name → data set and folder, while somebody wants to know.
LOOKED_UP: ContextVar[dict[str, tuple["Source", Path]] | None] = ContextVar("looked_up", default=None)

State = Literal["there", "missing", "incomplete", "different", "broken"]


@dataclass(frozen=True)
class File:
    """A required file of a data set, or many files of one kind.

    Args:
        path: Its path in the folder of the data set, or a pattern such as ``"AudioWAV/*.wav"``; the first existing one
            of several alternatives is used.
        what: What is in it.
        count: The expected number of files, for a pattern.
        sha256: The expected checksum, for a single file.
        optional: Whether the data set can be used without it.
        look: Describes the content of the files in a few words; raises ``ValueError`` if they cannot be read.
    """

    path: str | tuple[str, ...]
    what: str
    count: int | None = None
    sha256: str | None = None
    optional: bool = False
    look: Callable[[Sequence[Path]], str] | None = None

    @property
    def paths(self) -> tuple[str, ...]:
        """The alternatives."""
        return (self.path,) if isinstance(self.path, str) else self.path

    @property
    def name(self) -> str:
        """Its name in messages."""
        return " or ".join(self.paths)


@dataclass(frozen=True)
class Source:
    """A data set whose files the user provides.

    Args:
        name: Its name in commands.
        about: A one-line description.
        where: Where to get it.
        licence: Its licence.
        files: The files it needs.
        folder: Its folder below the data root; a root without such a folder is treated as the folder of the data set.
    """

    name: str
    about: str
    where: str
    licence: str
    files: tuple[File, ...]
    folder: str

    def find(self, root: str | Path | None = None) -> Path:
        """The folder of the data set; see :func:`data_root`."""
        above = data_root(root)
        folder = inside(above, self.folder) if (above / self.folder).is_dir() else above
        if (sources := LOOKED_UP.get()) is not None:
            sources[self.name] = self, folder
        return folder

    def paths(self, folder: Path) -> list[list[Path]]:
        """The paths of its files in a folder, for each of ``files``."""
        return [_matches(folder, file) for file in self.files]

    def file(self, root: str | Path | None = None, number: int = 0) -> Path:
        """The path of one of its files; a missing file raises ``ValueError`` with its source."""
        folder, file = self.find(root), self.files[number]
        paths = _matches(folder, file)
        if not paths:
            raise ValueError(f"{folder} contains no {file.name} ({file.what}): download it from {self.where}.")
        return paths[0]


@dataclass(frozen=True)
class Finding:
    """The state of one file of a data set (or of many of one kind).

    Args:
        file: The file.
        state: ``there``; ``missing``; ``incomplete`` (fewer or more files than expected); ``different`` (another checksum);
            ``broken`` (cannot be read).
        paths: The existing paths.
        size: Their total size in bytes.
        sha256: The checksum of a single file.
        details: A description of the content, or of the problem.
    """

    file: File
    state: State
    paths: tuple[Path, ...] = ()
    size: int = 0
    sha256: str = ""
    details: str = ""

    @property
    def ok(self) -> bool:
        """Whether the data set can be used with the file in this state."""
        return self.state == "there" or (self.state == "missing" and self.file.optional)


@dataclass(frozen=True)
class Check:
    """The state of a data set.

    Args:
        source: The data set.
        folder: Its folder.
        findings: The state of each of its files.
    """

    source: Source
    folder: Path
    findings: tuple[Finding, ...]

    @property
    def complete(self) -> bool:
        """Whether every required file exists and is as expected."""
        return all(finding.ok for finding in self.findings)


def data_root(root: str | Path | None = None) -> Path:
    """The folder that data are read from: ``root``, or else ``$SYNIB_DATA``."""
    if root is not None and not isinstance(root, str | os.PathLike):
        raise ValueError(f"root must be the path of a folder; got {shown(root)}.")
    chosen = str(root) if root is not None else os.environ.get(ROOT, "")
    if not chosen:
        raise ValueError(f"The data folder is not set: give a folder as root, or set {ROOT}.")
    folder = Path(chosen)
    if not folder.is_dir():
        name = "root" if root is not None else ROOT
        raise ValueError(
            f"{name} must be a folder with data; {folder} {'is a file' if folder.exists() else 'does not exist'}."
        )
    return folder


def inside(root: Path, path: str | Path) -> Path:
    """``root / path``, if it stays inside ``root`` after resolving links and ``..``; otherwise ``ValueError``."""
    joined = root / path
    if any(len(os.fsencode(part)) > LONGEST for part in joined.parts):
        raise ValueError(f"{shown(str(path))} is too long for a file name.")
    if Path(path).is_absolute() or not joined.resolve().is_relative_to(root.resolve()):
        raise ValueError(
            f"{str(path)!r} points outside of {root}, to {joined.resolve()}: only files inside the folder are read."
        )
    return joined


def check(source: Source, root: str | Path | None = None) -> Check:
    """Check the files of a data set; nothing is changed or downloaded.

    Args:
        source: The data set, one of ``synib.studies.sources.SOURCES``.
        root: The folder of the data set or its parent; ``None`` is ``$SYNIB_DATA``.
    """
    folder = source.find(root)
    return Check(source, folder, tuple(_look(folder, file) for file in source.files))


def check_disjoint(name: str, train: Iterable[object], validation: Iterable[object], test: Iterable[object]) -> None:
    """Raise ``ValueError`` if an actor, video or speaker is in two splits of a data set.

    Args:
        name: The kind of group, for the message.
        train, validation, test: The actor, video or speaker of each example.
    """
    splits = {"train": set(train), "validation": set(validation), "test": set(test)}
    for first, second in itertools.combinations(splits, 2):
        shared = sorted(map(str, splits[first] & splits[second]))
        if shared:
            more = f" and {len(shared) - 3} more" if len(shared) > 3 else ""
            raise ValueError(
                f"Every {name} must be in one split only; {', '.join(shared[:3])}{more} "
                f"{'is' if len(shared) == 1 else 'are'} in both {first} and {second}."
            )


def _matches(folder: Path, file: File) -> list[Path]:
    for pattern in file.paths:
        paths = sorted(p for p in folder.glob(pattern) if p.is_file()) if "*" in pattern else [folder / pattern]
        if paths and paths[0].is_file():
            return [inside(folder, p.relative_to(folder)) for p in paths]
    return []


def _look(folder: Path, file: File) -> Finding:
    try:
        paths = tuple(_matches(folder, file))
    except ValueError as mistake:
        return Finding(file, "broken", details=str(mistake))
    if not paths:
        return Finding(file, "missing")
    size = sum(path.stat().st_size for path in paths)
    digest = "" if any("*" in path for path in file.paths) else sha256(paths[0])
    state: State = "there"
    try:
        details = file.look(paths) if file.look else ""
        if file.count is not None and len(paths) != file.count:
            state = "incomplete"
        elif file.sha256 is not None and digest != file.sha256:
            state = "different"
    except ValueError as mistake:
        state, details = "broken", str(mistake)
    return Finding(file, state, paths, size, digest, details)


def sha256(path: Path) -> str:
    """The checksum of a file."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
