"""From ``results.csv`` to everything a person looks at: ``summary.csv``, figures, the page."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from synib.files import read_csv, read_json, write_csv, write_json, write_text
from synib.report.page import Page, render, write_page
from synib.studies import Experiment, load
from synib.studies.base import Row

AGAIN = "Run the experiment again to make it anew."


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
    lost, drawn = failed(path, results, experiment.factors)
    try:
        summary = experiment.summary(results)
        conclusions = experiment.conclusions(summary)
        page = _page(path, experiment, summary, lost, drawn)
    except (KeyError, IndexError, StopIteration, TypeError) as e:
        raise ValueError(f"{path}: its tables lack what the page of {experiment.name} shows ({e!r}). {AGAIN}") from e
    write_csv(path / "summary.csv", summary)
    for name, conclusion in conclusions.items():
        write_json(path / f"{name}.json", conclusion)
    write_page(page, path, interactive)
    write_text(
        path / "README.md", render("readme.md", {"page": page, "experiment": experiment, "kept": _kept(experiment)})
    )
    return summary


def failed(path: Path, results: Sequence[Row], factors: Sequence[str]) -> tuple[str, bool]:
    """How many models failed, in a sentence, which is empty if none did; and whether every point has one that did not."""
    who = Counter(row["method"] for row in results if row.get("error"))
    if who.total() == len(results):
        raise ValueError(f"All {len(results)} models of {path} failed; the first: {results[0]['error']}")
    points = {tuple(row[name] for name in ("method", *factors)): False for row in results}
    points |= {tuple(row[name] for name in ("method", *factors)): True for row in results if not row.get("error")}
    lost = [" ".join(map(str, point)) for point, some in points.items() if not some]
    if not who:
        return "", True
    said = (
        f"{who.total()} of {len(results)} models failed and are in no mean: {', '.join(f'{m} {n}' for m, n in who.items())}. "
        "In results.csv the column error says why."
    )
    return said + f" No figure is drawn: all of {', '.join(lost)} failed." * bool(lost), not lost


def _page(path: Path, experiment: Experiment, summary: Sequence[Row], lost: str, drawn: bool) -> Page:
    """What the page of a run says."""
    timings = read_csv(path / "timings.csv")
    for timing in timings:
        if not all(isinstance(timing.get(what), int | float) for what in ("seconds", "cells")):
            raise ValueError(f"{path / 'timings.csv'} is damaged: it has no seconds and cells in every row. {AGAIN}")
    record = read_json(path / "run.json")
    run = record if isinstance(record, dict) else {}
    said = run.get("versions")
    versions = said if isinstance(said, dict) else {}
    seconds, models = (sum(timing[what] for timing in timings) for what in ("seconds", "cells"))
    devices = "; ".join(sorted({str(timing.get("device") or "unknown") for timing in timings}))
    hardware = f" ({run['hardware']})" if run.get("hardware") else ""
    files = ["results.csv (one row for each model)", "summary.csv", *["curves.csv"] * experiment.curves, "config.json"]
    facts = {
        "Run": f"{models} models in {seconds:.0f} s of training on {devices}{hardware}",
        "Versions": ", ".join(f"{name} {version}" for name, version in versions.items()),
        "The numbers behind this page": ", ".join(files),
    }
    return Page(
        title=experiment.title,
        about=experiment.about,
        caution=" ".join(sentence for sentence in (experiment.caution, lost) if sentence),
        figures=experiment.charts(summary, read_csv(path / "curves.csv") if experiment.curves else []) if drawn else [],
        tables=experiment.tables(summary),
        spread=f"Mean ± standard error over n {experiment.repeats[1]}s.",
        training=(
            "All methods start from the same initial weights and see the same batches in the same order, for a given seed. "
            f"{_kept(experiment)}; nothing is selected on test data."
        ),
        settings=experiment.described(),
        command=str(run.get("command") or f"synib reproduce {experiment.command}"),
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
    wanted = len(experiment.cells())
    if len(results) != wanted:
        raise ValueError(f"{file} has {len(results)} rows, and the run of its config.json {wanted}. {AGAIN}")
    missing = [name for name in ("method", *experiment.factors, "seed") if name not in results[0]]
    if missing:
        raise ValueError(f"{file} has no column {missing[0]!r}. {AGAIN}")
    for row in results:
        for name in experiment.metrics(results):
            if not isinstance(row[name], int | float | None):
                raise ValueError(f"{file} holds {row[name]!r} as {name}, where a number belongs. {AGAIN}")
    rows = Counter(_who(row["method"], [row[name] for name in experiment.factors], row["seed"]) for row in results)
    asked = Counter(
        _who(cell.method, [cell.factors[name] for name in experiment.factors], cell.seed) for cell in experiment.cells()
    )
    for who in rows - asked:
        raise ValueError(f"{file} has a row of {', '.join(who)}, twice or not in its config.json. {AGAIN}")


def _who(method: object, factors: Sequence[object], seed: object) -> tuple[str, ...]:
    """What a row is of, as a table writes it."""
    return tuple(str(round(v, 6) if isinstance(v, float) else v) for v in (method, *factors, seed))
