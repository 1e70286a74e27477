"""What an audit leaves behind: the verdict for scripts, the numbers as a table, and the page."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from synib.files import write_csv, write_json
from synib.measure import Estimate
from synib.own.audit import PID_ROWS, Audit
from synib.report.page import Page, write_page
from synib.studies.charts import Bars, Figure, Table

NORMAL = 1.959964  # standard errors in half a 95 % interval
ABOUT = (
    "Models of each modality alone, of all of them, and sums of what single ones say were trained on some rows of the data and "
    "asked about others, which had no part in training them or choosing their settings. Synergy is what a model of all "
    "modalities has over the best additive combination of what each tells alone: two noisy views of one thing pool to a better "
    "answer, and that is not synergy. Products are no network: a regression that adds products of two modalities' numbers to "
    "that combination, and sees such a product in fewer rows than a network takes to learn it."
)


def write(audit: Audit, folder: Path, command: str, facts: Mapping[str, str], interactive: bool = True) -> None:
    """Write ``verdict.json``, ``summary.csv``, figures and ``report.html``."""
    rows = summary(audit)
    write_csv(folder / "summary.csv", rows)
    write_page(page(audit, rows, command, facts), folder, interactive)
    write_json(folder / "verdict.json", audit.verdict.plain())  # last: where it is, all is


def summary(audit: Audit) -> list[dict[str, Any]]:
    """A row for each number: of which method or modality it is, its interval and how many rows it was told from."""
    rows = [_row(method, audit.measure, e) for method, e in audit.scores.items()]
    for method, found in audit.interactions.items():
        rows += [_row(method, "over_additive", found.lead), _row(method, "over_additive_nats", found.evidence)]
    rows += [_row(audit.synib, "over_vanilla", audit.verdict.gain)]
    for method, leaning in audit.verdict.reliance.items():
        for name, lost in leaning.items():
            rows += [
                _row(name, f"lost_{method}", lost.accuracy),
                _row(name, f"confidence_lost_{method}", lost.confidence),
            ]
    if audit.subset is not None:
        rows += [_row(method, "subset_accuracy", e) for method, e in audit.subset.accuracy.items()]
        rows += [_row(method, "subset_over_control", e) for method, e in audit.subset.above.items()]
    for modality, pid in audit.pid.items():
        for name, shown in components(audit, modality).items():
            rows.append(_row(shown, "pid_bits", getattr(pid, name)))
            null = [getattr(one, name) for one in pid.null]
            middle = sum(null) / len(null)
            rows.append(_row(shown, "pid_null_bits", Estimate(middle, min(null), max(null), len(null))))
    return rows


def components(audit: Audit, modality: str) -> dict[str, str]:
    """What the parts of the decomposition of a modality and the others are called."""
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


def page(audit: Audit, rows: Sequence[Mapping[str, Any]], command: str, facts: Mapping[str, str]) -> Page:
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
        spread=f"Means, with 95 % intervals from resampling test rows{', by group' * (audit.table.group is not None)}.",
        training=f"{outcome} {' '.join(outcome.recipe.notes)}".strip(),
        settings={method: found.chosen[0] for method, found in outcome.methods.items()},
        command=command,
        facts=facts,
    )


def _figures(audit: Audit, rows: Sequence[Mapping[str, Any]]) -> list[Figure]:
    reading = (
        f"Left, {audit.measure} at test; right, what each fusion has over the best additive combination of the single "
        "modalities, which is what synergy means here. Lines are 95 % intervals from resampling test rows."
    )
    return [
        Bars.of(
            "figure",
            "How good models are, and what they have over adding up",
            {audit.measure: audit.measure, "over the additive combination": "over_additive"},
            rows,
            audit.scores,
            reading=reading,
            over="test rows",
        )
    ]


def _tables(audit: Audit, rows: Sequence[Mapping[str, Any]]) -> list[Table]:
    made = [
        Table.of_metrics(
            "Models",
            {
                audit.measure: audit.measure,
                "over the additive combination": "over_additive",
                "in nats": "over_additive_nats",
            },
            rows,
            audit.scores,
            note=f"The verdict on synergy is that of {audit.best}, the surest of {len(audit.interactions)}, and asks "
            "for as many times more certainty.",
        )
    ]
    columns: dict[str, str] = {}
    for method in audit.verdict.reliance:
        columns |= {f"{method}: {audit.measure} lost": f"lost_{method}"}
        if audit.table.classes:
            columns |= {f"{method}: confidence lost": f"confidence_lost_{method}"}
    made.append(
        Table.of_metrics(
            "How far models lean on each modality",
            columns,
            rows,
            audit.table.modalities,
            of="modality",
            note="What is lost when the modality is another row's.",
        )
    )
    if audit.subset is not None and audit.subset.accuracy:
        made.append(
            Table.of_metrics(
                "Where every single modality is wrong",
                {"accuracy there": "subset_accuracy", "above the control": "subset_over_control"},
                rows,
                audit.subset.accuracy,
                note=f"{audit.subset.size:,} of {len(audit.table.target):,} rows. The control is plain fusion of modalities "
                "that were exchanged among rows of one class, so that it knows nothing of what they tell together: it is right "
                "where it merely disagrees with the others. Only what is above it can be synergy.",
            )
        )
    if audit.pid:
        joined = " Each modality is set against the others joined into one." if len(audit.table.modalities) > 2 else ""
        some = f" {PID_ROWS:,} rows, drawn at random." if len(audit.table.target) > PID_ROWS else ""
        made.append(
            Table.of_metrics(
                "What the data hold, by clusters (BROJA, bits)",
                {"estimate": "pid_bits", "with permuted labels": "pid_null_bits"},
                rows,
                [shown for modality in audit.pid for shown in components(audit, modality).values()],
                of="part",
                note="Read each part against permuted labels: what they show is bias. BROJA counts part of pooling as synergy, "
                f"and clusters see only what is coarse; the verdict does not rest on this.{joined}{some}",
            )
        )
    return made


def _row(method: str, metric: str, e: Estimate) -> dict[str, Any]:
    spread = None if e.high != e.high else (e.high - e.low) / 2 / NORMAL
    return {
        "method": method,
        "metric": metric,
        "mean": e.value,
        "se": spread,
        "low": e.low,
        "high": e.high,
        "n": e.n,
        "paper": None,
    }
