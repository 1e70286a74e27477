"""The files of an audit: ``verdict.json``, ``summary.csv``, the figure and the page."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from synib.files import write_csv, write_json
from synib.measure import Estimate
from synib.own.audit import PID_ROWS, Audit
from synib.own.subset import Subset
from synib.report.page import Page, write_page
from synib.studies.charts import Bars, Figure, Row, Table

NORMAL = 1.959964  # half a 95 % interval, in standard errors
ABOUT = (
    "Unimodal models, fusion models and additive combinations of unimodal models were trained on some rows of the data and "
    "tested on others, which were used neither for training nor for choosing settings. Synergy is the gain of a fusion model "
    "over the best additive combination of the unimodal models: two noisy views of the same thing also predict better "
    'together, and that is not synergy. "Products" is a regression, not a network: it adds products of two modalities\' '
    "features to the additive combination, and detects such an interaction in fewer rows than a network needs to learn it."
)


def write(audit: Audit, folder: Path, command: str, facts: Mapping[str, str], interactive: bool = True) -> None:
    """Write ``verdict.json``, ``summary.csv``, figures and ``report.html``."""
    rows = summary(audit)
    write_csv(folder / "summary.csv", rows)
    write_page(page(audit, rows, command, facts), folder, interactive)
    write_json(folder / "verdict.json", audit.verdict.plain())  # last, so that its presence means a complete audit


def summary(audit: Audit) -> list[dict[str, Any]]:
    """A row for each number: method or modality, metric, value, interval and the number of rows it is based on."""
    rows = [_row(method, audit.measure, e) for method, e in audit.scores.items()]
    for method, interaction in audit.interactions.items():
        rows.append(_row(method, "over_additive", interaction.lead))
        rows.append(_row(method, "over_additive_nats", interaction.evidence))
    rows += [_row(audit.synib, "over_vanilla", audit.verdict.gain)]
    for method, reliance in audit.verdict.reliance.items():
        for name, lost in reliance.items():
            rows += [
                _row(name, f"lost_{method}", lost.accuracy),
                _row(name, f"confidence_lost_{method}", lost.confidence),
            ]
    if audit.subset is not None:
        rows += [_row(method, "subset_accuracy", e) for method, e in audit.subset.accuracy.items()]
        rows += [_row(method, "subset_over_control", e) for method, e in audit.subset.above.items()]
    for modality, pid in audit.pid.items():
        for name, label in pid_labels(audit, modality).items():
            null = [getattr(permuted, name) for permuted in pid.null]
            null_mean = Estimate(sum(null) / len(null), min(null), max(null), len(null))
            rows += [_row(label, "pid_bits", getattr(pid, name)), _row(label, "pid_null_bits", null_mean)]
    return rows


def pid_labels(audit: Audit, modality: str) -> dict[str, str]:
    """Components of the decomposition of a modality and the others → their labels."""
    others = [name for name in audit.table.modalities if name != modality]
    if len(others) > 1:
        return {
            "redundant": f"{modality} and the others alike",
            "unique1": f"{modality} alone",
            "unique2": f"the others without {modality}",
            "synergy": f"{modality} and the others together",
        }
    return {
        "redundant": f"{modality} and {others[0]} alike",
        "unique1": f"{modality} alone",
        "unique2": f"{others[0]} alone",
        "synergy": "both together",
    }


def page(audit: Audit, rows: Sequence[Row], command: str, facts: Mapping[str, str]) -> Page:
    """The page of an audit."""
    verdict, outcome = audit.verdict, audit.outcome
    return Page(
        title=f"Audit of {audit.table.source}",
        synergy=verdict.synergy,
        verdict=verdict.sentences,
        alarms=[s.words for s in verdict.shortcuts],
        about=ABOUT,
        findings=[f"{'Warning: ' if f.level == 'warning' else ''}{f.words}" for f in audit.findings],
        figures=_figures(audit, rows),
        tables=_tables(audit, rows),
        spread=f"Means with 95 % intervals over test rows{', by group' * (audit.table.group is not None)}.",
        training=f"{outcome} {' '.join(outcome.recipe.notes)}".strip(),
        settings={method: fitted.chosen[0] for method, fitted in outcome.methods.items()},
        command=command,
        facts=facts,
    )


def _figures(audit: Audit, rows: Sequence[Row]) -> list[Figure]:
    title = "Model performance, and gain over the additive baseline"
    panels = {audit.measure: audit.measure, "over the additive combination": "over_additive"}
    reading = (
        f"Left: {audit.measure} on test rows. Right: the gain of each fusion model over the best additive combination of "
        "unimodal models, which is the definition of synergy here. Lines are 95 % intervals over test rows."
    )
    return [Bars.of("figure", title, panels, rows, audit.scores, reading=reading, over="test rows")]


def _tables(audit: Audit, rows: Sequence[Row]) -> list[Table]:
    tables = [_models(audit, rows), _reliance(audit, rows)]
    if audit.subset is not None and audit.subset.accuracy:
        tables.append(_subset(audit, audit.subset, rows))
    if audit.pid:
        tables.append(_pid(audit, rows))
    return tables


def _models(audit: Audit, rows: Sequence[Row]) -> Table:
    columns = {
        audit.measure: audit.measure,
        "over the additive combination": "over_additive",
        "in nats": "over_additive_nats",
    }
    note = (
        f"The verdict uses the model with the strongest evidence, {audit.best}; its threshold is corrected for choosing the "
        f"best of {len(audit.interactions)}."
    )
    return Table.of_metrics("Models", columns, rows, audit.scores, note=note)


def _reliance(audit: Audit, rows: Sequence[Row]) -> Table:
    columns: dict[str, str] = {}
    for method in audit.verdict.reliance:
        columns |= {f"{method}: {audit.measure} lost": f"lost_{method}"}
        if audit.table.classes:
            columns |= {f"{method}: confidence lost": f"confidence_lost_{method}"}
    note = "The loss when the modality is replaced by that of another row."
    title = "How much models rely on each modality"
    return Table.of_metrics(title, columns, rows, audit.table.modalities, of="modality", note=note)


def _subset(audit: Audit, subset: Subset, rows: Sequence[Row]) -> Table:
    columns = {"accuracy there": "subset_accuracy", "above the control": "subset_over_control"}
    note = (
        f"{subset.size:,} of {len(audit.table.target):,} rows. The control is a plain fusion model trained on modalities that "
        "were shuffled among the rows of each class. It cannot learn interactions, so it is right here only where it happens "
        "to disagree with the unimodal models. Only accuracy above the control can be synergy."
    )
    return Table.of_metrics("Where every single modality is wrong", columns, rows, subset.accuracy, note=note)


def _pid(audit: Audit, rows: Sequence[Row]) -> Table:
    columns = {"estimate": "pid_bits", "with permuted labels": "pid_null_bits"}
    note = (
        "Compare each component with its value under permuted labels, which is bias. BROJA counts part of the gain from "
        "pooling as synergy, and clusters hide fine structure; the verdict does not use this table."
    )
    if len(audit.table.modalities) > 2:
        note += " Each modality is set against the others joined into one."
    if len(audit.table.target) > PID_ROWS:
        note += f" Estimated from {PID_ROWS:,} randomly drawn rows."
    labels = [label for modality in audit.pid for label in pid_labels(audit, modality).values()]
    title = "Partial information decomposition of clustered data (BROJA, bits)"
    return Table.of_metrics(title, columns, rows, labels, of="component", note=note)


def _row(method: str, metric: str, estimate: Estimate) -> dict[str, Any]:
    se = None if math.isnan(estimate.high) else (estimate.high - estimate.low) / 2 / NORMAL
    interval = {"low": estimate.low, "high": estimate.high}
    return {
        "method": method,
        "metric": metric,
        "mean": estimate.value,
        "se": se,
        **interval,
        "n": estimate.n,
        "paper": None,
    }
