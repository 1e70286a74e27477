"""How reliably the vision-language notebook shows what it shows: its own code, with other data and weights for each seed.

The seeds' data and models are not those of the notebook. One CPU thread; each finished model is one row of the CSV at once.
"""

import argparse
import runpy
import tempfile
import time
from pathlib import Path
from typing import Any

import nbformat
import torch

import synib
from synib.files import read_csv, write_csv

NOTEBOOK = Path(__file__).parent.parent / "docs" / "gallery" / "vision-language.ipynb"
METHODS: dict[str, dict[str, Any] | None] = {"plain": None, "SynIB": {"weight": 3.0, "draws": 4}}  # as in the notebook


def definitions() -> dict[str, Any]:
    """The names that the notebook's cells define, up to the first that trains."""
    cells = []
    for cell in nbformat.read(NOTEBOOK, as_version=4).cells:  # type: ignore[no-untyped-call]
        if cell.source.startswith("scores"):
            break
        if cell.cell_type == "code" and not any(word in cell.source for word in ("objectives", "operations")):
            cells.append(cell.source)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "vision_language_notebook.py"
        path.write_text("\n\n".join(cells))
        return runpy.run_path(str(path))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=12)
    parser.add_argument("--first", type=int, default=1, help="The first seed; 0 is the notebook's.")
    parser.add_argument("--out", type=Path, default=Path("docs/results/benchmarks/vision_language.csv"))
    args = parser.parse_args()
    torch.set_num_threads(1)
    notebook = definitions()
    rows = read_csv(args.out) if args.out.exists() else []
    done = {(row["method"], row["seed"]) for row in rows}
    for seed in range(args.first, args.first + args.seeds):
        training = notebook["make_data"](1024, seed=1000 + 2 * seed, flaw=True)
        test = notebook["make_data"](1000, seed=1001 + 2 * seed, flaw=False)
        for method, settings in METHODS.items():
            if (method, seed) in done:
                continue
            start = time.process_time()
            objective = None if settings is None else synib.SynIB(**settings)
            model, penalties = notebook["train_model"](training, objective, seed=seed)
            last = penalties[-32:].mean().item() if len(penalties) else None  # of the last epoch
            first = penalties[:32].max().item() if len(penalties) else None  # the highest of the first epoch
            rows.append(
                {
                    "method": method,
                    "seed": seed,
                    "training_accuracy": round(notebook["accuracy"](model, training), 4),
                    "test_accuracy": round(notebook["accuracy"](model, test), 4),
                    "highest_penalty_first_epoch": first,
                    "mean_penalty_last_epoch": last,
                    "cpu_seconds": round(time.process_time() - start, 1),
                    "torch": torch.__version__,
                }
            )
            write_csv(args.out, rows)
            print(rows[-1], flush=True)


if __name__ == "__main__":
    main()
