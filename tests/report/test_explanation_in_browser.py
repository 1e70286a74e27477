"""The page of ``synib explain`` in a real browser: readable light and dark and on a phone, and usable with the keyboard."""

import pytest
import torch

import synib
from synib.explanation import Columns, Picture, Words, patches
from synib.report.explanation import write_explanation

# The lowest contrast of any text to what is behind it, with translucent backgrounds blended, and that text.
CONTRAST = """(() => {
    const parse = (c) => (c.match(/[\\d.]+/g) || []).map(Number);
    const light = (c) => { const l = c.map((v) => (v /= 255) <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4);
        return .2126 * l[0] + .7152 * l[1] + .0722 * l[2]; };
    const behind = (e) => { if (!e) return matchMedia('(prefers-color-scheme: dark)').matches ? [0, 0, 0] : [255, 255, 255];
        const [r, g, b, a = 1] = parse(getComputedStyle(e).backgroundColor);
        if (a === 1) return [r, g, b];
        const below = behind(e.parentElement);
        return [r, g, b].map((v, k) => a * v + (1 - a) * below[k]); };
    const found = [...document.querySelectorAll('main *')].filter((e) =>
        [...e.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim())).map((e) => {
            const [a, b] = [light(parse(getComputedStyle(e).color).slice(0, 3)), light(behind(e))].sort((x, y) => y - x);
            return [(a + .05) / (b + .05), e.tagName + ' ' + e.textContent.slice(0, 30)]; });
    return found.sort((x, y) => x[0] - y[0])[0];
})()"""


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    torch.manual_seed(0)
    x = {"image": torch.rand(20, 16), "text": torch.randn(20, 7, 3), "table": torch.randn(20, 4)}

    def model(m):
        return m["image"][:, :1] * m["text"][:, 2, :1] * m["table"][:, :1]

    explanation = synib.explain(
        model,
        x,
        family=synib.Bernoulli(),
        parts={"image": patches((4, 4), 2), "text": "tokens", "table": "coordinates"},
        part_draws=2,
        draws=8,
        of=[3, 4],
        views={
            "image": Picture((4, 4)),
            "text": Words([["it", "was", "excellent", "in", "every", "possible", "way"]] * 20),
            "table": Columns(["age", "income", "a column with a long name of many words", "height"]),
        },
    )  # fmt: skip
    path = tmp_path_factory.mktemp("page") / "explanation.html"
    write_explanation(
        explanation,
        path,
        "Where the synergy is",
        [3, 4],
        "synib explain model/ data.npz --rows 3,4",
        ["A note."],
        explanation.kinds(clusters=2),
    )
    return path


@pytest.mark.parametrize("night", [False, True])
@pytest.mark.parametrize("width", [1100, 380])
def test_every_text_is_readable_and_nothing_needs_sideways_scrolling(browser, page, width, night):
    browser.open(page, width=width, night=night)
    browser.js("document.querySelectorAll('details').forEach((d) => { d.open = true; })")
    contrast, text = browser.js(CONTRAST)
    assert contrast >= 4.5, text
    assert browser.js("document.documentElement.scrollWidth") == width
    edges = browser.js(
        "[...document.querySelectorAll('section, figure, .bars')].map((e) => e.getBoundingClientRect().right)"
    )
    assert max(edges) <= width
    assert browser.js("[...document.querySelectorAll('svg')].every((e) => e.getAttribute('aria-label'))")
    assert browser.asked() == [page.as_uri()]
    assert browser.errors() == []


def test_the_keyboard_opens_every_table_of_numbers_in_the_order_of_the_page(browser, page):
    browser.open(page)
    tables = browser.js("document.querySelectorAll('details').length")
    assert tables == 2 * 3
    place = "[...document.querySelectorAll('details')].indexOf(document.activeElement.parentElement)"
    for expected in range(tables):
        browser.press("Tab", 9)
        assert browser.js("document.activeElement.tagName") == "SUMMARY"
        assert browser.js(place) == expected
        assert browser.js("getComputedStyle(document.activeElement).outlineStyle") == "solid"
        browser.press("Enter", 13, "\r")
        assert browser.js("document.activeElement.parentElement.open")
        browser.press("Tab", 9)  # into the table, which may be scrolled
        assert browser.js("document.activeElement.className") == "scroll"
        assert browser.js(place) == expected
    browser.js("document.querySelector('summary').focus()")
    browser.press(" ", 32, " ")
    assert not browser.js("document.querySelector('details').open")
