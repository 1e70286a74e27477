"""The command ``synib`` with all its subcommands."""

from pathlib import Path
from typing import Annotated, Any

import typer

import synib
from synib.cli.audit import audit
from synib.cli.data import data
from synib.cli.embed import embed
from synib.cli.explain import explain
from synib.cli.export import export
from synib.cli.fit import fit, predict
from synib.cli.interrupts import INTERRUPTED, second_interrupt_exits
from synib.cli.reproduce import reproduce
from synib.cli.verify import verify


class _Command(typer.core.TyperGroup):
    """Handle Ctrl-C: the first ends the command with a sentence, the second ends it immediately."""

    def invoke(self, ctx: Any) -> Any:
        try:
            with second_interrupt_exits():
                return super().invoke(ctx)
        except KeyboardInterrupt:
            typer.echo("synib: stopped.", err=True)
            raise typer.Exit(INTERRUPTED) from None


app = typer.Typer(
    cls=_Command,
    help="Does my multimodal model use the information that only a combination of modalities carries, and "
    "if not, how can I make it?\n\nStart with:  synib reproduce spurious-xor --quick\n\n"
    "On your data:  synib audit FILE.csv --target COLUMN --quick",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)
app.command()(audit)
app.command()(fit)
app.command()(predict)
app.command()(embed)
app.command()(explain)
app.command()(export)
app.add_typer(data, name="data")
app.add_typer(reproduce, name="reproduce")
app.command()(verify)


@app.command()
def report(
    folder: Annotated[Path, typer.Argument(help="Folder of a finished run.")],
    static: Annotated[
        bool,
        typer.Option(
            "--static", help="Write a light page without scripts: figures are static images, which saves 5 MB."
        ),
    ] = False,
) -> None:
    """Rebuild summary, figures and page of a finished run from its results.csv."""
    from synib.report import build

    build(folder, interactive=not static)
    typer.echo(f"Written: {folder / 'report.html'}")


@app.callback(invoke_without_command=True)
def _root(version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False) -> None:
    if version:
        typer.echo(f"synib {synib.__version__}")
        raise typer.Exit
