"""Verification of a run: some of its models are trained again and every metric is compared."""

import math
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from synib.checks import shown
from synib.files import read_csv, read_json
from synib.studies.base import Row
from synib.studies.provenance import changed, data_read_by, versions
from synib.studies.run import load
from synib.studies.sample import draw, recorded_shards
from synib.training.cells import Cell
from synib.training.device import Precision, choose_device, device_name, hardware
from synib.training.folder import Folder
from synib.training.shards import Progress
from synib.training.sweep import Engine, sweep

# Allowed difference of a metric, relative to its size where that is above 1. A model's random draws do not depend on the
# models that are trained with it, but the order in which a batched matrix product is summed does, and training amplifies
# rounding. So a shard is trained again as a whole: on the same machine with the same versions that gives the same digits
# (4,320 of 4,320 metrics, docs/results/rerun.md), and SAME only leaves room for kernels that are not deterministic. In
# another group, on another machine or with other versions single models move by more: OTHER.
SAME, OTHER = 0.01, 0.1
SHARE = 0.02
NOT_COMPARED = ("experiment", "cell", "versions")

State = Literal["identical", "within tolerance", "differs"]


@dataclass(frozen=True)
class Comparison:
    """A retrained model, with its row of ``results.csv``.

    Args:
        cell: The model.
        equal, metrics: Number of metrics with the same six digits, and total number.
        largest: The largest difference, relative to the metric's size if that is above 1; infinite if a metric is
            missing.
        where: The metric with the largest difference and both of its values; empty if there is none.
        state: The conclusion.
    """

    cell: Cell
    equal: int
    metrics: int
    largest: float
    where: str
    state: State


@dataclass(frozen=True)
class Verification:
    """The result of training some models of a run again.

    Args:
        cells: The retrained models.
        total: Number of models of the run.
        tolerance: The tolerated difference of a metric.
        differences: What differs from the recorded run (versions, machine, precision, groups), one sentence each.
        changed_data: Names of the data sets whose files differ from the recorded ones.
    """

    cells: tuple[Comparison, ...]
    total: int
    tolerance: float
    differences: tuple[str, ...]
    changed_data: tuple[str, ...]

    @property
    def matches(self) -> bool:
        """Whether all metrics are reproduced, on the same data."""
        return not self.changed_data and all(model.state != "differs" for model in self.cells)


def verify(
    folder: Path | str,
    *,
    share: float = SHARE,
    cells: int | None = None,
    seed: int = 0,
    tolerance: float | None = None,
    device: str = "auto",
    on_progress: Progress = lambda done, of: None,
    say: Callable[[str], None] = lambda sentence: None,
) -> Verification:
    """Train a random part of a run's models again, in a temporary folder, and compare every metric.

    On the run's device whole shards are trained, since a model's last digits depend on those that are trained with it.
    On another device, or if the folder does not record the shards, single models are drawn.

    Args:
        folder: Folder of a finished run, with its ``config.json`` and ``results.csv``; ``run.json``, ``timings.csv``
            and ``shards.json`` are optional.
        share: Minimum fraction of the models to train again; at least one shard.
        cells: Minimum number of models to train again, instead of a fraction.
        seed: Seed of the selection.
        tolerance: The tolerated difference of a metric; by default 0.01, or 0.1 in other groups than the run's, on
            another machine or with other versions.
        device: Device to train on.
        on_progress: Called with the work done and the total work.
        say: Called with messages for the user.
    """
    path = Path(folder)
    if tolerance is not None and not 0 <= tolerance < math.inf:
        raise ValueError(f"tolerance must be a number of at least 0; got {tolerance}.")
    experiment = load(path)
    every = experiment.cells()
    rows = _rows(path / "results.csv", every)
    record = read_json(path / "run.json")
    recorded: Mapping[str, Any] = record if isinstance(record, dict) else {}
    engine: Engine = "solo" if recorded.get("engine") == "solo" else "fleet"
    device = choose_device(device)
    machine = _machine(path, recorded, device)
    precision, lost = _precision(path, recorded, device)
    differences = [*_versions(recorded), *machine, *lost]
    shards = [] if machine or engine == "solo" else recorded_shards(path, every)
    if not shards and engine == "fleet":
        differences.append(
            "The models are trained in other groups than in the run, so floating-point sums have another order."
        )
    chosen = draw(shards or [[cell] for cell in every], share, cells, seed)
    again = [cell for shard in chosen for cell in shard]
    if tolerance is None:
        tolerance = OTHER if differences else SAME
    changed_data = changed(recorded.get("data"), data_read_by(experiment.check))
    say(f"{experiment.title}\nTraining {len(again)} of {len(every)} models again on {device}.")
    with tempfile.TemporaryDirectory() as home:
        scratch = Folder(home, experiment.config())
        if shards:
            scratch.shards(again, lambda: chosen)
        sweep(
            experiment,
            again,
            scratch,
            device=device,
            precision=precision,
            engine=engine,
            on_progress=on_progress,
            say=say,
        )
        now = {row["cell"]: row for row in read_csv(Path(home) / "results.csv")}
    compared = tuple(compare(cell, rows[cell.id], now[cell.id], tolerance) for cell in again)
    return Verification(compared, len(every), tolerance, tuple(differences), tuple(changed_data))


def compare(cell: Cell, before: Row, now: Row, tolerance: float) -> Comparison:
    """Compare every metric of a model in two tables."""
    names = [n for n in dict.fromkeys([*before, *now]) if n not in NOT_COMPARED]
    pairs = {n: (before.get(n), now.get(n)) for n in names if before.get(n) is not None or now.get(n) is not None}
    gaps = {name: _gap(*pair) for name, pair in pairs.items()}
    worst = max(gaps, key=lambda name: gaps[name], default="")
    largest = gaps.get(worst, 0.0)
    state: State = "identical" if largest == 0 else "within tolerance" if largest <= tolerance else "differs"
    where = f"{worst}: was {pairs[worst][0]}, now {pairs[worst][1]}" if largest else ""
    metrics = [n for n in gaps if n not in ("method", "seed", "error", *cell.factors)]
    return Comparison(cell, sum(gaps[n] == 0 for n in metrics), len(metrics), largest, where, state)


def _gap(before: Any, now: Any) -> float:
    if before == now:
        return 0.0
    if not all(isinstance(value, int | float) for value in (before, now)):
        return math.inf
    # Tables have six decimals: from 0.99 to 1.00 is 0.01, not the 0.010000000000000009 of the subtraction.
    return round(abs(before - now) / max(1.0, abs(before)), 9)


def _rows(file: Path, cells: Sequence[Cell]) -> dict[str, dict[str, Any]]:
    """The rows of the table by cell, if it is the table of these cells."""
    table = read_csv(file)
    if not table or "cell" not in table[0]:
        missing = "column of cells" if table else "rows"
        raise ValueError(f"{file} is damaged: it has no {missing}. Run the experiment again.")
    rows = {row["cell"]: row for row in table}
    if len(rows) < len(table):
        raise ValueError(f"{file} is damaged: it contains a cell twice. Run the experiment again.")
    known = {cell.id for cell in cells}
    unknown = [i for i in rows if i not in known]
    if unknown:
        raise ValueError(
            f"{file} has {len(unknown)} of {len(rows)} cells that do not belong to its config.json, such as "
            f"{shown(unknown[0])}: it was written with other settings or by another version of synib."
        )
    if len(rows) < len(known):
        raise ValueError(f"{file} is damaged: it has {len(rows)} of {len(known)} cells. Run the experiment again.")
    return rows


def _precision(path: Path, recorded: Mapping[str, Any], device: str) -> tuple[Precision, list[str]]:
    """The precision to train in, and a sentence if it differs from the run's."""
    precision = recorded.get("precision", "float32")
    if precision not in get_args(Precision):
        raise ValueError(f"{path / 'run.json'} is damaged: precision is {shown(precision)}.")
    if precision == "tf32" and not device.startswith("cuda"):
        return "float32", [f"The run used tf32, which {device} does not support; this uses float32."]
    return precision, []


def _versions(recorded: Mapping[str, Any]) -> list[str]:
    """One sentence for each version that differs from the recorded one."""
    before, now = recorded.get("versions"), versions()
    if not isinstance(before, Mapping):
        return []
    return [
        f"{name} was {before[name]} in the run and is {now[name]} here."
        for name in now
        if name in before and before[name] != now[name]
    ]


def _machine(path: Path, recorded: Mapping[str, Any], device: str) -> list[str]:
    """A sentence if the run was on another device or, on a CPU, on another kind of CPU."""
    before, here = [], device_name(device)
    if (path / "timings.csv").is_file():
        before = sorted({str(row.get("device")) for row in read_csv(path / "timings.csv")})
    if before and before != [here]:
        return [f"The run was on {'; '.join(before)}; this is {here}."]
    processor = recorded.get("hardware", hardware())
    if device == "cpu" and processor != hardware():
        return [f"The run was on {processor}; this is {hardware()}."]
    return []
