"""All methods on PID-XOR."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from synib.data import Dataset
from synib.models import FusionModel
from synib.studies.base import grid, option, settings_of
from synib.studies.compare import COEFFICIENTS, Compare
from synib.studies.pid_xor.simplex import REFERENCE, WIDTH, PIDExperiment, PIDSimplex
from synib.training import Cell


@dataclass(frozen=True)
class ComparePID(Compare):
    """All methods on PID-XOR, with equal searches and equal training."""

    name: ClassVar[str] = "compare-pid-xor"
    title: ClassVar[str] = "All methods on PID-XOR: does balancing modalities bring synergy?"
    about: ClassVar[str] = (
        "The label of every example comes from one source: the first modality alone (45 %), either "
        "modality (45 %), or only both together (10 %). All methods start from the same weights, see the "
        "same batches, and had the same number of candidate settings, compared by validation accuracy."
    )
    factors: ClassVar[tuple[str, ...]] = tuple(REFERENCE)
    names: ClassVar[Mapping[str, str]] = PIDExperiment.names
    of_model: ClassVar[tuple[str, ...]] = PIDExperiment.of_model
    point: ClassVar[Mapping[str, float]] = REFERENCE
    columns: ClassVar[Mapping[str, str]] = {"total": "test_accuracy", "synergy": "synergy_accuracy"}
    # App. "PID-Controlled XOR", with the dropout that every method of the simplex chose; the rest by
    # `synib reproduce search --of compare-pid-xor`.
    chosen: ClassVar[Mapping[str, dict[str, Any]]] = settings_of(__package__)["compare-pid-xor"]

    width: int = option(WIDTH, "Width of encoders and heads; 1024 in the paper.")

    def fixed(self) -> dict[str, Any]:
        return {"width": self.width, "data": {"projections": "own"}}

    def candidates(self) -> dict[str, list[dict[str, Any]]]:
        """Eighteen for every method: three learning rates, three values of its coefficient, heads detached or not."""
        tried = {}
        for method, coefficient in COEFFICIENTS.items():
            # Without attached heads MMPareto has nothing to balance; it gets more learning rates instead.
            rates = (3e-5, 1e-4, 3e-4, 1e-3, 2e-3, 3e-3) if method == "mmpareto" else (3e-4, 1e-3, 3e-3)
            heads = (False,) if method == "mmpareto" else (True, False)
            tried[method] = grid(detach_heads=heads, lr=rates, **{"weight_decay": (1e-5,), **coefficient})
        return tried

    def data(self, cell: Cell) -> Dataset:
        return PIDSimplex().data(cell)

    def model(self, cell: Cell, data: Dataset) -> FusionModel:
        return PIDSimplex().model(cell, data)
