"""``synib embed``: write the vectors of texts, images, audio and tables to a file."""

import json
from pathlib import Path
from typing import Annotated

import typer

from synib.cli import one_line
from synib.cli.own_data import (
    AllowDownload,
    AsJson,
    Device,
    Encoders,
    File,
    Modalities,
    Root,
    SplitColumn,
    Strict,
    Target,
    columns_of,
    encoders_of,
)
from synib.cli.progress import progress_bar


def embed(
    file: File,
    target: Target = None,
    modality: Modalities = None,
    encoder: Encoders = None,
    root: Root = None,
    strict: Strict = False,
    allow_download: AllowDownload = False,
    split: SplitColumn = None,
    device: Device = "auto",
    out: Annotated[Path, typer.Option(help="The file to write: .parquet or .npz.")] = Path("latents.parquet"),
    as_json: AsJson = False,
) -> None:
    """Convert texts, images, audio and tables to vectors by frozen encoders, and write them to a file."""
    from rich.console import Console

    from synib.own.opening import one_kind_of_error, open_source
    from synib.own.raw.embed import RawOptions
    from synib.own.raw.prepare import RawRequest
    from synib.own.raw.write import check_latents_file, embed_file, write_latents

    check_latents_file(out)
    with progress_bar(Console(stderr=as_json)) as advance, one_kind_of_error(file):
        options = RawOptions(root, strict, allow_download, device, advance)
        request = RawRequest(encoders_of(encoder), options)
        embedded = embed_file(open_source(file), request, columns_of(modality), [target] if target else [], split)
    rows = write_latents(embedded, out)
    if as_json:
        widths = {name: raw.width for name, raw in embedded.modalities.items()}
        typer.echo(json.dumps({"rows": rows, "latents": str(out), "widths": widths, "notes": embedded.notes}, indent=1))
        return
    for note in embedded.notes:
        typer.echo(one_line(note))
    typer.echo(one_line(f"Vectors of {rows:,} rows: {out}"))
