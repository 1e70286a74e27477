"""What the page of the ablations shows: a figure and two tables for each map, and in words what the map says."""

from collections.abc import Mapping, Sequence

from synib.studies.ablations.catalogue import FACTORS, MAPS, SHARE_MAP, SYNERGISTIC, Line, Values, combined
from synib.studies.base import Row
from synib.studies.charts import HeatMap, HeatMaps, Table

METRICS = {"synergy": "synergy accuracy", "total": "total accuracy"}
OURS = "synib-random"
ALONE = (
    f"With one seed and about {SYNERGISTIC} synergistic validation examples, the sampling error alone of a synergy accuracy is "
    "0.02 to 0.035; how much seeds differ is not known."
)
Cells = list[list[Row | None]]


class MapOfTask:
    """A map of one task, with the rows of the summary that belong to it.

    Args:
        name: Of the map.
        task: Of the task.
        rows, columns: Those that the run has.
        summary: The summary of the run.
    """

    def __init__(
        self,
        name: str,
        task: str,
        rows: Mapping[str, Line],
        columns: Mapping[str, Values],
        summary: Sequence[Row],
    ) -> None:
        self.name, self.task, self.rows, self.columns = name, task, rows, columns
        self._found = {(row["method"], row["task"], *(row[f] for f in FACTORS), row["metric"]): row for row in summary}

    @property
    def title(self) -> str:
        """What it varies, and on which task."""
        return f"{self.task}: {MAPS[self.name].title}"

    def cells(self, metric: str) -> Cells:
        """For each row, for each column, the row of the summary."""
        return [
            [
                self._found.get((line.method, self.task, *combined(line, column).values(), metric))
                for column in self.columns.values()
            ]
            for line in self.rows.values()
        ]

    def figure(self, seeds: int) -> HeatMaps:
        """Synergy and total side by side."""
        maps = [HeatMap(text, list(self.rows), list(self.columns), self.cells(m)) for m, text in METRICS.items()]
        return HeatMaps(
            file=f"figure-{self.task}-{self.name}",
            title=self.title,
            x=MAPS[self.name].x,
            maps=maps,
            reading=(
                f"Accuracy on validation data, mean over {seeds} seed{'s' * (seeds != 1)}: left on the examples in which only "
                "both modalities together tell the label (chance is 0.5), right on all. Lighter is better. "
                f"{'Standard errors are in the tables.' if seeds > 1 else ALONE}"
            ),
        )

    def tables(self) -> list[Table]:
        """The numbers of the figure; under the first, what they say."""
        x = MAPS[self.name].x
        headings = [f"{x} {text}" if k == 0 else text for k, text in enumerate(self.columns)]
        return [
            Table(
                f"{self.title}, {text}",
                headings,
                dict(zip(self.rows, self.cells(metric), strict=True)),
                of="",
                note=self.note() if metric == "synergy" else "",
            )
            for metric, text in METRICS.items()
        ]

    def note(self) -> str:
        """What the synergy accuracies say, in words."""
        return self._leads() if self.name == SHARE_MAP else self._range()

    def _range(self) -> str:
        named = [
            (cell["mean"], f"{row}, {MAPS[self.name].x.removeprefix('weight ')} = {column}")
            for row, cells in zip(self.rows, self.cells("synergy"), strict=True)
            for column, cell in zip(self.columns, cells, strict=True)
            if cell is not None and cell["mean"] is not None
        ]
        if not named:
            return ""
        (worst, where_worst), (best, where_best) = min(named), max(named)
        return f"Synergy is highest at {where_best} ({best:.3f}), and lowest at {where_worst} ({worst:.3f})."

    def _leads(self) -> str:
        """SynIB against vanilla fusion and the confidence penalty, at the weight that is best for each at that share."""
        sentences = []
        for number, share in enumerate(self.columns):
            best: dict[str, tuple[float, str]] = {}
            for (text, line), cells in zip(self.rows.items(), self.cells("synergy"), strict=True):
                cell = cells[number]
                if cell is not None and cell["mean"] is not None:
                    best[line.method] = max(best.get(line.method, (0.0, "")), (cell["mean"], text))
            if OURS not in best or len(best) < 2:
                continue
            ours = best.pop(OURS)
            rival = max(best.values())
            sentences.append(
                f"{share}: {ours[0]:.3f} ({ours[1]}) against {rival[0]:.3f} ({rival[1]}), {ours[0] - rival[0]:+.3f}"
            )
        if not sentences:
            return ""
        return f"SynIB against the best of the others in synergy, by share of synergistic examples. {'; '.join(sentences)}."
