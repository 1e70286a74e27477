"""How fast raw columns become vectors by the encoders that need no network, and how much memory that takes.

Texts of 12 and of 500 words and images of 224 x 224 (JPEG, as files in a folder) are made from a seed. Each case is read twice
in a process of its own: first nothing is cached, then everything is. `cpu_seconds` are those of all threads, whatever else the
machine does; `load` is how many processes wanted a core when the case began. Memory is the most that the process had above
what it had after importing everything, anonymous memory and mapped pages apart: what is mapped of the latents is theirs, and
the system takes it back when it needs it.

    python benchmarks/embed.py [--texts 20000] [--images 2000] [--million 1000000] [--long 20000] [--out FILE.csv]
"""

import argparse
import csv
import json
import os
import platform
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np

TEXT = (
    "the a soft shirt dress fits well awful cut fabric lovely colour size small large great poor value bought returned wore "
    "love hate summer winter sleeve button collar long short warm cold cheap dear light heavy day night work home"
)
WORDS = TEXT.split()


def write_texts(folder: Path, rows: int) -> Path:
    """A .csv of texts, ages and labels."""
    rng = np.random.default_rng(0)
    path = folder / "texts.csv"
    with path.open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(["text", "age", "label"])
        for start in range(0, rows, 10_000):
            count = min(10_000, rows - start)
            words, ages = rng.integers(len(WORDS), size=(count, 11)), rng.integers(18, 80, count)
            for i in range(count):
                text = " ".join(WORDS[k] for k in words[i])
                writer.writerow([f"{text} {start + i}", ages[i], (start + i) % 2])
    return path


def write_long_texts(folder: Path, rows: int) -> Path:
    """A .csv of texts of 500 words; of 50,000 words the k-th is drawn in proportion to 1 / k."""
    rng, chance = np.random.default_rng(0), 1 / np.arange(1, 50_001)
    path = folder / "long.csv"
    with path.open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(["text", "age", "label"])
        for i in range(rows):
            words = rng.choice(len(chance), 500, p=chance / chance.sum())
            writer.writerow([" ".join(f"w{k}" for k in words), 18 + i % 60, i % 2])
    return path


def write_images(folder: Path, rows: int) -> Path:
    """A folder with metadata.csv and JPEG files of smooth noise."""
    from PIL import Image

    rng = np.random.default_rng(0)
    with (folder / "metadata.csv").open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(["file_name", "age", "label"])
        for i in range(rows):
            small = Image.fromarray(rng.integers(0, 256, (14, 14, 3)).astype(np.uint8))
            small.resize((224, 224), Image.Resampling.BICUBIC).save(folder / f"{i}.jpg", quality=90)
            writer.writerow([f"{i}.jpg", rng.integers(18, 80), i % 2])
    return folder


def resident() -> tuple[float, float]:
    """Anonymous memory and mapped pages of this process, in GB."""
    lines = Path("/proc/self/status").read_text().splitlines()
    found = {line.split(":")[0]: int(line.split()[1]) * 1024 / 1e9 for line in lines if line.startswith("Rss")}
    return found["RssAnon"], found["RssFile"] + found["RssShmem"]


def measured(path: str, modalities: str) -> None:
    """In a process of its own: seconds and memory of reading."""
    import scipy.sparse  # noqa: F401

    from synib.own.table import read

    before, most, going = resident(), (0.0, 0.0), True

    def watch() -> None:
        nonlocal most
        while going:
            now = resident()
            most = max(most[0], now[0]), max(most[1], now[1])
            time.sleep(0.02)

    watcher = threading.Thread(target=watch)
    watcher.start()
    start, cpu = time.perf_counter(), time.process_time()
    try:
        table = read(path, modalities=json.loads(modalities))
    finally:
        seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
        going = False
        watcher.join()
    size = sum(x.size * 4 for x in table.modalities.values()) / 1e9
    result = {"seconds": round(seconds, 2), "cpu_seconds": round(cpu, 2), "latents_gb": round(size, 4)}
    result |= {"anonymous_gb": round(most[0] - before[0], 3), "mapped_gb": round(most[1] - before[1], 3)}
    print(json.dumps(result))


def case(
    name: str, encoder: str, path: Path, rows: int, modalities: dict[str, str], cache: Path
) -> list[dict[str, Any]]:
    """Read a file twice: what it takes without and with the cache."""
    lines = []
    for cached in (False, True):
        load = round(os.getloadavg()[0], 1)
        done = subprocess.run(
            [sys.executable, __file__, "--measure", str(path), json.dumps(modalities)],
            capture_output=True,
            text=True,
            check=True,
            env=os.environ | {"SYNIB_CACHE": str(cache)},
        )
        found = json.loads(done.stdout)
        line = {"case": name, "encoder": encoder, "rows": rows, "cached": cached} | found
        line |= {
            "rows_per_second": round(rows / found["seconds"]),
            "cpus": os.cpu_count(),
            "load": load,
            "machine": platform.machine(),
        }
        lines.append(line)
        print(", ".join(f"{key} {value}" for key, value in line.items()))
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--texts", type=int, default=20_000)
    parser.add_argument("--images", type=int, default=2_000)
    parser.add_argument("--million", type=int, default=1_000_000)
    parser.add_argument("--long", type=int, default=20_000)
    parser.add_argument("--out", help="write the rows there")
    parser.add_argument("--measure", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        measured(*options.measure)
        return
    lines: list[dict[str, Any]] = []
    both = {"text": "text:text", "age": "age:table"}
    cases = (
        ("texts", "wordllama and tfidf", options.texts),
        ("images", "pixels", options.images),
        ("texts", "wordllama and tfidf", options.million),
        ("long texts", "wordllama and tfidf", options.long),
    )
    for name, encoder, rows in cases:
        if not rows:
            continue
        with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as cache:
            if name != "images":
                write = write_texts if name == "texts" else write_long_texts
                lines += case(name, encoder, write(Path(folder), rows), rows, both, Path(cache))
            else:
                images = {"image": "file_name:image", "age": "age:table"}
                lines += case(name, encoder, write_images(Path(folder), rows), rows, images, Path(cache))
    if options.out:
        with open(options.out, "w", newline="") as stream:
            writer = csv.DictWriter(stream, list(lines[0]), lineterminator="\n")
            writer.writeheader()
            writer.writerows(lines)


if __name__ == "__main__":
    main()
