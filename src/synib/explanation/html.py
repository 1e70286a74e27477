"""An explanation as HTML, for notebooks and for the page of ``synib explain``."""

from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING

import numpy as np

from synib.explanation import pictures
from synib.explanation.answers import EVIDENCE

if TYPE_CHECKING:
    from synib.explanation.explain import Explanation


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
