"""The page of ``synib explain``: one self-contained file without scripts."""

from collections.abc import Sequence
from pathlib import Path

from synib.explanation import Explanation, Kinds
from synib.explanation.html import explanation_html, kinds_html
from synib.files import write_text
from synib.report.page import render

ABOUT = (
    "This page explains the model, not the data: synergy that the model has not learned does not show, and a wrong answer may "
    "be based on synergy too. The evidence is decomposed exactly. Absent modalities take the values of other rows, averaged "
    "over draws; intervals show the uncertainty from these draws."
)


def write_explanation(
    explanation: Explanation,
    file: Path,
    title: str,
    rows: Sequence[int],
    command: str = "",
    notes: Sequence[str] = (),
    kinds: Kinds | None = None,
) -> None:
    """Write the page of some rows, atomically.

    Args:
        explanation: The explanation to show.
        file: The HTML file.
        title: The page's title.
        rows: The rows to show, in this order.
        command: The command that writes the page again.
        notes: Sentences on how the file was read.
        kinds: Clusters and directions that interact, if they are shown.
    """
    variables = {
        "title": title,
        "about": ABOUT,
        "notes": notes,
        "content": explanation_html(explanation, rows),
        "kinds": kinds_html(kinds, explanation.ids, explanation.output()) if kinds is not None else "",
        "command": command,
    }
    write_text(file, render("explanation.html", variables))
