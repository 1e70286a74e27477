"""Parts of raw modalities: words of a text, patches of an image, blocks of a spectrogram, columns of a table."""

from synib.explanation.raw.base import RawContent, RawParts
from synib.explanation.raw.images import ImagePatches
from synib.explanation.raw.sounds import SoundBlocks
from synib.explanation.raw.tables import TableColumns
from synib.explanation.raw.texts import TextWords

KINDS: dict[str, type[RawParts]] = {
    "text": TextWords,
    "image": ImagePatches,
    "audio": SoundBlocks,
    "table": TableColumns,
}

__all__ = ["KINDS", "ImagePatches", "RawContent", "RawParts", "SoundBlocks", "TableColumns", "TextWords"]
