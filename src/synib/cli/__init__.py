"""The command ``synib``."""

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

import synib
from synib.cli.audit import audit
from synib.cli.data import data
from synib.cli.fit import fit, predict
from synib.cli.reproduce import reproduce
from synib.cli.verify import verify
from synib.training.files import second_interrupt_ends

app = typer.Typer(
    help="Does my multimodal model use what only the modalities together say, and if not, how do I make it?\n\n"
    "Start with:  synib reproduce spurious-xor",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)
app.command()(audit)
app.command()(fit)
app.command()(predict)
app.add_typer(data, name="data")
app.add_typer(reproduce, name="reproduce")
app.command()(verify)


@app.command()
def report(
    folder: Annotated[Path, typer.Argument(help="Folder of a finished run.")],
    static: Annotated[
        bool, typer.Option("--static", help="A light page without scripts: figures are pictures, and 5 MB are saved.")
    ] = False,
) -> None:
    """Make summary, figures and page of a finished run anew from its results.csv."""
    from synib.report import build

    build(folder, interactive=not static)
    typer.echo(f"Written: {folder / 'report.html'}")


@app.callback(invoke_without_command=True)
def _root(version: Annotated[bool, typer.Option("--version", help="Print the version and stop.")] = False) -> None:
    if version:
        typer.echo(f"synib {synib.__version__}")
        raise typer.Exit


def main() -> None:
    """Entry point: a user's mistake is one sentence and exit code 2; a second Ctrl-C ends at once."""
    try:
        with second_interrupt_ends():
            app()
    except (ValueError, OSError) as mistake:
        if os.environ.get("SYNIB_DEBUG"):
            raise
        typer.echo(f"synib: {one_line(str(mistake))}", err=True)
        sys.exit(2)


def one_line(text: str) -> str:
    """A sentence as a terminal can have it: what a file's names hold of line ends and control characters is spelled out."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)
