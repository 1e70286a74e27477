"""An explanation as HTML, for notebooks and for the page of ``synib explain``."""

from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING

import numpy as np

from synib.explanation import pictures
from synib.explanation.answers import EVIDENCE

if TYPE_CHECKING:
    from synib.explanation.explain import Explanation
    from synib.explanation.kinds import Kinds

CELLS = 6  # pairs of clusters that are shown


def explanation_html(explanation: "Explanation", rows: Sequence[int]) -> str:
    """A section for each of the rows, with its own style and no script."""
    e = explanation.rows
    about = (
        f"Evidence is {EVIDENCE[e.kind]}. It is the sum of the bars below: the baseline, the evidence that only one modality "
        f"gives, the evidence that several give alike (shared), and the evidence from their interaction (synergy). Absent "
        f"modalities take the values of {e.draws} other rows. {len(rows)} of {len(e)} rows are shown."
    )
    sections = "".join(_row(explanation, row) for row in rows)
    return f'{pictures.STYLE}<div class="synib-explanation"><p>{escape(about)}</p>{pictures.legend()}{sections}</div>'


def kinds_html(kinds: "Kinds", ids: Sequence[str] | None = None, of: str = "") -> str:
    """The pairs of clusters that interact most, and the directions that do, with their most typical rows.

    Args:
        kinds: The clusters and directions.
        ids: Names of the rows. Default: their numbers.
        of: The output whose interaction is described.
    """

    def typical(rows: Sequence[int]) -> str:
        return ", ".join(str(row) if ids is None else ids[row] for row in rows)

    cells = [
        [
            " × ".join(f"{name}, cluster {k + 1}" for name, k in zip(cell.modalities, cell.clusters, strict=True)),
            f"{cell.effect.value:+.2f} [{cell.effect.low:+.2f}, {cell.effect.high:+.2f}]",
            str(cell.effect.n),
            typical(cell.rows),
        ]
        for cell in kinds.cells[:CELLS]
    ]
    tables = [_table(["clusters", "mean interaction", "rows", "typical rows"], cells)] if cells else []
    if kinds.directions:
        best = max(kinds.directions, key=lambda d: abs(d.correlation))
        corners = [
            [" × ".join(f"{name}, {side}" for name, side in zip(best.modalities, sides, strict=True)), f"{effect:+.2f}",
             typical(rows)]
            for sides, (effect, rows) in best.corners.items() if rows
        ]  # fmt: skip
        tables.append(_table(["directions", "mean interaction", "typical rows"], corners))
        tables.append(
            f'<p class="soft">The directions of {escape(" and ".join(best.modalities))} whose product correlates best with '
            f"the interaction (correlation {best.correlation:.2f}).</p>"
        )
    about = (
        f"Mean interaction{f' in the evidence for {of}' if of else ''} in groups of rows that are alike. It is estimated from "
        "the rows that it describes: it is exploratory, not a test."
    )
    return f'{pictures.STYLE}<div class="synib-explanation"><p>{escape(about)}</p>{"".join(tables)}</div>'


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    columns = "".join(f'<th scope="col">{escape(title)}</th>' for title in head)
    lines = "".join(
        f'<tr><th scope="row">{escape(first)}</th>{"".join(f"<td>{escape(text)}</td>" for text in rest)}</tr>'
        for first, *rest in rows
    )
    table = f"<table><thead><tr>{columns}</tr></thead><tbody>{lines}</tbody></table>"
    return f'<div class="scroll kinds" tabindex="0">{table}</div>'


def _row(explanation: "Explanation", row: int) -> str:
    e = explanation.rows
    title = f"Row {explanation.ids[row]}: {_title(explanation, row)}"
    names = ["baseline", *(f"only {name}" for name in e.names), "shared", "synergy"]
    scores = [*(e.unique[name] for name in e.names), e.shared, e.synergy]
    value = [e.baseline[row], *(s.value[row] for s in scores)]
    low = [e.baseline[row], *(s.low[row] for s in scores)]
    high = [e.baseline[row], *(s.high[row] for s in scores)]
    parts = []
    for name, view in explanation.views.items():
        of_parts = explanation.parts.get(name)
        if of_parts is not None and row in of_parts.rows:
            drawn = view.draw(explanation.values[name][row], of_parts, of_parts.rows.index(row))
            parts.append(f"<h4>{escape(name)}: contribution of each part</h4>{drawn}")
        elif plain := view.plain(row):
            parts.append(f"<h4>{escape(name)}</h4>{plain}")
    return (
        f"<section><h3>{escape(title)}</h3><p>{escape(_unimodal_sentence(explanation, row))}</p>"
        f"{pictures.bars(names, value, low, high)}{''.join(parts)}</section>"
    )


def _title(explanation: "Explanation", row: int) -> str:
    e = explanation.rows
    if e.kind == "number":
        return f"predicted {e.evidence[row]:.3g}"
    certain = "" if np.isnan(e.probability[row]) else f" with probability {e.probability[row]:.2f}"
    return f"answer {explanation.answer(row)}{certain}, evidence {e.evidence[row]:+.2f}"


def _unimodal_sentence(explanation: "Explanation", row: int) -> str:
    """A sentence on the prediction from each modality alone."""
    e = explanation.rows
    if e.kind == "number":
        predictions = ", ".join(f"{name} {e.baseline[row] + e.alone[name].value[row]:.3g}" for name in e.names)
        return f"Predicted from one modality alone: {predictions}."
    predictions = ", ".join(f"{name} {p[row]:.2f}" for name, p in e.probability_alone.items())
    return f"Probability of this answer from one modality alone: {predictions}."
