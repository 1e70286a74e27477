"""From ``results.csv`` to everything a person looks at: ``summary.csv``, figures, the page."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from synib.engines.folder import read_csv, read_json, write_csv, write_text
from synib.experiments import EXPERIMENTS, Experiment
from synib.report.draw import svg


def load(folder: Path | str) -> Experiment:
    """The experiment that a results folder was made by, with its options."""
    config = read_json(Path(folder) / "config.json")
    if not isinstance(config, dict) or config.get("experiment") not in EXPERIMENTS:
        raise ValueError(f"{folder} is not the folder of a run: it has no config.json that names an experiment.")
    return EXPERIMENTS[config["experiment"]].from_config(config)


def build(folder: Path | str) -> list[dict[str, Any]]:
    """Write summary, figures, ``report.html`` and ``README.md`` of a finished run; returns the summary."""
    path = Path(folder)
    experiment = load(path)
    summary = experiment.summary(read_csv(path / "results.csv"))
    write_csv(path / "summary.csv", summary)
    charts = experiment.charts(summary, read_csv(path / "curves.csv"))
    drawn = [(chart, svg(chart)) for chart in charts]
    for chart, picture in drawn:
        write_text(path / f"{chart.file}.svg", picture)
    timings = read_csv(path / "timings.csv")
    shown = {
        "experiment": experiment,
        "charts": drawn,
        "table": table(experiment, summary, experiment.headline),
        "settings": {cell.method: cell.settings for cell in experiment.cells()},
        "seconds": sum(t["seconds"] for t in timings),
        "models": sum(t["cells"] for t in timings),
        "devices": sorted({t["device"] for t in timings}),
        "run": read_json(path / "run.json") or {},
    }
    write_text(path / "report.html", render("page.html", shown))
    write_text(path / "README.md", render("readme.md", shown))
    return summary


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
    environment.filters["picture"] = lambda svg: Markup(svg[svg.index("<svg") :])
    return environment.get_template(template).render(shown)


def table(experiment: Experiment, summary: Sequence[dict[str, Any]], metric: str = "test_accuracy") -> dict[str, Any]:
    """One metric as a table: a row for each method, a column for each combination of factors."""
    rows = [row for row in summary if row["metric"] == metric]
    columns = list(dict.fromkeys(tuple(row[f] for f in experiment.factors) for row in rows))
    methods = list(dict.fromkeys(row["method"] for row in rows))
    cells = {(row["method"], tuple(row[f] for f in experiment.factors)): row for row in rows}
    return {
        "metric": metric.replace("_", " "),
        "columns": [
            ", ".join(
                f"{f} = {v:g}" if isinstance(v, float) else f"{f} = {v}"
                for f, v in zip(experiment.factors, c, strict=True)
            )
            for c in columns
        ],
        "rows": [(m, [cells.get((m, c)) for c in columns]) for m in methods],
    }
