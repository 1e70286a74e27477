"""The page: one self-contained file, with the same structure for an experiment and for an audit."""

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from synib.explanation.pictures import STYLE
from synib.files import write_text
from synib.report import numbers
from synib.report.contrast import dark_colours
from synib.report.draw import plot, svg
from synib.studies.charts import Figure, Table

if TYPE_CHECKING:
    from synib.own.raw.show import Shown


@dataclass(frozen=True)
class Listing:
    """A table of strings.

    Args:
        title: Its title.
        columns: The columns after the first.
        rows: First column → the strings of the others.
        note: How to read it.
        of: Heading of the first column.
        shown: First column → the raw modalities of that row of the data, shown between the first column and the others.
        highlights: First column → modality → its content with highlighted parts, as HTML of :mod:`synib.explanation`.
    """

    title: str
    columns: Sequence[str]
    rows: Mapping[str, Sequence[str]]
    note: str = ""
    of: str = ""
    shown: Mapping[str, Sequence["Shown"]] = field(default_factory=dict)
    highlights: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    @property
    def modalities(self) -> list[str]:
        """The raw modalities that are shown."""
        return [item.modality for item in next(iter(self.shown.values()), ())]


@dataclass(frozen=True)
class Page:
    """The content of a page, from top to bottom. All of it except highlights is plain text, which the page escapes.

    Args:
        title: The title.
        synergy: The verdict in one word, shown as a coloured label; empty if there is none.
        verdict: The verdict in sentences.
        alarms: Shortcuts in the data.
        about: A paragraph on what was done.
        caution: How this run differs from the full one.
        findings: Other findings, one sentence each.
        figures: The figures, each with a sentence on how to read it.
        tables: The tables; every value has its spread and n.
        listings: Tables of strings, such as rows of the data, after the others.
        spread: The kind of spread in the tables.
        training: How the models were trained, in one or two sentences.
        settings: Settings of training: method → setting → value.
        command: The command that repeats the run.
        facts: Other facts about the run: name → description.
    """

    title: str
    synergy: Literal["present", "absent", "unclear", ""] = ""
    verdict: Sequence[str] = ()
    alarms: Sequence[str] = ()
    about: str = ""
    caution: str = ""
    findings: Sequence[str] = ()
    figures: Sequence[Figure] = ()
    tables: Sequence[Table] = ()
    listings: Sequence[Listing] = ()
    spread: str = ""
    training: str = ""
    settings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    command: str = ""
    facts: Mapping[str, str] = field(default_factory=dict)

    @property
    def published(self) -> bool:
        """Whether its tables contain values of the paper."""
        cells = [cell for table in self.tables for row in table.rows.values() for cell in row]
        return any(cell is not None and cell.get("paper") is not None for cell in cells)


def write_page(page: Page, folder: Path, interactive: bool = True) -> None:
    """Write ``report.html``, and every figure as a separate SVG file."""
    pictures = [svg(figure) for figure in page.figures]
    for figure, picture in zip(page.figures, pictures, strict=True):
        write_text(folder / f"{figure.file}.svg", picture)
    write_text(folder / "report.html", _render(page, pictures, interactive))


def render_page(page: Page, interactive: bool = True) -> str:
    """The page as HTML: the same page gives the same bytes.

    Args:
        page: The content.
        interactive: Draw figures with plotly, which is then included in the page (5 MB), and make tables sortable.
            Otherwise the page has no script, and figures are SVG images.

    Example:
        >>> from synib.report import Page, render_page
        >>> text = render_page(Page("Mine", synergy="absent", verdict=["No synergy < worth having."]), interactive=False)
        >>> "No synergy &lt; worth having." in text
        True
    """
    return _render(page, [svg(figure) for figure in page.figures], interactive)


def _render(page: Page, pictures: Sequence[str], interactive: bool) -> str:
    figures: list[dict[str, Any]] = [
        {"figure": figure, "picture": picture[picture.index("<svg") :]}
        for figure, picture in zip(page.figures, pictures, strict=True)
    ]
    scripts: list[str] = []
    if interactive:
        for item in figures:
            figure = item["figure"]
            item["plot"] = plot(figure)
            item["json"] = _json(item["plot"].script_input(figure.title, figure.file))
        if figures:
            from plotly.offline import get_plotlyjs

            scripts.append(f"<script>{get_plotlyjs()}</script>\n")
        scripts.append(Path(__file__).with_name("page_script.html").read_text(encoding="utf-8"))
    return render(
        "page.html",
        {
            "page": page,
            "figures": figures,
            "interactive": interactive,
            "scripts": scripts,
            "allowed_scripts": " ".join(map(_csp_hash, scripts)) or "'none'",
            "dark_colours": _json(dark_colours()),
            "highlight_style": STYLE if any(listing.highlights for listing in page.listings) else "",
        },
    )


def _json(values: Any) -> str:
    """JSON for a script element: nothing in it can end the element."""
    text = json.dumps(values, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def _csp_hash(script: str) -> str:
    """The hash that allows a script in the page's Content-Security-Policy; a script without one does not run."""
    content = script.partition("<script>")[2].rpartition("</script>")[0]
    return f"'sha256-{base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()}'"


def render(template: str, variables: Mapping[str, Any]) -> str:
    """Fill a template. In HTML every string is escaped, except those marked by the filter ``unescaped``."""
    from jinja2 import Environment, PackageLoader, select_autoescape
    from markupsafe import Markup

    environment = Environment(
        loader=PackageLoader("synib.report", "."),
        autoescape=select_autoescape(["html"]),
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["unescaped"] = Markup
    environment.filters |= {
        "number": numbers.number, "value": numbers.value, "mean": numbers.mean, "spread": numbers.spread,
        "published": numbers.published,
    }  # fmt: skip
    return environment.get_template(template).render(variables)
