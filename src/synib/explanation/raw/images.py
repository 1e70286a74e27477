"""Patches of an image, exchanged with the same patches of another image that is resized to its size."""

import base64
import io
from typing import Any

import numpy as np
from numpy.typing import NDArray

from synib.explanation import pictures
from synib.explanation.parts import Numbers, PartScores
from synib.explanation.raw.base import Mask, RawParts
from synib.explanation.views import overlays

PATCHES = 36  # patches of an image, about square
SIDE, THUMBNAIL = 256, 160  # pixels of the longer side for mixing, and for display


class ImagePatches(RawParts):
    """Patches, laid over a small copy of the image."""

    part_name = "patches of the image"

    @staticmethod
    def decoded(item: Any) -> Any:
        image = item.copy()
        image.thumbnail((SIDE, SIDE))
        return image

    def count(self, row: int) -> int:
        rows, columns = grid(self.content.row(row).size)
        return rows * columns

    def mixed(self, row: Any, fill: Any, own: Mask) -> list[Any]:
        from PIL import Image

        own_pixels, other_pixels = np.asarray(row), np.asarray(fill.resize(row.size))
        label = _labels(row.size)
        return [Image.fromarray(np.where(mask[label][..., None], own_pixels, other_pixels)) for mask in own]

    def drawn(self, row: int, parts: PartScores, at: int) -> str:
        picture, size, shape = self._picture(row)
        names = [f"row {r + 1}, column {c + 1}" for r in range(shape[0]) for c in range(shape[1])]
        return overlays(picture, size, shape, f"{self.name} of row {row}", names, parts, at)

    def highlighted(self, row: int, scores: Numbers) -> str:
        picture, size, shape = self._picture(row)
        return pictures.overlay(picture, size, scores.reshape(shape), f"{self.name} of row {row}, highlighted")

    def _picture(self, row: int) -> tuple[str, tuple[int, int], tuple[int, int]]:
        """A small copy as a data URI, its width and height, and the rows and columns of its patches."""
        image = self.content.row(row)
        small = image.copy()
        small.thumbnail((THUMBNAIL, THUMBNAIL))
        return _jpeg(small), small.size, grid(image.size)


def grid(size: tuple[int, int]) -> tuple[int, int]:
    """Rows and columns of patches for an image of this width and height."""
    width, height = size
    columns = int(np.clip(round((PATCHES * width / height) ** 0.5), 1, min(PATCHES, width)))
    return int(np.clip(PATCHES // columns, 1, height)), columns


def _labels(size: tuple[int, int]) -> NDArray[np.int64]:
    """The patch number of each pixel, ``(height, width)``."""
    (width, height), (rows, columns) = size, grid(size)
    return (np.arange(height) * rows // height)[:, None] * columns + np.arange(width) * columns // width


def _jpeg(image: Any) -> str:
    """A data URI of the image, encoded again, so that no metadata of the original file is included."""
    file = io.BytesIO()
    image.save(file, "JPEG", quality=80)
    return f"data:image/jpeg;base64,{base64.b64encode(file.getvalue()).decode()}"
