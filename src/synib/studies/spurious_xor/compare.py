"""All methods on Spurious XOR."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from synib.data import Dataset
from synib.models import FusionModel, spurious_xor_model
from synib.studies.base import grid, settings_of
from synib.studies.compare import COEFFICIENTS, DECAYS, Compare
from synib.studies.spurious_xor.experiment import SpuriousXOR
from synib.training import Cell


@dataclass(frozen=True)
class CompareXOR(Compare):
    """All methods on Spurious XOR, with equal searches and equal training."""

    name: ClassVar[str] = "compare-spurious-xor"
    title: ClassVar[str] = "All methods on Spurious XOR: does balancing modalities help against a shortcut?"
    about: ClassVar[str] = (
        "The label is the XOR of two bits, one in each modality; the first modality also carries a "
        "shortcut that reveals it in training (β = 1) and is noise at test. All methods start from the "
        "same weights, see the same batches, and had the same number of candidate settings, compared by "
        "validation accuracy without a shortcut (β = 0): with one, validation cannot show which methods "
        "rely on it."
    )
    factors: ClassVar[tuple[str, ...]] = ("beta",)
    point: ClassVar[Mapping[str, float]] = {"beta": 1.0}
    # App. "Spurious XOR"; learning rate and weight decay by `synib reproduce search --of compare-spurious-xor`. Each method's
    # own coefficient stays as its authors have it: without a shortcut, validation cannot say how strongly one must be resisted.
    # Rounds of reconboost are of 10 epochs, so that training ends with the rectification of one.
    chosen: ClassVar[Mapping[str, dict[str, Any]]] = settings_of(__package__)["compare-spurious-xor"]

    def fixed(self) -> dict[str, Any]:
        return {"data": {"test_shortcut": "independent"}}

    def candidates(self) -> dict[str, list[dict[str, Any]]]:
        """Twelve for every method: four learning rates, three weight decays."""
        return dict.fromkeys(COEFFICIENTS, grid(lr=(1e-3, 3e-3, 1e-2, 3e-4), weight_decay=DECAYS))

    def searched_at(self) -> dict[str, Any]:
        return {"beta": 0.0}

    def data(self, cell: Cell) -> Dataset:
        return SpuriousXOR().data(cell)

    def model(self, cell: Cell, data: Dataset) -> FusionModel:
        return spurious_xor_model(data.widths)
