"""Image and sound files named in a user's table: only files inside its folder are read, and URLs only if allowed."""

import urllib.error
import urllib.parse
import urllib.request
from dataclasses import dataclass
from pathlib import Path

from synib.checks import shown
from synib.data.media import BrokenFile
from synib.own.columns import Cell, printable

LARGEST = 256 * 2**20  # bytes of a file, at most
LONGEST, HEAD = 160, 60  # maximum characters of a cell quoted in a message, and of its beginning
SECONDS = 30  # timeout of a download
DOWNLOAD = "cannot be downloaded"
URLS = ("http://", "https://")


@dataclass(frozen=True)
class MediaFiles:
    """Reads the cells of a column of images or sounds.

    Args:
        root: The folder of relative paths, outside of which no path may point.
        allow_download: Whether URLs are downloaded.
    """

    root: Path
    allow_download: bool = False

    def stamp(self, cell: Cell) -> bytes:
        """A key that changes with the content: the bytes, or the path with the file's size and modification time.

        A path that points outside of the folder raises ``ValueError``.
        """
        if isinstance(cell, bytes):
            return cell
        text = self._text(cell)
        if is_url(text):
            return text.encode("utf-8", "surrogatepass")
        path = self.path(text)
        try:
            status = path.stat()
        except (OSError, ValueError):
            return f"{text}\0missing".encode("utf-8", "surrogatepass")
        return f"{path.resolve()}\0{status.st_size}\0{status.st_mtime_ns}".encode("utf-8", "surrogatepass")

    def path(self, text: str) -> Path:
        """The file that a cell names; ``ValueError`` if it is outside of the folder after resolving links and ``..``."""
        if "\0" in text:
            raise ValueError(f"{shown(text)} is not a path.")
        joined = self.root / text
        try:
            resolved = joined.resolve()
        except (OSError, RuntimeError):  # too long, or a cycle of links
            return joined
        if not resolved.is_relative_to(self.root.resolve()):
            raise ValueError(
                f"{named(text)!r} points outside of {self.root}, to {named(str(resolved))}: only files inside the folder are "
                "read. To allow these files, name a folder that contains them all with --root DIR (root= in Python)."
            )
        return joined

    def content(self, cell: Cell) -> bytes:
        """The bytes of an image or a sound; :class:`BrokenFile` if they cannot be read."""
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
            ) as response:
                content: bytes = response.read(LARGEST + 1)
        except (OSError, ValueError) as e:  # includes the errors of urllib
            if isinstance(e, urllib.error.HTTPError):
                e.close()
            raise BrokenFile(f"{DOWNLOAD} ({e})") from e
        if len(content) > LARGEST:
            raise BrokenFile(f"has more than {LARGEST:,} bytes")
        return content

    @staticmethod
    def _text(cell: Cell) -> str:
        if not isinstance(cell, str):
            raise ValueError(f"a cell must hold a path or the bytes of a file; got {shown(cell)}.")
        return cell


def named(cell: Cell) -> str:
    """A cell of images or sounds as quoted in a message: of a long one the beginning and the end."""
    if isinstance(cell, bytes):
        return f"a file of {len(cell):,} bytes"
    text = printable(str(cell))
    return text if len(text) <= LONGEST else f"{text[:HEAD]}…{text[HEAD - LONGEST :]}"


def is_url(text: str) -> bool:
    """Whether a cell is a URL."""
    return text.lower().startswith(URLS)


def _opener() -> urllib.request.OpenerDirector:
    """An opener for http and https only, also after redirections."""
    opener = urllib.request.OpenerDirector()
    for handler in (
        urllib.request.ProxyHandler, urllib.request.HTTPHandler, urllib.request.HTTPSHandler,
        urllib.request.HTTPRedirectHandler, urllib.request.HTTPErrorProcessor, urllib.request.HTTPDefaultErrorHandler,
        urllib.request.UnknownHandler,
    ):  # fmt: skip
        opener.add_handler(handler())
    return opener
