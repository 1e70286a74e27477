"""Three modalities: the label is the parity of three bits, and the first modality carries a shortcut."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from synib.studies.base import grid, settings_of
from synib.studies.spurious_xor.experiment import SpuriousXOR

# Chosen on validation accuracy at β = 0: `synib reproduce search --of parity`, docs/results/parity-search. Learned masks,
# too slow to search on a CPU, take the oracle's choice and the 20 inner steps of PID-XOR. What was seen before the candidates
# were drawn up, test results among it: docs/results/parity-notes.md.
SETTINGS = settings_of(__package__)["parity"]


@dataclass(frozen=True)
class Parity(SpuriousXOR):
    """Three modalities: the parity of three bits, and a shortcut in one of them."""

    name: ClassVar[str] = "parity"
    title: ClassVar[str] = "Three-modality parity: synergy of more than two modalities"
    about: ClassVar[str] = (
        "The label is the parity of three bits, one in each modality: any two modalities together carry "
        "no information about it. The first modality also carries a shortcut that reveals the label in "
        "training and is noise at test. 1,000 training examples."
    )
    modalities: ClassVar[int] = 3
    examples: ClassVar[int] = 1000

    chosen: ClassVar[Mapping[str, dict[str, Any]]] = SETTINGS
    quick: ClassVar[Mapping[str, Any]] = {"seeds": 1, "beta": (1.0,)}

    beta: tuple[float, ...] = (0.0, 1.0, 2.0)

    def candidates(self) -> dict[str, list[dict[str, Any]]]:
        """The paper has no such task, so learning rate and weight decay are searched, six candidates for each method.

        λ stays at the paper's 10: without a shortcut, validation does not show how strongly one must be penalised.
        """
        decays = (1e-5, 1e-3)
        plain, penalised = (
            grid(lr=(1e-3, 3e-3, 1e-2), weight_decay=decays),
            grid(lr=(3e-4, 1e-3, 3e-3), weight_decay=decays),
        )
        return {m: plain if m == "vanilla" else penalised for m in SETTINGS if m != "synib-learned"}

    def searched_at(self) -> dict[str, Any]:
        """Without a shortcut, so that validation shows whether a model solves the task."""
        return {"beta": 0.0}

    def paper(self, method: str, factors: Mapping[str, Any], metric: str) -> float | None:
        return None
