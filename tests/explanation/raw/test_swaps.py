"""Swapped parts of raw rows: all own is the row, none is the other row, and a mixture is what it says."""

import numpy as np
import pytest
import torch
from PIL import Image

import synib
from synib.explanation.raw import ImagePatches, RawContent, SoundBlocks, TableColumns, TextWords
from synib.explanation.raw.images import grid
from synib.explanation.raw.texts import passages, words_of
from synib.own.raw.encoders.base import Encoder
from synib.own.raw.encoders.pixels import Pixels
from synib.own.raw.sounds import RATE, Wave


class Length(Encoder):
    """The length of a text."""

    kind = "text"
    batch = 3

    def __init__(self):
        self.name, self.revision, self.width, self.licence, self.about = "length", "1", 1, "", ""

    def encode(self, items):
        assert len(items) <= self.batch
        return np.array([[len(item)] for item in items], np.float32)


def parts_of(kind, items, encoders=(), columns=("column",)):
    return kind("m", columns, RawContent(items, kind.decoded, [1]), encoders, {})


def ends(count):
    return np.stack([np.ones(count, bool), np.zeros(count, bool)])


def test_words_are_swapped_for_those_at_the_same_place():
    texts = parts_of(TextWords, {0: "one two  three four", 1: "a b"})
    assert texts.count(0) == 4
    row, fill = texts.content.row(0), texts.content.fill(0)
    assert texts.mixed(row, fill, ends(4)) == ["one two  three four", "a b"]
    some = texts.mixed(row, fill, np.array([[True, False, False, True]]))
    assert some[0].split()[0] == "one"
    assert some[0].split()[-1] == "four"
    assert set(some[0].split()) <= {"one", "four", "a", "b"}


@pytest.mark.parametrize("text", ["one", " padded text ", "two\nlines here", "日本語の文", "mixed 日本 words", "…"])
def test_words_joined_are_the_text(text):
    words = words_of(text)
    assert "".join(words).strip() == text.strip()
    assert len(words) >= 1
    assert "".join(passages(words, 7)) == "".join(words)


def test_a_long_text_is_cut_into_32_passages():
    texts = parts_of(TextWords, {0: "word " * 1000, 1: "other"})
    assert texts.count(0) == 32
    assert {len(passage.split()) for passage in passages(texts.content.row(0), 32)} <= {31, 32}


def test_swapped_items_go_through_every_encoder_in_its_batches():
    texts = parts_of(TextWords, {0: "abc de", 1: "f g"}, [Length(), Length()])
    own = np.array([[True, True], [False, False], [True, False], [False, True]])
    assert texts.swapped(0, 0, own).tolist() == [[6, 6], [3, 3], [5, 5], [4, 4]]


def test_cells_of_a_table_are_swapped():
    table = parts_of(TableColumns, {0: (1.0, "red", None), 1: (2.0, "blue", "x")}, columns=("a", "b", "c"))
    assert table.count(0) == 3
    mixed = table.mixed(table.content.row(0), table.content.fill(0), np.array([[True, False, True]]))
    assert mixed == [(1.0, "blue", None)]


@pytest.mark.parametrize(
    ("kind", "item", "parts", "drawn"),
    [
        (TextWords, "one <b> two", 3, ">&lt;b&gt;</span>"),
        (TableColumns, ("<b>",), 1, "column: &lt;b&gt;"),
        (ImagePatches, Image.new("RGB", (90, 60)), 35, 'aria-label="m of row 0, highlighted"'),
        (SoundBlocks, Wave(np.ones(RATE, np.float32), RATE), 32, 'aria-label="m of row 0, highlighted"'),
    ],
)
def test_highlighted_content_is_escaped_and_has_one_score_for_each_part(kind, item, parts, drawn):
    content = parts_of(kind, {0: item})
    assert content.count(0) == parts
    assert drawn in content.highlighted(0, np.linspace(-1, 1, parts))
    assert "<b>" not in content.highlighted(0, np.zeros(parts))


def test_patches_of_an_image_are_swapped_and_every_pixel_has_one():
    white, black = Image.new("RGB", (90, 60), "white"), Image.new("RGB", (30, 80), "black")
    images = parts_of(ImagePatches, {0: white, 1: black})
    rows, columns = grid((90, 60))
    assert images.count(0) == rows * columns <= 36
    whole, none = images.mixed(images.content.row(0), images.content.fill(0), ends(rows * columns))
    assert np.asarray(whole).min() == 255
    assert none.size == (90, 60)
    assert np.asarray(none).max() == 0
    first = np.zeros((1, rows * columns), bool)
    first[0, 0] = True
    mixed = np.asarray(images.mixed(white, black, first)[0])[..., 0]
    assert mixed[0, 0] == 255
    assert (mixed == 255).mean() == pytest.approx(1 / (rows * columns), abs=0.01)


@pytest.mark.parametrize("size", [(1, 1), (1, 500), (500, 1), (3, 2)])
def test_images_of_any_size_have_patches(size):
    rows, columns = grid(size)
    assert 1 <= rows * columns <= 36
    assert rows <= size[1]
    assert columns <= size[0]


def test_a_large_image_is_kept_small():
    images = parts_of(ImagePatches, {0: Image.new("RGB", (4000, 1000)), 1: Image.new("RGB", (8, 8))})
    assert images.content.row(0).size == (256, 64)


def test_blocks_of_a_sound_are_swapped_and_the_whole_is_unchanged():
    time = np.arange(RATE) / RATE
    low, high = (np.sin(2 * np.pi * f * time).astype(np.float32) for f in (300, 5000))
    sounds = parts_of(SoundBlocks, {0: Wave(low, RATE), 1: Wave(high[: RATE // 2], RATE)})
    count = sounds.count(0)
    whole, none = sounds.mixed(sounds.content.row(0), sounds.content.fill(0), ends(count))
    assert np.abs(whole.samples - low).max() < 1e-4
    assert np.abs(none.samples - np.resize(high[: RATE // 2], RATE)).max() < 1e-4
    lowest = np.zeros((1, count), bool)
    lowest[0, -8:] = True  # the lowest pitch at all times: the own tone, and none of the other's
    kept = sounds.mixed(sounds.content.row(0), sounds.content.fill(0), lowest)[0].samples
    power = np.abs(np.fft.rfft(kept * np.hanning(RATE)))
    assert power[300] > 100 * np.median(power)
    assert power[5000] > 100 * np.median(power)
    lowest[:] = True
    lowest[0, :8] = False  # the highest pitch is the other's
    assert np.abs(np.fft.rfft(sounds.mixed(low, high, lowest)[0].samples))[5000] > 1000


def test_a_very_short_sound_and_a_long_one_have_blocks():
    sounds = parts_of(
        SoundBlocks, {0: Wave(np.ones(10, np.float32), RATE), 1: Wave(np.zeros(40 * RATE, np.float32), RATE)}
    )
    assert len(sounds.content.fill(0)) == 30 * RATE
    own = np.zeros((1, sounds.count(0)), bool)
    assert np.isfinite(sounds.mixed(sounds.content.row(0), sounds.content.fill(0), own)[0].samples).all()


def test_the_patches_that_a_model_uses_carry_its_synergy():
    """The model is known: how red the image is, times the other modality."""
    rng = np.random.default_rng(0)
    pixels = rng.integers(120, 140, (40, 48, 64, 3)).astype(np.uint8)
    red = rng.integers(2, size=40).astype(bool)
    pixels[red, 8:24, 8:24] = (230, 20, 20)
    pixels[~red, 8:24, 8:24] = (20, 20, 230)
    items = dict(enumerate(map(Image.fromarray, pixels)))
    encoder = Pixels()
    photo = torch.from_numpy(encoder.encode([encoder.prepare(item) for item in items.values()]))
    x = {"photo": photo, "b": torch.from_numpy(rng.choice([-1.0, 1.0], (40, 1)).astype(np.float32))}

    def model(x):
        colour = x["photo"][:, :192].reshape(-1, 64, 3).mean(1)
        return 20 * (colour[:, :1] - colour[:, 2:]) * x["b"]

    patches = ImagePatches("photo", ("photo",), RawContent(items, ImagePatches.decoded, range(40)), [encoder], {})
    found = synib.explain(model, x, family=synib.Bernoulli(), parts={"photo": patches}, of=range(10), part_draws=16)
    together = found.parts["photo"].together
    rows, columns = grid((64, 48))
    square = np.zeros((rows, columns), bool)
    square[:3, :3] = True
    inside, outside = (together[:, mask.ravel()].sum(1) for mask in (square, ~square))
    assert (inside > 5 * np.abs(outside)).mean() > 0.8
    # Every row has nearly the same interaction here, so sums are compared with it and not correlated.
    assert together.sum(1).mean() == pytest.approx(found.rows.interaction.value[:10].mean(), rel=0.25)
