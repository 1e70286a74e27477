"""What the ablations vary: the maps, the settings on their axes, and the tasks they are trained on."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, NamedTuple

from synib.data import Dataset
from synib.studies.base import Experiment
from synib.studies.digits.data import DIGITS
from synib.studies.digits.experiment import DigitsScarce, digits_data
from synib.studies.pid_xor.compare import ComparePID
from synib.studies.pid_xor.data import pid_xor

CONSTANT = "constant"  # instead of the length of annealing: the weight does not change
SHARES = (0.02, 0.05, 0.1, 0.2, 0.3)
WEIGHTS = (1.0, 3.0, 10.0, 30.0, 100.0)
SYNERGISTIC = 200  # validation examples without a cue, on average, whatever their share
# What varies, in the order of the columns of the results. A method that lacks one has no value there.
FACTORS = ("share", "weight", "annealing", "p", "draws", "reference", "sparsity", "steps")
OF_METHOD = {
    "vanilla": FACTORS[:1],
    "confidence": FACTORS[:3],
    "synib-random": FACTORS[:6],
    "synib-learned": (*FACTORS[:3], "draws", "sparsity", "steps"),
}
# Where a map does not vary a setting. Swapping a whole modality and averaging over 16 draws is the marginal form.
CENTRE: dict[str, Any] = {
    "share": 0.1, "weight": 10.0, "annealing": 0.8, "p": 1.0, "draws": 16, "reference": "uniform", "sparsity": 0.01,
    "steps": 4,
}  # fmt: skip
REACH = 2.0  # of a learned mask's logits: inner steps times their learning rate
ONE_DRAW = {"draws": 1}

Values = Mapping[str, Any]


class Line(NamedTuple):
    """A row of a map: a method, and its values of some factors."""

    method: str
    values: Values


class Map(NamedTuple):
    """Two settings of a method, and all their combinations.

    Args:
        title: What varies.
        x: Name of the columns.
        rows: Label → method and values, from the top.
        columns: Label → values.
    """

    title: str
    x: str
    rows: Mapping[str, Line]
    columns: Mapping[str, Values]


def _lines(method: str, factor: str, labels: Mapping[Any, str], **fixed: Any) -> dict[str, Line]:
    return {label: Line(method, {**fixed, factor: value}) for value, label in labels.items()}


def _columns(factor: str, values: Sequence[Any]) -> dict[str, Values]:
    return {f"{value:g}": {factor: value} for value in values}


def _methods(**weights: Sequence[float]) -> dict[str, Line]:
    """Vanilla fusion and, at several weights, the annealed confidence penalty and annealed marginal SynIB."""
    lines = {"vanilla": Line("vanilla", {})}
    for name, method in {"confidence": "confidence", "SynIB": "synib-random"}.items():
        lines |= {f"{name}, λ = {weight:g}": Line(method, {"weight": weight}) for weight in weights[name]}
    return lines


STRENGTH = "weight λ"
LENGTHS = {
    CONSTANT: "constant weight",
    0.4: "annealed over 40 %",
    0.8: "annealed over 80 %",
    1.0: "annealed over 100 %",
}
SHARE_MAP = "share"
MAPS: dict[str, Map] = {
    "masking": Map(
        "Weight λ and masking probability π (random masks, swapped values, 1 draw)",
        STRENGTH,
        _lines("synib-random", "p", {p: f"π = {p:g}" for p in (0.3, 0.6, 1.0)}, **ONE_DRAW),
        _columns("weight", WEIGHTS),
    ),
    "draws": Map(
        "Weight λ and number of draws (whole modalities swapped)",
        STRENGTH,
        _lines("synib-random", "draws", {1: "1 draw", 4: "4 draws", 16: "16 draws"}),
        _columns("weight", WEIGHTS),
    ),
    "annealing": Map(
        "Weight λ and schedule, annealed over a share of training (16 draws)",
        STRENGTH,
        _lines("synib-random", "annealing", LENGTHS),
        _columns("weight", WEIGHTS[1:4]),
    ),
    "reference": Map(
        "Weight λ and reference of the KL divergence (16 draws)",
        STRENGTH,
        _lines("synib-random", "reference", {name: f"{name} reference" for name in ("uniform", "unimodal")}),
        _columns("weight", WEIGHTS[1:4]),
    ),
    "learned": Map(
        "Learned masks: sparsity λ_M and inner steps (swapped values, 1 draw)",
        "sparsity λ_M",
        _lines("synib-learned", "steps", {1: "1 inner step", 4: "4 inner steps", 16: "16 inner steps"}, **ONE_DRAW),
        _columns("sparsity", (0.001, 0.01, 0.1)),
    ),
    SHARE_MAP: Map(
        "Share of synergistic examples (λ annealed; SynIB marginal, 16 draws)",
        "share of synergistic examples",
        _methods(confidence=(1.0, 10.0), SynIB=(10.0, 30.0)),
        _columns("share", SHARES),
    ),
}


def combined(line: Line, column: Values) -> dict[str, Any]:
    """The values of all factors in a cell of a map; ``None`` for those that the method lacks."""
    values = {**CENTRE, **line.values, **column}
    return {name: values[name] if name in OF_METHOD[line.method] else None for name in FACTORS}


class Task(NamedTuple):
    """A task of the ablations.

    Args:
        experiment: Gives the network, and the settings that its search chose.
        steps: Steps of a training.
    """

    experiment: Experiment
    steps: int


def tasks(root: str) -> dict[str, Task]:
    """All tasks, by name; ``root`` is the folder of the data."""
    return {"digits": Task(DigitsScarce(root=root), 960), "pid-xor": Task(ComparePID(), 450)}


def training(task: Task, method: str, values: Values) -> dict[str, Any]:
    """A method's settings: the committed ones of the task, with those that vary in their place."""
    settings = {**task.experiment.defaults()[method], **task.experiment.fixed()}
    settings = {name: v for name, v in settings.items() if name not in ("weight_schedule", "weight_steps", "data")}
    settings |= {name: values[name] for name in OF_METHOD[method] if name not in ("share", "annealing")}
    if values["annealing"] not in (None, CONSTANT):
        settings |= {"weight_schedule": "anneal", "weight_steps": round(values["annealing"] * task.steps)}
    if method.startswith("synib"):
        settings["noise"] = "shuffled"
    if method == "synib-learned":
        settings["mask_lr"] = REACH / values["steps"]
    return settings


@lru_cache(maxsize=64)
def task_data(task: str, root: str, share: float, seed: int) -> Dataset:
    """Training and validation examples with a share of synergistic ones; the rest is half U1, half R. No test examples."""
    cued = (1.0 - share) / 2
    mixture, sizes = (cued, 0.0, cued, share), {"validation": round(SYNERGISTIC / share), "test": 2}
    if task == "digits":
        data = digits_data(str(DIGITS.find(root or None)), mixture, seed, "parity", **sizes)
    else:
        data = pid_xor(*mixture, seed=seed, projection_seed=seed, **sizes)
    return replace(data, test=None)
