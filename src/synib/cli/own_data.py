"""What the commands on a user's own data share: the option that names modalities."""

from collections.abc import Sequence
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
