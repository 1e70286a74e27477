"""What the commands on a user's own data share: the option that names modalities, and a look at the output folder."""

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

Modalities = Annotated[
    list[str] | None,
    typer.Option(
        "--modality",
        help="NAME=COLUMN, for each; COLUMN holds vectors, or is the prefix of numbered columns.  \\[default: all there are]",
        show_default=False,
    ),
]


def columns_of(modality: Sequence[str] | None) -> dict[str, str] | None:
    """``["image=clip", "text"]`` as ``{"image": "clip", "text": "text"}``; ``None`` where the option is not given."""
    if not modality:
        return None
    columns: dict[str, str] = {}
    for text in modality:
        name, equals, column = (part.strip() for part in text.partition("="))
        if not name or (equals and not column):
            raise ValueError(f"--modality takes NAME=COLUMN, as in image=clip_embedding; got {text!r}.")
        if name in columns:
            raise ValueError(f"--modality names {name!r} twice.")
        columns[name] = column or name
    return columns


def check_writable(folder: Path) -> None:
    """Raise ``ValueError`` where nothing can be written to a folder, or where it cannot be made; leaves nothing behind."""
    existing = next(path for path in (folder, *folder.absolute().parents) if path.is_dir())
    try:
        with tempfile.TemporaryFile(dir=existing):
            pass
    except OSError as e:
        raise ValueError(f"{folder} cannot be written to ({e.strerror}); choose another folder with --out.") from e
