"""Run an experiment: from its options to a folder with one row per trained model, and back."""

import contextlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, Self, cast, runtime_checkable

from synib.checks import check_choice
from synib.files import read_csv, read_json, write_json
from synib.studies.base import Experiment
from synib.studies.provenance import changed, data_read_by, provenance
from synib.training import Cell, processes
from synib.training import cluster as clusters
from synib.training.device import choose_device, choose_devices, choose_precision
from synib.training.folder import Folder
from synib.training.shards import Progress
from synib.training.sweep import Engine, Together, check_cells, shards_of, sweep

LOADER = f"{__name__}:from_config"


@runtime_checkable
class Widening(Protocol):
    """An experiment whose results may require more cells, such as a search whose best value is at the edge of its grid."""

    def resumed(self, config: Any) -> Self:
        """The experiment with the extensions in the config of a folder."""

    def widened(self, results: Sequence[Mapping[str, Any]]) -> tuple[Self, str] | None:
        """The experiment with more cells, and the reason as text; ``None`` if these results need none."""


def run(
    experiment: Experiment,
    out: Path | str | None = None,
    *,
    device: str = "auto",
    precision: str = "float32",
    together: Together = None,
    engine: str = "fleet",
    cluster: clusters.Cluster | None = None,
    command: str = "",
    on_progress: Progress = lambda done, of: None,
    say: Callable[[str], None] = lambda sentence: None,
) -> Path:
    """Train all unfinished models of an experiment; return the folder of the results.

    Args:
        experiment: The experiment to run.
        out: Folder for the results; ``runs/<name>`` by default. An interrupted run continues there.
        device: ``"auto"``, ``"cpu"`` or ``"cuda"``, which is all visible GPUs for the engine ``"fleet"``; or several,
            each with a process: ``"cuda:0,cuda:1"``, ``"cpu,cpu"``.
        precision: Precision of matrix products in training: ``"float32"``, or on CUDA ``"tf32"`` or ``"bf16"``.
        together: Number of models to train at once; by default as many as fit into memory, 24 on a CPU. ``"measured"``
            measures on a CPU how many are fastest, and with how many threads; ``measured.json`` records it.
        engine: ``"fleet"`` for many small models at once, ``"solo"`` for one model of any size at a time with
            Lightning, ``"cluster"`` for the fleet's shards on the nodes of a Ray cluster.
        cluster: The cluster to use; by default a new one on this machine, for this run only.
        command: The command line of the user, for the record.
        on_progress: Called with the work done and the total work.
        say: Called with messages for the user.

    Example:
        >>> import tempfile
        >>> from synib.studies import SpuriousXOR, run
        >>> small = SpuriousXOR(seeds=1, beta=(1.0,), methods=("vanilla",), epochs=1)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     sorted(path.name for path in run(small, folder).glob("*.csv"))
        ['curves.csv', 'results.csv', 'timings.csv']
    """
    check_choice("engine", engine, Engine)
    if cluster is not None and engine != "cluster":
        raise ValueError(f"cluster requires the engine 'cluster'; this run has the engine {engine!r}.")
    path = Path(out) if out is not None else Path("runs") / experiment.name
    if isinstance(experiment, Widening):
        if engine == "cluster":
            raise ValueError(
                f"{experiment.name} determines what to train next from its results: use the engine 'fleet'."
            )
        experiment = experiment.resumed(read_json(path / "config.json") if path.is_dir() else None)
    data = data_read_by(experiment.check)
    cells = experiment.cells()
    check_cells(cells, cast(Engine, engine))
    if engine == "cluster":
        _check_known(experiment)
    with contextlib.ExitStack() as stack:
        session = None
        if engine == "cluster":
            session = stack.enter_context(clusters.joined(cluster or clusters.Cluster(), say))
        devices = _devices(experiment, device, engine, say) if session is None else [session.place(device)]
        device = devices[0]
        if together == "measured" and (list(devices) != ["cpu"] or engine != "fleet"):
            raise ValueError(
                f"together='measured' needs the engine 'fleet' on one CPU; this run has the engine {engine!r} on "
                f"{', '.join(devices)}."
            )
        options: dict[str, Any] = {
            "device": device,
            "precision": choose_precision(precision, device),
            "together": together,
            "on_progress": on_progress,
            "say": say,
        }
        folder = Folder(path, experiment.config())
        stack.enter_context(folder.locked(say))
        record = provenance(command, device if session is None else "cpu", (c.seed for c in cells), data)
        # A cluster trains the fleet's shards: either may continue what the other began.
        record |= {"precision": precision, "engine": "solo" if engine == "solo" else "fleet"}
        if len(devices) > 1:
            device = record["device"] = f"{len(devices)} x {record['device']}"
        if session is not None:
            device = record["device"] = f"{device}, {session.slots()} shards at once on a Ray cluster"
        _record(folder, record)
        say(f"{experiment.title}\n{len(cells)} model{'s' * (len(cells) != 1)} on {device}.")
        if session is None:
            _sweep(experiment, folder, cast(Engine, engine), devices, options)
        else:
            clusters.sweep(experiment, cells, folder, session, loader=LOADER, config=experiment.config(), **options)
    return folder.path


def _devices(experiment: Experiment, device: str, engine: str, say: Callable[[str], None]) -> list[str]:
    """The devices of a run on this machine; several need a process each, which finds the experiment by its name."""
    devices = choose_devices(device)
    if len(devices) == 1:
        return devices
    if engine != "fleet":
        if device in ("auto", "cuda"):
            return [choose_device(device)]
        raise ValueError(f"Several devices need the engine 'fleet'; got device {device!r} and the engine {engine!r}.")
    if device in ("auto", "cuda") and not _is_known(experiment):
        say(
            f"Only an experiment of synib.studies.EXPERIMENTS uses all {len(devices)} devices; this one uses the first."
        )
        return devices[:1]
    _check_known(experiment)
    return devices


def _sweep(
    experiment: Experiment, folder: Folder, engine: Engine, devices: Sequence[str], options: Mapping[str, Any]
) -> None:
    """Train all cells, and further cells that their results require."""
    device, precision, together = (options[name] for name in ("device", "precision", "together"))
    while True:
        cells = experiment.cells()

        def group(new: Sequence[Cell], experiment: Experiment = experiment) -> list[list[Cell]]:
            return shards_of(experiment, new, device, precision, together, engine, folder)

        if isinstance(experiment, Widening):
            folder.widen(experiment.config(), cells, group)
        if len(devices) == 1:
            sweep(experiment, cells, folder, engine=engine, **options)
        else:
            own = {name: value for name, value in options.items() if name != "device"}
            config = experiment.config()
            processes.sweep(experiment, cells, folder, devices, loader=LOADER, config=config, **own)
        wider = experiment.widened(read_csv(folder.path / "results.csv")) if isinstance(experiment, Widening) else None
        if wider is None:
            return
        experiment, why = wider
        options["say"](why)


def _is_known(experiment: Experiment) -> bool:
    """Whether other processes can find an experiment by its name."""
    from synib.studies import EXPERIMENTS

    return EXPERIMENTS.get(experiment.name) is type(experiment)


def _check_known(experiment: Experiment) -> None:
    """Raise ``ValueError`` for an experiment that other processes cannot find by its name."""
    if not _is_known(experiment):
        raise ValueError(
            "The nodes of a cluster, and the processes of several devices, find an experiment by its name, but synib has "
            f"none called {experiment.name!r}: add it to synib.studies.EXPERIMENTS on all nodes."
        )


def _record(folder: Folder, record: Mapping[str, Any]) -> None:
    """Write ``run.json``; a run in another precision, by another engine or on other data cannot be continued."""
    file = folder.path / "run.json"
    before = read_json(file)
    if before is None:
        write_json(file, record)
        return
    if not isinstance(before, dict):
        raise ValueError(f"{file} is damaged: it does not describe a run. Choose another folder for the results.")
    for name, default in (("precision", record["precision"]), ("engine", "fleet")):
        value = before.get(name, default)
        if value != record[name]:
            raise ValueError(
                f"{folder.path} holds a run with {name} {value}; continue it with {name} {value}, or choose another folder."
            )
    others = changed(before.get("data"), record["data"])
    if others:
        raise ValueError(
            f"{folder.path} holds a run on other data: the files of {', '.join(others)} have changed since it "
            "started. Restore them, or choose another folder."
        )


def load(folder: Path | str) -> Experiment:
    """The experiment of a results folder, with its options."""
    from synib.studies import EXPERIMENTS

    if Path(folder).is_file():
        raise ValueError(f"{folder} is a file: give the folder of a finished run.")
    config = read_json(Path(folder) / "config.json")
    name = config.get("experiment") if isinstance(config, dict) else None
    if not isinstance(name, str) or name not in EXPERIMENTS:
        raise ValueError(f"{folder} is not the folder of a run: it has no config.json that names an experiment.")
    return from_config(config)


def from_config(config: Mapping[str, Any]) -> Experiment:
    """The experiment named in a config, with its options."""
    from synib.studies import EXPERIMENTS

    return EXPERIMENTS[config["experiment"]].from_config(config)
