"""The page: one file that needs nothing else, the same for an experiment and for an audit."""

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from synib.files import write_text
from synib.report import numbers
from synib.report.draw import plot, svg
from synib.report.plot_html import dark
from synib.studies.charts import Figure, Table


@dataclass(frozen=True)
class Page:
    """What a page says, from top to bottom. All of it is plain text: the page escapes it.

    Args:
        title: What it is about.
        synergy: The answer in a word, a coloured label; empty where nobody asked.
        verdict: The answer in sentences.
        alarms: What else the reader must know: shortcuts.
        about: A paragraph on what was done.
        caution: What makes this run less than the real one.
        findings: What was found on the way, a sentence each.
        figures: Each is drawn with its sentence on how to read it.
        tables: Each number with its spread and n.
        spread: What the spread in tables is.
        training: How models were trained, in a sentence or two.
        settings: With which settings: who → setting → value.
        command: What to type to have it all again.
        facts: What else is known of the run: name → words.
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
    spread: str = ""
    training: str = ""
    settings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    command: str = ""
    facts: Mapping[str, str] = field(default_factory=dict)

    @property
    def published(self) -> bool:
        """Whether there is a value of the paper's in its tables."""
        cells = [cell for table in self.tables for row in table.rows.values() for cell in row]
        return any(cell is not None and cell.get("paper") is not None for cell in cells)


def write_page(page: Page, folder: Path, interactive: bool = True) -> None:
    """Write ``report.html``, and every figure as an SVG of its own beside it."""
    pictures = [svg(figure) for figure in page.figures]
    for figure, picture in zip(page.figures, pictures, strict=True):
        write_text(folder / f"{figure.file}.svg", picture)
    write_text(folder / "report.html", _render(page, pictures, interactive))


def render_page(page: Page, interactive: bool = True) -> str:
    """The page as HTML: the same page gives the same bytes.

    Args:
        page: What it says.
        interactive: Draw figures with plotly, which the page then brings (5 MB), and let tables be sorted. Otherwise
            there is no script in it, and figures are pictures.

    Example:
        >>> from synib.report import Page, render_page
        >>> text = render_page(Page("Mine", synergy="absent", verdict=["No synergy < worth having."]), interactive=False)
        >>> "No synergy &lt; worth having." in text
        True
    """
    return _render(page, [svg(figure) for figure in page.figures], interactive)


def _render(page: Page, pictures: Sequence[str], interactive: bool) -> str:
    pictures = [picture[picture.index("<svg") :] for picture in pictures]
    figures: list[dict[str, Any]] = [
        {"figure": figure, "picture": picture} for figure, picture in zip(page.figures, pictures, strict=True)
    ]
    scripts: list[str] = []
    if interactive:
        scripts.append(Path(__file__).with_name("page_script.html").read_text(encoding="utf-8"))
        for shown in figures:
            figure = shown["figure"]
            shown["plot"] = plot(figure)
            shown["json"] = _json(shown["plot"].plain(figure.title, figure.file))
        if figures:
            from plotly.offline import get_plotlyjs

            scripts.insert(0, f"<script>{get_plotlyjs()}</script>\n")
    return render(
        "page.html",
        {
            "page": page,
            "figures": figures,
            "interactive": interactive,
            "scripts": scripts,
            "allowed": " ".join(map(_digest, scripts)) or "'none'",
            "dark": _json(dark()),
        },
    )


def _json(values: Any) -> str:
    """JSON that can stand in a script element: nothing in it can end the element."""
    text = json.dumps(values, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def _digest(script: str) -> str:
    """What the page's security policy knows a script by: a script that is not ours, whoever wrote it there, does not run."""
    content = script.partition("<script>")[2].rpartition("</script>")[0]
    return f"'sha256-{base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()}'"


def render(template: str, shown: Mapping[str, Any]) -> str:
    """A page from its template. In HTML every text is escaped but what we made ourselves."""
    from jinja2 import Environment, PackageLoader, select_autoescape
    from markupsafe import Markup

    environment = Environment(
        loader=PackageLoader("synib.report", "."),
        autoescape=select_autoescape(["html"]),
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["ours"] = Markup
    environment.filters |= {
        "number": numbers.number, "mean": numbers.mean, "spread": numbers.spread, "published": numbers.published,
    }  # fmt: skip
    return environment.get_template(template).render(shown)
