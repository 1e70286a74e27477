"""From ``results.csv`` to everything a person looks at: ``summary.csv``, figures, the page."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from synib.engines.folder import read_csv, read_json, write_csv, write_text
from synib.experiments import EXPERIMENTS, Experiment
from synib.experiments.charts import Triangles
from synib.report.draw import svg
from synib.report.ternary import html


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
    charts = experiment.charts(summary, read_csv(path / "curves.csv") if experiment.curves else [])
    pictures = {chart.file: svg(chart) for chart in charts}
    for file, picture in pictures.items():
        write_text(path / f"{file}.svg", picture)
    # What a reader can point at is better than a picture, where there is such a form.
    shapes = {file: picture[picture.index("<svg") :] for file, picture in pictures.items()}
    shapes |= {chart.file: html(chart) for chart in charts if isinstance(chart, Triangles)}
    timings = read_csv(path / "timings.csv")
    shown = {
        "experiment": experiment,
        "charts": [(chart, shapes[chart.file]) for chart in charts],
        "tables": experiment.tables(summary),
        "settings": experiment.described(),
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
    environment.filters["picture"] = Markup
    environment.filters["published"] = lambda v: f"{v:.2f}" if round(v, 2) == v else f"{v:.3f}"
    return environment.get_template(template).render(shown)
