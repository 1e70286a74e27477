"""Small real files of each kind, whose label is an XOR of what two modalities show."""

import csv
import io
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image

SENTENCES = {
    0: (
        "the dress is lovely and fits so well",
        "what a wonderful soft shirt to wear",
        "great quality and a perfect colour",
    ),
    1: (
        "this was awful and fell apart at once",
        "terrible fabric and a horrible cut",
        "poor sewing and very disappointing",
    ),
}


def picture(red: bool, seed: int = 0, size: tuple[int, int] = (24, 32)) -> Image.Image:
    pixels = np.random.default_rng(seed).integers(20, 60, (*size, 3)).astype(np.uint8)
    pixels[:, :, 0 if red else 2] += 150
    return Image.fromarray(pixels)


def png(red: bool = True, seed: int = 0, size: tuple[int, int] = (24, 32)) -> bytes:
    file = io.BytesIO()
    picture(red, seed, size).save(file, "PNG")
    return file.getvalue()


def wav(low: bool = True, seed: int = 0, seconds: float = 0.3, rate: int = 8000) -> bytes:
    import soundfile

    time = np.arange(round(seconds * rate)) / rate
    wave = 0.3 * np.sin(2 * np.pi * (300 if low else 1500) * time) + 0.02 * np.random.default_rng(seed).normal(
        size=len(time)
    )
    file = io.BytesIO()
    soundfile.write(file, wave, rate, format="WAV")
    return file.getvalue()


def write_csv(path, columns):
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))
    return path


def reviews(n=40, seed=0):
    """A text that praises or not, an age and a department; the label is the XOR of praise and department."""
    rng = np.random.default_rng(seed)
    bad, in_tops = rng.integers(2, size=(2, n))
    texts = [f"{SENTENCES[int(b)][i % 3]}, number {i}" for i, b in enumerate(bad)]
    return {
        "review": texts,
        "age": (20 + rng.integers(50, size=n)).tolist(),
        "department": np.where(in_tops, "Tops", "Dresses").tolist(),
        "label": (bad ^ in_tops).tolist(),
    }


@pytest.fixture(scope="session")
def make():
    """What makes small files."""
    return SimpleNamespace(picture=picture, png=png, wav=wav, csv=write_csv, reviews=reviews)


@pytest.fixture
def reviews_csv(tmp_path):
    return write_csv(tmp_path / "reviews.csv", reviews())


@pytest.fixture
def media(tmp_path):
    """A folder with ``metadata.csv``, images and sounds."""
    folder = tmp_path / "media"
    (folder / "files").mkdir(parents=True)
    rng = np.random.default_rng(0)
    red, low = rng.integers(2, size=(2, 24))
    for i in range(24):
        (folder / f"files/{i}.png").write_bytes(png(bool(red[i]), i))
        (folder / f"files/{i}.wav").write_bytes(wav(bool(low[i]), i))
    columns = {
        "file_name": [f"files/{i}.png" for i in range(24)],
        "sound": [f"files/{i}.wav" for i in range(24)],
        "label": (red ^ low).tolist(),
    }
    write_csv(folder / "metadata.csv", columns)
    return folder
