"""Rows of a file, explained with what they hold."""

import re

import numpy as np
import pytest

from synib.explanation import explain_file
from synib.own.saved import load

pytest.importorskip("safetensors")


def section(page, row):
    return next(part for part in page.split("<section>") if part.startswith(f"<h3>Row {row}:"))


def test_the_words_and_the_column_that_decide_together_are_found(reviews):
    found = explain_file(load(reviews / "model"), reviews / "reviews.csv", range(12), part_draws=16)
    parts = found.explanation.parts
    word = [parts["text"].together[at][4] for at in range(12)]
    others = [np.nanmax(np.abs(np.delete(parts["text"].together[at], 4))) for at in range(12)]
    assert (np.array(word) > np.array(others)).mean() > 0.8
    assert (parts["person"].together.argmax(1) == 1).mean() > 0.8
    assert parts["person"].exact
    synergy = found.explanation.rows.interaction.value[:12]
    assert np.corrcoef(np.nansum(parts["text"].together, 1), synergy)[0, 1] > 0.5


def test_texts_are_highlighted_escaped_and_cells_are_named(reviews):
    found = explain_file(load(reviews / "model"), reviews / "reviews.csv", [5, 6], part_draws=4)
    page = found._repr_html_()
    assert "<script" not in page
    assert "&lt;script&gt;harm=1&lt;/script&gt;" in section(page, 5)
    assert re.search(r'<span[^>]*title="[+-]\d\.\d+">(lovely|awful)</span>', section(page, 6))
    assert re.search(r"department: (Tops|Dresses)", section(page, 6))


def test_images_and_sounds_are_drawn_small_and_the_broken_and_the_missing_are_one_line(media):
    found = explain_file(load(media / "model"), media, [0, 7, 8], part_draws=4)
    assert any("row 7 (from 0): 7.png is not a readable image" in note for note in found.notes)
    page = found._repr_html_()
    whole = section(page, 0)
    assert whole.count("<figure>") == 6
    assert 'aria-label="photo of row 0, with the other modalities"' in whole
    assert 'aria-label="sound of row 0, alone"' in whole
    assert len(whole) < 80_000
    broken = section(page, 7)
    assert '<p class="raw">7.png is not a readable image' in broken
    assert "<figure>" not in broken
    assert 'class="outline"' in broken
    assert '<p class="raw">missing</p>' in section(page, 8)


def test_without_parts_rows_are_shown_as_they_are(media):
    found = explain_file(load(media / "model"), media, [0], parts=False)
    assert found.explanation.parts == {}
    page = found._repr_html_()
    assert 'src="data:image/jpeg;base64,' in page
    assert 'alt="photo of row 0"' in page


def test_a_row_that_is_not_there_is_one_sentence(reviews):
    with pytest.raises(ValueError, match=r"has rows 0 to 119; row 500 was requested"):
        explain_file(load(reviews / "model"), reviews / "reviews.csv", [500])


def test_a_number_of_rows_may_be_of_numpy_and_must_be_positive(reviews):
    model = load(reviews / "model")
    found = explain_file(model, reviews / "reviews.csv", np.int64(2), parts=False)
    assert len(found.rows) == 2
    with pytest.raises(ValueError, match="rows must be a whole number of at least 1; got 0"):
        explain_file(model, reviews / "reviews.csv", 0)
