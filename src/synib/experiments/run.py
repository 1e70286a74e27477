"""Run an experiment: from its options to a folder with a row for every trained model, and back."""

import platform
from collections.abc import Callable
from pathlib import Path
from typing import cast, get_args

import torch

import synib
from synib.engines import fleet
from synib.engines.cells import programs
from synib.engines.device import choose_device, choose_precision, hardware
from synib.engines.folder import Folder, read_json, write_json
from synib.engines.sweep import Engine, Progress, sweep
from synib.experiments.base import Experiment


def run(
    experiment: Experiment,
    out: Path | str | None = None,
    *,
    device: str = "auto",
    precision: str = "float32",
    together: int | None = None,
    engine: str = "fleet",
    command: str = "",
    on_progress: Progress = lambda done, of: None,
    say: Callable[[str], None] = lambda sentence: None,
) -> Path:
    """Train every model of an experiment that is not trained yet; returns the folder of the results.

    Args:
        experiment: What to run.
        out: Where results go; ``runs/<name>`` by default. A run that was stopped goes on there.
        device: ``"auto"``, ``"cpu"`` or ``"cuda"``.
        precision: Of matrix products in training: ``"float32"``, or on CUDA ``"tf32"`` or ``"bf16"``.
        together: How many models to train at once; by default as many as the memory holds.
        engine: ``"fleet"`` for many small models at once, ``"solo"`` for one of any size after the other, on Lightning.
        command: What the user typed, for the record.
        on_progress: Called with the work done and the work there is.
        say: Called with what the user should know.

    Example:
        >>> import tempfile
        >>> from synib.experiments import SpuriousXOR, run
        >>> small = SpuriousXOR(seeds=1, beta=(1.0,), methods=("vanilla",), epochs=1)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     sorted(path.name for path in run(small, folder).glob("*.csv"))
        ['curves.csv', 'results.csv', 'timings.csv']
    """
    experiment.check()
    device = choose_device(device)
    chosen = choose_precision(precision, device)
    if engine not in get_args(Engine):
        raise ValueError(f"--engine is {' or '.join(get_args(Engine))}; got {engine!r}.")
    cells = experiment.cells()
    if engine == "fleet":
        for same in programs(cells):
            fleet.check_together(same)  # before the folder says that a fleet begun it
    folder = Folder(out if out is not None else Path("runs") / experiment.name, experiment.config())
    _record(folder, precision, engine, command)
    say(f"{experiment.title}\n{len(cells)} model{'s' * (len(cells) != 1)} on {device}.")
    sweep(
        experiment,
        cells,
        folder,
        device=device,
        precision=chosen,
        together=together,
        engine=cast(Engine, engine),
        on_progress=on_progress,
        say=say,
    )
    return folder.path


def _record(folder: Folder, precision: str, engine: str, command: str) -> None:
    """Write down how a run was begun; one in another precision, or by another engine, must not go on in the same folder."""
    begun = read_json(folder.path / "run.json")
    if begun is None:
        versions = {"synib": synib.__version__, "torch": torch.__version__, "python": platform.python_version()}
        record = {"command": command, "precision": precision, "versions": versions, "hardware": hardware()}
        record |= {"engine": engine} if engine != "fleet" else {}
        write_json(folder.path / "run.json", record)
    elif isinstance(begun, dict) and begun.get("precision", precision) != precision:
        raise ValueError(
            f"{folder.path} holds a run in {begun['precision']}; go on with --precision {begun['precision']}, or choose "
            "another folder with --out."
        )
    elif isinstance(begun, dict) and begun.get("engine", "fleet") != engine:
        before = begun.get("engine", "fleet")
        raise ValueError(
            f"{folder.path} holds a run of the {before} engine; go on with --engine {before}, or choose another folder with "
            "--out."
        )


def load(folder: Path | str) -> Experiment:
    """The experiment that a results folder was made by, with its options."""
    from synib.experiments import EXPERIMENTS

    if Path(folder).is_file():
        raise ValueError(f"{folder} is a file; give the folder of a finished run.")
    config = read_json(Path(folder) / "config.json")
    name = config.get("experiment") if isinstance(config, dict) else None
    if not isinstance(name, str) or name not in EXPERIMENTS:
        raise ValueError(f"{folder} is not the folder of a run: it has no config.json that names an experiment.")
    return EXPERIMENTS[config["experiment"]].from_config(config)
