"""Which coordinates learned masks find, against those that are known to hold a cue or the synergy."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

from synib.data import Dataset
from synib.models import FusionModel
from synib.objective import Objective, SynIB
from synib.studies.ablations.catalogue import CENTRE, task_data
from synib.studies.base import Experiment, Row, option
from synib.studies.charts import Figure, HeatMap, HeatMaps, Table
from synib.studies.digits.experiment import DigitsScarce
from synib.studies.mask_recovery.regions import Picture, agreement, kept_by, members, pictures, regions
from synib.studies.pid_xor.compare import ComparePID
from synib.studies.pid_xor.simplex import WIDTH
from synib.studies.spurious_xor.experiment import SpuriousXOR
from synib.training import Cell, Learner

METHOD = "synib-learned"
TASKS = ("spurious-xor", "pid-xor", "digits")
BETA = 1.0  # strength of the shortcut in Spurious XOR
METRICS = {"precision": "precision", "recall": "recall", "AUROC": "auroc", "precision by chance": "chance"}

NOTE = (
    "Precision: the share of the coordinates kept (or corrupted) that are the named ones; recall: the share of the named ones "
    "that are kept (or corrupted), both over all examples that hold them. AUROC: whether the named coordinates are kept (or "
    "corrupted) more often than the others. Precision by chance is that of a mask that ignores the data."
)
OUTLINED = {
    "spurious-xor": "the shortcut; the signal is in coordinates 0 to 3",
    "pid-xor": "the block that holds the label in these examples; the synergistic block is 12 to 17",
    "digits": "the bands that pass a tone, and the edges that may hold a bar; tiles are of 3 frames, or of 2 by 2 pixels",
}


@dataclass(frozen=True)
class MaskRecovery(Experiment):
    """Do learned masks keep the cues and corrupt the rest? Precision, recall and AUROC where the truth is known."""

    name: ClassVar[str] = "mask-recovery"
    title: ClassVar[str] = "Mask recovery: which coordinates do learned masks find?"
    about: ClassVar[str] = (
        "A learned mask is searched for each example. It should keep the coordinates from which one modality alone predicts "
        "the label, and corrupt all others, the synergistic ones among them. In these tasks we know which are which: the "
        "shortcut and the signal of Spurious XOR (β = 1), the blocks of PID-XOR, and in spoken × written digits the "
        "spectrogram bands that pass a cue's tone and the two columns of pixels at either edge that may hold a bar. Each model "
        "is trained with the learned masks and settings of its own study (spurious-xor, compare-pid-xor, digits-scarce); the "
        "masks are then searched once more, on validation examples, by the trained model's unimodal heads. Test data is not "
        "read."
    )
    factors: ClassVar[tuple[str, ...]] = ("task",)
    curves: ClassVar[bool] = False
    quick: ClassVar[Mapping[str, Any]] = {"seeds": 1, "task": ("spurious-xor",)}

    methods: tuple[str, ...] = (METHOD,)
    root: str = option("", "Folder of the data; $SYNIB_DATA by default.")
    task: tuple[str, ...] = option(TASKS, "Only this task; may be repeated.", among=TASKS)
    width: int = option(WIDTH, "Width of encoders and heads on PID-XOR; the paper's is 1024.")

    @cached_property
    def _experiments(self) -> dict[str, Experiment]:
        return {
            "spurious-xor": SpuriousXOR(),
            "pid-xor": ComparePID(width=self.width),
            "digits": DigitsScarce(root=self.root),
        }

    @property
    def caution(self) -> str:
        if self.width == WIDTH or "pid-xor" not in self.task:
            return ""
        return f"On PID-XOR the network is {self.width} wide; the paper's is {WIDTH} wide."

    def defaults(self) -> dict[str, dict[str, Any]]:
        """Nothing beyond the settings of the task's own study."""
        return {METHOD: {}}

    def points(self) -> list[dict[str, Any]]:
        return [{"task": task} for task in self.task]

    def cells(self) -> list[Cell]:
        changes = self.overrides.get(METHOD, {})
        return [
            Cell(
                self.name,
                METHOD,
                {"task": task},
                {**self._experiments[task].settings()[METHOD], **self._experiments[task].fixed(), **changes}
                | {"data": {"task": task}},
                seed,
            )
            for task in self.task
            for seed in range(self.seeds)
        ]

    def described(self) -> dict[str, Mapping[str, Any]]:
        return {
            f"{cell.factors['task']}: {METHOD}": {k: v for k, v in cell.settings.items() if k != "data"}
            for cell in self.cells()
        }

    def _inner(self, cell: Cell) -> tuple[Experiment, Cell]:
        """The experiment of a cell's task, and the cell as that experiment would have it."""
        experiment = self._experiments[str(cell.factors["task"])]
        data = experiment.fixed().get("data")
        settings = {k: v for k, v in cell.settings.items() if k != "data"} | ({"data": data} if data else {})
        return experiment, replace(cell, factors={"beta": BETA}, settings=settings)

    def data(self, cell: Cell) -> Dataset:
        task = str(cell.factors["task"])
        if task == "spurious-xor":
            experiment, inner = self._inner(cell)
            return replace(experiment.data(inner), test=None)
        return task_data(task, self.root, CENTRE["share"], cell.seed)

    def model(self, cell: Cell, data: Dataset) -> FusionModel:
        experiment, inner = self._inner(cell)
        return experiment.model(inner, data)

    def method(self, cell: Cell, data: Dataset) -> Objective:
        experiment, inner = self._inner(cell)
        return experiment.method(inner, data)

    def examine(self, cell: Cell, learner: Learner, data: Dataset) -> dict[str, float]:
        """How well masks agree with the known regions, and how often each coordinate is kept."""
        task, method = str(cell.factors["task"]), learner.method
        assert isinstance(method, SynIB)
        kept = {name: kept_by(method, learner.model, data, name, cell.seed) for name in data.widths}
        scores = {
            f"{region.column}_{name}": value
            for region in regions(task)
            for name, value in agreement(region, kept[region.modality], data.validation).items()
        }
        for picture in pictures(task):
            frequency = kept[picture.modality][members(data.validation, picture.sources)].float().mean(0)
            tiles = picture.tiles(frequency)
            scores |= {
                picture.column(i, j): tiles[i, j].item() for i in range(tiles.shape[0]) for j in range(tiles.shape[1])
            }
        return scores

    def metrics(self, results: Sequence[Row]) -> list[str]:
        """Every column that some task has; the tasks have different ones."""
        names = dict.fromkeys(name for row in results for name in row if row[name] is not None)
        known = ("experiment", "method", "task", "seed", "cell", "versions", "error", "train_accuracy")
        return [name for name in names if name not in known]

    def summary(self, results: Sequence[Row]) -> list[Row]:
        """Means over seeds, without the columns of other tasks."""
        return [row for row in super().summary(results) if row["n"]]

    def tables(self, summary: Sequence[Row]) -> list[Table]:
        found = {(row["task"], row["metric"]): row for row in summary}
        return [
            Table(
                f"{task}: agreement of masks with what is known",
                list(METRICS),
                {
                    region.label: [found.get((task, f"{region.column}_{metric}")) for metric in METRICS.values()]
                    for region in regions(task)
                },
                of="coordinates",
                note=NOTE,
            )
            for task in self.task
        ]

    def charts(self, summary: Sequence[Row], curves: Sequence[Row]) -> list[Figure]:
        found = {(row["task"], row["metric"]): row for row in summary}
        return [
            self._figure(task, {metric: row for (of, metric), row in found.items() if of == task}) for task in self.task
        ]

    def _figure(self, task: str, found: Mapping[str, Row]) -> HeatMaps:
        """How often each coordinate is kept: strips below each other, or pictures side by side."""
        drawn = pictures(task)
        if drawn[0].height > 1:
            maps = [_map(picture, found) for picture in drawn]
        else:
            strips = [_map(picture, found) for picture in drawn]
            marked = [(i, j) for i, strip in enumerate(strips) for _, j in strip.outlined]
            rows = [cells for strip in strips for cells in strip.cells]
            maps = [HeatMap("", [picture.label for picture in drawn], strips[0].columns, rows, marked)]
        n = f"{self.seeds} seed{'s' * (self.seeds != 1)}"
        return HeatMaps(
            file=f"figure-{task}",
            title=f"How often learned masks keep each coordinate: {task}",
            x="coordinate" if drawn[0].height == 1 else "",
            maps=maps,
            reading=(
                f"Share of validation examples in which a coordinate is kept, mean over {n}; in all others it is corrupted. "
                f"Outlined: {OUTLINED[task]}."
            ),
            limits=(0.0, 1.0),
            numbers=False,
        )


def _map(picture: Picture, found: Mapping[str, Row]) -> HeatMap:
    """One picture, the highest band of a spectrogram on top."""
    height, width = picture.shape
    order = list(range(height))[::-1] if picture.modality == "audio" else list(range(height))
    marked = picture.tiles(picture.marked) > 0
    return HeatMap(
        picture.label,
        [str(i * picture.pool[0]) for i in order],
        [str(j * picture.pool[1]) for j in range(width)],
        [[found.get(picture.column(i, j)) for j in range(width)] for i in order],
        [(place, j) for place, i in enumerate(order) for j in range(width) if marked[i, j]],
    )
