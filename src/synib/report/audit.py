"""The files of an audit: ``verdict.json``, ``summary.csv``, the figure and the page."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from synib.explanation.notable import notable_rows
from synib.files import write_csv, write_json
from synib.measure import Estimate
from synib.own.audit import PID_ROWS, Audit, Progress
from synib.own.learning_curve import changes
from synib.own.refute import Refutation
from synib.own.sentences import KINDS
from synib.own.subset import Subset
from synib.report.audit_rows import listings
from synib.report.page import Listing, Page, write_page
from synib.studies.charts import Bars, Figure, Row, Table

NORMAL = 1.959964  # half a 95 % interval, in standard errors
ABOUT = (
    "Models were trained on some rows and tested on others, which were used neither for training nor "
    "for model selection. Synergy is the gain of a fusion model, or of a regression with "
    "interactions (products, kernel, table), over the best additive model: a combination of unimodal "
    "models, an additive network and nonlinear effects within each modality. Two noisy views of the "
    "same variable also predict better together than alone; that is pooling, not synergy."
)


def write(
    audit: Audit,
    folder: Path,
    command: str,
    facts: Mapping[str, str],
    interactive: bool = True,
    refutations: Sequence[Refutation] = (),
    on_progress: Progress = lambda done, total, what: None,
) -> None:
    """Write ``verdict.json``, ``summary.csv``, figures and ``report.html``."""
    rows = summary(audit)
    write_csv(folder / "summary.csv", rows)
    write_page(page(audit, rows, command, facts, refutations, on_progress), folder, interactive)
    # Written last, so that its presence means a complete audit.
    write_json(folder / "verdict.json", verdict_json(audit, refutations))


def verdict_json(audit: Audit, refutations: Sequence[Refutation] = ()) -> dict[str, Any]:
    """The verdict as plain values, with the refutation tests if there were any."""
    return audit.verdict.plain() | ({"refutations": [r._asdict() for r in refutations]} if refutations else {})


def label(audit: Audit, name: str) -> str:
    """The name of a model on the page."""
    if name == audit.synib:
        return "SynIB"
    labels = {"vanilla": "plain fusion", "stacked": "SynIB, weight 0 (control)", "additive": "additive network",
             "kernel": "product kernel", "table": "table over clusters"}  # fmt: skip
    if name.startswith("unimodal-"):
        return f"{name.removeprefix('unimodal-')} alone"
    if name.startswith("products-"):
        return f"products of {name.removeprefix('products-')} components"
    return labels.get(name, name)


def summary(audit: Audit) -> list[dict[str, Any]]:
    """One row per value: model or modality, metric, value, interval and the number of rows behind it."""
    verdict, metric = audit.verdict, audit.metric.name
    rows = [_row(label(audit, name), metric, e) for name, e in audit.scores.items()]
    rows += [_row(label(audit, name), "over_additive", e) for name, e in audit.over_additive.items()]
    for name, candidate in audit.evidence.candidates.items():
        rows.append(_row(label(audit, name), "interaction_nats", candidate.evidence))
        rows.append(
            {**_row(label(audit, name), "adjusted_p", Estimate(candidate.p, math.nan, math.nan, candidate.lead.n))}
        )
    if not math.isnan(verdict.gain.value):
        rows += [_row("SynIB", "over_control", verdict.gain), _row("SynIB", "over_vanilla", verdict.gain_over_vanilla)]
    for name, p in verdict.claims.adjusted.items():
        rows.append(_row(name, "adjusted_p", Estimate(p, math.nan, math.nan, len(audit.evidence.rows))))
    for kind, size in verdict.detectable.items():
        if size is not None:
            rows.append(_row(KINDS[kind], "detectable", Estimate(size, math.nan, math.nan, len(audit.evidence.rows))))
    if verdict.curve is not None:
        rows += [_row(change, "validation_nats", e) for change, e in changes(verdict.curve)]
    for method, reliance in verdict.reliance.items():
        for name, loss in reliance.items():
            rows += [_row(name, f"lost_{method}", loss.score), _row(name, f"confidence_lost_{method}", loss.confidence)]
    if audit.subset is not None:
        for metric_name, estimates in (
            ("subset_accuracy", audit.subset.accuracy),
            ("subset_control", audit.subset.control),
            ("subset_over_control", audit.subset.above),
        ):
            rows += [_row(label(audit, method), metric_name, e) for method, e in estimates.items()]
    for modality, pid in audit.pid.items():
        for name, words in pid_labels(audit, modality).items():
            null = [getattr(permuted, name) for permuted in pid.null]
            null_mean = Estimate(sum(null) / len(null), min(null), max(null), len(null))
            rows += [_row(words, "pid_bits", getattr(pid, name)), _row(words, "pid_null_bits", null_mean)]
    return rows


def pid_labels(audit: Audit, modality: str) -> dict[str, str]:
    """Component of the decomposition of a modality and the others → its label, which ``summary.csv`` contains too."""
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


def page(
    audit: Audit,
    rows: Sequence[Row],
    command: str,
    facts: Mapping[str, str],
    refutations: Sequence[Refutation] = (),
    on_progress: Progress = lambda done, total, what: None,
) -> Page:
    """The page of an audit."""
    verdict, outcome = audit.verdict, audit.outcome
    recommended = f"Recommended model: {verdict.recommendation.method}. {verdict.recommendation.why}"
    return Page(
        title=f"Audit of {audit.table.source or 'arrays'}",
        synergy=verdict.synergy,
        verdict=[*verdict.sentences, recommended, *(r.words for r in refutations)],
        alarms=[s.words for s in verdict.shortcuts],
        about=ABOUT,
        findings=[f"{'Warning: ' if f.level == 'warning' else ''}{f.words}" for f in audit.findings],
        figures=_figures(audit, rows),
        tables=_tables(audit, rows),
        listings=_listings(audit, on_progress),
        spread="Means with 95 % confidence intervals over test "
        f"rows{', by group' * (outcome.table.group is not None)}.",
        training=f"{outcome} {' '.join(outcome.recipe.notes)}".strip(),
        settings={label(audit, method): fitted.chosen[0] for method, fitted in outcome.methods.items()},
        command=command,
        facts=facts,
    )


def _listings(audit: Audit, on_progress: Progress) -> list[Listing]:
    notable = notable_rows(audit, on_progress=on_progress)
    return listings(notable, label(audit, notable.method) if notable is not None else "", audit.table)


def _figures(audit: Audit, rows: Sequence[Row]) -> list[Figure]:
    title = "Model performance, and gain over the best additive model"
    metric_name = audit.metric.words
    panels = {metric_name: audit.metric.name, "gain over the additive model": "over_additive"}
    reading = (
        f"First panel: {metric_name} on test rows. Second panel: the difference from the best additive model on the same rows. "
        "Lines are 95 % confidence intervals over test rows, not corrected for the number of models."
    )
    models = list(dict.fromkeys(label(audit, name) for name in audit.scores))
    kinds = {label(audit, name): name for name in audit.scores}
    return [Bars.of("figure", title, panels, rows, models, reading=reading, over="test rows", kinds=kinds)]


def _tables(audit: Audit, rows: Sequence[Row]) -> list[Table]:
    tables = [_models(audit, rows)]
    tables.append(_claims(audit, rows))
    if any(size is not None for size in audit.verdict.detectable.values()):  # otherwise the verdict says that none is
        tables.append(_power(audit, rows))
    if audit.verdict.curve is not None:
        tables += [_methods(rows), _curve(audit, rows)]
    tables.append(_reliance(audit, rows))
    if audit.subset is not None:
        tables.append(_subset(audit, audit.subset, rows))
    if audit.pid:
        tables.append(_pid(audit, rows))
    return tables


def _models(audit: Audit, rows: Sequence[Row]) -> Table:
    columns = {
        audit.metric.words: audit.metric.name,
        "gain over the additive model": "over_additive",
        "interaction gain, in nats": "interaction_nats",
        "adjusted p": "adjusted_p",
    }
    note = (
        "The interaction gain is the gain in log-likelihood from a model's interaction term, beyond its "
        "unimodal terms; these intervals are simultaneous, and p-values are one-sided and adjusted for the number of "
        f"candidates (max-t). The strongest evidence comes from {label(audit, audit.evidence.best)}."
    )
    return Table.of_metrics("Models", columns, rows, [label(audit, name) for name in audit.scores], note=note)


def _claims(audit: Audit, rows: Sequence[Row]) -> Table:
    note = (
        "Synergy is the primary question and is tested separately, in the table above. The other claims that this page can "
        "make are corrected together (Holm); each is made only if its adjusted p is at most .05."
    )
    claims = list(audit.verdict.claims.adjusted)
    return Table.of_metrics("Other claims", {"adjusted p": "adjusted_p"}, rows, claims, of="claim", note=note)


def _power(audit: Audit, rows: Sequence[Row]) -> Table:
    note = (
        f"In units of {audit.metric.words}: an interaction of this size is detected in 8 of 10 simulated "
        "targets with the same rows and the same unimodal effects. A kind without a number would not be "
        "detected reliably up to 0.4."
    )
    title = "The smallest detectable interaction"
    return Table.of_metrics(title, {"size": "detectable"}, rows, KINDS.values(), of="kind", note=note)


def _methods(rows: Sequence[Row]) -> Table:
    columns = {
        "gain over the same estimator with weight 0": "over_control",
        "gain over one plain fusion network": "over_vanilla",
    }
    note = "Intervals are the wider of those over test rows and over folds (corrected resampled t)."
    return Table.of_metrics("Gain of SynIB", columns, rows, ["SynIB"], note=note)


def _curve(audit: Audit, rows: Sequence[Row]) -> Table:
    assert audit.verdict.curve is not None
    note = f"{audit.verdict.curve.sentence()} A positive value means that the change increases the validation log-loss."
    settings = [change for change, _ in changes(audit.verdict.curve)]
    title = "Plain fusion with other training settings"
    return Table.of_metrics(title, {"log-loss (nats)": "validation_nats"}, rows, settings, of="change", note=note)


def _reliance(audit: Audit, rows: Sequence[Row]) -> Table:
    columns: dict[str, str] = {}
    for method in audit.verdict.reliance:
        columns |= {f"{label(audit, method)}: {audit.metric.words} lost": f"lost_{method}"}
        if audit.table.kind != "regression":
            columns |= {f"{label(audit, method)}: confidence lost": f"confidence_lost_{method}"}
    note = "The loss when the modality is replaced by that of another row."
    title = "How much models rely on each modality"
    return Table.of_metrics(title, columns, rows, audit.table.modalities, of="modality", note=note)


def _subset(audit: Audit, subset: Subset, rows: Sequence[Row]) -> Table:
    columns = {
        "accuracy on these rows": "subset_accuracy",
        "accuracy of the control": "subset_control",
        "gain over the control": "subset_over_control",
    }
    note = (
        f"{subset.size:,} of {len(audit.evidence.rows):,} rows. The control of a model has the same "
        "settings, but is trained on modalities that were permuted within each class: it disagrees with "
        "unimodal models as often, and cannot learn an interaction. Only accuracy above the control can "
        "be synergy."
    )
    methods = [label(audit, method) for method in subset.accuracy]
    return Table.of_metrics("Rows on which every single modality is wrong", columns, rows, methods, note=note)


def _pid(audit: Audit, rows: Sequence[Row]) -> Table:
    columns = {"estimate": "pid_bits", "with permuted labels": "pid_null_bits"}
    note = (
        "Compare each component with its value under permuted labels (mean and range of n permutations), which is bias. "
        "BROJA counts part of the gain from "
        "pooling as synergy, and clusters hide fine structure; the verdict does not use this table."
    )
    if len(audit.table.modalities) > 2:
        note += " Each modality is compared with all others combined."
    if len(audit.table.target) > PID_ROWS:
        note += f" Estimated from {PID_ROWS:,} rows, drawn at random within classes."
    labels = [words for modality in audit.pid for words in pid_labels(audit, modality).values()]
    title = "Partial information decomposition of clustered data (BROJA, bits)"
    return Table.of_metrics(title, columns, rows, labels, of="component", note=note)


def _row(method: str, metric: str, estimate: Estimate) -> dict[str, Any]:
    se = None if math.isnan(estimate.high) else (estimate.high - estimate.low) / 2 / NORMAL
    low, high = (None if math.isnan(x) else x for x in (estimate.low, estimate.high))
    return {
        "method": method, "metric": metric, "mean": estimate.value, "se": se, "low": low, "high": high, "n": estimate.n,
        "paper": None,
    }  # fmt: skip
