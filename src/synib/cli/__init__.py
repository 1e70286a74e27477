"""The command ``synib``."""

import contextlib
import json
import os
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

import synib

app = typer.Typer(
    help="Does my multimodal model use what only the modalities together say, and if not, how do I make it?\n\n"
    "Start with:  synib reproduce spurious-xor",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)
reproduce = typer.Typer(
    help="Run an experiment of the paper (or one of ours) and leave its table, figures and a page to look at.",
    no_args_is_help=True,
)
app.add_typer(reproduce, name="reproduce")

Seeds = Annotated[int | None, typer.Option(help="How many seeds, counted from 0.  \\[default: 3]", show_default=False)]
Beta = Annotated[
    list[float] | None,
    typer.Option(help="Strength of the shortcut; give it several times for several.", show_default=False),
]
Method = Annotated[
    list[str] | None, typer.Option("--method", help="Only this method; may be repeated.", show_default=False)
]
Set = Annotated[
    list[str] | None,
    typer.Option(
        "--set", help="Change a method's setting, as in --set synib-random.p=1; may be repeated.", show_default=False
    ),
]
Width = Annotated[
    int | None,
    typer.Option(help="Width of encoders and heads.  \\[default: 1024, the paper's]", min=1, show_default=False),
]
Projections = Annotated[
    str | None,
    typer.Option(
        help="Whether each seed draws its 'own' projections of the data, or all share a 'fixed' draw.  \\[default: own]",
        show_default=False,
    ),
]
Regime = Annotated[
    str | None,
    typer.Option(
        help="Settings: 'tuned', or 'plain' without dropout and with heads that train the encoders.  \\[default: tuned]",
        show_default=False,
    ),
]
Quick = Annotated[bool, typer.Option("--quick", help="A smaller version: fewer strengths, one seed.")]
Out = Annotated[Path | None, typer.Option(help="Folder for the results.  \\[default: runs/NAME]", show_default=False)]
Device = Annotated[str, typer.Option(help="auto, cpu or cuda.")]
Together = Annotated[
    int | None,
    typer.Option(
        help="How many models to train at once.  \\[default: what the memory holds; 24 on a CPU]",
        min=1,
        show_default=False,
    ),
]
Precision = Annotated[str, typer.Option(help="Of matrix products in training: float32, or on CUDA tf32 or bf16.")]
Config = Annotated[
    Path | None, typer.Option(help="Take the options from a config.json that an earlier run left.", show_default=False)
]


@reproduce.command("spurious-xor")
def spurious_xor(
    quick: Quick = False, seeds: Seeds = None, beta: Beta = None, method: Method = None, setting: Set = None,
    out: Out = None, device: Device = "auto", together: Together = None, precision: Precision = "float32",
    config: Config = None,
) -> None:  # fmt: skip
    """Two bits, their XOR, and a shortcut: plain fusion falls for it, SynIB does not.

    Trains every method at every strength β of the shortcut and draws test accuracy against β.
    """
    options = _options(beta=beta, methods=method, seeds=seeds, overrides=_overrides(setting))
    _run(
        "spurious-xor",
        options,
        {"seeds": 1, "beta": (0.0, 0.6, 1.0)} if quick else {},
        out,
        device,
        together,
        precision,
        config,
    )


@reproduce.command("parity")
def parity(
    quick: Quick = False, seeds: Seeds = None, beta: Beta = None, method: Method = None, setting: Set = None,
    out: Out = None, device: Device = "auto", together: Together = None, precision: Precision = "float32",
    config: Config = None,
) -> None:  # fmt: skip
    """Three modalities: the parity of three bits, and a shortcut in one of them."""
    options = _options(beta=beta, methods=method, seeds=seeds, overrides=_overrides(setting))
    _run("parity", options, {"seeds": 1, "beta": (1.0,)} if quick else {}, out, device, together, precision, config)


@reproduce.command("pid-simplex")
def pid_simplex(
    quick: Annotated[
        bool, typer.Option("--quick", help="For a laptop: five methods, grid step 0.1, a network 64 wide, one seed.")
    ] = False,
    seeds: Seeds = None,
    step: Annotated[float | None, typer.Option(help="Of the grid.  \\[default: 0.05]", show_default=False)] = None,
    method: Method = None, width: Width = None, projections: Projections = None, regime: Regime = None,
    setting: Set = None, out: Out = None, device: Device = "auto", together: Together = None,
    precision: Precision = "float32", config: Config = None,
) -> None:  # fmt: skip
    """Every mixture of unique, redundant and synergistic examples: the paper's triangles.

    Trains every method at every point of a grid over the simplex; on one large GPU that takes minutes.
    """
    few = ("vanilla", "synib-oracle", "synib-random", "synib-learned", "confidence")
    changes = _narrow(_overrides(setting), method or few) if quick else _overrides(setting)
    options = _options(
        seeds=seeds, step=step, methods=method, width=width, projections=projections, regime=regime, overrides=changes
    )
    smaller = {"seeds": 1, "step": 0.1, "width": 64, "methods": few} if quick else {}
    _run("pid-simplex", options, smaller, out, device, together, precision, config)


@reproduce.command("pid-dynamics")
def pid_dynamics(
    quick: Annotated[bool, typer.Option("--quick", help="For a laptop: a network 64 wide, three seeds.")] = False,
    seeds: Annotated[
        int | None, typer.Option(help="How many seeds, counted from 0.  \\[default: 10]", show_default=False)
    ] = None,
    mixture: Annotated[
        tuple[float, float, float, float] | None,
        typer.Option(help="Proportions of U1, U2, R and S.  \\[default: 0.45 0 0.45 0.1]", show_default=False),
    ] = None,
    method: Method = None, width: Width = None, projections: Projections = None, regime: Regime = None,
    setting: Set = None, out: Out = None, device: Device = "auto", together: Together = None,
    precision: Precision = "float32", config: Config = None,
) -> None:  # fmt: skip
    """Accuracy on each source over training, where synergistic examples are scarce."""
    from synib.experiments import PIDDynamics

    everyone = method or list(PIDDynamics().defaults())
    changes = _narrow(_overrides(setting), everyone) if quick else _overrides(setting)
    options = _options(
        seeds=seeds,
        mixture=mixture,
        methods=method,
        width=width,
        projections=projections,
        regime=regime,
        overrides=changes,
    )
    smaller = {"seeds": 3, "width": 64} if quick else {}
    _run("pid-dynamics", options, smaller, out, device, together, precision, config)


@reproduce.command("learned-masks")
def learned_masks(
    quick: Annotated[bool, typer.Option("--quick", help="For a laptop: a network 64 wide, three seeds.")] = False,
    seeds: Annotated[
        int | None, typer.Option(help="How many seeds, counted from 0.  \\[default: 10]", show_default=False)
    ] = None,
    variant: Annotated[
        list[str] | None, typer.Option(help="Only this way to search masks; may be repeated.", show_default=False)
    ] = None,
    width: Width = None, projections: Projections = None, setting: Set = None, out: Out = None, device: Device = "auto",
    together: Together = None, precision: Precision = "float32", config: Config = None,
) -> None:  # fmt: skip
    """What the inner loop of learned masks buys, against what is meant to replace it."""
    changes = _narrow(_overrides(setting), ("synib-learned", "synib-amortized")) if quick else _overrides(setting)
    options = _options(seeds=seeds, variants=variant, width=width, projections=projections, overrides=changes)
    smaller = {"seeds": 3, "width": 64} if quick else {}
    _run("learned-masks", options, smaller, out, device, together, precision, config)


@reproduce.command("ntk")
def ntk(
    quick: Annotated[bool, typer.Option("--quick", help="For a laptop: a network 64 wide, three seeds.")] = False,
    seeds: Annotated[
        int | None, typer.Option(help="How many seeds, counted from 0.  \\[default: 10]", show_default=False)
    ] = None,
    method: Method = None, width: Width = None, projections: Projections = None,
    regime: Annotated[str | None, typer.Option(help="plain or tuned.  \\[default: plain]", show_default=False)] = None,
    setting: Set = None, out: Out = None, device: Device = "auto", together: Together = None,
    precision: Precision = "float32", config: Config = None,
) -> None:  # fmt: skip
    """Where the gradient goes: strength, alignment and loss of each source over training."""
    from synib.experiments import GradientGeometry

    changes = _narrow(_overrides(setting), method or GradientGeometry.methods) if quick else _overrides(setting)
    options = _options(
        seeds=seeds, methods=method, width=width, projections=projections, regime=regime, overrides=changes
    )
    _run("ntk", options, {"seeds": 3, "width": 64} if quick else {}, out, device, together, precision, config)


@reproduce.command("calibration")
def calibration(
    seeds: Annotated[
        int | None, typer.Option(help="How many seeds, counted from 0.  \\[default: 10]", show_default=False)
    ] = None,
    beta: Beta = None, method: Method = None, setting: Set = None, out: Out = None, device: Device = "auto",
    together: Together = None, precision: Precision = "float32", config: Config = None,
) -> None:  # fmt: skip
    """Is a model unsure when a modality is gone? Scores and calibration at test, intact and corrupted."""
    options = _options(seeds=seeds, beta=beta, methods=method, overrides=_overrides(setting))
    _run("calibration", options, {}, out, device, together, precision, config)


@reproduce.command("compare")
def compare(
    on: Annotated[str, typer.Option(help="spurious-xor or pid-xor.")] = "spurious-xor",
    seeds: Annotated[
        int | None, typer.Option(help="How many seeds, counted from 0.  \\[default: 10]", show_default=False)
    ] = None,
    method: Method = None, setting: Set = None, out: Out = None, device: Device = "auto", together: Together = None,
    precision: Precision = "float32", config: Config = None,
) -> None:  # fmt: skip
    """All methods on the paper's synthetic tasks, searched and trained alike."""
    if on not in ("spurious-xor", "pid-xor"):
        raise ValueError(f"--on is spurious-xor or pid-xor; got {on!r}.")
    options = _options(seeds=seeds, methods=method, overrides=_overrides(setting))
    _run(f"compare-{on}", options, {}, out, device, together, precision, config)


@reproduce.command("search")
def search(
    of: Annotated[str, typer.Option(help="The experiment whose settings to choose.")] = "parity",
    seeds: Seeds = None, method: Method = None, out: Out = None, device: Device = "auto", together: Together = None,
    precision: Precision = "float32",    config: Config = None,
) -> None:  # fmt: skip
    """Choose settings on validation accuracy: the same number of candidates for every method, test data untouched."""
    from synib.engines.folder import write_json
    from synib.report.build import load

    options = _options(of=of, seeds=seeds, methods=method)
    folder, summary = _run("search", options, {}, out, device, together, precision, config)
    chosen = load(folder).chosen(summary)  # type: ignore[attr-defined]
    write_json(folder / "chosen.json", chosen)
    typer.echo("\n".join(f"{name}: {settings}" for name, settings in chosen.items()))


@app.command()
def report(folder: Annotated[Path, typer.Argument(help="Folder of a finished run.")]) -> None:
    """Make summary, figures and page of a finished run anew from its results.csv."""
    from synib.report import build

    build(folder)
    typer.echo(f"Written: {folder / 'report.html'}")


@app.callback(invoke_without_command=True)
def _root(version: Annotated[bool, typer.Option("--version", help="Print the version and stop.")] = False) -> None:
    if version:
        typer.echo(f"synib {synib.__version__}")
        raise typer.Exit


def _options(**given: Any) -> dict[str, Any]:
    """The options that were given; lists become tuples, as an experiment has them."""
    return {k: tuple(v) if isinstance(v, list) else v for k, v in given.items() if v is not None}


def _overrides(texts: list[str] | None) -> dict[str, dict[str, Any]] | None:
    """``["synib-random.p=1"]`` as ``{"synib-random": {"p": 1}}``; values are JSON, or else text."""
    if texts is None:
        return None
    changes: dict[str, dict[str, Any]] = {}
    for text in texts:
        place, equals, value = text.partition("=")
        method, dot, name = place.rpartition(".")
        if not (equals and dot and method and name):
            raise ValueError(f"--set takes METHOD.SETTING=VALUE, as in synib-random.p=1; got {text!r}.")
        with contextlib.suppress(json.JSONDecodeError):  # else it is a plain word
            value = json.loads(value)
        changes.setdefault(method, {})[name] = value
    return changes


def _narrow(changes: dict[str, dict[str, Any]] | None, methods: Sequence[str]) -> dict[str, dict[str, Any]]:
    """A narrow network wants larger steps, whatever the method: 3e-3 instead of what was chosen for the wide one."""
    given = changes or {}
    return {method: {"lr": 3e-3, **given.get(method, {})} for method in dict.fromkeys([*methods, *given])}


def _run(
    name: str,
    options: dict[str, Any],
    quick: dict[str, Any],
    out: Path | None,
    device: str,
    together: int | None,
    precision: str,
    config: Path | None,
) -> tuple[Path, Any]:
    """Train what is not trained yet, build the report, show the table and say where everything is."""
    import platform

    import torch
    from rich.console import Console

    from synib.engines.device import choose_device, choose_precision, hardware
    from synib.engines.folder import Folder, read_json, write_json
    from synib.engines.sweep import sweep
    from synib.experiments import EXPERIMENTS
    from synib.report import build

    saved: dict[str, Any] = {}
    if config is not None:
        saved = read_json(config) or {}
        if not isinstance(saved, dict) or saved.pop("experiment", None) != name:
            raise ValueError(f"{config} is not the config.json of a {name} run.")
    experiment = EXPERIMENTS[name].from_config({**saved, **quick, **options})
    experiment.check()
    device = choose_device(device)
    chosen = choose_precision(precision, device)
    folder = Folder(out if out is not None else Path("runs") / name, experiment.config())
    versions = {"synib": synib.__version__, "torch": torch.__version__, "python": platform.python_version()}
    command = shlex.join(["synib", *sys.argv[1:]])
    if not (folder.path / "run.json").exists():
        write_json(folder.path / "run.json", {"command": command, "versions": versions, "hardware": hardware()})

    console = Console()
    cells = experiment.cells()
    console.print(f"{experiment.title}\n{len(cells)} model{'s' * (len(cells) != 1)} on {device}.", markup=False)
    try:
        with _bar(console) as advance:
            sweep(
                experiment, cells, folder, device=device, precision=chosen, together=together,
                on_progress=advance, say=console.print,
            )  # fmt: skip
    except KeyboardInterrupt:  # typer would take it and say nothing
        typer.echo("synib: stopped. What was finished is kept; the same command goes on from there.", err=True)
        raise typer.Exit(130) from None
    summary = build(folder.path)
    for table in experiment.tables(summary):
        console.print(_table(table, experiment.seeds, console.width))  # type: ignore[attr-defined]
    figure = f"Figure: {folder.path / 'figure.svg'}\n" if (folder.path / "figure.svg").exists() else ""
    places = f"{figure}Page:   {folder.path / 'report.html'}"
    console.print(places, soft_wrap=True, markup=False)
    return folder.path, summary


def _bar(console: Any) -> Any:
    """A progress bar with the time left, as a context that gives ``advance(done, of)``."""
    from contextlib import contextmanager

    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    @contextmanager
    def shown() -> Any:
        columns = (
            TextColumn("training"), BarColumn(), TextColumn("{task.percentage:3.0f} %"), TimeElapsedColumn(),
            TextColumn("elapsed,"), TimeRemainingColumn(), TextColumn("left"),
        )  # fmt: skip
        with Progress(*columns, console=console) as progress:
            task = progress.add_task("training", total=None)
            yield lambda done, of: progress.update(task, completed=done, total=of)

    return shown()


def _table(shown: Any, seeds: int, width: int) -> Any:
    """A table for the terminal: without errors where they would not fit, and a line for each number of a wide one."""
    from rich.table import Table

    if len(shown.columns) > 8:
        grid = Table(shown.of, "", title=shown.title, title_justify="left")
        for method, cells in shown.rows.items():
            for column, cell in zip(shown.columns, cells, strict=True):
                grid.add_row(method, column, _shown(cell, True))
        return grid
    roomy = width >= 20 + 14 * len(shown.columns)
    spread = " ± standard error" if roomy else ""
    grid = Table(title=f"{shown.title}, mean{spread} over seeds, n = {seeds}", title_justify="left")
    grid.add_column(shown.of, no_wrap=True)
    for column in shown.columns:
        grid.add_column(column, justify="right")
    for method, cells in shown.rows.items():
        grid.add_row(method, *(_shown(c, roomy) for c in cells))
    return grid


def _shown(cell: Any, with_error: bool) -> str:
    if cell is None or cell["mean"] is None:
        return "–"
    return f"{cell['mean']:.2f}" + (f" ± {cell['se']:.2f}" if with_error and cell["se"] is not None else "")


def main() -> None:
    """Entry point: a user's mistake is one sentence and exit code 2."""
    try:
        app()
    except (ValueError, OSError) as mistake:
        if os.environ.get("SYNIB_DEBUG"):
            raise
        typer.echo(f"synib: {mistake}", err=True)
        sys.exit(2)


if __name__ == "__main__":
    main()
