"""``synib reproduce``: a command for every experiment, its options those of the experiment's class."""

import contextlib
import inspect
import json
import shlex
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, Field, fields
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

import typer

from synib.studies import EXPERIMENTS, Experiment, run
from synib.training.cluster import Cluster
from synib.training.folder import read_json

reproduce = typer.Typer(
    help="Run an experiment of the paper (or one of ours) and leave its table, figures and a page to look at.",
    no_args_is_help=True,
)

# What every experiment's command has besides the experiment's own options: name → (type and help, default).
SHARED: dict[str, tuple[Any, Any]] = {
    "out": (
        Annotated[
            Path | None, typer.Option(help="Folder for the results.  \\[default: runs/NAME]", show_default=False)
        ],
        None,
    ),
    "device": (Annotated[str, typer.Option(help="auto, cpu or cuda.")], "auto"),
    "together": (
        Annotated[
            int | None,
            typer.Option(
                help="How many models to train at once.  \\[default: what the memory holds; 24 on a CPU]",
                min=1,
                show_default=False,
            ),
        ],
        None,
    ),
    "precision": (
        Annotated[str, typer.Option(help="Of matrix products in training: float32, or on CUDA tf32 or bf16.")],
        "float32",
    ),
    "engine": (
        Annotated[
            str,
            typer.Option(
                help="fleet (many small models at once), solo (one of any size, on Lightning) or cluster (the fleet's work, "
                "spread over the nodes of a Ray cluster)."
            ),
        ],
        "fleet",
    ),
    "address": (
        Annotated[
            str | None,
            typer.Option(
                help="HOST:PORT of a Ray cluster that runs; its token is in RAY_AUTH_TOKEN or the file RAY_AUTH_TOKEN_PATH.  "
                "\\[default: one of this machine, for this run alone]",
                show_default=False,
            ),
        ],
        None,
    ),
    "cpus_per_shard": (
        Annotated[
            int | None,
            typer.Option(
                help="With --engine cluster: cores, and threads, for each shard.  \\[default: 1]", show_default=False
            ),
        ],
        None,
    ),
    "gpus_per_shard": (
        Annotated[
            float | None,
            typer.Option(
                help="With --engine cluster: GPUs for each shard; 0.25 lets four share one.  \\[default: 1 on CUDA, else 0]",
                show_default=False,
            ),
        ],
        None,
    ),
    "dashboard": (
        Annotated[
            bool,
            typer.Option("--dashboard", help="With --engine cluster and no --address: Ray's dashboard, on 127.0.0.1."),
        ],
        False,
    ),
    "config": (
        Annotated[
            Path | None,
            typer.Option(help="Take the options from a config.json that an earlier run left.", show_default=False),
        ],
        None,
    ),
}


CLUSTER = tuple(f.name for f in fields(Cluster))  # options of one engine alone


def command(kinds: Mapping[str, type[Experiment]]) -> Callable[..., None]:
    """The function behind a command, with a parameter for every option.

    Args:
        kinds: What ``--on`` may be, and the experiment it means; a single one needs no ``--on``.
    """
    first = next(iter(kinds))
    parameters: dict[str, tuple[Any, Any]] = {}
    if len(kinds) > 1:
        parameters["on"] = Annotated[str, typer.Option(help=f"{' or '.join(kinds)}.")], first
    for kind in kinds.values():
        if kind.quick:
            words = ", ".join(f"{name} {_words(value)}" for name, value in kind.quick.items())
            parameters["quick"] = Annotated[bool, typer.Option("--quick", help=f"A smaller version: {words}.")], False
        parameters |= {f.name: (_annotation(kind, f), None) for f in fields(kind)}
    parameters |= SHARED

    def call(**given: Any) -> None:
        on = given.pop("on", first)
        if on not in kinds:
            raise ValueError(f"--on is {' or '.join(kinds)}; got {on!r}.")
        _run(kinds[on], given)

    # What several experiments share is said by the class that gave them their group.
    kind = kinds[first]
    call.__doc__ = next((base.__doc__ for base in kind.__mro__ if kind.group and "group" in vars(base)), kind.__doc__)
    call.__annotations__ = {name: hint for name, (hint, _) in parameters.items()}
    call.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=hint)
            for name, (hint, default) in parameters.items()
        ]
    )
    return call


def _annotation(kind: type[Experiment], f: Field[Any]) -> Any:
    """How typer is to read an option. What comes of it is checked by the experiment, in its own words."""
    hint, flag, default = get_type_hints(kind)[f.name], f.name.replace("_", "-"), ""
    read: Any = hint
    if f.name == "overrides":
        read, flag = list[str], "set"
    elif get_origin(hint) is Literal:
        read = str
    elif get_args(hint)[-1:] == (...,):
        read, flag = list[get_args(hint)[0]], flag.removesuffix("s")  # type: ignore[misc]  # one value each time
    if f.default is not MISSING and f.default != "":
        default = f"  \\[default: {'all' if get_args(hint) == (str, ...) else _words(f.default)}]"
    described = (getattr(base, "__dataclass_fields__", {}).get(f.name) for base in kind.__mro__)
    said = next(one.metadata for one in described if one is not None and "help" in one.metadata)
    flag, words = said.get("flag") or flag, said["help"]
    return Annotated[read | None, typer.Option(f"--{flag}", help=f"{words}{default}", show_default=False)]


def _words(value: Any) -> str:
    if isinstance(value, tuple):
        return " ".join(map(_words, value))
    return f"{value:g}" if isinstance(value, float) else str(value)


def _run(kind: type[Experiment], given: dict[str, Any]) -> None:
    """Train what is not trained yet, build the report, show the tables and say where everything is."""
    from rich.console import Console

    from synib.report import build
    from synib.report.terminal import terminal_table

    shared = {name: given.pop(name) for name in SHARED}
    shared["cluster"] = _cluster(shared["engine"], {name: shared.pop(name) for name in CLUSTER})
    quick = given.pop("quick", False)
    options = {k: tuple(v) if isinstance(v, list) else v for k, v in given.items() if v is not None}
    if "overrides" in options:
        options["overrides"] = _overrides(options["overrides"])
    saved = _saved(kind, shared.pop("config"))
    experiment = kind.from_config({**saved, **(kind.quickly(options) if quick else options)})

    console = Console()
    try:
        with bar(console) as advance:
            folder = run(
                experiment,
                **shared,
                command=shlex.join(["synib", *sys.argv[1:]]),
                on_progress=advance,
                say=lambda sentence: console.print(sentence, markup=False),
            )
        summary = build(folder)
    except KeyboardInterrupt:  # typer would take it and say nothing
        typer.echo("synib: stopped. What was finished is kept; the same command goes on from there.", err=True)
        raise typer.Exit(130) from None
    for table in experiment.tables(summary):
        console.print(terminal_table(table, *experiment.repeats, console.width))
    for conclusion in experiment.conclusions(summary).values():
        console.print("\n".join(f"{name}: {value}" for name, value in conclusion.items()), soft_wrap=True, markup=False)
    figure = f"Figure: {folder / 'figure.svg'}\n" if (folder / "figure.svg").exists() else ""
    console.print(f"{figure}Page:   {folder / 'report.html'}", soft_wrap=True, markup=False)


def _cluster(engine: str, options: Mapping[str, Any]) -> Cluster | None:
    """The cluster that the options describe; options that nobody would read are refused."""
    chosen = {name: value for name, value in options.items() if value is not None and value is not False}
    if engine == "cluster":
        return Cluster(**chosen)
    if chosen:
        flags = ", ".join(f"--{name.replace('_', '-')}" for name in chosen)
        raise ValueError(f"{flags} is for --engine cluster; this run has --engine {engine}.")
    return None


def _saved(kind: type[Experiment], config: Path | None) -> dict[str, Any]:
    """The options in a config.json that an earlier run of the same experiment left."""
    if config is None:
        return {}
    if not config.is_file():
        what = "a folder" if config.is_dir() else "no such file"
        raise ValueError(f"--config takes the config.json that a run left; {config} is {what}.")
    try:
        saved = read_json(config)
    except ValueError as e:
        raise ValueError(f"--config takes the config.json that a run left; {config} is no JSON.") from e
    if not isinstance(saved, dict) or saved.get("experiment") != kind.name:
        raise ValueError(f"{config} is not the config.json of a {kind.name} run.")
    return {name: value for name, value in saved.items() if name != "experiment"}


def _overrides(texts: tuple[str, ...]) -> dict[str, dict[str, Any]]:
    """``("synib-random.p=1",)`` as ``{"synib-random": {"p": 1}}``; values are JSON, or else text."""
    changes: dict[str, dict[str, Any]] = {}
    for text in texts:
        place, equals, value = (part.strip() for part in text.partition("="))
        method, dot, name = place.rpartition(".")
        if not (equals and dot and method and name):
            raise ValueError(f"--set takes METHOD.SETTING=VALUE, as in synib-random.p=1; got {text!r}.")
        with contextlib.suppress(json.JSONDecodeError):  # else it is a plain word
            value = json.loads(value)
        changes.setdefault(method, {})[name] = value
    return changes


@contextlib.contextmanager
def bar(console: Any) -> Iterator[Callable[[float, float], None]]:
    """A progress bar with the time left, from the first call of ``advance(done, of)`` on."""
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    columns = (
        TextColumn("training"), BarColumn(), TextColumn("{task.percentage:3.0f} %"), TimeElapsedColumn(),
        TextColumn("elapsed,"), TimeRemainingColumn(), TextColumn("left"),
    )  # fmt: skip
    progress = Progress(*columns, console=console)
    task = progress.add_task("training", total=None)

    def advance(done: float, of: float) -> None:
        progress.start()  # a mistake that is found before training needs no bar
        progress.update(task, completed=done, total=of)

    try:
        yield advance
    finally:
        if progress.live.is_started:
            progress.stop()


def _add_commands() -> None:
    groups: dict[str, dict[str, type[Experiment]]] = {}
    for name, kind in EXPERIMENTS.items():
        groups.setdefault(kind.group or name, {})[name.removeprefix(f"{kind.group}-")] = kind
    for name, kinds in groups.items():
        reproduce.command(name)(command(kinds))


_add_commands()
