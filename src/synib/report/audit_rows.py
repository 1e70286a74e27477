"""The notable rows of an audit, as lists on its page."""

from collections.abc import Sequence

from synib.explanation.notable import NotableRows, RowNote
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
    lists = [
        (
            "Rows that need both",
            rows.need_both,
            f"Rows where the synergy of {label} exceeds the evidence of the strongest single modality the most. Numbers are "
            "evidence for the answer, in log-odds; intervals are over the rows that replaced absent modalities.",
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
    if rows.kinds is not None and rows.kinds.cells:
        cells = {
            " × ".join(f"{name}, cluster {k + 1}" for name, k in zip(c.modalities, c.clusters, strict=True)): [
                f"{c.effect.value:+.2f} [{c.effect.low:+.2f}, {c.effect.high:+.2f}]",
                f"{c.effect.n:,}",
                ", ".join(str(_number(table, row)) for row in c.rows),
            ]
            for c in rows.kinds.cells[:CELLS]
        }
        note = (
            f"Mean interaction of {label} in a pair of clusters, for the last class, "
            "without the separate effects of either cluster. "
            "It is estimated from the rows that it describes: it is exploratory, not a test."
        )
        result.append(Listing("Clusters that interact", ("effect", "rows", "typical rows"), cells, note, "clusters"))
    return result


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
