"""The page in a real browser: figures, legends, sorting, downloads, light and dark colours, on a phone."""

import json
import xml.etree.ElementTree as ElementTree
from dataclasses import replace

import pytest

from synib.own.raw.show import Shown
from synib.report import Page, render_page
from synib.report.contrast import dark_colours
from synib.report.page import Listing
from synib.studies.charts import Bars, Chart, Panel, Panels, Series, Table, Triangle, Triangles

WICKED = "</script x></noscript><img src=x onerror='harm=1'>\"`&amp;"


EPOCHS = [float(e) for e in range(1, 31)]


def line(name, label, at, by, dashed=False):
    return Series(name, label, at, [0.5 + by * k / len(at) for k in range(len(at))], [0.02] * len(at), dashed)


def row(mean, se=0.02, n=5, paper=None):
    return {"mean": mean, "se": se, "n": n, "paper": paper}


CHART = Chart(
    "lines",
    "Accuracy by strength",
    "strength β",
    "accuracy",
    [
        line("vanilla", "vanilla fusion", [0.0, 1.0, 2.0], -0.1),
        line("synib-oracle", "oracle", [0.0, 1.0, 2.0], 0.4, True),
    ],
    "How to read lines.",
    chance=0.5,
)
PANELS = Panels(
    "panels",
    "Sources",
    "epoch",
    "accuracy",
    [
        Panel(f"method {k}", [line("S", "synergy", EPOCHS, 0.1 * k), line("R", "redundancy", EPOCHS, 0.4)], "a remark")
        for k in range(4)
    ],
    "How to read panels.",
)
WHO = ["unimodal-audio", "vanilla", "synib-random", "experts"]
BARS = Bars.of(
    "bars",
    "Who learns it",
    {"synergy": "a", "total": "b"},
    [{"method": m, "metric": metric, **row(0.5 + 0.1 * k, paper=0.55)} for k, m in enumerate(WHO) for metric in "ab"],
    WHO,
    {"synergy": 0.5},
    reading="How to read bars.",
)
TRIANGLES = Triangles(
    "triangles",
    "Mixtures",
    {
        "total": [
            Triangle(
                "a",
                [
                    {"p_u1": i / 2, "p_r": j / 2, "p_s": (2 - i - j) / 2, **row(0.7)}
                    for i in range(3)
                    for j in range(3 - i)
                ],
            )
        ]
    },
    "How to read triangles.",
)
TABLE = Table(
    "accuracy",
    ["total", "gain"],
    {
        "b10": [row(0.9), row(-0.5)],
        "b9": [row(0.1), None],
        "a": [row(0.9, se=None, n=1), row(0.02)],
        "c": [row(None, None, 0), {"mean": -12.0, "low": -13.0, "high": -11.0, "n": 7}],
    },
)
PAGE = Page(
    "A page",
    synergy="present",
    verdict=["There is synergy.", "SynIB finds it."],
    alarms=["frame_size predicts the target."],
    about="About it.",
    findings=["2 rows are missing."],
    figures=[CHART, PANELS, BARS, TRIANGLES],
    tables=[TABLE],
    spread="Mean ± standard error.",
    command="synib audit data.npz",
    facts={"Run": "in 3 s"},
)


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / "report.html"
    path.write_text(render_page(PAGE), encoding="utf-8")
    return path


def points(browser, figure, group=None):
    """How many marks a figure has whose place can be seen."""
    chosen = "" if group is None else f".filter((t) => t.legendgroup === {json.dumps(group)})"
    return browser.js(
        f"""(() => {{
            const place = document.querySelectorAll('.plot')[{figure}];
            return place._fullData{chosen}.filter((t) => t.visible === true).map(
                (t) => [...place.querySelectorAll(`.trace${{t.uid}} path.point, .trace${{t.uid}} path.js-line`)].length
            ).reduce((a, b) => a + b, 0);
        }})()"""
    )


def test_everything_is_drawn_without_a_complaint_and_nothing_is_asked_for(browser, page):
    browser.open(page)
    assert points(browser, 0) == 2 * (3 + 1)  # marks and lines
    assert points(browser, 1) == 4 * 2
    assert points(browser, 2) == 2 * 4 * 2  # ours and the paper's
    assert points(browser, 3) == 6 + 3  # tiles, and the corners' names
    inside = browser.js(
        """[...document.querySelectorAll('.plot')].every((place) => {
            const frame = place.getBoundingClientRect();
            return [...place.querySelectorAll('path.point, .js-line, .xtick text, .ytick text, .annotation')].every((e) => {
                const box = e.getBoundingClientRect();
                return box.left >= frame.left - 1 && box.right <= frame.right + 1 && box.bottom <= frame.bottom + 1;
            });
        })"""
    )
    assert inside
    assert browser.js("document.querySelectorAll('.plot .main-svg').length") >= 4
    assert browser.js("document.querySelectorAll('noscript svg').length") == 0
    assert browser.asked() == [page.as_uri()]
    assert browser.errors() == []


def test_a_mark_says_method_value_spread_and_n(browser, page):
    browser.open(page)
    browser.js("document.querySelectorAll('.plot')[2].scrollIntoView()")
    x, y = browser.js(
        """(() => {
            const place = document.querySelectorAll('.plot')[2];
            const t = place._fullData.find((t) => t.legendgroup === 'method-3');
            const box = place.querySelector(`.trace${t.uid} path.point`).getBoundingClientRect();
            return [box.x + box.width / 2, box.y + box.height / 2];
        })()"""
    )
    browser.call("Input.dispatchMouseEvent", type="mouseMoved", x=x - 3, y=y)
    browser.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
    browser.until("document.querySelector('.hoverlayer .hovertext') !== null")
    said = browser.js("document.querySelector('.hoverlayer .hovertext').textContent")
    for part in (
        "experts",
        "synergy",
        "0.800 ± 0.020 (n = 5)",
        "95 % confidence interval [0.744, 0.856]",
        "paper 0.55",
    ):
        assert part in said


def test_a_button_of_the_legend_switches_a_method_in_all_panels_and_only_there(browser, page):
    browser.open(page)
    button = "document.querySelectorAll('figure')[1].querySelector('[data-group]')"
    assert browser.js(f"{button}.textContent.trim()") == "synergy"
    group = browser.js(f"{button}.dataset.group")
    others = points(browser, 0), points(browser, 2)
    browser.js(f"{button}.click()")
    assert browser.js(f"{button}.getAttribute('aria-pressed')") == "false"
    browser.until("document.querySelectorAll('.plot')[1].querySelectorAll('.js-line').length === 4")
    assert points(browser, 1, group) == 0
    assert points(browser, 1) == 4
    assert browser.js("document.querySelectorAll('.plot')[1].querySelectorAll('.js-fill').length") == 4  # bands go too
    assert (points(browser, 0), points(browser, 2)) == others
    browser.js(f"{button}.click()")
    browser.until("document.querySelectorAll('.plot')[1].querySelectorAll('.js-line').length === 8")
    assert browser.js(f"{button}.getAttribute('aria-pressed')") == "true"


def test_the_keyboard_reaches_legend_downloads_and_headings_in_order(browser, page):
    browser.open(page)
    reached = []
    for _ in range(200):
        browser.press("Tab", 9)
        told = browser.js(
            """(() => { const e = document.activeElement, f = e.closest('figure');
            return e === document.body ? null : [f ? f.id : e.closest('table') ? 'table' : '', e.tagName,
                e.dataset.group ?? e.dataset.download ?? e.textContent] })()"""
        )
        if told is None or told in reached:
            break
        reached.append(told)
    buttons = [tuple(told) for told in reached if told[1] == "BUTTON"]
    saves = [("BUTTON", "svg"), ("BUTTON", "csv")]
    for k, methods in enumerate((2, 2, 4, 0), 1):
        expected = [*(("BUTTON", f"method-{m}") for m in range(methods)), *saves]
        assert [told[1:] for told in buttons if told[0] == f"figure-{k}"] == expected
    assert [told[2] for told in buttons if told[0] == "table"] == ["method", "total", "gain"]
    browser.js("document.querySelector('thead button').focus()")
    browser.press("Enter", 13, "\r")
    assert browser.js("document.querySelector('thead th').getAttribute('aria-sort')") == "ascending"
    browser.js("document.querySelector('[data-group]').focus()")
    browser.press(" ", 32, " ")
    assert browser.js("document.querySelector('[data-group]').getAttribute('aria-pressed')") == "false"


def test_a_table_sorts_numbers_as_numbers_with_ties_kept_and_the_missing_last(browser, page):
    browser.open(page)

    def click(column):
        browser.js(f"document.querySelectorAll('thead button')[{column}].click()")
        marks = browser.js(
            "[...document.querySelectorAll('table.sortable thead th')].map((h) => h.getAttribute('aria-sort'))"
        )
        assert [m for k, m in enumerate(marks) if k != column] == ["none"] * 2
        return "".join(
            browser.js("[...document.querySelectorAll('table.sortable tbody th')].map((h) => h.textContent + ' ')")
        )

    assert click(1) == "b9 b10 a c "
    assert click(1) == "b10 a b9 c "
    assert click(1) == "b10 b9 a c "  # as it was
    assert click(2) == "c b10 a b9 "
    assert click(2) == "a b10 c b9 "
    assert click(0) == "a b9 b10 c "
    assert click(1) == "b9 a b10 c "  # of equals the one that was first
    assert browser.js("document.querySelector('td[data-value=\"-12.0\"]').innerText").split() == [
        "-12.000",
        "[-13.000,",
        "-11.000]",
        "n",
        "=",
        "7",
    ]


CATCH = """
    window.saved = [];
    URL.createObjectURL = (blob) => { window.saved.push(blob); return 'blob:none'; };
    HTMLAnchorElement.prototype.click = function () { window.saved.push(this.download); };
"""


def saved(browser, figure, kind):
    browser.js(CATCH)
    browser.js(f"document.querySelectorAll('figure')[{figure}].querySelector('[data-download={kind}]').click()")
    browser.until("window.saved.length === 2")
    return browser.js("window.saved[0].text()"), browser.js("window.saved[1]")


def test_downloads_are_the_numbers_and_a_picture_with_title_and_legend(browser, page):
    browser.open(page, night=True)
    text, name = saved(browser, 2, "csv")
    assert name == "bars.csv"
    assert text.splitlines()[0] == "panel,method,mean,se,n,low,high,paper"
    assert text.splitlines()[1].startswith("synergy,unimodal-audio,0.5,0.02,5,0.44")
    assert len(text.splitlines()) == 9
    text, name = saved(browser, 0, "csv")
    assert text.splitlines()[:2] == ["panel,name,x,mean,se,n", ",vanilla fusion,0.0,0.5,0.02,"]
    browser.js("document.querySelector('[data-group=method-0]').click()")
    text, name = saved(browser, 0, "svg")
    assert name == "lines.svg"
    picture = ElementTree.fromstring(text)
    words = [e.text for e in picture.iter() if e.tag.endswith("}text")]
    said = " ".join(e.text or "" for e in picture.iter() if e.tag.endswith(("}text", "}tspan")))
    assert "Accuracy by strength" in said
    assert "oracle" in words
    assert "chance" in words
    assert "vanilla fusion" not in words  # switched off
    assert "rgb(255, 255, 255)" in text  # by day, also at night
    for figure in (1, 2, 3):
        assert ElementTree.fromstring(saved(browser, figure, "svg")[0]).tag.endswith("svg")
    assert browser.errors() == []


def test_at_night_colours_are_others_and_change_without_a_reload(browser, page):
    browser.open(page)
    asked = (
        "[getComputedStyle(document.querySelector('.card')).backgroundColor,"
        " getComputedStyle(document.querySelector('.swatch')).color,"
        " document.querySelector('.plot .xtick text').style.fill,"
        " [...document.querySelectorAll('.plot')[0].querySelectorAll('.js-line')].map((e) => e.style.stroke).join()]"
    )
    day = browser.js(asked)
    browser.look(night=True)
    browser.until(f"JSON.stringify({asked}[3]) !== {json.dumps(json.dumps(day[3]))}")
    night = browser.js(asked)
    assert day[0] == "rgb(255, 255, 255)"
    assert night[0] != day[0]
    assert night[2] != day[2]
    oracle = dark_colours()["#1b2a49"].lstrip("#")
    assert night[3].endswith("rgb({}, {}, {})".format(*(int(oracle[k : k + 2], 16) for k in (0, 2, 4))))
    browser.look(night=False)
    browser.until(f"JSON.stringify({asked}) === {json.dumps(json.dumps(day, separators=(',', ':')))}")


@pytest.mark.parametrize("night", [False, True])
def test_a_phone_needs_not_scroll_sideways_and_a_table_keeps_its_first_column(browser, page, night):
    browser.open(page, width=380, height=800, night=night)
    assert browser.js("document.documentElement.scrollWidth") == 380
    assert browser.js("[...document.querySelectorAll('figure')].every((f) => f.getBoundingClientRect().right <= 380)")
    columns = browser.js(
        "[1, 2].map((k) => new Set(Object.entries(document.querySelectorAll('.plot')[k]._fullLayout)"
        ".filter(([name]) => /^xaxis/.test(name)).map(([, axis]) => axis.domain[0])).size)"
    )
    assert columns == [1, 1]  # below each other
    browser.js("document.querySelector('table.sortable').parentNode.style.width = '150px'")
    browser.js("document.querySelector('table.sortable').parentNode.scrollLeft = 60")
    left = browser.js("document.querySelector('tbody th').getBoundingClientRect().left")
    assert left == pytest.approx(
        browser.js("document.querySelector('.scroll table').parentNode.getBoundingClientRect().left")
    )
    browser.look(width=1100)
    browser.settle()  # and wide again without a reload
    assert browser.errors() == []


def test_names_that_are_scripts_do_nothing_wherever_they_stand(browser, tmp_path):
    series = [Series(WICKED, WICKED, [0.0, 1.0], [0.5, 0.6], [0.1, 0.1])]
    rows = {WICKED: row(0.5)}
    figures = [
        Chart(WICKED, WICKED, WICKED, WICKED, series, WICKED, chance=0.5),
        Panels(WICKED, WICKED, WICKED, WICKED, [Panel(WICKED, series, WICKED), Panel(WICKED, series)], WICKED),
        replace(
            Bars.of(
                WICKED, WICKED, {WICKED: "a"}, [{"method": WICKED, "metric": "a", **row(0.5)}], [WICKED], reading=WICKED
            ),
            over=WICKED,
            reference=WICKED,
        ),
        Triangles(WICKED, WICKED, {WICKED: [Triangle(WICKED, TRIANGLES.rows["total"][0].rows)]}, WICKED),
    ]
    wicked = Page(
        WICKED, "present", [WICKED], [WICKED], WICKED, WICKED, [WICKED], figures,
        tables=[Table(WICKED, [WICKED], {WICKED: [rows[WICKED]]}, WICKED, WICKED)],
        listings=[Listing(WICKED, (WICKED,), {WICKED: [WICKED]}, WICKED, WICKED, {WICKED: [Shown(WICKED, "text", WICKED)]})],
        spread=WICKED, training=WICKED, settings={WICKED: {WICKED: WICKED}}, command=WICKED, facts={WICKED: WICKED},
    )  # fmt: skip
    path = tmp_path / "report.html"
    path.write_text(render_page(wicked), encoding="utf-8")
    browser.open(path)
    for figure in range(4):
        text, name = saved(browser, figure, "csv")
        assert WICKED.replace('"', '""') in text
        assert "/" not in name
        assert ElementTree.fromstring(saved(browser, figure, "svg")[0]).tag.endswith("svg")
    assert browser.js(
        "[...document.querySelectorAll('.legend button')].every((b) => b.textContent.trim() === b.textContent)"
    )
    shown = browser.js("document.querySelector('.legend button').textContent")
    assert shown == WICKED
    for figure, words in ((1, ".annotation text"), (1, ".xtitle"), (2, ".annotation text"), (2, ".ytick text")):
        place = f"document.querySelectorAll('.plot')[{figure}].querySelector('{words}')"
        assert browser.js(f"{place}.textContent").replace(" ", "").startswith(WICKED.replace(" ", ""))
    assert browser.js("window.harm") is None
    assert browser.js("document.querySelectorAll('img').length") == 0
    assert browser.asked() == [path.as_uri()]
    assert browser.errors() == []


def test_without_scripts_figures_are_pictures_and_a_light_page_has_none(browser, page, tmp_path):
    browser.call("Emulation.setScriptExecutionDisabled", value=True)
    try:
        browser.look()
        browser.load(page)
        root = browser.call("DOM.getDocument")["root"]["nodeId"]

        def found(selector):
            return len(browser.call("DOM.querySelectorAll", nodeId=root, selector=selector)["nodeIds"])

        assert found("noscript svg[viewBox]") == 4
        assert found(".live[hidden]") == 4
        assert found(".live:not([hidden])") == 0
    finally:
        browser.call("Emulation.setScriptExecutionDisabled", value=False)
    light = tmp_path / "light.html"
    light.write_text(render_page(PAGE, interactive=False), encoding="utf-8")
    assert light.stat().st_size < 400_000
    browser.open(light, width=380)
    assert browser.js("document.documentElement.scrollWidth") == 380
    assert browser.js("document.querySelectorAll('script').length") == 0
    assert browser.js("document.querySelectorAll('figure svg[viewBox]').length") == 4
    assert browser.errors() == []


def test_on_paper_there_are_no_buttons_and_the_verdict_keeps_its_colour(browser, tmp_path):
    write_to = tmp_path / "audit.html"
    page = Page(
        title="Audit", synergy="unclear", verdict=["Inconclusive."], figures=[CHART], tables=[TABLE], spread="Means."
    )
    write_to.write_text(render_page(page))
    browser.open(write_to)
    browser.call("Emulation.setEmulatedMedia", media="print")
    try:
        shown = browser.js(
            "[...document.querySelectorAll('.downloads, .screen')].filter(x => getComputedStyle(x).display !== 'none').length"
        )
        label = browser.js(
            "(s => [s.backgroundColor, s.color])(getComputedStyle(document.querySelector('.verdict .label')))"
        )
    finally:
        browser.call("Emulation.setEmulatedMedia", media="")
    assert shown == 0
    assert label == ["rgba(0, 0, 0, 0)", "rgb(160, 100, 0)"]
