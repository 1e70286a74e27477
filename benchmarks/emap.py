"""How long EMAP takes on all pairs of examples: latents encoded once, against the same model as a plain callable.

Three FusionModels of two modalities: a small one (encoders 32 → 256 → 256, fusion 32), one with a wider fusion head
(128, 128), and the paper's PID-XOR network. With the latents kept, a pair costs only what follows the first layer of the
fusion. The plain callable runs the whole model on every pair, so it is timed on fewer examples (``--plain``), where both
take turns; the table gives the median ratio over rounds, then the seconds of all ``--examples`` with the latents kept.

    python benchmarks/emap.py [--examples 2000] [--plain 200] [--rounds 3] [--out docs/results/benchmarks/emap.csv]
"""

import argparse
import csv
import platform
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

import synib
from synib.measure.emap import emap
from synib.models import pid_xor_model

WIDTHS = {"x1": 32, "x2": 32}


def models() -> dict[str, synib.FusionModel]:
    return {
        "small": synib.FusionModel.mlp(WIDTHS, [256, 256], fusion_hidden=[32]),
        "wide head": synib.FusionModel.mlp(WIDTHS, [256, 256], fusion_hidden=[128, 128]),
        "PID-XOR": pid_xor_model(WIDTHS),
    }


def seconds(run: Callable[[], object]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--examples", type=int, default=2000)
    parser.add_argument("--plain", type=int, default=200, help="examples on which the plain callable is timed")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, help="of torch; default: all")
    parser.add_argument("--out", type=Path, help="also write the table there")
    options = parser.parse_args()
    if options.threads:
        torch.set_num_threads(options.threads)
    torch.manual_seed(0)
    hardware = f"{platform.machine()}, {torch.get_num_threads()} CPU threads, torch {torch.__version__}"
    print(hardware)
    columns = [f"plain, {options.plain}", f"kept, {options.plain}", "ratio", f"kept, {options.examples}"]
    print(f"{'model':<12}{columns[0]:>14}{columns[1]:>14}{columns[2]:>8}{columns[3]:>14}")
    rows: list[dict[str, Any]] = []
    for name, model in models().items():
        model.eval()

        def plain(x: Any, model: synib.FusionModel = model) -> torch.Tensor:
            return model(x)

        def timed(predict: Any, n: int) -> float:
            x = {m: torch.randn(n, width) for m, width in WIDTHS.items()}
            target = torch.arange(n) % 2
            return seconds(lambda: emap(predict, x, target, synib.Bernoulli()))

        timed(model, 50)
        rounds = [(timed(plain, options.plain), timed(model, options.plain)) for _ in range(options.rounds)]
        slow, fast = (statistics.median(column) for column in zip(*rounds, strict=True))
        ratio = statistics.median(a / b for a, b in rounds)
        whole = statistics.median(timed(model, options.examples) for _ in range(options.rounds))
        print(f"{name:<12}{slow:>12.2f} s{fast:>12.3f} s{ratio:>8.1f}{whole:>12.2f} s")
        rows.append({"model": name, "examples_plain": options.plain, "plain_seconds": round(slow, 3),
                     "kept_seconds": round(fast, 4), "ratio": round(ratio, 2), "examples": options.examples,
                     "kept_all_seconds": round(whole, 3), "rounds": options.rounds, "hardware": hardware})  # fmt: skip
    if options.out:
        with options.out.open("w", newline="") as file:
            writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)


if __name__ == "__main__":
    main()
