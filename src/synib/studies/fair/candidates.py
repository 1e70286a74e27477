"""Candidates for one recipe of SynIB, fixed on all tasks: masks, draws, and the weight from the first to the last step."""

from typing import Any

from synib.studies.forms.catalogue import Form

LEARNED = {"steps": 4, "mask_lr": 0.5, "sparsity": 1e-2}
# Masks by the name that a candidate begins with; of the mixed ones a share of the examples has its whole modality corrupted.
MASKS: dict[str, tuple[str, dict[str, Any]]] = {
    "learned": ("synib-learned", LEARNED),
    "learned or whole, 1 : 1": ("synib-learned", {**LEARNED, "whole_share": 0.5}),
    "learned or whole, 1 : 3": ("synib-learned", {**LEARNED, "whole_share": 0.75}),
    "random p = 0.9": ("synib-random", {"p": 0.9}),
    "whole modality": ("synib-random", {"p": 1.0}),
}
# Masks, draws, and the weight at the start and at the end.
Candidate = tuple[str, int, float, float]
FIRST_ROUND: tuple[Candidate, ...] = (
    ("learned", 16, 30.0, 0.0),  # the recipe of the first runs
    ("learned", 16, 30.0, 0.3),
    ("learned", 16, 30.0, 1.0),
    ("learned", 16, 10.0, 0.0),
    ("learned", 16, 10.0, 1.0),
    ("learned", 1, 10.0, 0.0),
    ("learned", 1, 10.0, 0.3),
    ("learned", 1, 10.0, 1.0),
    ("learned", 1, 3.0, 0.0),
    ("learned", 1, 3.0, 3.0),
    ("random p = 0.9", 16, 30.0, 0.0),
    ("random p = 0.9", 16, 30.0, 1.0),
    ("whole modality", 16, 30.0, 0.0),  # the cheap recipe of the first runs
)
# With lower floors and fewer draws.
SECOND_ROUND: tuple[Candidate, ...] = (
    ("learned", 16, 30.0, 0.1),
    ("learned", 16, 10.0, 0.1),
    ("learned", 4, 10.0, 0.0),
    ("learned", 1, 10.0, 0.1),
    ("learned", 1, 3.0, 0.1),
)
# For models without unimodal heads, which learned masks need: does the chosen weight suit whole modalities, too?
WITHOUT_HEADS: tuple[Candidate, ...] = (
    ("whole modality", 16, 10.0, 0.1),
    ("whole modality", 1, 30.0, 0.0),
    ("whole modality", 1, 10.0, 0.1),
)
# With irony and attention among the tasks, where masks over coordinates find nothing.
THIRD_ROUND: tuple[Candidate, ...] = (
    ("learned", 1, 10.0, 0.1),
    ("learned or whole, 1 : 1", 1, 10.0, 0.1),
    ("learned or whole, 1 : 1", 4, 10.0, 0.1),
    ("learned or whole, 1 : 1", 4, 30.0, 0.1),
    ("learned or whole, 1 : 1", 4, 10.0, 1.0),
    ("learned or whole, 1 : 1", 16, 10.0, 0.1),
    ("learned or whole, 1 : 3", 1, 10.0, 0.1),
    ("learned or whole, 1 : 3", 4, 10.0, 0.1),
    ("learned or whole, 1 : 3", 16, 10.0, 0.1),
    ("random p = 0.9", 4, 10.0, 0.1),
    ("whole modality", 1, 10.0, 0.1),
    ("whole modality", 4, 10.0, 0.1),
    ("whole modality", 4, 30.0, 0.1),
    ("whole modality", 4, 10.0, 1.0),
    ("whole modality", 16, 30.0, 0.0),
    ("whole modality", 16, 10.0, 0.1),
    ("whole modality", 16, 30.0, 0.1),
    ("whole modality", 16, 10.0, 1.0),
)


def name_of(candidate: Candidate) -> str:
    """A candidate's name, such as "learned, 16 draws, 30 to 0"."""
    masks, draws, weight, floor = candidate
    ends = f"{weight:g} to {floor:g}" if floor < weight else f"constant {weight:g}"
    return f"{masks}, {draws} draw{'s' * (draws > 1)}, {ends}"


def form_of(candidate: Candidate, steps: int) -> Form:
    """The method and settings of a candidate; all swap values."""
    masks, draws, weight, floor = candidate
    method, own = MASKS[masks]
    falls = {"weight_schedule": "anneal", "weight_steps": steps} if floor < weight else {}
    ends = {"weight_floor": floor} if 0 < floor < weight else {}
    return Form(method, {**own, "noise": "shuffled", "draws": draws, "weight": weight, **falls, **ends})


def recipes(steps: int) -> dict[str, Form]:
    """All candidates, by name.

    Args:
        steps: Number of steps of a training run; weights fall over four fifths of it.
    """
    rounds = (*FIRST_ROUND, *SECOND_ROUND, *WITHOUT_HEADS, *THIRD_ROUND)
    found = {name_of(candidate): form_of(candidate, round(0.8 * steps)) for candidate in rounds}
    return found | {"learned, 1 draw, 10 to 0, over all steps": form_of(("learned", 1, 10.0, 0.0), steps)}


def cost_of(form: Form) -> int:
    """A rank of candidates by the cost of a step: a search of masks costs more than any number of draws."""
    return int(form.settings["draws"]) + 100 * (form.method == "synib-learned")
