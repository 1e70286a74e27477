"""``synib reproduce``: one command per experiment, with the fields of the experiment's class as options."""

import inspect
import shlex
import sys
from collections.abc import Callable, Mapping
from typing import Any

import typer

from synib.cli.options import OF_CLUSTER, OF_RUN, cluster_of, overrides_of, parameters, saved_options
from synib.cli.progress import progress_bar
from synib.studies import EXPERIMENTS, Experiment, run

reproduce = typer.Typer(
    help="Run an experiment of the paper (or one that goes beyond it) and write its tables, figures and a page.",
    no_args_is_help=True,
)


def command(kinds: Mapping[str, type[Experiment]]) -> Callable[..., None]:
    """The function behind a command, with one parameter per option.

    Args:
        kinds: The experiments of the command, by their value of ``--on``; a single one needs no ``--on``.
    """
    first = next(iter(kinds))
    options = parameters(kinds)

    def call(**values: Any) -> None:
        on = values.pop("on", first)
        if on not in kinds:
            raise ValueError(f"--on must be {' or '.join(kinds)}; got {on!r}.")
        _run(kinds[on], values)

    # The help of a group of experiments is the docstring of the class that defines the group.
    kind = kinds[first]
    call.__doc__ = next((base.__doc__ for base in kind.__mro__ if kind.group and "group" in vars(base)), kind.__doc__)
    call.__annotations__ = {name: hint for name, (hint, _) in options.items()}
    call.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=hint)
            for name, (hint, default) in options.items()
        ]
    )
    return call


def _run(kind: type[Experiment], values: dict[str, Any]) -> None:
    """Train the unfinished models, build the report, show the tables and print the paths of the results."""
    from rich.console import Console

    from synib.report import build
    from synib.report.terminal import terminal_table

    of_run = {name: values.pop(name) for name in OF_RUN}
    of_run["cluster"] = cluster_of(of_run["engine"], {name: of_run.pop(name) for name in OF_CLUSTER})
    quick = values.pop("quick", False)
    options = {k: tuple(v) if isinstance(v, list) else v for k, v in values.items() if v is not None}
    if "overrides" in options:
        options["overrides"] = overrides_of(options["overrides"])
    saved = saved_options(kind, of_run.pop("config"))
    experiment = kind.from_config({**saved, **(kind.quickly(options) if quick else options)})

    console = Console()
    try:
        with progress_bar(console) as advance:
            folder = run(
                experiment,
                **of_run,
                command=shlex.join(["synib", *sys.argv[1:]]),
                on_progress=advance,
                say=lambda sentence: console.print(sentence, markup=False),
            )
        summary = build(folder)
    except KeyboardInterrupt:  # typer would end silently
        typer.echo("synib: stopped. Finished results are kept; run the same command again to continue.", err=True)
        raise typer.Exit(130) from None
    for table in experiment.tables(summary):
        console.print(terminal_table(table, *experiment.repeats, console.width))
    for method, settings in experiment.conclusions(summary).get("chosen", {}).items():
        console.print(f"{method}: {settings}", soft_wrap=True, markup=False)
    figure = f"Figure: {folder / 'figure.svg'}\n" if (folder / "figure.svg").exists() else ""
    console.print(f"{figure}Page:   {folder / 'report.html'}", soft_wrap=True, markup=False)


def _add_commands() -> None:
    groups: dict[str, dict[str, type[Experiment]]] = {}
    for name, kind in EXPERIMENTS.items():
        groups.setdefault(kind.group or name, {})[name.removeprefix(f"{kind.group}-")] = kind
    for name, kinds in groups.items():
        reproduce.command(name)(command(kinds))


_add_commands()
