"""Do a run's numbers come out again? Some of its cells are trained anew and every metric is compared."""

import math
import random
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from synib.checks import shown
from synib.data.files import record_sources
from synib.files import read_csv, read_json
from synib.studies.base import Row
from synib.studies.provenance import changed, of_sources, versions
from synib.studies.run import load
from synib.training.cells import Cell
from synib.training.device import Precision, choose_device, choose_precision, device_name
from synib.training.folder import Folder
from synib.training.sweep import Progress, sweep

# Of a metric, or of its size where that is above 1. A model that is trained alone adds up in another order than among others:
# of 380 metrics 32 moved so on one machine, by 0.003 at most. TensorFloat-32 moved 229 of 376, one of them by more than 0.04
# (docs/results/rerun.md); and of a metric on 30 examples one example is 0.03.
SAME, OTHER = 0.01, 0.1
SHARE = 0.02
IGNORED = ("experiment", "cell", "versions")  # which are no results

State = Literal["identical", "within tolerance", "differs"]


@dataclass(frozen=True)
class Compared:
    """A cell that was trained again.

    Args:
        cell: Which.
        equal, metrics: How many metrics have the same six digits, of how many.
        largest: The largest difference, relative to a metric's size where that is above 1; infinite where a metric is missing.
        where: The metric that it is of, with both values; empty if there is none.
        state: What follows from it.
    """

    cell: Cell
    equal: int
    metrics: int
    largest: float
    where: str
    state: State


@dataclass(frozen=True)
class Verification:
    """What came of training some cells of a run again.

    Args:
        cells: Those that were.
        of: How many the run has.
        tolerance: What a metric may differ by.
        differences: What is not as it was recorded: versions, machine, precision; a sentence each.
        data: Data sets whose files are others than recorded, by name.
    """

    cells: tuple[Compared, ...]
    of: int
    tolerance: float
    differences: tuple[str, ...]
    data: tuple[str, ...]

    @property
    def matches(self) -> bool:
        """Whether all metrics come out again, of the same data."""
        return not self.data and all(one.state != "differs" for one in self.cells)


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
    """Train a random part of a run's cells again, in a folder that is then removed, and compare every metric.

    Args:
        folder: Of a finished run: its ``config.json`` and ``results.csv``, and what ``run.json`` and ``timings.csv`` tell.
        share: How many cells, as a share of all; at least one.
        cells: How many, instead.
        seed: Decides which.
        tolerance: What a metric may differ by; by default 0.01, or 0.1 on another machine or with other versions.
        device: Where to train.
        on_progress: Called with the work done and the work there is.
        say: Called with what the user should know.
    """
    path = Path(folder)
    experiment = load(path)
    known = {cell.id: cell for cell in experiment.cells()}
    rows = _rows(path / "results.csv", known)
    record = read_json(path / "run.json")
    begun: Mapping[str, Any] = record if isinstance(record, dict) else {}
    chosen = _drawn(list(rows), share, cells, seed)
    device = choose_device(device)
    recorded = begun.get("precision", "float32")
    if recorded not in get_args(Precision):
        raise ValueError(f"{path / 'run.json'} is damaged: precision is {shown(recorded)}.")
    precision = recorded if recorded != "tf32" or device.startswith("cuda") else "float32"
    differences = [*_versions(begun), *_machine(path, device)]
    if precision != recorded:
        differences.append(f"The run was in {recorded}, which {device} has not: this is in {precision}.")
    if tolerance is None:
        tolerance = OTHER if differences else SAME
    elif not 0 <= tolerance < math.inf:
        raise ValueError(f"--tolerance is a number of at least 0; got {tolerance}.")
    with record_sources() as asked:
        experiment.check()
    data = changed(begun.get("data"), of_sources(asked))
    say(f"{experiment.title}\n{len(chosen)} of {len(rows)} models anew on {device}.")
    again = [known[i] for i in chosen]
    with tempfile.TemporaryDirectory() as home:
        sweep(
            experiment,
            again,
            Folder(home, experiment.config()),
            device=device,
            precision=choose_precision(precision, device),
            engine="solo" if begun.get("engine") == "solo" else "fleet",
            on_progress=on_progress,
            say=say,
        )
        now = {row["cell"]: row for row in read_csv(Path(home) / "results.csv")}
    compared = tuple(compare(cell, rows[cell.id], now[cell.id], tolerance) for cell in again)
    return Verification(compared, len(rows), tolerance, tuple(differences), tuple(data))


def compare(cell: Cell, before: Row, now: Row, tolerance: float) -> Compared:
    """Every metric of a cell, as a table has it, beside what it is now."""
    names = [n for n in dict.fromkeys([*before, *now]) if n not in IGNORED]
    pairs = {n: (before.get(n), now.get(n)) for n in names if before.get(n) is not None or now.get(n) is not None}
    gaps = {name: _gap(*pair) for name, pair in pairs.items()}
    worst = max(gaps, key=lambda name: gaps[name], default="")
    largest = gaps.get(worst, 0.0)
    state: State = "identical" if largest == 0 else "within tolerance" if largest <= tolerance else "differs"
    where = f"{worst}: {pairs[worst][0]} there, {pairs[worst][1]} now" if largest else ""
    metrics = [n for n in gaps if n not in ("method", "seed", "error", *cell.factors)]
    return Compared(cell, sum(gaps[n] == 0 for n in metrics), len(metrics), largest, where, state)


def _gap(before: Any, now: Any) -> float:
    if before == now:
        return 0.0
    if not all(isinstance(value, int | float) for value in (before, now)):
        return math.inf
    return abs(before - now) / max(1.0, abs(before))


def _rows(file: Path, known: Mapping[str, Cell]) -> dict[str, dict[str, Any]]:
    """The table's rows by their cell, if it is the table of these cells."""
    table = read_csv(file)
    if not table or "cell" not in table[0]:
        raise ValueError(
            f"{file} is damaged: it has no {'column of cells' if table else 'rows'}. Run the experiment again."
        )
    rows = {row["cell"]: row for row in table}
    if len(rows) < len(table):
        raise ValueError(f"{file} is damaged: it has a cell twice. Run the experiment again.")
    strange = [i for i in rows if i not in known]
    if strange:
        raise ValueError(
            f"{file} has {len(strange)} of {len(rows)} cells that are none of its config.json, such as {shown(strange[0])}: "
            "it was made by other settings, or by another version of synib."
        )
    return rows


def _drawn(ids: Sequence[str], share: float, cells: int | None, seed: int) -> list[str]:
    """Which cells, in the order of the table."""
    if not 0 < share <= 1:
        raise ValueError(f"--share is a number above 0 and at most 1; got {share}.")
    if cells is not None and cells < 1:
        raise ValueError(f"--cells is at least 1; got {cells}.")
    wanted = math.ceil(round(share * len(ids), 9)) if cells is None else min(cells, len(ids))
    drawn = set(random.Random(seed).sample(ids, wanted))
    return [i for i in ids if i in drawn]


def _versions(begun: Mapping[str, Any]) -> list[str]:
    recorded, now = begun.get("versions"), versions()
    if not isinstance(recorded, Mapping):
        return []
    return [
        f"{name} was {recorded[name]} there and is {now[name]} here."
        for name in now
        if name in recorded and recorded[name] != now[name]
    ]


def _machine(path: Path, device: str) -> list[str]:
    """What is said of another machine, by the devices that the run's timings name."""
    if not (path / "timings.csv").is_file():
        return []
    there = sorted({str(row.get("device")) for row in read_csv(path / "timings.csv")})
    here = device_name(device)
    return [] if there == [here] else [f"The run was on {'; '.join(there)}; this is {here}."]
