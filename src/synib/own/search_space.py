"""The methods and settings that are tried on a user's data, with equally many candidates for every method."""

from collections.abc import Mapping, Sequence
from typing import Any

from synib.checks import check_whole
from synib.own.crossfit import FREQUENCIES
from synib.own.folds import kind_of
from synib.own.table import Table
from synib.own.targets import TargetKind

STEPS = 600  # training steps by default
EPOCHS = 40  # epochs, at most
# Learning rate, dropout, and one setting specific to the method; the most promising value first.
RATES = (3e-3, 1e-3, 1e-2)
DROPOUTS = (0.0, 0.3)
DECAYS: dict[str, Sequence[float]] = {"weight_decay": (1e-4, 1e-3, 1e-2)}
SPECIFIC: dict[str, dict[str, Sequence[float]]] = {
    "confidence": {"weight": (1.0, 0.3, 3.0)},
    "synib-random": {"weight": (3.0, 1.0, 10.0)},
    "synib-marginal": {"weight": (1.0, 3.0, 10.0)},
    "experts": {"weight": (10.0, 3.0, 1.0)},
}
FIXED: dict[str, dict[str, Any]] = {
    "synib-random": {"p": 1.0, "noise": "shuffled"},
    "synib-marginal": {"draws": 16},
    "experts": {"draws": 16, "debias": True},
    "modality-dropout": {"p": 0.5},
}
SECOND = "modality-dropout"  # trains the second model, for rows that lack modalities
ANNEALED: tuple[str, ...] = ("synib-random",)  # the weight falls to 0 over four fifths of the steps
# A constant weight on numbers keeps predictions near their mean, so that it is annealed, too.
ON_NUMBERS: dict[str, dict[str, Sequence[float]]] = {"synib-marginal": {"weight": (30.0, 10.0, 3.0)}}
LINEAR = "linear"  # a logistic regression
RIDGES = (0.3, 0.1, 0.03, 0.01, 0.003)  # its penalties; all are tried
WIDE = 128  # width of a modality from which on logistic regression is compared
CANDIDATES = 18  # all combinations of 3 x 2 x 3 settings


def methods_of(table: Table, synib: bool = True) -> list[str]:
    """The methods of an audit: unimodal and additive models, plain fusion, and SynIB with its control."""
    synib_methods = [control(table), recommended(table)] if synib else []
    return list(dict.fromkeys([*_single(table), "additive", "vanilla", *synib_methods]))


def compared(table: Table) -> list[str]:
    """The methods that a fit compares, the simplest first."""
    linear = [LINEAR] if _has_classes(table) and max(x.shape[1] for x in table.modalities.values()) >= WIDE else []
    return [FREQUENCIES, *linear, *_single(table), "additive", "vanilla", recommended(table)]


def by_preference(table: Table, methods: Sequence[str]) -> list[str]:
    """Methods in the order of preference of a fit, which keeps the first that is not clearly worse than the best.

    The additive model comes first. Calibrated, it is nearly as good as the class frequencies if nothing can be learned, and as
    a single modality if the others are uninformative. If several modalities are informative, these two are far worse than the
    additive model, but a hundred rows may not show it clearly.
    """
    order = ["additive", LINEAR, "vanilla", *_single(table), recommended(table)]
    return list(dict.fromkeys([*(method for method in order if method in methods), *methods]))


def recommended(table: Table) -> str:
    """The form of SynIB that is trained: experts for classes, whose log-odds they add; otherwise synib-marginal."""
    return "experts" if _has_classes(table) else "synib-marginal"


def control(table: Table) -> str:
    """The same estimator with SynIB's weight at 0: stacked plain fusion for classes, plain fusion otherwise."""
    return "stacked" if _has_classes(table) else "vanilla"


def _single(table: Table) -> list[str]:
    return [f"unimodal-{name}" for name in table.modalities]


def _has_classes(table: Table) -> bool:
    """Whether every row has one class."""
    return kind_of(table) in ("classification", "ordinal")


def candidates(method: str, budget: int, kind: TargetKind = "classification") -> list[dict[str, float]]:
    """The settings to try on a kind of target, spread over learning rate, dropout and the method's specific setting.

    A logistic regression is cheap and has one setting, its penalty; all penalties are tried.
    """
    if method == LINEAR:
        return [{"ridge": ridge} for ridge in RIDGES]
    if check_whole("budget", budget) > CANDIDATES:
        raise ValueError(
            f"budget is the number of candidates per method and must be at most {CANDIDATES}; got {budget}."
        )
    specific = SPECIFIC | ON_NUMBERS if kind == "regression" else SPECIFIC
    ((name, values),) = specific.get(method, DECAYS).items()
    # A Latin square of learning rates and specific values with alternating dropout. As nine is odd, dropout is flipped in the
    # next nine.
    return [{"lr": RATES[i % 3], "dropout": DROPOUTS[i % 2], name: values[(i + i // 3) % 3]} for i in range(budget)]


def fixed(method: str, steps: int, kind: TargetKind) -> Mapping[str, Any]:
    """The settings of a method that are not searched, for so many training steps and a kind of target."""
    annealed = method in ANNEALED or (kind == "regression" and method in ON_NUMBERS)
    schedule = {"weight_schedule": "anneal", "weight_steps": max(1, 4 * steps // 5)} if annealed else {}
    return {"weight_decay": 1e-4, **FIXED.get(method, {}), **schedule}


def pace(rows: int) -> tuple[int, int]:
    """Batch size and epochs for this number of training rows."""
    batch = 32 if rows < 500 else 64 if rows < 5000 else 128 if rows < 50_000 else 256
    while rows % batch == 1:  # in a batch of one row, modalities cannot be exchanged
        batch += 1
    return batch, min(EPOCHS, max(2, round(STEPS * batch / rows)))
