"""The compared forms of SynIB, and the tasks."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from synib.studies.base import Experiment
from synib.studies.digits.experiment import DigitsScarce
from synib.studies.irony.experiment import IronyRates
from synib.studies.pid_xor.compare import ComparePID


class Task(NamedTuple):
    """A task of the comparison.

    Args:
        experiment: Provides data and model.
        scores: What total and synergy mean on this task.
        modalities: Their names.
        steps: Number of steps of a training run.
        rates: Learning rates to try.
        dropouts: Dropout rates to try.
        last: Whether the last class is the synergistic one; otherwise the group S contains the synergistic examples.
    """

    experiment: Experiment
    scores: str
    modalities: tuple[str, str]
    steps: int
    rates: tuple[float, float]
    dropouts: tuple[float, ...] = (0.0, 0.5)
    last: bool = False


class Form(NamedTuple):
    """A method and its settings."""

    method: str
    settings: Mapping[str, Any]


def tasks(root: str) -> dict[str, Task]:
    """All tasks, by name; ``root`` is the folder of the data."""
    return {
        "digits": Task(
            DigitsScarce(root=root), "accuracy, and on synergistic examples", ("audio", "image"), 960, (1e-3, 1e-2)
        ),
        "irony": Task(
            IronyRates(root=root), "macro F1, and AUC of irony", ("audio", "video"), 840, (3e-4, 1e-3), last=True
        ),
        "pid-xor": Task(ComparePID(), "accuracy, and on synergistic examples", ("x1", "x2"), 450, (3e-4, 1e-3), (0.5,)),
    }


def forms(task: Task, batch_size: int) -> dict[str, Form]:
    """The compared forms, by name. "All draws" are all other examples of a batch."""
    whole: dict[str, Any] = {"p": 1.0}
    half: dict[str, Any] = {"p": 0.5}
    learned = {"steps": 4, "mask_lr": 0.5, "sparsity": 1e-2, "noise": "shuffled"}
    first, second = task.modalities
    warm = {"weight_schedule": "warmup", "weight_steps": task.steps // 2}
    falling = {"weight_schedule": "anneal", "weight_steps": 4 * task.steps // 5}

    def masked(**more: Any) -> Form:
        return Form("synib-random", more)

    def marginal(draws: int, **more: Any) -> Form:
        return Form("synib-marginal", {"draws": draws, **more})

    def experts(draws: int, **more: Any) -> Form:
        return Form("experts", {"draws": draws, **more})

    return {
        "vanilla": Form("vanilla", {}),
        "confidence": Form("confidence", {}),
        "Gaussian": masked(**whole),
        "Gaussian, latents": masked(**whole, space="latents"),
        "Gaussian, half": masked(**half),
        "Gaussian, 16 draws": masked(**whole, draws=16),
        "matched": masked(**whole, noise="matched"),
        "matched, latents": masked(**whole, noise="matched", space="latents"),
        "matched, half, latents": masked(**half, noise="matched", space="latents"),
        "matched, latents, 16 draws": masked(**whole, noise="matched", space="latents", draws=16),
        "shuffled": masked(**whole, noise="shuffled"),
        "shuffled, half": masked(**half, noise="shuffled"),
        "shuffled, half, latents": masked(**half, noise="shuffled", space="latents"),
        "shuffled within class": masked(**whole, noise="class-shuffled"),
        "shuffled within class, 16 draws": masked(**whole, noise="class-shuffled", draws=16),
        "learned": Form("synib-learned", learned),
        "learned, annealed": Form("synib-learned", learned | falling),
        "learned, latents": Form("synib-learned", learned | {"space": "latents"}),
        "amortised": Form("synib-amortized", {"sparsity": 1e-2, "noise": "shuffled"}),
        "4 draws": marginal(4),
        "16 draws": marginal(16),
        "16 draws, unbiased": marginal(16, debias=True),
        "all draws": marginal(batch_size - 1),
        "shuffled, unimodal reference": masked(**whole, noise="shuffled", reference="unimodal"),
        "16 draws, unimodal reference": marginal(16, reference="unimodal"),
        "shuffled, warmed up": masked(**whole, noise="shuffled", **warm),
        "shuffled, annealed": masked(**whole, noise="shuffled", **falling),
        "16 draws, annealed": marginal(16, **falling),
        "16 draws, unbiased, annealed": marginal(16, debias=True, **falling),
        f"16 draws, {first} only": marginal(16, shares={second: 0.0}),
        f"16 draws, {second} only": marginal(16, shares={first: 0.0}),
        "experts, 1 draw": experts(1),
        "experts, 4 draws": experts(4),
        "experts, 16 draws": experts(16),
        "experts, 16 draws, unbiased": experts(16, debias=True),
        "experts, 16 draws, annealed": experts(16, **falling),
        "experts, all draws": experts(batch_size - 1),
    }
