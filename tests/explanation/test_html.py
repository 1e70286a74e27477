"""Pictures: every text is escaped, every number is there, and a PNG is a PNG."""

import base64
import re
import xml.etree.ElementTree as ElementTree
import zlib
from html.parser import HTMLParser

import numpy as np
import pytest
import torch

import synib
from synib.explanation import Columns, Picture, Spectrogram, Words, patches, pictures
from synib.explanation.html import explanation_html

WICKED = "</div><script>harm()</script>\"'&"


class Balanced(HTMLParser):
    """Every element that is opened is closed, in order."""

    def __init__(self, text):
        super().__init__()
        self.open, self.seen = [], set()
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        self.seen.add(tag)
        self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.seen.add(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def pixels_of(address):
    data = base64.b64decode(address.partition(",")[2])
    assert data.startswith(b"\x89PNG\r\n\x1a\n")
    width, height = int.from_bytes(data[16:20]), int.from_bytes(data[20:24])
    channels = {2: 3, 6: 4}[data[25]]
    start = data.index(b"IDAT")
    size = int.from_bytes(data[start - 4 : start])
    raw = np.frombuffer(zlib.decompress(data[start + 4 : start + 4 + size]), np.uint8).reshape(height, -1)
    assert (raw[:, 0] == 0).all()
    return raw[:, 1:].reshape(height, width, channels)


def test_bars_show_value_interval_and_side():
    text = pictures.bars(["a", WICKED], [2.0, -1.0], [1.5, -1.2], [2.5, -0.8])
    assert Balanced(text).seen == {"div", "i"}
    assert "+2.00 [+1.50, +2.50]" in text
    assert text.count("against") == 1
    assert "<script" not in text
    assert Balanced(pictures.bars(["nothing"], [0.0])).seen


def test_words_are_coloured_by_their_scores():
    text = pictures.words(["not", WICKED], [0.5, -1.0])
    assert Balanced(text).seen == {"p", "span"}
    assert re.findall(r"--w:([\d.]+)", text) == ["0.400", "0.800"]
    with pytest.raises(ValueError, match=r"one score per word, \(1,\); got \(2,\)"):
        pictures.words(["one"], [1.0, 2.0])


def test_pixels_are_laid_over_a_picture():
    scores = np.array([[1.0, 0.0], [0.0, -0.5]])
    text = pictures.pixels(np.eye(2), scores, WICKED)
    root = ElementTree.fromstring(text)
    below, above = (pixels_of(image.attrib["href"]) for image in root)
    assert below[0, 0, 0] < below[0, 1, 0]  # ink is dark
    assert above[0, 0].tolist() == [*pictures.FOR, round(255 * pictures.STRONGEST)]
    assert above[1, 1].tolist() == [*pictures.AGAINST, round(255 * pictures.STRONGEST / 2)]
    assert above[0, 1, 3] == 0
    with pytest.raises(ValueError, match="the same height and width"):
        pictures.pixels(np.eye(2), np.zeros((3, 3)), "x")


@pytest.fixture(scope="module")
def explanation():
    torch.manual_seed(0)
    x = {"image": torch.randn(20, 16), "text": torch.randn(20, 7, 2), "sound": torch.randn(20, 12)}

    def model(x):
        return x["image"][:, :1] * x["text"][:, 2, :1] + x["sound"][:, :1]

    words = [[WICKED, *(f"word{i}" for i in range(6))]] * 20
    return synib.explain(
        model, x, family=synib.Bernoulli(), ids=[f"{i} {WICKED}" for i in range(20)], classes=["no", WICKED],
        parts={"image": patches((4, 4), 2), "text": "tokens", "sound": patches((4, 3), (1, 3))}, part_draws=2, draws=8,
        views={"image": Picture((4, 4)), "text": Words(words), "sound": Spectrogram((4, 3))},
    )  # fmt: skip


def test_a_notebook_shows_rows_and_parts_without_scripts(explanation):
    text = explanation._repr_html_()
    seen = Balanced(text).seen
    assert {"section", "svg", "details", "table", "span", "style"} <= seen
    assert "script" not in seen
    assert text.count("<section>") == 10
    assert all(f"<h4>{name}" in text for name in ("image", "text", "sound"))


def test_bars_of_columns_show_what_they_contribute_with_the_others_and_alone():
    x = {"a": torch.randn(12, 2, generator=torch.Generator().manual_seed(0)), "b": torch.ones(12, 1)}
    x["b"][::2] = -1
    explanation = synib.explain(
        lambda x: 3 * x["a"][:, :1] + x["a"][:, 1:] * x["b"], x, family=synib.Bernoulli(), parts={"a": "coordinates"},
        of=[0], draws=12, part_draws=12, views={"a": Columns(["a cue", "the bit"])},
    )  # fmt: skip
    section = explanation_html(explanation, [0]).partition("<h4>a:")[2]
    together, alone = (section.partition(f'<p class="soft">{title}</p>')[2].partition("</details>")[0]
                       for title in ("with the other modalities", "alone"))  # fmt: skip
    assert together.index("the bit") < together.index("a cue")
    assert alone.index("a cue") < alone.index("the bit")
    longest = float(np.abs(explanation.parts["a"].alone[0]).max() / np.ptp([0, *_ends(explanation.parts["a"])]))
    widths = [float(w) for w in re.findall(r'class="bar[^"]*" style="left:[\d.]+%;width:([\d.]+)%', alone)]
    assert max(widths) == pytest.approx(100 * longest, abs=0.1)  # one scale for both charts


def _ends(parts):
    return [float(getattr(parts, f"{what}{end}").flat[i]) for what in ("together", "alone") for end in ("_low", "", "_high")
            for i in (0, 1)]  # fmt: skip


def test_a_patch_of_a_colour_picture_is_as_strong_as_its_score():
    x = {"photo": torch.rand(10, 4, 4, 3, generator=torch.Generator().manual_seed(0)), "b": torch.ones(10, 1)}
    x["b"][::2] = -1
    colours = np.repeat(patches((4, 4), 2)[..., None], 3, 2)
    explanation = synib.explain(
        lambda x: (x["photo"][:, :2, :2].mean((1, 2, 3))[:, None] - 0.5) * x["b"] * 4 + x["photo"][:, 3, 3, :1] * x["b"],
        x, family=synib.Bernoulli(), parts={"photo": colours}, of=[0], draws=10, part_draws=10,
        views={"photo": Picture()},
    )  # fmt: skip
    scores = explanation.parts["photo"]
    text = re.search(r'<svg viewBox="0 0 4 4".*?</svg>', explanation._repr_html_())[0]
    opacity = pixels_of(ElementTree.fromstring(text)[1].attrib["href"])[..., 3]
    largest = max(np.abs(scores.together).max(), np.abs(scores.alone).max())
    expected = 255 * pictures.STRONGEST * np.abs(scores.together[0]) / largest
    assert opacity[::2, ::2].ravel() == pytest.approx(expected, abs=0.51)


def test_records_are_flat_and_repr_names_rows(explanation):
    records = list(explanation.records())
    assert len(records) == 20
    parts = [k for k in records[0] if k.startswith("unique_")]
    for r in records:
        assert r["baseline"] + sum(r[k] for k in parts) + r["shared"] + r["synergy"] == pytest.approx(r["evidence"])
    assert repr(explanation).startswith("Explanation of 20 rows from image x text x sound, 8 background draws")


def test_the_number_of_rows_is_checked(explanation):
    assert len(explanation.top(3)) == 3
    with pytest.raises(ValueError, match="count must be a whole number of at least 1; got -3"):
        explanation.top(-3)


def test_views_check_what_they_are_given():
    x = {"a": torch.randn(8, 2), "b": torch.randn(8, 1)}
    with pytest.raises(ValueError, match="views must be for the modalities a, b; got one for 'c'"):
        synib.explain(lambda x: x["a"][:, :1], x, family=synib.Bernoulli(), views={"c": Columns()})
    found = synib.explain(
        lambda x: x["a"][:, :1] * x["b"], x, family=synib.Bernoulli(), parts=True, views={"a": Columns(["one"])}
    )
    with pytest.raises(ValueError, match="'a' has 2 parts; got 1 names"):
        found._repr_html_()
