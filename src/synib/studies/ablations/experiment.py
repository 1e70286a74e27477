"""How sensitive SynIB is to its settings, and to how many examples are synergistic: maps on validation data."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

from synib.data import Dataset
from synib.measure import correct
from synib.models import FusionModel
from synib.objective import Objective
from synib.studies.ablations.catalogue import (
    FACTORS,
    MAPS,
    OF_METHOD,
    SYNERGISTIC,
    Line,
    Map,
    Task,
    Values,
    combined,
    task_data,
    tasks,
    training,
)  # fmt: skip
from synib.studies.ablations.page import MapOfTask
from synib.studies.base import Experiment, Row, option
from synib.studies.charts import Figure, Table
from synib.studies.evaluation import predictions
from synib.training import Cell, Learner

NONE = ("none",)  # an option that may be repeated names one value at least
BATCH = 2000  # rows predicted at once


@dataclass(frozen=True)
class Ablations(Experiment):
    """What SynIB's settings do, as maps: weight, masking, draws, annealing, reference, learned masks, scarcity of synergy."""

    name: ClassVar[str] = "ablations"
    title: ClassVar[str] = "Ablations: what SynIB's settings do, and how scarce synergy may be"
    about: ClassVar[str] = (
        "These are sensitivity maps, not results at test: everything is measured on validation data, and test data is not "
        "read. Total is accuracy on all validation examples, synergy on those without a cue. Each map varies two settings; "
        "the others stay at λ = 10, annealed to 0 over four fifths of training, whole modalities swapped, 16 draws, a uniform "
        "reference, and one example in ten synergistic. Learning rate, dropout, weight decay and network are those that the "
        "searches of digits-scarce and compare-pid-xor chose for the same method (synib-random, synib-learned, confidence, "
        "vanilla). The number of validation examples is inversely proportional to the share of synergistic ones, so that "
        f"about {SYNERGISTIC} are synergistic in every model's validation data."
    )
    factors: ClassVar[tuple[str, ...]] = ("task", *FACTORS)
    headline: ClassVar[str] = "synergy"
    curves: ClassVar[bool] = False
    quick: ClassVar[Mapping[str, Any]] = {"seeds": 1, "task": ("pid-xor",), "maps": ("draws",)}

    methods: tuple[str, ...] = tuple(OF_METHOD)
    root: str = option("", "Folder of the data; $SYNIB_DATA by default.")
    task: tuple[str, ...] = option(
        ("digits", "pid-xor"), "Only this task; may be repeated.", among=("digits", "pid-xor")
    )
    maps: tuple[str, ...] = option(tuple(MAPS), "Only this map; may be repeated.", among=MAPS)
    leave_out: tuple[str, ...] = option(NONE, "FACTOR=VALUE that no map shows, as in weight=3; may be repeated.")

    def __post_init__(self) -> None:
        super().__post_init__()
        for method, changes in self.overrides.items():
            if varied := [name for name in changes if name in FACTORS]:
                raise ValueError(f"{varied[0]} is what a map varies and is not set for {method}: choose other maps.")
        known = {pair for m in MAPS.values() for part in _parts(m) for pair in _pairs(part)}
        if unknown := [pair for pair in self.leave_out if pair not in known and self.leave_out != NONE]:
            raise ValueError(f"leave_out names values of maps, as in weight=3; got {unknown[0]!r}.")
        if empty := [name for name in self.maps if not (self.rows_of(name) and self.columns_of(name))]:
            raise ValueError(f"Nothing is left of the map {empty[0]!r}: leave out fewer values, or choose other maps.")

    @cached_property
    def _tasks(self) -> dict[str, Task]:
        return tasks(self.root)

    def defaults(self) -> dict[str, dict[str, Any]]:
        """Nothing beyond the settings that a task's own search chose."""
        return {method: {} for method in OF_METHOD}

    def rows_of(self, name: str) -> dict[str, Line]:
        """The rows of a map that this run has."""
        lines = MAPS[name].rows.items()
        return {text: line for text, line in lines if line.method in self.methods and self._has(line.values)}

    def columns_of(self, name: str) -> dict[str, Values]:
        """The columns of a map that this run has."""
        return {text: values for text, values in MAPS[name].columns.items() if self._has(values)}

    def _has(self, values: Values) -> bool:
        return _pairs(values).isdisjoint(self.leave_out)

    def _combinations(self) -> list[tuple[str, Values]]:
        """Method and values of every cell of every map, each once."""
        found: dict[tuple[Any, ...], tuple[str, Values]] = {}
        for name in self.maps:
            for line in self.rows_of(name).values():
                for column in self.columns_of(name).values():
                    values = combined(line, column)
                    found.setdefault((line.method, *values.values()), (line.method, values))
        return list(found.values())

    def points(self) -> list[dict[str, Any]]:
        return [{"task": task, **values} for task in self.task for _, values in self._combinations()]

    def cells(self) -> list[Cell]:
        return [
            Cell(
                self.name,
                method,
                {"task": task, **values},
                {
                    **training(self._tasks[task], method, values),
                    **self.overrides.get(method, {}),
                    # Models of different data are not trained together: their numbers of validation examples differ.
                    "data": {"task": task, "share": values["share"]},
                },
                seed,
            )
            for task in self.task
            for method, values in self._combinations()
            for seed in range(self.seeds)
        ]

    def described(self) -> dict[str, Mapping[str, Any]]:
        varied = (*FACTORS, "data", "mask_lr", "weight_schedule", "weight_steps")
        settings: dict[str, Mapping[str, Any]] = {}
        for cell in self.cells():
            fixed = {name: value for name, value in cell.settings.items() if name not in varied}
            settings.setdefault(f"{cell.factors['task']}: {cell.method}", fixed)
        return settings

    def _inner(self, cell: Cell) -> tuple[Experiment, Cell]:
        """The experiment of a cell's task, and the cell as that experiment would have it."""
        settings = {name: value for name, value in cell.settings.items() if name != "data"}
        return self._tasks[str(cell.factors["task"])].experiment, Cell(
            cell.experiment, cell.method, cell.factors, settings, cell.seed
        )

    def data(self, cell: Cell) -> Dataset:
        wanted = cell.settings["data"]
        return task_data(wanted["task"], self.root, wanted["share"], cell.seed)

    def model(self, cell: Cell, data: Dataset) -> FusionModel:
        experiment, inner = self._inner(cell)
        return experiment.model(inner, data)

    def method(self, cell: Cell, data: Dataset) -> Objective:
        experiment, inner = self._inner(cell)
        return experiment.method(inner, data)

    def examine(self, cell: Cell, learner: Learner, data: Dataset) -> dict[str, float]:
        """Accuracy on all validation examples, and on the synergistic ones."""
        split, family = data.validation, learner.method.family
        hits = correct(family, predictions(learner, split.modalities, BATCH), split.target)
        return {"total": hits.mean().item(), "synergy": hits[split.groups["S"].bool()].mean().item()}

    @property
    def caution(self) -> str:
        """What of the whole study this run lacks."""
        whole = type(self)()
        lacking = {
            "tasks": [name for name in whole.task if name not in self.task],
            "maps": [name for name in whole.maps if name not in self.maps],
            "values": [pair for pair in self.leave_out if self.leave_out != NONE],
        }
        missing = "; ".join(f"{what} {', '.join(names)}" for what, names in lacking.items() if names)
        return f"Not trained in this run: {missing}." if missing else ""

    def _drawn(self, summary: Sequence[Row]) -> list[MapOfTask]:
        return [
            MapOfTask(name, task, self.rows_of(name), self.columns_of(name), summary)
            for task in self.task
            for name in self.maps
        ]

    def charts(self, summary: Sequence[Row], curves: Sequence[Row]) -> list[Figure]:
        return [drawn.figure(self.seeds) for drawn in self._drawn(summary)]

    def tables(self, summary: Sequence[Row]) -> list[Table]:
        return [table for drawn in self._drawn(summary) for table in drawn.tables()]

    def metrics(self, results: Sequence[Row]) -> list[str]:
        return ["total", "synergy"]


def _parts(drawn: Map) -> list[Values]:
    """The values of all rows and columns of a map."""
    return [*(line.values for line in drawn.rows.values()), *drawn.columns.values()]


def _pairs(values: Values) -> set[str]:
    """Values as the option ``leave_out`` names them."""
    return {f"{name}={value:g}" if isinstance(value, float) else f"{name}={value}" for name, value in values.items()}
