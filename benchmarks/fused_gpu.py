"""What fused operations save in a recorded step of the fleet on a GPU, in one run.

Adam in one kernel for each large parameter, bias, ReLU and dropout in one kernel (``src/synib/fused``), and the search of
learned masks with examples as columns: each step without and with them, in turns; whether all parameters are equal
afterwards; the share of the card's copy bandwidth on the bytes that no implementation could avoid, as in ``fleet_gpu.py``.

    python benchmarks/fused_gpu.py [--models 693 64] [--out FILE.csv]
"""

import argparse
import contextlib
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from fleet_gpu import ADAM, LOOP, Steps, ceilings, seconds, write

from synib.fused import adam
from synib.fused import device as kernels
from synib.studies import PIDSimplex
from synib.studies.pid_xor.learned_masks import VARIANTS
from synib.training.cells import Cell
from synib.training.device import device_name, matrix_products, release

METHODS = ("vanilla", "synib-oracle", "synib-random", "synib-learned")


@contextlib.contextmanager
def several_kernels() -> Iterator[None]:
    """Context in which torch's operations are used instead."""
    before = dict(kernels._usable)
    index = torch.cuda.current_device() if torch.cuda.is_available() else None
    kernels._usable.update({(name, index): False for name in ("synib::adam", "synib::relu_dropout")})
    try:
        yield
    finally:
        kernels._usable.clear()
        kernels._usable.update(before)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", type=int, nargs="+", default=[693, 64, 8])
    parser.add_argument("--width", type=int, default=1024, help="of the network")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--out", type=Path, default=Path("runs/fused_gpu.csv"))
    options = parser.parse_args()
    device = torch.device("cuda", torch.cuda.current_device()) if torch.cuda.is_available() else torch.device("cpu")
    precision: Any = "tf32" if device.type == "cuda" else "float32"
    where = {"device": device_name(str(device)), "torch": torch.__version__}
    _, best = ceilings(device, precision, 8192 if device.type == "cuda" else 256)
    print(f"{where['device']}, torch {where['torch']}, copy {best / 1e12:.2f} TB/s", flush=True)
    experiment = PIDSimplex(methods=METHODS, width=options.width)
    cells = {method: next(c for c in experiment.cells() if c.method == method) for method in METHODS}
    learned = cells["synib-learned"]
    settings = {**learned.settings, **VARIANTS["20 steps"][1]}
    cells[LOOP] = Cell(learned.experiment, learned.method, learned.factors, settings)
    rows: list[dict[str, Any]] = []
    for models in options.models:
        for name, cell in cells.items():
            found: dict[str, tuple[float, list[torch.Tensor]]] = {}
            for how in ("several kernels", "fused"):
                release(device)
                with several_kernels() if how == "several kernels" else contextlib.nullcontext():
                    start = time.perf_counter()
                    many = Steps(experiment, cell, models, device)
                    with matrix_products(precision, device):
                        many.run()  # the second step of it is recorded
                        each = min(seconds(many.run, device, 2) / 4 for _ in range(options.rounds))
                some = [p[-2:].cpu().clone() for p in many.fleet.parameters.values()]
                found[how] = each, some
                moved = many.parameters() * (3 * 4 + ADAM) * models / each
                pairs = list(zip(some, found["several kernels"][1], strict=True))
                rows.append({"method": name, "models": models, "how": how, "ms_per_step": 1e3 * each,
                             "faster": found["several kernels"][0] / each, "tbytes": moved / 1e12, "of_copy": moved / best,
                             "adam_kernels": len(many.fleet.optimiser.large),
                             "equal": all(torch.equal(a, b) for a, b in pairs),
                             "largest_difference": max(float((a - b).abs().max()) for a, b in pairs), **where})  # fmt: skip
                row = {k: f"{v:.4g}" if isinstance(v, float) else v for k, v in rows[-1].items() if k not in where}
                print(*(f"{k}={v}" for k, v in row.items()), f"({time.perf_counter() - start:.1f} s)", flush=True)
                del many
            options.out.parent.mkdir(parents=True, exist_ok=True)
            write(options.out, rows)
    print(kernels._usable, adam.LARGE)


if __name__ == "__main__":
    main()
