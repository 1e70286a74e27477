"""Parts of the raw modalities of an encoded file."""

from collections.abc import Sequence
from functools import partial
from typing import Any

from synib.explanation.raw.base import RawContent, RawParts
from synib.explanation.raw.images import SIDE, ImagePatches
from synib.explanation.raw.sounds import SoundBlocks
from synib.explanation.raw.tables import TableColumns
from synib.explanation.raw.texts import TextWords
from synib.own.raw import catalogue, images, sounds
from synib.own.raw.embed import Embedded, RawOptions
from synib.own.raw.files import MediaFiles
from synib.own.raw.show import items_at, shown_rows
from synib.own.raw.spec import RawModality

KINDS: dict[str, type[RawParts]] = {
    "text": TextWords,
    "image": ImagePatches,
    "audio": SoundBlocks,
    "table": TableColumns,
}


def raw_parts(
    embedded: Embedded, rows: Sequence[int], background: Sequence[int], draws: int, options: RawOptions
) -> dict[str, RawParts]:
    """Modality → the parts of some rows, which can only be shown, not explained, without a background.

    Args:
        embedded: The file.
        rows: Rows of the file to explain or show.
        background: Rows of the file whose parts replace theirs.
        draws: Background rows for each row, for the progress.
        options: Options for encoding mixed rows, and the progress.
    """
    raw_rows = shown_rows(embedded, rows)
    result = {}
    for name, modality in embedded.modalities.items():
        kind = KINDS[modality.kind]
        items = items_at(embedded, modality, {*rows, *background}) if len(background) else {}
        content = RawContent(items, partial(_decoded, kind, modality, embedded.files), background)
        encoders = [
            catalogue.restore(modality, state, options.allow_download, options.device) for state in modality.encoders
        ]
        shown = {row: next(s for s in of if s.modality == name) for row, of in raw_rows.items()}
        result[name] = kind(
            name, modality.columns, content, encoders, shown, options.on_progress, max(1, draws * len(rows))
        )
    return result


def _decoded(kind: type[RawParts], modality: RawModality, files: MediaFiles, item: Any) -> Any:
    if modality.kind == "image":
        with images.bombs_are_errors():
            return kind.decoded(images.decode(files.content(item), SIDE))
    if modality.kind == "audio":
        return kind.decoded(sounds.decode(files.content(item)))
    return kind.decoded(item)
