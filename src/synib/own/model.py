"""A model of a user's own data: calibrated, at ease with a modality missing, and able to say which answers need them all."""

import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from synib import keys
from synib.checks import shown
from synib.measure.stats import tempered
from synib.objective import Family
from synib.own.answers import Answers
from synib.own.fitting import log_loss, train
from synib.own.folds import final
from synib.own.recipe import Own, Scaling, family_of
from synib.own.table import Table
from synib.tokens import maybe

Numbers = NDArray[np.float64]
Given = Mapping[str, ArrayLike]
SYNIB = "synib"  # the form that docs/results/forms recommend
BACKGROUND = 64  # training rows of each modality that stand for all its values
LEARNED = 32  # training rows that lack a modality: from so many on, what the model learned of its absence is used
ROWS = 4096  # combined at a time


@dataclass(frozen=True)
class Predictor:
    """A trained model of a user's data: :func:`fit` makes it, :meth:`save` and :func:`load` keep it.

    Args:
        answers: The model in parts.
        method: Name of the method that trained it.
        settings: How it was trained.
        widths: Modality → its width.
        classes: Names of the classes; none if a number is predicted.
        missing: The modalities that some row lacked in training.
        learned: Those of them whose absence was learned from enough rows.
        scaling: From the user's numbers to the model's, and back.
        temperature: Fitted on validation rows.
        background: For each modality what up to 64 training rows bring to the fusion.
        about: How it came to be, in plain values.
    """

    answers: Answers
    method: str
    settings: Mapping[str, Any]
    widths: Mapping[str, int]
    classes: tuple[str, ...]
    missing: tuple[str, ...]
    learned: tuple[str, ...]
    scaling: Scaling
    temperature: float
    background: Mapping[str, Tensor]
    about: Mapping[str, Any] = field(default_factory=dict)

    @property
    def family(self) -> Family:
        return family_of(self.classes)[0]

    def predict(self, modalities: Given, present: Given | None = None) -> Numbers:
        """Calibrated probabilities of the classes, ``(rows, classes)``; of a number, mean and standard deviation ``(rows, 2)``.

        A row may lack modalities. What the model says is then averaged over 64 values that the missing ones had in training
        (as probabilities), unless at least 32 training rows lacked the modality too: then its absence was learned.

        Args:
            modalities: Name → ``(rows, width)``. A modality that is left out is missing in every row, and one that is NaN
                throughout a row in that row.
            present: Name → ``(rows,)`` of truth values, where NaN does not tell.
        """
        return self._read(self._said(*self._brought(modalities, present)))

    def needs_both(self, modalities: Given, present: Given | None = None) -> Numbers:
        r"""How much of each answer no modality gives alone, ``(rows,)``, from 0 to 1.

        With :math:`q` the prediction and :math:`q_m` the one from modality m alone, the others averaged over their background,

        .. math:: \max\big(0,\; q(\hat y) - \max_m q_m(\hat y)\big), \qquad \hat y = \arg\max_y q(y):

        how much surer of the answer the row's modalities are together than the surest of them alone. It is 0 where one of them
        alone is as sure of the same answer, and where a row has only one; for an XOR of two bits 1/2, for K classes at most
        1 - 1/K but for noise. For a number it is the least squared Hellinger distance between :math:`q` and a :math:`q_m`,
        which is 0 where one modality alone gives the same mean and deviation.

        Two noisy views that say the same are surer together, too: this is about what an answer rests on, and not yet about
        interaction (:func:`synib.measure.interaction_gain` is).

        Args:
            modalities, present: As for :meth:`predict`.
        """
        brought, there = self._brought(modalities, present)
        together = self._read(self._said(brought, there))
        nothing = {name: torch.zeros_like(one) for name, one in there.items()}
        score = np.full(len(together), np.inf)
        for name, has in there.items():
            alone = self._read(self._said(brought, {**nothing, name: has}, learned=False))
            more = _surer(together, alone) if self.classes else _hellinger(together, alone)
            score = np.where(has.numpy(), np.minimum(score, more), score)
        several = torch.stack(list(there.values())).sum(0).numpy() > 1
        return np.where(several, np.maximum(score, 0.0), 0.0)

    def save(self, folder: str | Path) -> Path:
        """Write ``model.json`` and ``model.safetensors``; files that are not a model's are never overwritten."""
        from synib.own.saved import save

        return save(self, Path(folder))

    def _brought(self, modalities: Given, present: Given | None) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        """What each modality brings to the fusion, and which rows have it."""
        given = self._checked(modalities, present)
        rows = len(next(iter(given.values()))[0])
        brought, there = {}, {}
        self.answers.eval()
        with torch.no_grad():
            for name in self.widths:
                x, has = given.get(name, (np.zeros((rows, self.widths[name]), np.float32), np.zeros(rows, bool)))
                there[name] = torch.from_numpy(has)
                shown_as_there = there[name] if name in self.learned else torch.ones_like(there[name])
                seen = self.scaling(name, np.where(has[:, None], x, 0.0)).double()
                pieces = zip(seen.split(ROWS), shown_as_there.split(ROWS), strict=True)
                brought[name] = torch.cat([
                    self.answers.encode(name, maybe(a, b) if name in self.missing else a) for a, b in pieces
                ] or [self.background[name][:0]])  # fmt: skip
        return brought, there

    def _said(self, brought: Mapping[str, Tensor], there: Mapping[str, Tensor], learned: bool = True) -> Numbers:
        """Calibrated parameters, averaged over the background of modalities that a row lacks and nothing was learned of."""
        known = {name: has | (learned and name in self.learned) for name, has in there.items()}
        patterns, of_row = torch.stack(list(known.values()), 1).unique(dim=0, return_inverse=True)
        draws = max(len(b) for b in self.background.values())
        result = torch.zeros(len(of_row), family_of(self.classes)[1], dtype=torch.float64)
        with torch.no_grad():
            for i, pattern in enumerate(patterns.tolist()):
                lacking = [name for name, has in zip(known, pattern, strict=True) if not has]
                each = draws if lacking else 1
                for rows in (of_row == i).nonzero().flatten().split(max(1, ROWS // each)):
                    taken = {name: z[rows].repeat(each, 1) for name, z in brought.items()}
                    for name in lacking:
                        other = self.background[name]
                        taken[name] = other[torch.arange(draws) % len(other)].repeat_interleave(len(rows), 0)
                    said = self.scaling.parameters(self.family, self.answers.combine(taken).double().numpy())
                    sure = torch.from_numpy(tempered(self.family, said, self.temperature))
                    result[rows] = self.family.average(sure.unflatten(0, (each, len(rows))))
        return result.numpy()

    def _read(self, parameters: Numbers) -> Numbers:
        if not self.classes:
            return np.stack([parameters[:, 0], np.exp(parameters[:, 1] / 2)], 1)
        logits = torch.from_numpy(parameters)
        full = torch.cat([torch.zeros_like(logits), logits], 1) if logits.shape[1] == 1 else logits
        return full.softmax(1).numpy()

    def _checked(self, modalities: Given, present: Given | None) -> dict[str, tuple[NDArray[Any], NDArray[np.bool_]]]:
        """Modality → its rows and which of them have it, if they can be taken."""
        if not isinstance(modalities, Mapping) or not isinstance(present, Mapping | None):
            raise ValueError(f"modalities are a dict of name → (rows, width); got {shown(modalities)}.")
        for name in {**modalities, **(present or {})}:
            if name not in self.widths:
                near = difflib.get_close_matches(str(name), self.widths, 1)
                hint = f"did you mean {near[0]!r}?" if near else f"it has {', '.join(map(repr, self.widths))}."
                raise ValueError(f"The model has no modality {name!r}: {hint}")
        if not modalities:
            raise ValueError(f"There is nothing to predict from; give some of {', '.join(map(repr, self.widths))}.")
        made = {name: _rows(name, x, self.widths[name]) for name, x in modalities.items()}
        rows = {name: len(x) for name, x in made.items()}
        if len(set(rows.values())) > 1:
            said = ", ".join(f"{name} {n:,}" for name, n in rows.items())
            raise ValueError(f"All modalities have as many rows; got {said}.")
        if not any(rows.values()):
            raise ValueError("There are no rows to predict.")
        return {name: (x, _there(name, x, (present or {}).get(name))) for name, x in made.items()}

    def __repr__(self) -> str:
        of = f"{len(self.classes)} classes" if self.classes else "a number"
        said = ", ".join(f"{name} ({width})" for name, width in self.widths.items())
        return f"Predictor({self.method}: {of} from {said})"


def fit(
    table: Table,
    method: str = SYNIB,
    *,
    seeds: int = 1,
    budget: int = 6,
    epochs: int | None = None,
    seed: int = 0,
    device: str = "auto",
    columns: Mapping[str, str] | None = None,
    on_progress: Callable[[float, float], None] = lambda done, of: None,
) -> Predictor:
    """Train a model on a user's data. A fifth of the rows chooses settings and temperature and is not trained on.

    Rows that a split column keeps for testing are not touched; those that it names for validation choose.

    Args:
        table: The data.
        method: ``"synib"``, or a method by its name, such as ``"vanilla"``. SynIB means ``experts`` (a synergy expert beside
            unimodal ones, weighed on validation rows) for classes, the form that did best (docs/results/forms), and
            ``synib-marginal`` for numbers.
        seeds: Models from different initial weights for each candidate, of which the best on validation rows is kept.
        budget: How many settings to try.
        epochs: Passes over the training rows.
        seed: Decides which rows validate, and all that is drawn.
        device: ``"auto"``, ``"cpu"`` or ``"cuda"``.
        columns: Modality → the column that it was read from, to be remembered.
        on_progress: Called with what is done and what there is to do.
    """
    name = ("experts" if table.classes else "synib-marginal") if method == SYNIB else method
    if name == "experts" and not table.classes:
        raise ValueError("experts adds log-odds of classes, and the target is a number: use synib or synib-marginal.")
    fold = final(table, seed=seed)
    outcome = train(
        table,
        [fold],
        [name],
        seeds=seeds,
        seed=seed,
        budget=budget,
        epochs=epochs,
        device=device,
        on_progress=on_progress,
    )
    recipe, found = outcome.recipe, outcome.methods[name]
    target = table.target[recipe.parts[0].validation]
    by_seed = [
        log_loss(recipe.family, tempered(recipe.family, said, t), target)
        for said, t in zip(found.validation[0], found.temperature[:, 0], strict=True)
    ]
    best = int(np.argmin(by_seed))
    answers = Answers(
        found.learners[0][best], recipe.outputs
    ).double()  # so that a row's answer is its own to the last digit
    lacking = {n: int((~np.asarray(table.present[n])[recipe.parts[0].train]).sum()) for n in recipe.missing}
    about = {
        "source": table.source,
        "rows": dict(zip(("train", "validation", "test"), map(len, recipe.parts[0]), strict=True)),
        "columns": dict(columns or {}),
        "asked": method,
        "chosen": "lowest log-loss on the validation rows after one temperature, mean over seeds",
        "budget": budget,
        "seeds": seeds,
        "validation_log_loss": [float(loss) for loss in found.losses[0]],
        "kept": {"seed": seed + best, "validation_log_loss": by_seed[best]},
    }
    return Predictor(
        answers=answers,
        method=name,
        settings=found.chosen[0],
        widths={n: int(x.shape[1]) for n, x in table.modalities.items()},
        classes=tuple(table.classes),
        missing=recipe.missing,
        learned=tuple(n for n in recipe.missing if lacking[n] >= LEARNED),
        scaling=recipe.scaling(0),
        temperature=float(found.temperature[best, 0]),
        background=_background(recipe, answers),
        about=about,
    )


def load(folder: str | Path) -> Predictor:
    """The model in a folder that :meth:`Predictor.save` wrote. It reads JSON and safetensors, and executes nothing."""
    from synib.own.saved import load as read

    return read(Path(folder))


def _background(recipe: Own, answers: Answers) -> dict[str, Tensor]:
    """What training rows bring to the fusion: the same rows for all modalities, where they have them."""
    train_rows = recipe.parts[0].train
    shuffled = train_rows[keys.permutation(keys.fold(keys.key(0), "background"), len(train_rows)).numpy()]
    made = {}
    with torch.no_grad():
        for name in recipe.table.modalities:
            rows = shuffled[np.asarray(recipe.table.present[name])[shuffled]][:BACKGROUND]
            x = recipe.scaling(0)(name, recipe.table.modalities[name][rows]).double()
            seen = maybe(x, torch.ones(len(x), dtype=torch.bool)) if name in recipe.missing else x
            made[name] = answers.encode(name, seen).contiguous()
    return made


def _rows(name: str, x: ArrayLike, width: int) -> NDArray[Any]:
    try:
        made = np.asarray(x.detach().cpu() if isinstance(x, Tensor) else x)
        made = made if made.dtype in (np.float16, np.float32) else made.astype(np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"{name!r} is an array of numbers, (rows, {width}); got {type(x).__name__}.") from None
    if made.ndim != 2 or made.shape[1] != width:
        raise ValueError(f"{name!r} is (rows, {width}), as in training; got {made.shape}.")
    return made


def _there(name: str, x: NDArray[Any], present: ArrayLike | None) -> NDArray[np.bool_]:
    nan = np.isnan(x)
    there: NDArray[np.bool_] = ~nan.all(1)
    if present is not None:
        said = np.asarray(present)
        if said.shape != there.shape or said.dtype != np.bool_:
            raise ValueError(
                f"present[{name!r}] says true or false of each of {len(x):,} rows; got {said.dtype} of shape {said.shape}."
            )
        if (wrong := np.flatnonzero(said & ~there)).size:
            raise ValueError(f"{name!r} should be there in row {wrong[0]} (from 0), but is NaN.")
        there = there & said
    with np.errstate(over="ignore"):
        bad = np.flatnonzero(there & ~np.isfinite(x.astype(np.float32)).all(1))
    if bad.size:
        raise ValueError(f"{name!r} has NaN beside numbers, or infinite ones, in row {bad[0]} (from 0).")
    return there


def _surer(together: Numbers, alone: Numbers) -> Numbers:
    answer = together.argmax(1)[:, None]
    return (np.take_along_axis(together, answer, 1) - np.take_along_axis(alone, answer, 1))[:, 0]


def _hellinger(a: Numbers, b: Numbers) -> Numbers:
    """The squared Hellinger distance of two Gaussians, given by mean and standard deviation."""
    variances = a[:, 1] ** 2 + b[:, 1] ** 2
    overlap = np.sqrt(2 * a[:, 1] * b[:, 1] / variances) * np.exp(-((a[:, 0] - b[:, 0]) ** 2) / (4 * variances))
    return np.asarray(1 - overlap)
