"""``synib data``: which data sets there are, and whether the files of one are complete."""

import difflib
from pathlib import Path
from typing import Annotated

import typer

from synib.data.files import Finding, Source, check
from synib.studies.sources import SOURCES

data = typer.Typer(
    help="Data sets that you provide as files: where to get them, and whether they are complete.", no_args_is_help=True
)
_STATES = {"incomplete": "not all there", "different": "another version", "broken": "cannot be read"}


@data.command("list")
def list_sources() -> None:
    """Every data set that is read from files, where to get it and under which licence."""
    for source in SOURCES.values():
        typer.echo(f"{source.name}: {source.about}")
        typer.echo(f"  from     {source.where}")
        typer.echo(f"  licence  {source.licence}")
        typer.echo(f"  files    {', '.join(f'{source.folder}/{file.name}' for file in source.files)}")


@data.command("check")
def check_source(
    name: Annotated[str, typer.Argument(help="One of those that [b]synib data list[/b] names.")],
    root: Annotated[
        Path | None,
        typer.Option(help="Its own folder or the one that holds it.", show_default="$SYNIB_DATA"),
    ] = None,
) -> None:
    """Counts and checksums of a data set, what is missing and where to get it. Ends with 1 if it is incomplete."""
    source = _source(name)
    result = check(source, root)
    typer.echo(f"{source.name}: {source.about}")
    typer.echo(f"in {result.folder}")
    for finding in result.findings:
        typer.echo(_line(finding))
    if not result.complete:
        typer.echo(f"Get it from {source.where}")
        typer.echo(f"Licence: {source.licence}")
        raise typer.Exit(1)
    typer.echo("Everything is there.")


def _source(name: str) -> Source:
    if name in SOURCES:
        return SOURCES[name]
    near = difflib.get_close_matches(name, SOURCES, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(SOURCES)}."
    raise ValueError(f"No data set is called {name!r}: {hint}")


def _line(finding: Finding) -> str:
    file = finding.file
    if finding.state == "missing":
        return f"  {'not there' if file.optional else 'MISSING'}  {file.name}: {file.what}"
    state = _STATES.get(finding.state, "there")
    many = any("*" in path for path in file.paths)
    of = f" of {file.count:,}" if file.count is not None else ""
    amount = f"{len(finding.paths):,}{of} files, {finding.size:,} bytes" if many else f"{finding.size:,} bytes"
    name = file.name if many or not finding.paths else finding.paths[0].name
    lines = [f"  {state if state == 'there' else state.upper()}  {name}: {amount}"]
    lines += [f"    {finding.details}"] * bool(finding.details)
    lines += [f"    sha256 {finding.sha256}"] * bool(finding.sha256)
    if finding.state == "different":
        lines.append(f"    expected {file.sha256}")
    return "\n".join(lines)
