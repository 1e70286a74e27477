"""Decoding of images, with a limit on their pixels."""

import io
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from synib.data.media import BrokenFile

PIXELS = 64_000_000  # of an image, at most
FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF", "PPM")
SUFFIXES = (".jpg", ".jpeg", ".png", ".webp", ".gif", ".bmp", ".tif", ".tiff", ".ppm", ".pgm")
MAGIC = (b"\xff\xd8\xff", b"\x89PNG", b"GIF8", b"BM", b"II*\0", b"MM\0*", b"P5\n", b"P6\n")


def looks_like_image(content: bytes) -> bool:
    """Whether bytes begin like an image file."""
    return content.startswith(MAGIC) or (content[:4] == b"RIFF" and content[8:12] == b"WEBP")


def need_pillow() -> None:
    """Raise ``ValueError`` if pillow is not installed."""
    try:
        import PIL  # noqa: F401
    except ImportError as e:
        raise ValueError('Images are read with pillow, which is not installed: pip install "synib[raw]"') from e


def decode(content: bytes, side: int | None = None) -> Any:
    """Decode a PIL image to RGB in upright orientation; :class:`BrokenFile` if that fails.

    Args:
        content: The bytes of a file.
        side: The size at which it will be used; a JPEG is then decoded at reduced size, which is faster.
    """
    from PIL import Image, ImageOps, UnidentifiedImageError

    try:
        with Image.open(io.BytesIO(content), formats=FORMATS) as image:
            width, height = image.size
            if width * height > PIXELS:
                raise BrokenFile(f"has {width:,} x {height:,} pixels; at most {PIXELS:,} are decoded")
            if side is not None:
                image.draft("RGB", (2 * side, 2 * side))
            upright = ImageOps.exif_transpose(image)
            if upright.mode in ("I;16", "I;16B", "I", "F"):  # convert() would clip them to white
                upright = _to_bytes(upright)
            return upright.convert("RGB")
    except BrokenFile:
        raise
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as e:
        raise BrokenFile(f"has too many pixels; at most {PIXELS:,} are decoded") from e
    except UnidentifiedImageError as e:
        raise BrokenFile(f"is not a readable image ({', '.join(FORMATS)})") from e
    except (
        OSError,
        ValueError,
        SyntaxError,
        EOFError,
        TypeError,
        KeyError,
        IndexError,
        OverflowError,
        MemoryError,
    ) as e:
        raise BrokenFile(f"is a damaged image ({str(e) or type(e).__name__})") from e


@contextmanager
def bombs_are_errors() -> Iterator[None]:
    """Context in which Pillow's warning about images with very many pixels is an error, in every thread."""
    from PIL import Image

    with warnings.catch_warnings():
        warnings.simplefilter("error", Image.DecompressionBombWarning)
        yield


def _to_bytes(image: Any) -> Any:
    """An image with 16 or 32 bits per pixel, scaled to the range of its values."""
    import numpy as np
    from PIL import Image

    values = np.nan_to_num(np.asarray(image, dtype=np.float64))
    low, high = values.min(), values.max()
    return Image.fromarray(((values - low) * (255 / max(high - low, 1e-12))).astype(np.uint8))
