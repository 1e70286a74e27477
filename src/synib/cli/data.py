"""``synib data``: list the data sets, and check whether the files of one are complete."""

import difflib
from pathlib import Path
from typing import Annotated

import typer

from synib.data.files import Finding, Source, check
from synib.studies.sources import SOURCES

data = typer.Typer(
    help="Data sets that you provide as files: sources, and whether the files are complete.", no_args_is_help=True
)
_STATES = {"incomplete": "incomplete", "different": "different version", "broken": "unreadable"}


@data.command("list")
def list_sources() -> None:
    """List all data sets that are read from files, with source and licence."""
    for source in SOURCES.values():
        typer.echo(f"{source.name}: {source.about}")
        typer.echo(f"  from     {source.where}")
        typer.echo(f"  licence  {source.licence}")
        typer.echo(f"  files    {', '.join(f'{source.folder}/{file.name}' for file in source.files)}")


@data.command("check")
def check_source(
    name: Annotated[str, typer.Argument(help="Name of a data set; see [b]synib data list[/b].")],
    root: Annotated[
        Path | None,
        typer.Option(help="Folder of the data set, or its parent.", show_default="$SYNIB_DATA"),
    ] = None,
) -> None:
    """Show counts and checksums of a data set, what is missing and where to get it. Exits with 1 if it is incomplete."""
    source = _source(name)
    result = check(source, root)
    typer.echo(f"{source.name}: {source.about}")
    typer.echo(f"in {result.folder}")
    for finding in result.findings:
        typer.echo(_line(finding))
    if not result.complete:
        typer.echo(f"Download it from {source.where}")
        typer.echo(f"Licence: {source.licence}")
        raise typer.Exit(1)
    typer.echo("All files are present.")


def _source(name: str) -> Source:
    if name in SOURCES:
        return SOURCES[name]
    suggestions = difflib.get_close_matches(name, SOURCES, n=1)
    hint = f"did you mean {suggestions[0]!r}?" if suggestions else f"choose from {', '.join(SOURCES)}."
    raise ValueError(f"Unknown data set {name!r}: {hint}")


def _line(finding: Finding) -> str:
    file = finding.file
    if finding.state == "missing":
        return f"{'  not present' if file.optional else '  MISSING'}  {file.name}: {file.what}"
    state = _STATES.get(finding.state, "there")
    is_pattern = any("*" in path for path in file.paths)
    expected = f" of {file.count:,}" if file.count is not None else ""
    amount = (
        f"{len(finding.paths):,}{expected} files, {finding.size:,} bytes" if is_pattern else f"{finding.size:,} bytes"
    )
    name = file.name if is_pattern or not finding.paths else finding.paths[0].name
    lines = [f"  {state if state == 'there' else state.upper()}  {name}: {amount}"]
    lines += [f"    {finding.details}"] * bool(finding.details)
    lines += [f"    sha256 {finding.sha256}"] * bool(finding.sha256)
    if finding.state == "different":
        lines.append(f"    expected {file.sha256}")
    return "\n".join(lines)
