"""The compared forms (method × schedule × fill), and the grid of settings that each searches."""

from collections.abc import Iterable, Mapping
from typing import Any

from synib.studies.fair.candidates import LEARNED, recipes
from synib.studies.fair.tasks import FAIRNESS
from synib.studies.forms.catalogue import Form, Task

FILLS = {"Gaussian": "standard", "swapped": "shuffled"}
NO_CUES, FEW = "ceiling, no cues", "ceiling, cue-free examples alone"
RECIPE, CHEAP_RECIPE = "recipe", "recipe, marginal"  # with learned masks, and with whole modalities corrupted
RECIPE_WEIGHT = 30.0  # on every task
CHOSEN_RECIPE = "recipe, chosen"  # of the candidates of `recipes`, by the rule of the third run
CHOSEN = "learned, 1 draw, 10 to 0.1"  # its name there
THIRD_RECIPE = "recipe, third round"  # chosen with irony and attention among the tasks
CHOSEN_THIRD = "whole modality, 1 draw, 10 to 0.1"  # its name there
Axes = dict[str, tuple[float, ...]]
# The values that a search may try, in order. It begins with some, and goes on until the best has been compared with both of
# its neighbours on every ladder.
LADDERS: Axes = {
    "lr": (1e-5, 3e-5, 1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 1e-1),
    "dropout": (0.0, 0.5, 0.7, 0.8, 0.9),
    "weight_decay": (0.0, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1),
    "weight": (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0),
    "p": (0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.8, 0.9, 0.95),
    "entropy": (0.0, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0),
    "ahead": (1, 2, 5, 10, 15, 20, 25),
    "every": (1, 2, 5, 10, 15),
    "strength": (0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0),
    "unimodal_weight": (0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0),
    "alpha": (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0),
}
START: Axes = {
    "dropout": (0.0, 0.5),
    "weight_decay": (1e-5, 1e-4, 1e-3),
    "weight": (3.0, 10.0, 30.0),
    "p": (0.3, 0.5, 0.7),
    "entropy": (0.03, 0.1, 0.3),
    "ahead": (2, 5, 10),
    "every": (2, 5, 10),
}
# Below 0 a dropout or a weight decay cannot go, and what a method has at these is what it is without.
NATURAL = {("dropout", 0.0), ("weight_decay", 0.0), ("entropy", 0.0)}


def fair_forms(name: str, task: Task, batch_size: int, epochs: int) -> dict[str, Form]:
    """The forms compared on a task, by name.

    Args:
        name: Name of the task.
        task: The task.
        batch_size, epochs: Settings of its training runs.
    """
    falling = {"weight_schedule": "anneal", "weight_steps": 4 * task.steps // 5}
    schedules: dict[str, dict[str, Any]] = {"": {}, ", annealed": falling}
    masks: dict[str, tuple[str, dict[str, Any]]] = {
        "SynIB whole": ("synib-random", {"p": 1.0}),
        "SynIB marginal": ("synib-random", {"p": 1.0, "draws": 16}),
        "SynIB learned": ("synib-learned", LEARNED),
        "SynIB random": ("synib-random", {"p": 0.5}),
    }
    forms = {"vanilla": Form("vanilla", {})}
    for ending, schedule in schedules.items():
        forms[f"confidence{ending}"] = Form("confidence", schedule)
        for fill, noise in FILLS.items():
            weight = {"weight": 1.0, **schedule} if schedule else {}
            forms[f"masked inputs, {fill}{ending}"] = Form("masked-random", {"noise": noise, **weight})
        for fill, noise in {"zeros": "zeros", **FILLS}.items():
            forms[f"modality dropout, {fill}{ending}"] = Form("modality-dropout", {"noise": noise, **schedule})
        for mask, (method, settings) in masks.items():
            for fill, noise in FILLS.items():
                forms[f"{mask}, {fill}{ending}"] = Form(method, {**settings, "noise": noise, **schedule})
        forms[f"experts{ending}"] = Form("experts", {"draws": 16, **schedule})
    forms["stacked"] = Form("stacked", {})
    fixed = {"noise": "shuffled", "draws": 16, "weight": RECIPE_WEIGHT, **falling}
    forms[RECIPE] = Form("synib-learned", {**LEARNED, **fixed})
    forms[CHEAP_RECIPE] = Form("synib-random", {"p": 1.0, **fixed})
    forms |= chosen_recipes(task.steps)
    forms["product of experts"] = Form("product-of-experts", {})
    forms["learned mixin"] = Form("learned-mixin", {"ahead": max(1, epochs // 6)})
    forms["JTT"] = Form("jtt", {"identify": max(1, epochs // 6)})
    forms["Gradient-Blending"] = Form("gradient-blending", {"detach_heads": False})
    few = FAIRNESS[name].few
    if few is not None:
        data = {"task": name}
        batches = -(-few // batch_size)
        forms[NO_CUES] = Form("vanilla", {"data": {**data, "cues": "none"}})
        forms[FEW] = Form("vanilla", {"data": {**data, "cues": "none", "few": True}, "epochs": task.steps // batches})
    return forms


def chosen_recipes(steps: int) -> dict[str, Form]:
    """The recipes that rules chose among the candidates, by name."""
    every = recipes(steps)
    return {CHOSEN_RECIPE: every[CHOSEN], THIRD_RECIPE: every[CHOSEN_THIRD]}


def core(names: Iterable[str]) -> list[str]:
    """A smaller set of forms: one fill, and no rivals beyond the factorial."""
    others = ("product of experts", "learned mixin", "JTT", "Gradient-Blending")
    return [n for n in names if "Gaussian" not in n and "zeros" not in n and n not in others]


def start(task: Task, form: Form) -> Axes:
    """The initial grid of a form's search: three learning rates, two dropouts, three values of its specific setting."""
    low, high = task.rates
    rates = tuple(rate for rate in LADDERS["lr"] if low <= rate <= high)
    own = own_setting(form)
    return {"lr": rates, "dropout": START["dropout"], own: START[own]}


def own_setting(form: Form) -> str:
    """The setting that a form searches besides learning rate and dropout; weight decay if it has none, or a fixed one."""
    own = OWN.get(form.method, "weight_decay")
    return "weight_decay" if own in form.settings and form.method != "masked-random" else own


OWN = {
    "confidence": "weight",
    "masked-random": "p",
    "modality-dropout": "p",
    "synib-random": "weight",
    "synib-learned": "weight",
    "experts": "weight",
    "product-of-experts": "ahead",
    "learned-mixin": "entropy",
    "jtt": "weight",
    "gradient-blending": "every",
    "dnr": "strength",
    "mmpareto": "unimodal_weight",
    "agm": "alpha",
}


def neighbours(chosen: Mapping[str, float], ladders: Axes = LADDERS) -> list[dict[str, float]]:
    """The candidates that differ from one in a single setting, by one step of its grid."""
    found = []
    for name, value in chosen.items():
        ladder = ladders[name]
        for at in (ladder.index(value) - 1, ladder.index(value) + 1):
            if 0 <= at < len(ladder):
                found.append({**chosen, name: ladder[at]})
    return found


def ends(chosen: Mapping[str, float], ladders: Axes = LADDERS) -> list[str]:
    """The settings of a candidate at the end of their grid, beyond which nothing was tried.

    Natural bounds (no dropout at all) do not count.
    """
    last = {name: (ladders[name][0], ladders[name][-1]) for name in chosen}
    return [name for name, value in chosen.items() if value in last[name] and (name, value) not in NATURAL]
