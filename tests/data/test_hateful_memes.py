"""Hateful Memes: jsonl files, pictures, and paths that stay in their folder."""

import json
import sys

import numpy as np
import pytest
import torch

from synib.data.files import check
from synib.data.hateful_memes import (
    HATEFUL_MEMES,
    load,
    pixel_batches,
    pixel_values,
    read_memes,
    read_picture,
)
from synib.data.media import BrokenFile

Image = pytest.importorskip("PIL.Image")


class Processor:
    """Called as transformers' image processors are."""

    def __call__(self, images, return_tensors):
        assert return_tensors == "pt"
        pixels = [np.asarray(image.resize((4, 4))) for image in images]
        return {"pixel_values": torch.from_numpy(np.stack(pixels)).permute(0, 3, 1, 2) / 255}


def write(path, records):
    path.write_text("".join(json.dumps(record) + "\n" for record in records))


@pytest.fixture
def root(tmp_path):
    folder = tmp_path / "hateful-memes"
    (folder / "img").mkdir(parents=True)
    start = 0
    for name, n in (("train", 5), ("dev_unseen", 3), ("test_seen", 4)):
        records = []
        for i in range(start, start + n):
            Image.new("RGB", (8 + i, 6), (10 * i, 0, 0)).save(folder / "img" / f"{i:05}.png")
            records.append({"id": i, "img": f"img/{i:05}.png", "label": i % 2, "text": f"text\u2028 {i}"})
        write(folder / f"{name}.jsonl", records)
        start += n
    return folder


def test_records_hold_pictures_texts_and_labels(root):
    for given in (root, root.parent):
        data = load(given)
        assert [len(part) for part in (data.train, data.validation, data.test)] == [5, 3, 4]
        assert data.validation.ids == ("5", "6", "7")
        assert data.validation.labels.tolist() == [1, 0, 1]
        assert data.validation.texts[1] == "text\u2028 6"  # a line's end to Python, not to jsonl
        assert data.test.images[0] == root / "img" / "00008.png"


def test_pictures_go_through_the_processor_batch_after_batch(root):
    train = load(root).train
    batches = list(pixel_batches(train, Processor(), batch_size=2))
    assert [len(batch) for batch in batches] == [2, 2, 1]
    together = torch.cat(batches)
    assert together[:, 0].mean((1, 2)).mul(255).round().tolist() == [0, 10, 20, 30, 40]
    assert torch.equal(together, pixel_values(train.images, Processor()))


def test_a_processor_of_transformers_is_one(root):
    transformers = pytest.importorskip("transformers")
    processor = transformers.CLIPImageProcessor(size={"shortest_edge": 16}, crop_size={"height": 16, "width": 16})
    assert pixel_values(load(root).train.images, processor).shape == (5, 3, 16, 16)


def test_a_processor_that_gives_something_else_is_refused(root):
    with pytest.raises(ValueError, match="a row for each of 5 pictures"):
        pixel_values(load(root).train.images, lambda **_: {"pixel_values": torch.zeros(2)})


@pytest.mark.parametrize("mode", ["P", "RGBA", "L", "LA", "1", "CMYK"])
def test_pictures_of_every_kind_become_red_green_and_blue(tmp_path, mode):
    ending = "jpg" if mode == "CMYK" else "png"
    Image.new("RGBA", (5, 4), (200, 200, 200, 255)).convert(mode if mode != "CMYK" else "RGB").convert(mode).save(
        tmp_path / f"a.{ending}"
    )
    image = read_picture(tmp_path / f"a.{ending}")
    assert (image.mode, image.size) == ("RGB", (5, 4))


def test_a_table_of_colours_with_a_transparent_one_is_read_without_a_warning(tmp_path):
    image = Image.new("P", (4, 4))
    image.putpalette([255, 0, 0] + [0] * 765)
    image.save(tmp_path / "a.png", transparency=bytes([0, 255]))
    assert read_picture(tmp_path / "a.png").getpixel((0, 0)) == (255, 0, 0)


@pytest.mark.parametrize("img", ["../secret.png", "/etc/hostname", "img/../../secret.png", "img/link.png"])
def test_a_path_that_leaves_the_folder_is_refused(root, img):
    Image.new("RGB", (2, 2)).save(root.parent / "secret.png")
    (root / "img" / "link.png").symlink_to(root.parent / "secret.png")
    write(root / "train.jsonl", [{"id": 1, "img": img, "label": 0, "text": ""}])
    with pytest.raises(ValueError, match="leads out of"):
        load(root)
    with pytest.raises(ValueError, match="leads out of"):
        load(root, skip_broken=True)


def test_a_missing_picture_is_named_before_training(root):
    (root / "img" / "00003.png").unlink()
    with pytest.raises(ValueError, match=r"00003\.png is missing: get the pictures again, or .* skip_broken=True"):
        load(root)


@pytest.mark.parametrize(
    "harm", [lambda b: b[: len(b) // 2], lambda b: b"GIF89a" + b, lambda _: b"", lambda b: b[:50] + b"xx" + b[52:]]
)
def test_a_broken_picture_is_named_and_left_out_only_if_the_user_says_so(root, harm):
    path = root / "img" / "00003.png"
    path.write_bytes(harm(path.read_bytes()))
    train = load(root).train
    with pytest.raises(BrokenFile, match=r"00003\.png (is damaged or truncated|is no png or jpeg)"):
        list(pixel_batches(train, Processor()))
    kept = load(root, skip_broken=True).train
    assert kept.ids == ("0", "1", "2", "4")
    assert list(kept.skipped) == ["3"]
    assert kept.labels.tolist() == [0, 1, 0, 0]
    assert len(list(pixel_batches(kept, Processor()))) == 1


def test_a_picture_that_unpacks_to_too_much_is_refused(root, monkeypatch):
    monkeypatch.setattr("synib.data.hateful_memes.MOST_PIXELS", 40)
    with pytest.raises(BrokenFile, match="unpacks to 8 × 6 pixels, more than the 40 allowed"):
        read_picture(root / "img" / "00000.png")


RIGHT = {"id": 1, "img": "img/00000.png", "label": 0, "text": "a"}


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("{", r"train\.jsonl, line 2: a line is one JSON object; got '\{'"),
        ("[1]", "line 2: a line is one JSON object"),
        (json.dumps(RIGHT | {"label": 2}), "line 2: a meme's label is 0 or 1; got 2"),
        (json.dumps(RIGHT | {"label": True}), "label is 0 or 1; got True"),
        (json.dumps({k: v for k, v in RIGHT.items() if k != "label"}), "label is 0 or 1; got none"),
        (json.dumps(RIGHT | {"text": None}), "line 2: a meme has an id, the path img and a text"),
        (json.dumps(RIGHT | {"id": 0}), "line 2: meme 0 is there twice"),
    ],
)
def test_a_wrong_line_is_named(root, line, said):
    write(root / "train.jsonl", [RIGHT | {"id": 0}])
    with (root / "train.jsonl").open("a") as file:
        file.write(line + "\n")
    with pytest.raises(ValueError, match=said):
        load(root)


def test_a_file_without_memes_or_that_is_no_text_or_not_there_is_said(root):
    (root / "train.jsonl").write_text("\n")
    with pytest.raises(ValueError, match=r"train\.jsonl holds no meme\."):
        load(root)
    (root / "train.jsonl").write_bytes(b"\xff\xfe")
    with pytest.raises(ValueError, match="is not text in UTF-8"):
        load(root)
    (root / "train.jsonl").unlink()
    with pytest.raises(ValueError, match=r"holds no train\.jsonl .*: get it from https://hatefulmemes"):
        load(root)
    with pytest.raises(ValueError, match=r"none\.jsonl is missing"):
        read_memes(root / "none.jsonl")


def test_the_source_finds_what_is_there(root):
    found = check(HATEFUL_MEMES, root)
    assert found.complete
    assert len(found.findings[3].found) == 12


def test_without_pillow_it_is_said_what_to_install(root, monkeypatch):
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(ImportError, match=r'pip install "synib\[vision\]"'):
        read_picture(root / "img" / "00000.png")
