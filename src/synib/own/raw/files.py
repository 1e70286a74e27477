"""Image and sound files that a user's table names: only those in its folder are read, and URLs only where that is allowed."""

import urllib.error
import urllib.parse
import urllib.request
from dataclasses import dataclass
from pathlib import Path

from synib.checks import shown
from synib.data.media import BrokenFile
from synib.own.columns import Cell, printable

LARGEST = 256 * 2**20  # bytes of a file
LONGEST, HEAD = 160, 60  # characters of a cell that a message quotes, and of its beginning
SECONDS = 30  # for a server to answer
DOWNLOAD = "cannot be downloaded"
URLS = ("http://", "https://")


@dataclass(frozen=True)
class MediaFiles:
    """How the cells of a column of images or sounds are read.

    Args:
        root: Paths are relative to it, and do not leave it.
        allow_download: Whether URLs are fetched.
    """

    root: Path
    allow_download: bool = False

    def stamp(self, cell: Cell) -> bytes:
        """What changes when the content does: the bytes, or a path with the file's size and time of change.

        A path that points outside of the folder raises ``ValueError``.
        """
        if isinstance(cell, bytes):
            return cell
        text = self._text(cell)
        if is_url(text):
            return text.encode("utf-8", "surrogatepass")
        path = self.path(text)
        try:
            found = path.stat()
        except (OSError, ValueError):
            return f"{text}\0missing".encode("utf-8", "surrogatepass")
        return f"{path.resolve()}\0{found.st_size}\0{found.st_mtime_ns}".encode("utf-8", "surrogatepass")

    def path(self, text: str) -> Path:
        """The file that a cell names, if it is in the folder when links and ``..`` are followed."""
        if "\0" in text:
            raise ValueError(f"{shown(text)} is not a path.")
        joined = self.root / text
        try:
            resolved = joined.resolve()
        except (OSError, RuntimeError):  # too long, or links that lead in a circle: no file
            return joined
        if not resolved.is_relative_to(self.root.resolve()):
            raise ValueError(
                f"{named(text)!r} points outside of {self.root}, to {named(str(resolved))}: only files inside the folder are "
                "read. If they may be read, name a folder that holds them all with --root DIR (root= in Python)."
            )
        return joined

    def content(self, cell: Cell) -> bytes:
        """The bytes of an image or a sound; whatever is wrong with it raises :class:`BrokenFile`."""
        if isinstance(cell, bytes):
            return cell
        text = self._text(cell)
        if is_url(text):
            return self._fetched(text)
        path = self.path(text)
        try:
            if not path.is_file():
                raise BrokenFile("is not a file" if path.exists() else "is missing")
            if path.stat().st_size > LARGEST:
                raise BrokenFile(f"has more than {LARGEST:,} bytes")
            content = path.read_bytes()
        except OSError as e:
            raise BrokenFile(f"cannot be read ({e.strerror or e})") from e
        if content.startswith(b"version https://git-lfs"):
            raise BrokenFile("is a Git LFS pointer, not the file itself: run git lfs pull")
        return content

    def _fetched(self, url: str) -> bytes:
        if not self.allow_download:
            raise BrokenFile("is a URL, and nothing is downloaded without --allow-download (allow_download=True)")
        try:
            with _opener().open(
                urllib.request.Request(url, headers={"User-Agent": "synib"}), timeout=SECONDS
            ) as answer:
                content: bytes = answer.read(LARGEST + 1)
        except (OSError, ValueError) as e:  # those of urllib are among them
            if isinstance(e, urllib.error.HTTPError):
                e.close()
            raise BrokenFile(f"{DOWNLOAD} ({e})") from e
        if len(content) > LARGEST:
            raise BrokenFile(f"has more than {LARGEST:,} bytes")
        return content

    @staticmethod
    def _text(cell: Cell) -> str:
        if not isinstance(cell, str):
            raise ValueError(f"a cell should hold a path or the bytes of a file; got {shown(cell)}.")
        return cell


def named(cell: Cell) -> str:
    """A cell of images or sounds as quoted in a message: of a long one the beginning and the end."""
    if isinstance(cell, bytes):
        return f"a file of {len(cell):,} bytes"
    text = printable(str(cell))
    return text if len(text) <= LONGEST else f"{text[:HEAD]}…{text[HEAD - LONGEST :]}"


def is_url(text: str) -> bool:
    """Whether a cell names a page of the web."""
    return text.lower().startswith(URLS)


def _opener() -> urllib.request.OpenerDirector:
    """Opens http and https and nothing else: not file:, and not ftp: after a redirection."""
    opener = urllib.request.OpenerDirector()
    for handler in (
        urllib.request.ProxyHandler, urllib.request.HTTPHandler, urllib.request.HTTPSHandler,
        urllib.request.HTTPRedirectHandler, urllib.request.HTTPErrorProcessor, urllib.request.HTTPDefaultErrorHandler,
        urllib.request.UnknownHandler,
    ):  # fmt: skip
        opener.add_handler(handler())
    return opener
