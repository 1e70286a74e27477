"""How cheap can learned masks be? The plain inner loop compared with its replacements."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from synib.studies.base import Row, option
from synib.studies.charts import Table
from synib.studies.pid_xor.simplex import REFERENCE, PIDExperiment
from synib.training import Cell

LEARNED, AMORTIZED = "synib-learned", "synib-amortized"
# All loops may move a logit equally far: steps times learning rate is 2.
VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    "20 steps": (LEARNED, {"steps": 20, "mask_lr": 0.1}),
    "8 steps": (LEARNED, {"steps": 8, "mask_lr": 0.25}),
    "4 steps": (LEARNED, {"steps": 4, "mask_lr": 0.5}),
    "2 steps": (LEARNED, {"steps": 2, "mask_lr": 1.0}),
    "1 step": (LEARNED, {"steps": 1, "mask_lr": 2.0}),
    "network": (AMORTIZED, {}),
}
SHOWN = {"total": "test_accuracy", "synergy": "synergy_accuracy", "validation": "validation_accuracy"}


@dataclass(frozen=True)
class LearnedMasks(PIDExperiment):
    """The gain from the inner loop of learned masks, compared with its replacements."""

    name: ClassVar[str] = "learned-masks"
    title: ClassVar[str] = "Cheaper learned masks: what does the inner loop contribute?"
    about: ClassVar[str] = (
        "The paper searches the mask of every example again in every step, with an inner loop of 20 Adam "
        "steps. Here it is compared with fewer and larger steps, and with a small network that proposes "
        "masks. Everything else is equal; PID-XOR at (.45, 0, .45, .10)."
    )
    factors: ClassVar[tuple[str, ...]] = ("variant",)
    curves: ClassVar[bool] = False

    quick: ClassVar[Mapping[str, Any]] = {"seeds": 3, "width": 64}

    seeds: int = 10
    methods: tuple[str, ...] = (LEARNED, AMORTIZED)
    variants: tuple[str, ...] = option(
        tuple(VARIANTS), "Only this way to search masks; may be repeated.", among=VARIANTS
    )

    def defaults(self) -> dict[str, dict[str, Any]]:
        learned = super().defaults()[LEARNED]
        network = {k: v for k, v in learned.items() if k not in ("steps", "mask_lr")}
        return {LEARNED: learned, AMORTIZED: network}

    def candidates(self) -> dict[str, list[dict[str, Any]]]:
        """Empty: its settings are those of the simplex."""
        return {}

    def points(self) -> list[dict[str, Any]]:
        return [{"variant": variant} for variant in VARIANTS if variant in self.variants]

    def points_of(self, method: str) -> list[dict[str, Any]]:
        return [point for point in self.points() if VARIANTS[point["variant"]][0] == method]

    def fixed_at(self, point: Mapping[str, Any]) -> dict[str, Any]:
        return VARIANTS[point["variant"]][1]

    def described(self) -> dict[str, Mapping[str, Any]]:
        return {str(cell.factors["variant"]): cell.settings for cell in self.cells()}

    def mixture_of(self, cell: Cell) -> dict[str, Any]:
        return REFERENCE

    def tables(self, summary: Sequence[Row]) -> list[Table]:
        shown = [v for v, (method, _) in VARIANTS.items() if v in self.variants and method in self.methods]
        return [
            Table.of_metrics("accuracy with each way to search masks", SHOWN, summary, shown, by="variant", of="masks")
        ]
