"""Models of raw rows, fitted once: texts with a table, images with sounds."""

import csv
import io

import numpy as np
import pytest
from PIL import Image

from synib.own.fit import fit
from synib.own.table import read

PRAISE = ("lovely", "awful")
SAID = "I wore it once {} and that is it, number {}"
WICKED = "<script>harm=1</script>"


def write(path, columns):
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))


def fitted(path, modalities, **options):
    table = read(path, modalities=modalities, target="label", **options)
    return fit(table, "vanilla", budget=1, epochs=30, device="cpu", columns=table.columns, baselines=False)


@pytest.fixture(scope="session")
def reviews(tmp_path_factory):
    """A text whose one word, and a table whose one column, decide the label together."""
    folder = tmp_path_factory.mktemp("reviews")
    rng = np.random.default_rng(0)
    bad, tops = rng.integers(2, size=(2, 120))
    texts = [SAID.format(PRAISE[b], i) for i, b in enumerate(bad)]
    texts[5] = f"{texts[5]} {WICKED}"
    departments = np.where(tops, "Tops", "Dresses").tolist()
    ages = (20 + rng.integers(50, size=120)).tolist()
    write(
        folder / "reviews.csv",
        {"review": texts, "age": ages, "department": departments, "label": (bad ^ tops).tolist()},
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SYNIB_CACHE", str(folder / "cache"))
        made = fitted(
            folder / "reviews.csv",
            {"text": "review:text", "person": "age,department:table"},
            encoders={"text": "tfidf"},
        )
        made.save(folder / "model")
        yield folder


@pytest.fixture(scope="session")
def media(tmp_path_factory):
    """A red or blue square somewhere in an image, and a high or low tone; one image is broken, one is missing."""
    import soundfile

    folder = tmp_path_factory.mktemp("media")
    rng = np.random.default_rng(0)
    red, low = rng.integers(2, size=(2, 120))
    time = np.arange(4000) / 8000
    for i in range(120):
        pixels = rng.integers(120, 140, (48, 64, 3)).astype(np.uint8)
        pixels[8:24, 8:24] = (230, 20, 20) if red[i] else (20, 20, 230)
        Image.fromarray(pixels).save(folder / f"{i}.png")
        wave = 0.3 * np.sin(2 * np.pi * (300 if low[i] else 1500) * time) + 0.01 * rng.normal(size=4000)
        file = io.BytesIO()
        soundfile.write(file, wave, 8000, format="WAV")
        (folder / f"{i}.wav").write_bytes(file.getvalue())
    (folder / "7.png").write_bytes(b"no image")
    columns = {
        "photo": [f"{i}.png" if i != 8 else "" for i in range(120)],
        "sound": [f"{i}.wav" for i in range(120)],
        "label": (red ^ low).tolist(),
    }
    write(folder / "metadata.csv", columns)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SYNIB_CACHE", str(folder / "cache"))
        made = fitted(folder, {"photo": "photo:image", "sound": "sound:audio"})
        made.save(folder / "model")
        yield folder
