"""The page as text; what a browser makes of it is in test_page_in_browser.py."""

import json
import re
from dataclasses import fields, replace
from html.parser import HTMLParser

import pytest
from plotly.offline import get_plotlyjs

from synib.own.raw.show import Shown
from synib.report import Page, render_page, write_page
from synib.report.page import Listing
from synib.studies.charts import Bars, Chart, Panel, Panels, Series, Table, Triangle, Triangles

WICKED = "</script x></noscript></style><script>harm()</script><!--\"'&"


def row(mean, se=0.02, n=5, **more):
    return {"mean": mean, "se": se, "n": n, "paper": None, **more}


def page(word: str) -> Page:
    """A page with this word in every place that words can be in."""
    lines = [Series(word, word, [0.0, 1.0], [0.5, 0.6], [0.1, 0.1])]
    summary = [{"method": word, "metric": "a", **row(0.5)}]
    tiles = [{"p_u1": 1.0, "p_r": 0.0, "p_s": 0.0, **row(0.7)}]
    figures = [
        Chart("lines", word, word, word, lines, word, chance=0.5),
        Panels("panels", word, word, word, [Panel(word, lines, word)], word),
        Bars.of("bars", word, {word: "a"}, summary, [word], reading=word, over=word, reference=word),
        Triangles("triangles", word, {word: [Triangle(word, tiles)]}, word),
    ]
    return Page(
        title=word,
        synergy="unclear",
        verdict=[word],
        alarms=[word],
        about=word,
        caution=word,
        findings=[word],
        figures=figures,
        tables=[Table(word, [word], {word: [row(0.5, paper=0.25)]}, word, word)],
        spread=word,
        training=word,
        settings={word: {word: word}},
        command=word,
        facts={word: word},
    )


class Elements(HTMLParser):
    """Every element with its attributes, the text outside of them, and what stands in scripts."""

    def __init__(self, text):
        super().__init__()
        self.found, self.text, self.scripts = [], "", []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.found.append((tag, dict(attributes)))
        if tag == "script":
            self.scripts.append("")

    def handle_data(self, data):
        if self.lasttag == "script" and self.cdata_elem == "script":
            self.scripts[-1] += data
        else:
            self.text += data


WORD = "A plain word"
PLAIN = page(WORD)


@pytest.fixture(scope="module")
def full():
    return render_page(PLAIN)


@pytest.fixture(scope="module")
def light():
    return render_page(PLAIN, interactive=False)


def test_the_same_page_gives_the_same_bytes(full, light):
    assert render_page(page(WORD)) == full
    assert render_page(page(WORD), interactive=False) == light


def test_plotly_is_there_once_however_many_figures_and_not_where_it_draws_nothing(full, light):
    library = get_plotlyjs()
    assert full.count(library) == 1
    assert library not in light
    assert len(render_page(replace(PLAIN, figures=[]))) < 100_000


@pytest.mark.parametrize("which", ["full", "light"])
def test_the_page_needs_nothing_from_elsewhere(which, request):
    text = request.getfixturevalue(which).replace(get_plotlyjs(), "")
    elements = Elements(text)
    assert not {"link", "iframe", "img", "object", "embed", "base"} & {tag for tag, _ in elements.found}
    assert "@import" not in text
    assert all(target.startswith("#") for target in re.findall(r"url\(['\"]?([^)'\"]*)", text))
    for tag, attributes in elements.found:
        for name, value in attributes.items():
            if name in ("src", "href", "xlink:href", "data", "action", "poster", "srcset"):
                assert value.startswith(("#", "data:")), (tag, name, value)
            elif value and "//" in value:  # names of XML vocabularies are not loaded
                assert name.startswith("xmlns") or name == "rdf:resource", (tag, name, value)
    policy = next(a["content"] for _, a in elements.found if a.get("http-equiv") == "Content-Security-Policy")
    assert policy.startswith("default-src 'none'")
    assert ("script-src 'none'" in policy) == (which == "light")


def test_every_word_is_escaped_and_the_page_is_the_same_for_any_words(full):
    wicked, tame = (Elements(re.sub("(?s)<svg.*?</svg>", "", text)) for text in (render_page(page(WICKED)), full))
    assert [tag for tag, _ in wicked.found] == [tag for tag, _ in tame.found]
    assert len(wicked.scripts) == len(tame.scripts) == 4 + 1 + 2
    assert wicked.text.count(WICKED) == tame.text.count(WORD)
    assert not any("harm()" in script and '"data"' not in script for script in wicked.scripts)
    light = render_page(page(WICKED), interactive=False)
    assert "<script" not in light


def test_what_figures_are_drawn_from_comes_back_as_it_was():
    scripts = [script for script in Elements(render_page(page(WICKED))).scripts if script.startswith("{")]
    assert not any(sign in script for script in scripts for sign in "<>&")
    shown = list(map(json.loads, scripts))
    assert [figure.get("title") for figure in shown] == [WICKED] * 4 + [None]
    assert all(WICKED.replace('"', '""') in figure["csv"] for figure in shown[:4])


def test_every_part_is_on_the_page_in_this_order_and_the_verdict_comes_first():
    names = [
        f.name for f in fields(Page) if f.name not in ("synergy", "figures", "tables", "listings", "settings", "facts")
    ]
    words = {name: f"the {name} of it" for name in names}
    lists = ("verdict", "alarms", "findings")
    held = {"17": [Shown("text", "text", "a review")]}
    made = Page(
        **{name: [word] if name in lists else word for name, word in words.items()},
        synergy="absent",
        figures=[Chart("f", "t", "x", "y", [], "how to read it")],
        tables=[Table("numbers", ["total"], {"mine": [row(0.123)]}, note="a note")],
        listings=[Listing("Listed rows", ("says",), {"17": ["yes <b>"]}, "how to read rows", "row", held)],
        settings={"mine": {"lr": 0.01}},
        facts={"rows": "300"},
    )
    order = [
        words["title"], "Synergy: absent", words["verdict"], words["alarms"], words["about"], words["caution"],
        words["findings"], "how to read it", words["spread"], "Numbers", "0.123", "a note",
        "Listed rows", "17", "a review", "yes <b>", "how to read rows", words["training"], "lr=0.01",
        words["command"], "300",
    ]  # fmt: skip
    for interactive in (True, False):
        said = Elements(render_page(made, interactive)).text
        said = said[said.rindex(words["title"]) :]
        places = [said.index(word) for word in order]
        assert places == sorted(places)


def test_highlighted_content_replaces_words_and_stands_below_a_picture():
    items = [
        Shown("text", "text", "plain words"),
        Shown("photo", "image", "1.png", picture="data:,"),
        Shown("a", "text", "b"),
    ]
    highlights = {"17": {"text": "<b>coloured</b>", "photo": "<i>patches</i>"}}
    rows = {"17": ["x"], "18": ["y"]}
    page = Page("Rows", listings=[Listing("Rows", ("says",), rows, "", "row", {"17": items, "18": items}, highlights)])
    text = render_page(page, interactive=False)
    first, second = text.partition('<th scope="row">17')[2].split('<th scope="row">18')
    assert "<b>coloured</b>" in first
    assert "plain words" not in first
    assert first.index("<img") < first.index("<i>patches</i>") < first.index("1.png")
    assert ">b</td>" in first
    assert "plain words" in second
    assert "synib-explanation" not in second


def test_a_bare_page_has_no_empty_parts():
    text = render_page(Page("Only a title"), interactive=False)
    assert [
        tag for tag, _ in Elements(text).found if tag in ("section", "h2", "table", "ul", "dl", "pre", "figure")
    ] == []


@pytest.mark.parametrize(
    ("cell", "value", "words"),
    [
        (row(0.5), "0.5", "0.500 ± 0.020 n = 5"),
        (row(0.5, None, 1), "0.5", "0.500 n = 1"),
        (row(0.5, paper=0.25), "0.5", "0.500 ± 0.020 n = 5 paper 0.25"),
        ({"mean": -0.25, "low": -0.5, "high": 0.0, "n": 9}, "-0.25", "-0.250 [-0.500, 0.000] n = 9"),
        (row(None, None, 0), None, "–"),
        (row(float("nan"), None, 0), None, "–"),
        (None, None, "–"),
    ],
)
def test_a_number_has_its_spread_and_n_and_what_is_missing_has_nothing_to_sort_by(cell, value, words):
    text = render_page(Page("t", tables=[Table("numbers", ["c"], {"mine": [cell]})]), interactive=False)
    ((found, told),) = re.findall(r"<td(?: data-value=\"(.*?)\")?>(.*?)</td>", text)
    assert (found or None) == value
    assert re.sub(r"\s+", " ", re.sub("<.*?>", " ", told)).strip() == words


def test_writing_leaves_page_and_pictures(tmp_path, light):
    write_page(PLAIN, tmp_path, interactive=False)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "bars.svg",
        "lines.svg",
        "panels.svg",
        "report.html",
        "triangles.svg",
    ]
    assert (tmp_path / "report.html").read_text() == light
    assert (tmp_path / "bars.svg").read_text().partition("<svg")[2] in light
