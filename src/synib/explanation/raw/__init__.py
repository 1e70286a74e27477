"""Parts of raw modalities: words of a text, patches of an image, blocks of a spectrogram, columns of a table."""

from synib.explanation.raw.base import RawContent, RawParts
from synib.explanation.raw.build import KINDS, raw_parts
from synib.explanation.raw.images import ImagePatches
from synib.explanation.raw.sounds import SoundBlocks
from synib.explanation.raw.tables import TableColumns
from synib.explanation.raw.texts import TextWords

__all__ = ["KINDS", "ImagePatches", "RawContent", "RawParts", "SoundBlocks", "TableColumns", "TextWords", "raw_parts"]
