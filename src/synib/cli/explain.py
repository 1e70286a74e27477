"""``synib explain``: the rows of a file that need more than one modality, and the parts that contribute."""

import json
import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from synib.cli import one_line
from synib.cli.own_data import AllowDownload, AsJson, Device, Modalities, Moved, Root, Strict, columns_of, encoders_of
from synib.cli.progress import progress_bar
from synib.files import check_writable, write_csv

MOST = 200  # rows of a page, at most
ROWS_OF_KINDS = 100  # rows, at least, for their clusters to be described
TITLE = "Where the synergy of "


def explain(
    folder: Annotated[Path, typer.Argument(metavar="MODEL", help="Folder written by synib fit.")],
    file: Annotated[Path, typer.Argument(help="Rows to explain; modalities may be missing.")],
    rows: Annotated[
        str,
        typer.Option(
            help="Row numbers from 0, as in 3,17,20-25, or top:N for the N most synergistic rows.",
        ),
    ] = "top:10",
    modality: Modalities = None,
    encoder: Moved = None,
    root: Root = None,
    strict: Strict = False,
    allow_download: AllowDownload = False,
    device: Device = "auto",
    parts: Annotated[
        bool, typer.Option(help="Also compute which words, patches, sound blocks or columns contribute to the synergy.")
    ] = True,
    draws: Annotated[int, typer.Option(help="Other rows that replace an absent modality.")] = 128,
    part_draws: Annotated[int, typer.Option(help="Other rows with which the parts of a row are exchanged.")] = 16,
    seed: Annotated[int, typer.Option(help="Seed for the draws.")] = 0,
    out: Annotated[Path, typer.Option(help="The page to write.")] = Path("explanation.html"),
    table: Annotated[
        Path | None,
        typer.Option("--csv", help="Also write the numbers of every row to this CSV file.", show_default=False),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show which rows of a file need more than one modality, the evidence of each modality alone, and the parts behind it."""
    from rich.console import Console

    from synib.explanation import explain_file
    from synib.own.raw.embed import RawOptions
    from synib.own.saved import load, need_safetensors
    from synib.report.explanation import write_explanation

    need_safetensors()
    chosen = _parsed(rows)
    _check_out(out, table)
    model = load(folder)
    with progress_bar(Console(stderr=as_json)) as advance:
        result, shown, notes = explain_file(
            model, file, chosen, columns=columns_of(modality), parts=parts, draws=draws, part_draws=part_draws, seed=seed,
            options=RawOptions(root, strict, allow_download, device, advance, encoders_of(encoder)),
        )  # fmt: skip
    if table is not None:
        write_csv(table, list(result.records()))
    title = f"{TITLE}{file.name} is"
    kinds = result.kinds() if len(result) >= ROWS_OF_KINDS else None
    write_explanation(result, out, title, shown, shlex.join(["synib", *sys.argv[1:]]), notes, kinds)
    if as_json:
        records = list(result.records())
        plain = [{k: None if v != v else v for k, v in records[row].items()} for row in shown]
        typer.echo(json.dumps({"page": str(out), "rows": plain, "notes": notes}, indent=1))
        return
    for note in notes:
        typer.echo(one_line(note))
    evidence = result.rows
    for row in shown:
        low, high = evidence.synergy.low[row], evidence.synergy.high[row]
        typer.echo(
            one_line(
                f"row {result.ids[row]}: answer {result.answer(row)}, evidence {evidence.evidence[row]:+.2f}, of which synergy "
                f"{evidence.synergy.value[row]:+.2f} [{low:+.2f}, {high:+.2f}]"
            )
        )
    typer.echo(one_line(f"Page: {out}"))


def _parsed(rows: str) -> int | list[int]:
    """``"3,17,20-25"`` as row numbers, ``"top:5"`` as 5."""
    example = f"--rows takes row numbers from 0, as in 3,17,20-25, or top:N with N from 1 to {MOST}; got {rows!r}."
    if rows.startswith("top:"):
        if not rows[4:].isdecimal() or not 1 <= int(rows[4:]) <= MOST:
            raise ValueError(example)
        return int(rows[4:])
    numbers: list[int] = []
    for piece in rows.split(","):
        first, dash, last = (part.strip() for part in piece.partition("-"))
        if not first.isdecimal() or (dash and not last.isdecimal()):
            raise ValueError(example)
        begin, end = int(first), int(last) if dash else int(first)
        if end < begin or end - begin >= MOST:
            raise ValueError(example)
        numbers += range(begin, end + 1)
    if len(numbers) > MOST:
        raise ValueError(f"--rows names {len(numbers)} rows; a page shows at most {MOST}.")
    return list(dict.fromkeys(numbers))


def _check_out(out: Path, table: Path | None) -> None:
    """Raise ``ValueError`` if the page or the table cannot, or must not, be written."""
    for path, option in ((out, "--out"), (table, "--csv")):
        if path is None:
            continue
        if path.is_dir() or not path.parent.is_dir():
            raise ValueError(f"{option} must be a file in an existing folder; got {path}.")
        check_writable(path.parent)
    if out.exists() and TITLE.encode() not in out.read_bytes()[:2000]:
        raise ValueError(f"{out} exists and is not a page of synib explain: choose another file with --out.")
    if table is not None and table.exists() and not table.read_bytes().startswith(b"row,answer,evidence,"):
        raise ValueError(f"{table} exists and is not a table of synib explain: choose another file with --csv.")
