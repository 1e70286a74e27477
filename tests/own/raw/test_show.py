"""What a page shows of raw rows: excerpts, small pictures and outlines, escaped."""

import base64
import io
import re
from html import escape

import numpy as np
import pytest

from synib.own.audit import audit
from synib.own.raw.show import outline, shown_rows, thumbnail
from synib.own.table import read
from synib.report import Page, render_page
from synib.report.audit import page, summary


def test_each_kind_is_shown(media, make, tmp_path):
    table = read(media)
    first, last = (shown_rows(table.raw, [0, 23])[row] for row in (0, 23))
    assert [shown.modality for shown in first] == ["image", "sound"]
    assert first[0].words == "files/0.png"
    assert first[0].picture.startswith("data:image/jpeg;base64,")
    assert re.fullmatch(r"(M\d+ [\d.]+V[\d.]+){120}", last[1].outline)
    columns = make.reviews(12)
    columns["review"][2], columns["age"][2] = "long " * 100, ""
    columns["review"][3] = ""
    raw = read(make.csv(tmp_path / "a.csv", columns)).raw
    shown = shown_rows(raw, [2, 3])
    assert shown[2][0].words == f"{'long ' * 47}long…"
    assert shown[2][1].words.startswith("age –, department ")
    assert shown[3][0].words == "missing"


def test_a_file_that_is_gone_is_said(media):
    table = read(media)
    (media / "files/0.png").unlink()
    assert shown_rows(table.raw, [0])[0][0].words == "files/0.png is missing"


def test_a_thumbnail_is_a_small_picture_of_its_own(make):
    from PIL import Image

    uri = thumbnail(make.picture(True, size=(300, 200)))
    image = Image.open(io.BytesIO(base64.b64decode(uri.partition(",")[2])))
    assert (image.format, image.size) == ("JPEG", (64, 96))


def test_the_outline_of_silence_and_of_one_sample_is_a_line():
    for samples in (np.zeros(1000, np.float32), np.ones(1, np.float32)):
        assert outline(samples).count("M") > 0


@pytest.fixture(scope="module")
def audited(make, tmp_path_factory):
    """An audit of an XOR of a text and a category, in few epochs; every text begins as a script would."""
    folder = tmp_path_factory.mktemp("audited")
    columns = make.reviews(90)
    columns["review"] = [f"<script>alert('x')</script> {text}" for text in columns["review"]]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SYNIB_CACHE", str(folder / "cache"))
        patch.setattr("synib.own.audit._decompose", lambda *_: {})  # neither is looked at here
        patch.setattr("synib.own.audit.detectable", lambda *_, **__: {})
        table = read(
            make.csv(folder / "a.csv", columns), modalities={"text": "review:text", "department": "department:table"}
        )
        return audit(table, k=3, budget=1, epochs=40, judge=False, tries=1, device="cpu"), columns


def test_rows_to_look_at_show_what_they_hold_once_and_escaped(audited):
    result, columns = audited
    content = page(result, summary(result), "synib audit", {})
    lists = [listing for listing in content.listings if listing.of == "row"]
    assert lists
    for listing in lists:
        assert listing.modalities == ["text", "department"]
        assert listing.rows.keys() == listing.shown.keys()
        for row, (text, department) in listing.shown.items():
            assert text.words == columns["review"][int(row)]
            assert department.words == f"department {columns['department'][int(row)]}"
            of_row = dict(zip(listing.columns, listing.rows[row], strict=True))
            assert of_row["target"] == str(columns["label"][int(row)])
    text = render_page(content, interactive=False)
    assert text.count("Rows that need both") == 1
    assert "Rows that need more than one modality" not in text
    assert "&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt;" in text
    assert "<script>alert" not in text


def test_words_and_cells_of_rows_that_need_both_are_highlighted_and_escaped(audited):
    result, columns = audited
    first, *others = page(result, summary(result), "synib audit", {}).listings
    assert first.title == "Rows that need both"
    assert first.highlights.keys() == first.rows.keys()
    assert not any(listing.highlights for listing in others)
    assert "Colours show how much words or passages contribute" in first.note
    assert "Content without colours has a single part" in first.note  # the table has one column
    for row, highlights in first.highlights.items():
        words = re.findall(r'<span[^>]*title="[+-][\d.]+">([^<]*)</span>', highlights["text"])
        assert [*highlights] == ["text"]
        assert words == [escape(word) for word in columns["review"][int(row)].split()]
    text = render_page(Page("Rows", listings=[first]), interactive=False)
    assert text.count('<div class="synib-explanation"') == len(first.rows)
    assert "&lt;script&gt;alert" in text
    assert "<script" not in text
