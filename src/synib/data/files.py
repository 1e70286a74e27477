"""What a data set on disk is: its files, where to get them, under which licence; and what of it is there."""

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from synib.checks import shown

ROOT = "SYNIB_DATA"
LONGEST = 255  # bytes of a file's name

# Which data sets were asked for, and in which folder, while somebody listens.
_asked: ContextVar[dict[str, tuple["Source", Path]] | None] = ContextVar("asked", default=None)

State = Literal["there", "missing", "incomplete", "different", "broken"]


@dataclass(frozen=True)
class File:
    """A file that a data set needs, or many of one kind.

    Args:
        path: Where it is in the data set's folder; ``"AudioWAV/*.wav"`` is many; several are alternatives, the first that is
            there is taken.
        what: What is in it.
        count: How many there should be, where ``path`` is many.
        sha256: Of the file as it is known, where ``path`` is one.
        optional: Whether the data set can be used without it.
        look: Says in a few words what is in the files that were found; raises ``ValueError`` where they cannot be read.
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
        """How a sentence calls it."""
        return " or ".join(self.paths)


@dataclass(frozen=True)
class Source:
    """A data set that lies in files a user brings.

    Args:
        name: What commands call it.
        about: What it is, in a line.
        where: Where to get it.
        licence: What one may do with it.
        files: What it needs.
        folder: Its folder below the data root; a root that has no such folder is taken for the data set's own.
    """

    name: str
    about: str
    where: str
    licence: str
    files: tuple[File, ...]
    folder: str

    def find(self, root: str | Path | None = None) -> Path:
        """The data set's own folder; see :func:`data_root`."""
        given = data_root(root)
        own = given / self.folder
        folder = inside(given, self.folder) if own.is_dir() else given
        if (asked := _asked.get()) is not None:
            asked[self.name] = self, folder
        return folder

    def found(self, folder: Path) -> list[list[Path]]:
        """Those of its files that are in its own folder: the paths of each kind."""
        return [_matches(folder, file) for file in self.files]

    def file(self, root: str | Path | None = None, number: int = 0) -> Path:
        """The path of one of its files, if that is there; else a sentence that says where to get it."""
        folder, wanted = self.find(root), self.files[number]
        found = _matches(folder, wanted)
        if not found:
            raise ValueError(f"{folder} holds no {wanted.name} ({wanted.what}): get it from {self.where}.")
        return found[0]


@dataclass(frozen=True)
class Finding:
    """What is there of one file (or of many of one kind).

    Args:
        file: What was looked for.
        state: ``there``; ``missing``; ``incomplete`` (fewer or more than there should be); ``different`` (another checksum);
            ``broken`` (cannot be read).
        found: The paths.
        size: Bytes of all of them.
        sha256: Of a single file.
        said: What is in it, or what is wrong with it.
    """

    file: File
    state: State
    found: tuple[Path, ...] = ()
    size: int = 0
    sha256: str = ""
    said: str = ""

    @property
    def right(self) -> bool:
        """Whether this is no obstacle."""
        return self.state == "there" or (self.state == "missing" and self.file.optional)


@dataclass(frozen=True)
class Check:
    """What is there of a data set.

    Args:
        source: The data set.
        folder: Where it was looked for.
        findings: One for each of its files.
    """

    source: Source
    folder: Path
    findings: tuple[Finding, ...]

    @property
    def complete(self) -> bool:
        """Whether everything that is needed is there, and is what it should be."""
        return all(finding.right for finding in self.findings)


@contextmanager
def noted() -> Iterator[dict[str, tuple[Source, Path]]]:
    """A dict that fills with the data sets that are looked for meanwhile: name → the data set and its own folder."""
    asked: dict[str, tuple[Source, Path]] = {}
    token = _asked.set(asked)
    try:
        yield asked
    finally:
        _asked.reset(token)


def data_root(root: str | Path | None = None) -> Path:
    """The folder that data are read from: the one given, or else the one named by ``$SYNIB_DATA``."""
    if root is not None and not isinstance(root, str | os.PathLike):
        raise ValueError(f"root is a folder's path; got {shown(root)}.")
    chosen = str(root) if root is not None else os.environ.get(ROOT, "")
    if not chosen:
        raise ValueError(f"Say where the data are: give a folder as root (--root DIR), or set {ROOT} to it.")
    folder = Path(chosen)
    if not folder.is_dir():
        by = "root" if root is not None else ROOT
        raise ValueError(f"{by} is a folder with data; {folder} is {'a file' if folder.exists() else 'not there'}.")
    return folder


def inside(root: Path, path: str | Path) -> Path:
    """``root / path``, if that stays in ``root`` also when links and ``..`` are followed; else ``ValueError``."""
    whole = root / path
    if any(len(os.fsencode(part)) > LONGEST for part in whole.parts):
        raise ValueError(f"{shown(str(path))} is too long for the name of a file.")
    if Path(path).is_absolute() or not whole.resolve().is_relative_to(root.resolve()):
        raise ValueError(
            f"{str(path)!r} leads out of {root}, to {whole.resolve()}: only files inside the folder are read."
        )
    return whole


def check(source: Source, root: str | Path | None = None) -> Check:
    """Look what of a data set is there; nothing is changed or fetched.

    Args:
        source: The data set, one of ``synib.data.SOURCES``.
        root: Its own folder or the one that holds it; ``None`` is ``$SYNIB_DATA``.
    """
    folder = source.find(root)
    return Check(source, folder, tuple(_look(folder, file) for file in source.files))


def check_disjoint(name: str, train: Iterable[object], validation: Iterable[object], test: Iterable[object]) -> None:
    """Raise ``ValueError`` if an actor, video or speaker (``name``) is in two parts of a data set.

    Args:
        name: What must not be shared, for the sentence.
        train, validation, test: That of each example of a part.
    """
    parts = {"train": set(train), "validation": set(validation), "test": set(test)}
    for one, other in (("train", "validation"), ("train", "test"), ("validation", "test")):
        both = sorted(map(str, parts[one] & parts[other]))
        if both:
            more = f" and {len(both) - 3} more" if len(both) > 3 else ""
            raise ValueError(
                f"Every {name} belongs to one part of the data; {', '.join(both[:3])}{more} "
                f"{'is' if len(both) == 1 else 'are'} in {one} and in {other}."
            )


def _matches(folder: Path, file: File) -> list[Path]:
    for path in file.paths:
        if "*" in path:
            found = sorted(p for p in folder.glob(path) if p.is_file())
        else:
            found = [folder / path] if (folder / path).is_file() else []
        if found:
            return [inside(folder, p.relative_to(folder)) for p in found]
    return []


def _look(folder: Path, file: File) -> Finding:
    try:
        found = tuple(_matches(folder, file))
    except ValueError as mistake:
        return Finding(file, "broken", said=str(mistake))
    if not found:
        return Finding(file, "missing")
    size = sum(path.stat().st_size for path in found)
    many = any("*" in path for path in file.paths)
    digest = "" if many else sha256(found[0])
    try:
        said = file.look(found) if file.look else ""
    except ValueError as mistake:
        return Finding(file, "broken", found, size, digest, str(mistake))
    if file.count is not None and len(found) != file.count:
        return Finding(file, "incomplete", found, size, digest, said)
    if file.sha256 is not None and digest != file.sha256:
        return Finding(file, "different", found, size, digest, said)
    return Finding(file, "there", found, size, digest, said)


def sha256(path: Path) -> str:
    """The checksum of a file."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
