"""From ``results.csv`` to everything a person looks at: ``summary.csv``, figures, the page."""

from collections.abc import Sequence
from pathlib import Path

from synib.engines.folder import read_csv, read_json, write_csv, write_json, write_text
from synib.experiments import Experiment, load
from synib.experiments.base import Row
from synib.report.page import Page, render, write_page


def build(folder: Path | str, interactive: bool = True) -> list[Row]:
    """Write summary, figures, ``report.html`` and ``README.md`` of a finished run; returns the summary.

    Args:
        folder: Of the run.
        interactive: Whether the page has figures to point at, and weighs 5 MB, or pictures.
    """
    path = Path(folder)
    experiment = load(path)
    results = read_csv(path / "results.csv")
    check(path / "results.csv", results, experiment)
    summary = experiment.summary(results)
    write_csv(path / "summary.csv", summary)
    for name, conclusion in experiment.conclusions(summary).items():
        write_json(path / f"{name}.json", conclusion)
    page = _page(path, experiment, summary)
    write_page(page, path, interactive)
    write_text(
        path / "README.md", render("readme.md", {"page": page, "experiment": experiment, "kept": _kept(experiment)})
    )
    return summary


def _page(path: Path, experiment: Experiment, summary: Sequence[Row]) -> Page:
    """What the page of a run says."""
    timings = read_csv(path / "timings.csv")
    record = read_json(path / "run.json")
    run = record if isinstance(record, dict) else {}
    seconds, models = (sum(timing[what] for timing in timings) for what in ("seconds", "cells"))
    devices = "; ".join(sorted({timing["device"] for timing in timings}))
    hardware = f" ({run['hardware']})" if run.get("hardware") else ""
    files = ["results.csv (one row for each model)", "summary.csv", *["curves.csv"] * experiment.curves, "config.json"]
    facts = {
        "Run": f"{models} models in {seconds:.0f} s of training on {devices}{hardware}",
        "Versions": ", ".join(f"{name} {version}" for name, version in run.get("versions", {}).items()),
        "The numbers behind this page": ", ".join(files),
    }
    return Page(
        title=experiment.title,
        about=experiment.about,
        caution=experiment.caution,
        figures=experiment.charts(summary, read_csv(path / "curves.csv") if experiment.curves else []),
        tables=experiment.tables(summary),
        spread=f"Mean ± standard error over n {experiment.repeats[1]}s.",
        training=(
            "All methods start from the same initial weights and see the same batches in the same order, for a given seed. "
            f"{_kept(experiment)}; nothing is selected on test data."
        ),
        settings=experiment.described(),
        command=run.get("command", f"synib reproduce {experiment.command}"),
        facts={name: words for name, words in facts.items() if words},
    )


def _kept(experiment: Experiment) -> str:
    """Which epoch of a training counts."""
    best = {cell.settings.get("select", "last") == "best" for cell in experiment.cells()}
    words = {False: "The last epoch counts", True: "The epoch that is best on validation data counts"}
    return (
        words[best.pop()]
        if len(best) == 1
        else "Which epoch counts, the last or the best on validation, is in the settings"
    )


def check(file: Path, results: Sequence[Row], experiment: Experiment) -> None:
    """Raise ``ValueError`` if a table of results is not that of the whole experiment."""
    again = "Run the experiment again to make it anew."
    wanted = len(experiment.cells())
    if len(results) != wanted:
        raise ValueError(f"{file} has {len(results)} rows, and the run of its config.json {wanted}. {again}")
    missing = [name for name in ("method", *experiment.factors, "seed") if name not in results[0]]
    if missing:
        raise ValueError(f"{file} has no column {missing[0]!r}. {again}")
    for row in results:
        for name in experiment.metrics(results):
            if not isinstance(row[name], int | float | None):
                raise ValueError(f"{file} holds {row[name]!r} as {name}, where a number belongs. {again}")
