"""The methods and settings that are tried on a user's data, with equally many candidates for every method."""

from collections.abc import Mapping, Sequence
from typing import Any

from synib.checks import check_whole
from synib.own.crossfit import FREQUENCIES
from synib.own.folds import kind_of
from synib.own.table import Table

STEPS = 600  # training steps by default
EPOCHS = 40  # epochs, at most
SYNIB, CONTROL = "synib", "vanilla"  # the recipe, and the same model with its weight at 0
ON_NUMBERS = "synib-marginal"  # the form of SynIB for numbers: docs/results/fit-recipe.md
# Learning rate, dropout, and weight decay or another setting of the method; the most promising value first.
RATES = (3e-3, 1e-3, 1e-2)
DROPOUTS = (0.0, 0.3)
DECAYS: dict[str, Sequence[float]] = {"weight_decay": (1e-4, 1e-3, 1e-2)}
# What models of interactions try first. A product is learned with some weight decay, and without much dropout.
FIRST = ((3e-3, 0.0, 1e-3), (1e-3, 0.0, 1e-3), (3e-3, 0.3, 1e-4))
WITHOUT_INTERACTIONS = ("additive", "ensemble", "unimodal")  # or the start of a name
SPECIFIC: dict[str, dict[str, Sequence[float]]] = {
    "confidence": {"weight": (1.0, 0.3, 3.0)},
    "synib-random": {"weight": (3.0, 1.0, 10.0)},
    "synib-marginal": {"weight": (30.0, 10.0, 3.0)},
    "experts": {"weight": (10.0, 3.0, 1.0)},
}
FIXED: dict[str, dict[str, Any]] = {
    "synib-random": {"p": 1.0, "noise": "shuffled"},
    "synib-marginal": {"draws": 16},
    "experts": {"draws": 16, "debias": True},
    "modality-dropout": {"p": 0.5},
}
SECOND = "modality-dropout"  # trains the second model, for rows that lack modalities
ANNEALED: tuple[str, ...] = ("synib-random", "synib-marginal")  # the weight falls to 0 over four fifths of the steps
LINEAR = "linear"  # a logistic regression
RIDGES = (0.3, 0.1, 0.03, 0.01, 0.003)  # its penalties; all are tried
WIDE = 128  # width of a modality from which on logistic regression is compared
CANDIDATES = 18  # all combinations of 3 x 2 x 3 settings


def methods_of(table: Table, synib: bool = True) -> list[str]:
    """The methods of an audit: unimodal and additive models, plain fusion (SynIB's control), and SynIB."""
    return [*_single(table), "additive", CONTROL, *([recommended(table)] if synib else [])]


def compared(table: Table) -> list[str]:
    """The methods that a fit compares, the simplest first."""
    linear = [LINEAR] if _has_classes(table) and max(x.shape[1] for x in table.modalities.values()) >= WIDE else []
    return [FREQUENCIES, *linear, *_single(table), "additive", CONTROL, recommended(table)]


def by_preference(table: Table, methods: Sequence[str]) -> list[str]:
    """Methods in the order of preference of a fit, which keeps the first that is not clearly worse than the best.

    The additive model comes first. Calibrated, it is nearly as good as the class frequencies if nothing can be learned, and as
    a single modality if the others are uninformative. If several modalities are informative, these two are far worse than the
    additive model, but a hundred rows may not show it clearly.
    """
    order = ["additive", LINEAR, "vanilla", *_single(table), recommended(table)]
    return list(dict.fromkeys([*(method for method in order if method in methods), *methods]))


def recommended(table: Table) -> str:
    """The form of SynIB that is trained: the recipe, except on numbers."""
    return ON_NUMBERS if kind_of(table) == "regression" else SYNIB


def _single(table: Table) -> list[str]:
    return [f"unimodal-{name}" for name in table.modalities]


def _has_classes(table: Table) -> bool:
    """Whether every row has one class."""
    return kind_of(table) in ("classification", "ordinal")


def candidates(method: str, budget: int) -> list[dict[str, float]]:
    """The settings to try: learning rate, dropout, and weight decay or the method's own setting.

    A logistic regression is cheap and has one setting, its penalty; all penalties are tried.
    """
    if method == LINEAR:
        return [{"ridge": ridge} for ridge in RIDGES]
    if check_whole("budget", budget) > CANDIDATES:
        raise ValueError(
            f"budget is the number of candidates per method and must be at most {CANDIDATES}; got {budget}."
        )
    ((name, values),) = SPECIFIC.get(method, DECAYS).items()
    # A Latin square of learning rates and specific values with alternating dropout. As nine is odd, dropout is flipped in the
    # next nine.
    square = [(RATES[i % 3], DROPOUTS[i % 2], values[(i + i // 3) % 3]) for i in range(CANDIDATES)]
    if method not in SPECIFIC and not method.startswith(WITHOUT_INTERACTIONS):
        square = list(dict.fromkeys([*FIRST, *square]))
    return [dict(zip(("lr", "dropout", name), setting, strict=True)) for setting in square[:budget]]


def fixed(method: str, steps: int) -> Mapping[str, Any]:
    """The settings of a method that are not searched, for so many training steps."""
    schedule = {"weight_schedule": "anneal", "weight_steps": max(1, 4 * steps // 5)} if method in ANNEALED else {}
    length = {"steps": steps} if method == SYNIB else {}
    return {"weight_decay": 1e-4, **FIXED.get(method, {}), **schedule, **length}


def pace(rows: int) -> tuple[int, int]:
    """Batch size and epochs for this number of training rows."""
    batch = 32 if rows < 500 else 64 if rows < 5000 else 128 if rows < 50_000 else 256
    while rows % batch == 1:  # in a batch of one row, modalities cannot be exchanged
        batch += 1
    return batch, min(EPOCHS, max(2, round(STEPS * batch / rows)))
