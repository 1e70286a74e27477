"""From ``results.csv`` to everything a person looks at: ``summary.csv``, figures, the page."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from synib.engines.folder import read_csv, read_json, write_csv, write_json, write_text
from synib.experiments import Experiment, load
from synib.experiments.base import Row
from synib.report import numbers
from synib.report.draw import html, svg


def build(folder: Path | str) -> list[Row]:
    """Write summary, figures, ``report.html`` and ``README.md`` of a finished run; returns the summary."""
    path = Path(folder)
    experiment = load(path)
    results = read_csv(path / "results.csv")
    check(path / "results.csv", results, experiment)
    summary = experiment.summary(results)
    write_csv(path / "summary.csv", summary)
    for name, conclusion in experiment.conclusions(summary).items():
        write_json(path / f"{name}.json", conclusion)
    charts = experiment.charts(summary, read_csv(path / "curves.csv") if experiment.curves else [])
    pictures = [svg(chart) for chart in charts]
    for chart, picture in zip(charts, pictures, strict=True):
        write_text(path / f"{chart.file}.svg", picture)
    timings = read_csv(path / "timings.csv")
    tables = experiment.tables(summary)
    shown = {
        "experiment": experiment,
        "charts": [(chart, html(chart, picture)) for chart, picture in zip(charts, pictures, strict=True)],
        "tables": tables,
        "published": any(c and c["paper"] is not None for t in tables for cells in t.rows.values() for c in cells),
        "settings": experiment.described(),
        "kept": _kept(experiment),
        "seconds": sum(t["seconds"] for t in timings),
        "models": sum(t["cells"] for t in timings),
        "devices": sorted({t["device"] for t in timings}),
        "run": run if isinstance(run := read_json(path / "run.json"), dict) else {},
    }
    write_text(path / "report.html", render("page.html", shown))
    write_text(path / "README.md", render("readme.md", shown))
    return summary


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


def render(template: str, shown: Mapping[str, Any]) -> str:
    """A page from its template. In HTML every text is escaped but our own pictures."""
    from jinja2 import Environment, PackageLoader, select_autoescape
    from markupsafe import Markup

    environment = Environment(
        loader=PackageLoader("synib.report", "."),
        autoescape=select_autoescape(["html"]),
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["picture"] = Markup
    environment.filters |= {"number": numbers.number, "mean": numbers.mean, "published": numbers.published}
    return environment.get_template(template).render(shown)
