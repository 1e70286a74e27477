"""Batched products of many models' weights with few examples on a GPU: with examples as rows, and as columns.

A linear layer of ``width`` units for each of ``models`` models, TensorFloat-32, forwards (inputs times weights) and backwards
(gradients times weights); whether both layouts give the same bits.

    python benchmarks/products_gpu.py [--models 693] [--width 1024] [--examples 128 256] [--out FILE.csv]
"""

import argparse
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from fleet_gpu import seconds, write
from torch import Tensor

from synib.training.device import device_name, matrix_products


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", type=int, default=693)
    parser.add_argument("--width", type=int, default=1024)
    parser.add_argument("--examples", type=int, nargs="+", default=[128, 256])
    parser.add_argument("--out", type=Path, default=Path("runs/products_gpu.csv"))
    options = parser.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    weight = torch.randn(options.models, options.width, options.width, device=device)
    rows: list[dict[str, Any]] = []
    with matrix_products("tf32" if device.type == "cuda" else "float32", device):
        for examples in options.examples:
            x = torch.randn(options.models, examples, options.width, device=device)
            columns = x.mT.contiguous()
            pairs: dict[str, tuple[Callable[[], Tensor], Callable[[], Tensor]]] = {
                "forwards": (partial(torch.matmul, x, weight.mT), partial(torch.matmul, weight, columns)),
                "backwards": (partial(torch.matmul, x, weight), partial(torch.matmul, weight.mT, columns)),
            }
            for name, (by_rows, by_columns) in pairs.items():
                equal = torch.equal(by_rows(), by_columns().mT)
                each = [1e3 * seconds(run, device, 10) for run in (by_rows, by_columns)]
                rows.append({"product": name, "examples": examples, "models": options.models, "width": options.width,
                             "rows_ms": each[0], "columns_ms": each[1], "equal": equal,
                             "device": device_name(str(device)), "torch": torch.__version__})  # fmt: skip
                print(
                    *(f"{k}={v:.4g}" if isinstance(v, float) else f"{k}={v}" for k, v in rows[-1].items()), flush=True
                )
    options.out.parent.mkdir(parents=True, exist_ok=True)
    write(options.out, rows)


if __name__ == "__main__":
    main()
