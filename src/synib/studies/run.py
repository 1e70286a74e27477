"""Run an experiment: from its options to a folder with a row for every trained model, and back."""

import contextlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, cast, get_args

from synib.data.files import record_sources
from synib.files import read_json, write_json
from synib.studies.base import Experiment
from synib.studies.provenance import changed, of_sources, provenance
from synib.training import cluster as many_machines
from synib.training.device import choose_device, choose_precision
from synib.training.folder import Folder
from synib.training.sweep import Engine, Progress, check_cells, sweep

LOADER = f"{__name__}:from_config"


def run(
    experiment: Experiment,
    out: Path | str | None = None,
    *,
    device: str = "auto",
    precision: str = "float32",
    together: int | None = None,
    engine: str = "fleet",
    cluster: many_machines.Cluster | None = None,
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
        engine: ``"fleet"`` for many small models at once, ``"solo"`` for one of any size after the other, on Lightning,
            ``"cluster"`` for the fleet's shards on the nodes of a Ray cluster.
        cluster: Which one; by default one of this machine, for this run alone.
        command: What the user typed, for the record.
        on_progress: Called with the work done and the work there is.
        say: Called with what the user should know.

    Example:
        >>> import tempfile
        >>> from synib.studies import SpuriousXOR, run
        >>> small = SpuriousXOR(seeds=1, beta=(1.0,), methods=("vanilla",), epochs=1)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     sorted(path.name for path in run(small, folder).glob("*.csv"))
        ['curves.csv', 'results.csv', 'timings.csv']
    """
    with record_sources() as asked:
        experiment.check()
    if engine not in get_args(Engine):
        *others, last = get_args(Engine)
        raise ValueError(f"--engine is {', '.join(others)} or {last}; got {engine!r}.")
    cells = experiment.cells()
    check_cells(cells, cast(Engine, engine))
    if engine != "cluster":
        if cluster is not None:
            raise ValueError(f"A cluster is for --engine cluster; this run has --engine {engine}.")
        nodes: contextlib.AbstractContextManager[many_machines.Session | None] = contextlib.nullcontext()
    else:
        _check_known(experiment)
        nodes = many_machines.joined(cluster or many_machines.Cluster(), say)
    with contextlib.ExitStack() as held:
        session = held.enter_context(nodes)
        device = choose_device(device) if session is None else session.place(device)
        chosen = choose_precision(precision, device)
        folder = Folder(out if out is not None else Path("runs") / experiment.name, experiment.config())
        held.enter_context(folder.locked(say))
        seeds = (cell.seed for cell in cells)
        made = provenance(command, device if session is None else "cpu", seeds, of_sources(asked))
        # A cluster trains the fleet's shards: either may go on with what the other began.
        made |= {"precision": precision, "engine": "solo" if engine == "solo" else "fleet"}
        where = device if session is None else f"{device}, {session.slots()} shards at once on a Ray cluster"
        made |= {"device": where} if session is not None else {}
        _record(folder, made)
        say(f"{experiment.title}\n{len(cells)} model{'s' * (len(cells) != 1)} on {where}.")
        how: dict[str, Any] = {
            "device": device,
            "precision": chosen,
            "together": together,
            "on_progress": on_progress,
            "say": say,
        }
        if session is None:
            sweep(experiment, cells, folder, engine=cast(Engine, engine), **how)
        else:
            many_machines.sweep(experiment, cells, folder, session, loader=LOADER, config=experiment.config(), **how)
    return folder.path


def _check_known(experiment: Experiment) -> None:
    """Refuse an experiment that workers would not find."""
    from synib.studies import EXPERIMENTS

    if EXPERIMENTS.get(experiment.name) is not type(experiment):
        raise ValueError(
            f"The cluster engine makes an experiment from its name on every node, and {experiment.name!r} is none that synib "
            "has: name it in synib.studies.EXPERIMENTS and install that on all nodes."
        )


def _record(folder: Folder, made: Mapping[str, Any]) -> None:
    """Write down how a run was begun; one in another precision, by another engine or of other data must not go on there."""
    begun = read_json(folder.path / "run.json")
    if begun is None:
        write_json(folder.path / "run.json", made)
        return
    if not isinstance(begun, dict):
        raise ValueError(
            f"{folder.path / 'run.json'} is damaged: it describes no run. Choose another folder with --out."
        )
    before = {"precision": made["precision"], "engine": "fleet", **begun}
    for name, words in (("precision", "a run in {}"), ("engine", "a run of the {} engine")):
        if before[name] != made[name]:
            raise ValueError(
                f"{folder.path} holds {words.format(before[name])}; go on with --{name} {before[name]}, or choose another "
                "folder with --out."
            )
    others = changed(begun.get("data"), made["data"])
    if others:
        raise ValueError(
            f"{folder.path} holds a run on other data: the files of {', '.join(others)} have changed since it began. Put them "
            "back, or choose another folder with --out."
        )


def load(folder: Path | str) -> Experiment:
    """The experiment that a results folder was made by, with its options."""
    from synib.studies import EXPERIMENTS

    if Path(folder).is_file():
        raise ValueError(f"{folder} is a file; give the folder of a finished run.")
    config = read_json(Path(folder) / "config.json")
    name = config.get("experiment") if isinstance(config, dict) else None
    if not isinstance(name, str) or name not in EXPERIMENTS:
        raise ValueError(f"{folder} is not the folder of a run: it has no config.json that names an experiment.")
    return from_config(config)


def from_config(config: Mapping[str, Any]) -> Experiment:
    """The experiment that a config names, with its options."""
    from synib.studies import EXPERIMENTS

    return EXPERIMENTS[config["experiment"]].from_config(config)
