"""From ``results.csv`` to ``summary.csv``, figures, the page and the README of a run."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from synib.files import read_csv, read_json, write_csv, write_json, write_text
from synib.report.page import Page, render, write_page
from synib.studies import Experiment, load
from synib.studies.base import Row

REPAIR = "Run the experiment again to restore it."


def build(folder: Path | str, interactive: bool = True) -> list[Row]:
    """Write summary, figures, ``report.html`` and ``README.md`` of a finished run; return the summary.

    Args:
        folder: The folder of the run.
        interactive: Whether the page has interactive figures (5 MB) or static images.
    """
    path = Path(folder)
    experiment = load(path)
    results = read_csv(path / "results.csv")
    check_results(path / "results.csv", results, experiment)
    caution, drawable = failures(path, results, experiment.factors)
    try:
        summary = experiment.summary(results)
        conclusions = experiment.conclusions(summary)
        page = _page(path, experiment, summary, caution, drawable)
    except (KeyError, IndexError, StopIteration, TypeError) as e:
        message = f"The tables in {path} lack values required by the page of {experiment.name} ({e!r}). {REPAIR}"
        raise ValueError(message) from e
    write_csv(path / "summary.csv", summary)
    for name, conclusion in conclusions.items():
        write_json(path / f"{name}.json", conclusion)
    write_page(page, path, interactive)
    readme = {"page": page, "experiment": experiment, "selection": _selection(experiment)}
    write_text(path / "README.md", render("readme.md", readme))
    return summary


def check_results(file: Path, results: Sequence[Row], experiment: Experiment) -> None:
    """Raise ``ValueError`` unless the table has one row for each cell of the experiment, with numbers as metrics."""
    cells = experiment.cells()
    if len(results) != len(cells):
        raise ValueError(f"{file} has {len(results)} rows, but the run in its config.json has {len(cells)}. {REPAIR}")
    missing = [name for name in ("method", *experiment.factors, "seed") if name not in results[0]]
    if missing:
        raise ValueError(f"{file} has no column {missing[0]!r}. {REPAIR}")
    for row in results:
        for name in experiment.metrics(results):
            if not isinstance(row[name], int | float | None):
                raise ValueError(f"{file} has {row[name]!r} as {name}, but a number is expected. {REPAIR}")
    rows = Counter(_identity(row["method"], [row[name] for name in experiment.factors], row["seed"]) for row in results)
    expected = Counter(
        _identity(cell.method, [cell.factors[name] for name in experiment.factors], cell.seed) for cell in cells
    )
    for identity in rows - expected:
        raise ValueError(
            f"{file} has a row of {', '.join(identity)} that is duplicated or not in its config.json. {REPAIR}"
        )


def _identity(method: object, factors: Sequence[object], seed: object) -> tuple[str, ...]:
    """Method, factors and seed as written in a table."""
    return tuple(str(round(v, 6) if isinstance(v, float) else v) for v in (method, *factors, seed))


def failures(path: Path, results: Sequence[Row], factors: Sequence[str]) -> tuple[str, bool]:
    """A sentence on failed models, empty if there are none; and whether every point has a model that did not fail."""
    failed = Counter(row["method"] for row in results if row.get("error"))
    if not failed:
        return "", True
    if failed.total() == len(results):
        raise ValueError(f"All {len(results)} models of {path} failed; the first error: {results[0]['error']}")

    def point(row: Row) -> str:
        return " ".join(str(row[name]) for name in ("method", *factors))

    trained = {point(row) for row in results if not row.get("error")}
    lost = [name for name in dict.fromkeys(map(point, results)) if name not in trained]
    counts = ", ".join(f"{method} {n}" for method, n in failed.items())
    sentence = (
        f"{failed.total()} of {len(results)} models failed and are excluded from all means: {counts}. "
        "The column error of results.csv gives the reasons."
    )
    if lost:
        sentence += f" No figure is drawn, because all models of {', '.join(lost)} failed."
    return sentence, not lost


def _page(path: Path, experiment: Experiment, summary: Sequence[Row], caution: str, drawable: bool) -> Page:
    """The page of a run."""
    timings = read_csv(path / "timings.csv")
    for timing in timings:
        if not all(isinstance(timing.get(name), int | float) for name in ("seconds", "cells")):
            raise ValueError(f"{path / 'timings.csv'} is damaged: a row lacks seconds or cells. {REPAIR}")
    record = read_json(path / "run.json")
    run = record if isinstance(record, dict) else {}
    versions = run["versions"] if isinstance(run.get("versions"), dict) else {}
    seconds, models = (sum(timing[name] for timing in timings) for name in ("seconds", "cells"))
    devices = "; ".join(sorted({str(timing.get("device") or "unknown") for timing in timings}))
    hardware = f" ({run['hardware']})" if run.get("hardware") else ""
    files = ["results.csv (one row per model)", "summary.csv", *["curves.csv"] * experiment.curves, "config.json"]
    facts = {
        "Run": f"{models} models in {seconds:.0f} s of training on {devices}{hardware}",
        "Versions": ", ".join(f"{name} {version}" for name, version in versions.items()),
        "The values behind this page": ", ".join(files),
    }
    curves = read_csv(path / "curves.csv") if experiment.curves and drawable else []
    return Page(
        title=experiment.title,
        about=experiment.about,
        caution=" ".join(sentence for sentence in (experiment.caution, caution) if sentence),
        figures=experiment.charts(summary, curves) if drawable else [],
        tables=experiment.tables(summary),
        spread=f"Mean ± standard error over n {experiment.repeats[1]}s.",
        training=(
            "For a given seed, all methods start from the same initial weights and see the same batches in "
            f"the same order. {_selection(experiment)}; nothing is selected on test data."
        ),
        settings=experiment.described(),
        command=str(run.get("command") or f"synib reproduce {experiment.command}"),
        facts={name: words for name, words in facts.items() if words},
    )


def _selection(experiment: Experiment) -> str:
    """The epoch that is evaluated."""
    selections = {cell.settings.get("select", "last") == "best" for cell in experiment.cells()}
    if len(selections) > 1:
        return "The settings state whether the last epoch or the best epoch on validation data is evaluated"
    return "The best epoch on validation data is evaluated" if True in selections else "The last epoch is evaluated"
