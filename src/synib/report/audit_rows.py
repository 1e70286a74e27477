"""The rows of an audit to look at, as lists on its page."""

from collections.abc import Sequence

from synib.explanation.notable import NotableRows, RowNote
from synib.own.raw.show import shown_rows
from synib.own.table import Table
from synib.report.page import Listing

CELLS = 4  # pairs of clusters on the page


def listings(rows: NotableRows | None, label: str, table: Table) -> list[Listing]:
    """The lists of the page. Where the data have raw columns, each row shows what it holds of them.

    Args:
        rows: The rows; none where the target has no classes.
        label: What the page calls the fusion model.
        table: The data that they are from.
    """
    if rows is None:
        return []
    lists = [
        (
            "Rows that need both",
            rows.need_both,
            f"Where {label} rests most on synergy: it exceeds what the strongest modality says alone. Numbers are evidence for "
            "the answer, in log-odds, with an interval over the rows that stood for absent modalities.",
        ),
        (
            "Rows where the modalities contradict each other",
            rows.contradict,
            "The models of single modalities are sure, and say different things. In brackets: the probability.",
        ),
        (
            "Rows that only fusion gets right",
            rows.only_together,
            f"Every model of a single modality is wrong, and {label} is right. In a long table some are there by chance: see "
            "the table of rows where every single modality is wrong, with its control.",
        ),
    ]
    result = [_listing(title, notes, how, table) for title, notes, how in lists if notes]
    if rows.kinds is not None and rows.kinds.cells:
        cells = {
            " × ".join(f"{name}, cluster {k + 1}" for name, k in zip(c.modalities, c.clusters, strict=True)): [
                f"{c.effect.value:+.2f} [{c.effect.low:+.2f}, {c.effect.high:+.2f}]",
                f"{c.effect.n:,}",
                ", ".join(str(_number(table, row)) for row in c.rows),
            ]
            for c in rows.kinds.cells[:CELLS]
        }
        how = (
            f"Mean interaction of {label} in a pair of clusters, for the last class, "
            "without the separate effects of either cluster. "
            "It is estimated from the rows that it describes: it is exploratory, not a test."
        )
        result.append(Listing("Clusters that interact", ("effect", "rows", "typical rows"), cells, how, "clusters"))
    return result


def _listing(title: str, notes: Sequence[RowNote], how: str, table: Table) -> Listing:
    columns = tuple(dict.fromkeys(name for note in notes for name in note.values))
    numbers = [_number(table, note.row) for note in notes]
    texts = [[note.values.get(column, "") for column in columns] for note in notes]
    shown = {} if table.raw is None else {str(row): of for row, of in shown_rows(table.raw, numbers).items()}
    rows = dict(zip(map(str, numbers), texts, strict=True))
    return Listing(title, columns, rows, f"{how} Rows are counted from 0.", "row", shown)


def _number(table: Table, row: int) -> int:
    """The number of a row in the user's file."""
    return row if table.row_numbers is None else int(table.row_numbers[row])
