"""The notable rows of an audit, as lists on its page."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from synib.explanation.kinds import Kinds
from synib.explanation.notable import NotableRows, RowNote
from synib.explanation.raw.audited import AuditParts
from synib.own.raw.show import shown_rows
from synib.own.table import Table
from synib.report.page import Listing

CELLS = 4  # pairs of clusters on the page


def listings(rows: NotableRows | None, label: str, table: Table) -> list[Listing]:
    """The lists of the page. If the data have raw columns, their content is shown for each row.

    Args:
        rows: The notable rows; ``None`` if the target has no classes.
        label: Name of the fusion model on the page.
        table: The data.
    """
    if rows is None:
        return []
    numbers = ",".join(str(_number(table, note.row)) for note in rows.need_both)
    lists = [
        (
            "Rows that need both",
            rows.need_both,
            f"Rows where the synergy of {label} exceeds the evidence of the strongest single modality the most. Numbers are "
            "evidence for the answer, in log-odds; intervals are over the rows that replaced absent modalities. With a model "
            f"of synib fit, synib explain MODEL FILE --rows {numbers} shows which of their parts contribute.",
        ),
        (
            "Rows where the modalities contradict each other",
            rows.contradict,
            "The unimodal models predict different classes with high confidence. In brackets: the probability.",
        ),
        (
            "Rows that only fusion predicts correctly",
            rows.only_together,
            f"Every unimodal model is wrong, and {label} is correct. Among many rows this also happens by chance; compare the "
            "table of rows on which every single modality is wrong, with its control.",
        ),
    ]
    result = [_listing(title, notes, note, table) for title, notes, note in lists if notes]
    highlights = _highlights(rows.parts)
    if highlights:
        note = f"{_reading(rows.parts)} {result[0].note}"
        result[0] = replace(result[0], note=note, highlights=highlights)
    return result if rows.kinds is None else [*result, *_kinds(rows.kinds, table)]


def _highlights(parts: AuditParts) -> dict[str, dict[str, str]]:
    """Row of the file → modality → its content with highlighted parts, as HTML."""
    return {
        str(next(iter(of_row.values())).rows[0]): {
            name: parts.views[name].highlighted(scores.rows[0], scores.together[0]) for name, scores in of_row.items()
        }
        for of_row in parts.scores.values()
        if of_row
    }


def _reading(parts: AuditParts) -> str:
    """How to read the highlights."""
    scores = [(parts.views[name], s) for of_row in parts.scores.values() for name, s in of_row.items()]
    part_names = " and ".join(dict.fromkeys(view.part_name for view, _ in scores))
    draws = " or ".join(map(str, sorted({s.draws for _, s in scores})))
    is_partial = len(scores) < len(parts.scores) * len(parts.views)
    return (
        f"Colours show how much {part_names} contribute to the interaction with the other modalities: blue for the predicted "
        "class, orange against it, relative to the largest contribution in each cell of this list. They are averages over "
        f"{draws} other rows whose parts replace those of the row, without intervals or tests: exploratory; synib explain "
        "gives intervals."
        + " Content without colours has a single part, cannot be read, or would take too long to explain."
        * is_partial
    )


def _kinds(kinds: Kinds, table: Table) -> list[Listing]:
    """The clusters and the directions that interact, each with the content of its most typical row."""
    result = []
    difference = f"The share of {table.classes[-1]} minus what the additive network predicts"
    exploratory = "It is estimated from the rows that it describes: it is exploratory, not a test."
    cells = {
        " × ".join(f"{name}, cluster {k + 1}" for name, k in zip(c.modalities, c.clusters, strict=True)): (
            [f"{c.effect.value:+.2f} [{c.effect.low:+.2f}, {c.effect.high:+.2f}]", f"{c.effect.n:,}"],
            c.rows,
        )
        for c in kinds.cells[:CELLS]
    }
    if cells:
        note = f"{difference} for a pair of clusters, without the separate effects of either cluster. {exploratory}"
        result.append(_typical("Clusters that interact", ("effect", "rows"), cells, note, "clusters", table))
    corners = {
        " × ".join(f"{name}, {side}" for name, side in zip(d.modalities, sides, strict=True)): (
            [f"{effect:+.2f}"],
            rows,
        )
        for d in kinds.directions
        for sides, (effect, rows) in d.corners.items()
        if rows
    }
    if corners:
        correlations = ", ".join(f"{' × '.join(d.modalities)} {d.correlation:.2f}" for d in kinds.directions)
        note = (
            f"{difference}, on each side of the directions whose product correlates best with the difference (correlation: "
            f"{correlations}). {exploratory}"
        )
        result.append(_typical("Directions that interact", ("effect",), corners, note, "directions", table))
    return result


def _typical(
    title: str,
    columns: tuple[str, ...],
    kinds: Mapping[str, tuple[list[str], tuple[int, ...]]],
    note: str,
    of: str,
    table: Table,
) -> Listing:
    numbers = {name: [_number(table, row) for row in rows] for name, (_, rows) in kinds.items()}
    texts = {name: [*values, ", ".join(map(str, numbers[name]))] for name, (values, _) in kinds.items()}
    shown = {}
    if table.raw is not None:
        content = shown_rows(table.raw, sorted({rows[0] for rows in numbers.values()}))
        shown = {name: content[rows[0]] for name, rows in numbers.items()}
        note = f"The first of the typical rows is shown. {note}"
    return Listing(title, (*columns, "typical rows"), texts, note, of, shown)


def _listing(title: str, row_notes: Sequence[RowNote], note: str, table: Table) -> Listing:
    columns = tuple(dict.fromkeys(name for note in row_notes for name in note.values))
    numbers = [_number(table, note.row) for note in row_notes]
    texts = [[note.values.get(column, "") for column in columns] for note in row_notes]
    shown = {} if table.raw is None else {str(row): content for row, content in shown_rows(table.raw, numbers).items()}
    rows = dict(zip(map(str, numbers), texts, strict=True))
    return Listing(title, columns, rows, f"{note} Rows are counted from 0.", "row", shown)


def _number(table: Table, row: int) -> int:
    """The number of a row in the user's file."""
    return row if table.row_numbers is None else int(table.row_numbers[row])
