"""SynIB in `synib fit`: what it trains of itself ("before"), recipes and plain fusion, for every kind of target.

"recipe" is that of an earlier version, with learned masks; "recipe, one draw" swaps whole modalities, as ``SynIB(steps=...)``.

Rows of two modalities with 16 numbers each. A score is the product of the signs of one number of each modality (synergy), the
sum of one number of each (additive), or both added (mixed). With a shortcut, a number of the first modality says the answer as
well in four fifths of the rows, which one flag marks. The target is a score with noise (number), whether it is above 0 (two),
three such labels (labels), or three classes made from two scores (three). `fit` is called for one method at a time, and its
model is measured on fresh rows, all and those without a shortcut. For small data there is the agreement of two signs, each in
one of a modality's four numbers, with little noise. A run that was stopped goes on where it was.

    python benchmarks/fit_recipe.py --out FILE.csv [--sets 3] [--first 0] [--rows 2000] [--kinds number labels two three]
                                    [--truths synergy shortcut mixed additive] [--only FORM ...] [--workers 1] [--seconds S]
                                    [--budget 3] [--epochs N]

It ends with a table in Markdown; with `--sets 0` it only prints that of an earlier run. `--against FORM` adds the differences
to that form, paired by set, with their 95 % intervals.
"""

import argparse
import csv
import itertools
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

from workers import results

WIDTH, FRESH, CUES = 16, 5000, 0.8
TASKS = {"number": "regression", "labels": "multilabel", "two": "classification", "three": "classification"}
TRUTHS = ("synergy", "shortcut", "mixed", "additive", "agreement")
SCORES = ("loss", "score", "loss_without", "score_without")
FIELDS = ("kind", "truth", "rows", "set", "form", *SCORES, "seconds")
SETTINGS = ((3e-3, 0.0, 1e-3), (1e-3, 0.0, 1e-3), (3e-3, 0.3, 1e-4))  # learning rate, dropout, weight decay
RECIPE = {"steps": 4, "mask_lr": 0.5, "sparsity": 0.01, "noise": "shuffled", "draws": 1, "weight": 10.0}
Job = tuple[str, str, int, int, str, int, int | None]  # kind, truth, rows, set, form, budget, epochs


class Form(NamedTuple):
    """A method of `fit`, its fixed settings (without any: those of the library), and the weight it is annealed to."""

    method: str
    settings: Mapping[str, Any] | None = None
    floor: float | None = None


MARGINAL = {"draws": 16}
WHOLE = MARGINAL | {"weight": 10.0}
ONE_DRAW = {"draws": 1, "weight": 10.0}  # whole modalities as well: what `SynIB(steps=...)` does
FORMS: dict[str, dict[str, Form]] = {
    "plain fusion": dict.fromkeys(TASKS, Form("vanilla", {})),
    "before": dict.fromkeys(TASKS, Form("synib")),  # what `fit` trains of itself: experts, or synib-marginal
    "before, settings of the recipe": dict.fromkeys(("two", "three"), Form("experts", WHOLE | {"debias": True})),
    "recipe": dict.fromkeys(TASKS, Form("synib-learned", RECIPE, floor=0.1)),
    "recipe without heads": dict.fromkeys(TASKS, Form("synib-marginal", WHOLE, floor=0.1)),
    "recipe, one draw": dict.fromkeys(TASKS, Form("synib-marginal", ONE_DRAW, floor=0.1)),
    "experts, one draw": dict.fromkeys(("two", "three"), Form("experts", ONE_DRAW, floor=0.1)),
    "experts with the recipe": dict.fromkeys(("two", "three"), Form("recipe-experts", RECIPE, floor=0.1)),
    "experts, recipe without heads": dict.fromkeys(("two", "three"), Form("experts", WHOLE, floor=0.1)),
}


def drawn(kind: str, truth: str, rows: int, rng: Any) -> tuple[dict[str, Any], Any, Any]:
    """Modalities, target, and whether a row has a shortcut."""
    import numpy as np

    if truth == "agreement":
        signs = rng.choice([-1.0, 1.0], (2, rows))
        first, second = 0.3 * rng.normal(size=(2, rows, 4))
        first[:, 0], second[:, 0] = first[:, 0] + signs[0], second[:, 0] + signs[1]
        return {"first": first, "second": second}, (signs[0] == signs[1]).astype(np.int64), np.zeros(rows, bool)
    first, second = rng.normal(size=(2, rows, WIDTH)).astype(np.float32)
    score = np.zeros((rows, 3))
    if truth != "additive":
        score += np.sign(first[:, :3]) * np.sign(second[:, :3])
    if truth in ("additive", "mixed"):
        score += (first[:, 6:9] + second[:, 6:9]) / 2**0.5
    number = score[:, 0] + 0.3 * rng.normal(size=rows)
    labels = ((score > 0) ^ (rng.uniform(size=score.shape) < 0.05)).astype(np.int64)
    three = labels[:, 0] * (1 + labels[:, 1])
    target, answer = {
        "number": (number, number[:, None]),
        "labels": (labels, 2.0 * labels - 1),
        "two": (labels[:, 0], 2.0 * labels[:, :1] - 1),
        "three": (three, 2.0 * (three[:, None] == np.arange(3)) - 1),
    }[kind]
    cued = rng.uniform(size=rows) < CUES * (truth == "shortcut")
    first[:, -1] = cued
    first[:, 3 : 3 + answer.shape[1]] = np.where(cued[:, None], answer, rng.normal(size=answer.shape))
    return {"first": first, "second": second}, target, cued


def measured(kind: str, predicted: Any, target: Any) -> tuple[float, float]:
    """Log-loss, and accuracy or explained variance."""
    import numpy as np

    if kind == "number":
        mean, deviation = predicted.T
        squares = (target - mean) ** 2
        loss = 0.5 * np.log(2 * np.pi * deviation**2) + squares / (2 * deviation**2)
        return float(loss.mean()), float(1 - squares.mean() / np.var(target))
    if kind == "labels":
        likelihood = np.where(target == 1, predicted, 1 - predicted)
        return float(-np.log(likelihood).mean()), float((likelihood > 0.5).mean())
    likelihood = predicted[np.arange(len(target)), target]
    return float(-np.log(likelihood).mean()), float((predicted.argmax(1) == target).mean())


@contextmanager
def registered(form: Form) -> Iterator[None]:
    """As long as this lasts, `fit` trains a form with its settings, whatever its own search space is."""
    from synib import methods
    from synib.own import fit_run, fitting, recipe

    settings = form.settings
    if settings is None:
        yield
        return

    def candidates(method: str, budget: int, kind: str) -> list[dict[str, float]]:
        return [dict(zip(("lr", "dropout", "weight_decay"), setting, strict=True)) for setting in SETTINGS[:budget]]

    def fixed(method: str, steps: int, kind: str) -> dict[str, Any]:
        falling = {"weight_schedule": "anneal", "weight_steps": max(1, 4 * steps // 5), "weight_floor": form.floor}
        return {**settings, **(falling if form.floor is not None else {})}

    with ExitStack() as stack:
        for module in (fit_run, fitting, recipe):
            stack.enter_context(mock.patch.object(module, "candidates", candidates))
        stack.enter_context(mock.patch.object(recipe, "fixed", fixed))
        stack.enter_context(mock.patch.dict(methods.METHODS, {"recipe-experts": _recipe_experts()}))
        yield


def _recipe_experts() -> Any:
    """Experts whose synergy expert has learned masks."""
    from synib.methods.experts import Experts
    from synib.methods.synib import synib_learned
    from synib.objective import Objective

    def make(
        *, steps: int, mask_lr: float, sparsity: float, noise: Any, draws: int, weight: Any, **settings: Any
    ) -> Objective:
        learned = {"steps": steps, "mask_lr": mask_lr, "sparsity": sparsity, "noise": noise, "draws": draws}
        return Experts(synib_learned(**learned, weight=weight, **settings))

    return make


def judged(job: Job) -> dict[str, Any]:
    """What the model of `fit` is worth on fresh rows of one set."""
    import numpy as np
    import torch

    import synib

    kind, truth, rows, number, name, budget, epochs = job
    torch.set_num_threads(1)
    form = FORMS[name][kind]
    rng = np.random.default_rng([number, list(TASKS).index(kind), TRUTHS.index(truth)])
    x, y, _ = drawn(kind, truth, rows, rng)
    fresh, target, cued = drawn(kind, truth, FRESH, rng)
    table = synib.Table.from_arrays(x, y, task=TASKS[kind])  # type: ignore[arg-type]
    start = time.perf_counter()
    with registered(form):
        model = synib.fit(
            table,
            form.method,
            budget=budget,
            epochs=epochs,
            device="cpu",
            seed=number,
            baselines=False,
            incomplete=False,
        )
        seconds = time.perf_counter() - start
        predicted = np.asarray(model.predict(fresh))
    scores = (*measured(kind, predicted, target), *measured(kind, predicted[~cued], target[~cued]))
    row: dict[str, Any] = {"kind": kind, "truth": truth, "rows": rows, "set": number, "form": name}
    return row | {k: round(v, 4) for k, v in zip(SCORES, scores, strict=True)} | {"seconds": round(seconds, 1)}


def read(path: Path) -> list[dict[str, Any]]:
    """The rows of an earlier run."""
    if not path.exists():
        return []
    with path.open(newline="") as text:
        found: list[dict[str, Any]] = list(csv.DictReader(text))
    numbers = {"rows": int, "set": int} | dict.fromkeys((*SCORES, "seconds"), float)
    return [{k: numbers.get(k, str)(v) for k, v in row.items()} for row in found if row.get("seconds")]


def summary(rows: Sequence[Mapping[str, Any]], against: str | None) -> Iterator[str]:
    """A table in Markdown, one line for each kind, truth, number of rows and form."""
    import numpy as np

    from synib.measure.stats import interval

    names = ("log-loss", "accuracy or explained variance", "log-loss, no shortcut", "accuracy, no shortcut")
    more = [f"{name}: over {against}" for name in names] if against else []
    yield "| " + " | ".join(["target", "truth", "rows", "form", "sets", *names, "seconds", *more]) + " |"
    yield "|" + "---|" * (6 + len(names) + len(more))
    cases = itertools.product(TASKS, TRUTHS, sorted({row["rows"] for row in rows}), FORMS)
    found = {tuple(row[name] for name in FIELDS[:5]): row for row in rows}
    numbers = sorted({row["set"] for row in rows})
    for kind, truth, size, form in cases:
        sets = {i: found[kind, truth, size, i, form] for i in numbers if (kind, truth, size, i, form) in found}
        if not sets:
            continue
        shown = [name for name in SCORES if truth == "shortcut" or not name.endswith("without")]
        cells = []
        for name in SCORES:
            values = np.array([row[name] for row in sets.values()])
            error = f" ± {values.std(ddof=1) / len(values) ** 0.5:.3f}" if len(values) > 1 else ""
            cells.append(f"{values.mean():.3f}{error}" if name in shown else "")
        cells.append(f"{np.mean([row['seconds'] for row in sets.values()]):.0f}")
        if against:
            others = {i: found.get((kind, truth, size, i, against)) for i in sets}
            pairs = [(sets[i], other) for i, other in others.items() if other is not None]
            for name in SCORES:
                gap = np.array([row[name] - other[name] for row, other in pairs])
                if name not in shown or form == against or len(gap) < 2:
                    cells.append("")
                else:
                    low, high = interval(gap.mean(), gap.std(ddof=1) / len(gap) ** 0.5, len(gap))
                    cells.append(f"{gap.mean():+.3f} [{low:+.3f}, {high:+.3f}]")
        yield "| " + " | ".join([kind, truth, str(size), form, str(len(sets)), *cells]) + " |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--sets", type=int, default=3)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--rows", type=int, default=2000)
    parser.add_argument("--kinds", nargs="+", choices=TASKS, default=list(TASKS))
    parser.add_argument(
        "--truths", nargs="+", choices=TRUTHS, default=list(TRUTHS[:4]), help="agreement: of two classes"
    )
    parser.add_argument("--only", nargs="+", choices=FORMS, default=list(FORMS), help="of the forms")
    parser.add_argument("--against", choices=FORMS, help="the form that the others are compared with in the table")
    parser.add_argument("--budget", type=int, default=3, help="settings that are tried, at most 3")
    parser.add_argument("--epochs", type=int, help="of the training, instead of as many as fit takes of itself")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=1e9, help="no fit is begun after so many seconds")
    options = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    rows = read(options.out)
    finished = {tuple(row[name] for name in FIELDS[:5]) for row in rows}
    design = itertools.product(
        range(options.first, options.first + options.sets), options.truths, options.kinds, options.only
    )
    jobs: list[Job] = [
        (kind, truth, options.rows, number, form, options.budget, options.epochs)
        for number, truth, kind, form in design
        if kind in FORMS[form] and (truth != "agreement" or kind == "two")
    ]
    jobs = [job for job in jobs if job[:5] not in finished]
    with options.out.open("w", newline="") as text:
        writer = csv.DictWriter(text, FIELDS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
        text.flush()
        for row in results(judged, jobs, options.workers, options.seconds) if jobs else ():
            rows.append(row)
            writer.writerow(row)
            text.flush()
            print(*row.values(), sep="  ", flush=True)
    print(*summary(rows, options.against), sep="\n")


if __name__ == "__main__":
    main()
