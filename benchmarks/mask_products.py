"""How much of a step with learned masks is matrix products, and whether another form of these products is faster.

The network is that of PID-XOR, batch 128. One inner step of the search needs, for each of two modalities, a forward and a
backward product of 128 x 1024 x 1024 in the encoder and in the head: 32 products in four steps. Nothing can be left out: the
noise and the gates, and with them all activations, are new in every step.

First, in turns and in processor time, a vanilla step, a step without a search ("input masks"), a step with a search, and the
bare products of the search. The sum of the second and the last is the least that a step with a search can cost with
products of this kind. Then, in turns too, one product in several forms, and whether it has the same digits.

    OMP_NUM_THREADS=1 python benchmarks/mask_products.py [--rounds 15] [--out FILE.csv]
"""

import argparse
import csv
import platform
import statistics
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import torch
from step_overhead import BATCH, measure, steps
from torch import Tensor

WIDTH, INNER = 1024, 4
REPEATS = 6  # of a product in each round

Product = Callable[[], Tensor]


def padded(x: Tensor, by: int = 16) -> Tensor:
    """A copy whose rows are not a power of two apart."""
    wider = x.new_zeros(x.shape[0], x.shape[1] + by)[:, : x.shape[1]]
    return wider.copy_(x)


def search_products() -> Callable[[], None]:
    """The large products of a search, on weights of two modalities."""
    weights = [torch.randn(WIDTH, WIDTH) / WIDTH**0.5 for _ in range(4)]
    bias, h = torch.randn(WIDTH), torch.randn(BATCH, WIDTH).relu()
    first, second = torch.empty(2, BATCH, WIDTH)

    def run() -> None:
        with torch.no_grad():
            for encoder, head in (weights[:2], weights[2:]):
                for _ in range(INNER):
                    torch.addmm(bias, h, encoder.t(), out=first)
                    torch.addmm(bias, h, head.t(), out=second)
                    torch.mm(h, head, out=first)
                    torch.mm(h, encoder, out=second)

    return run


def forms() -> dict[str, tuple[Product, Product, int]]:
    """Name → a form of a product, the usual product, and how many products it is."""
    weight, bias = torch.randn(WIDTH, WIDTH) / WIDTH**0.5, torch.randn(WIDTH)
    h, many = torch.randn(BATCH, WIDTH).relu(), torch.randn(2 * BATCH, WIDTH).relu()
    two_h, two_weights, two_biases = (torch.randn(2, *shape) for shape in ((BATCH, WIDTH), (WIDTH, WIDTH), (1, WIDTH)))
    turned, wide_h, wide_weight = weight.t().contiguous(), padded(h), padded(weight)
    out, wide_out, two_out = torch.empty(BATCH, WIDTH), padded(torch.empty(BATCH, WIDTH)), torch.empty_like(two_h)
    many_out = torch.empty_like(many)

    def forward() -> Tensor:
        return torch.addmm(bias, h, weight.t(), out=out)

    def backward() -> Tensor:
        return torch.mm(h, weight, out=out)

    def forward_each() -> Tensor:
        return torch.stack([torch.addmm(b, x, w.t()) for b, x, w in zip(two_biases, two_h, two_weights, strict=True)])

    def forward_halves() -> Tensor:
        return torch.cat([torch.addmm(bias, half, weight.t()) for half in many.split(BATCH)])

    return {
        "forward": (forward, forward, 1),
        "forward, padded activations": (lambda: torch.addmm(bias, wide_h, weight.t(), out=wide_out), forward, 1),
        "forward, padded weights too": (lambda: torch.addmm(bias, wide_h, wide_weight.t(), out=wide_out), forward, 1),
        "forward, weights stored in columns": (lambda: torch.addmm(bias, h, turned, out=out), forward, 1),
        "forward, both modalities in one call": (
            lambda: torch.baddbmm(two_biases, two_h, two_weights.mT, out=two_out), forward_each, 2),
        "forward, 256 rows in one call": (lambda: torch.addmm(bias, many, weight.t(), out=many_out), forward_halves, 2),
        "backward": (backward, backward, 1),
        "backward, padded activations": (lambda: torch.mm(wide_h, weight, out=wide_out), backward, 1),
        "backward, padded weights too": (lambda: torch.mm(wide_h, wide_weight, out=wide_out), backward, 1),
    }  # fmt: skip


def in_turns(products: Mapping[str, tuple[Product, Product, int]], rounds: int) -> dict[str, list[float]]:
    """Processor seconds of one product in each form and round."""
    seconds: dict[str, list[float]] = {name: [] for name in products}
    with torch.no_grad():
        for _ in range(rounds):
            for name, (product, _, count) in products.items():
                product()
                start = time.process_time()
                for _ in range(REPEATS):
                    product()
                seconds[name].append((time.process_time() - start) / REPEATS / count)
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--out", type=Path, help="also write the table there")
    options = parser.parse_args()
    torch.manual_seed(0)
    every = steps(2, True, "cpu")
    learned, products = f"learned masks, {INNER} steps", f"products of {INNER} inner steps"
    kinds = {kind: every[kind] for kind in ("vanilla", "input masks", learned)} | {products: search_products()}
    seconds = measure(kinds, options.rounds, "cpu", time.process_time)
    least = f"input masks + {products}"
    seconds[least] = [a + b for a, b in zip(seconds["input masks"], seconds[products], strict=True)]
    rows: list[dict[str, object]] = []

    def add(what: str, values: list[float], relative_to: list[float], same: bool | str = "") -> None:
        low, ratio, high = statistics.quantiles([a / b for a, b in zip(values, relative_to, strict=True)], n=4)
        row = {"what": what, "milliseconds": round(1e3 * statistics.median(values), 3), "ratio": round(ratio, 3),
               "low": round(low, 3), "high": round(high, 3), "same_digits": same, "rounds": options.rounds,
               "device": f"{torch.get_num_threads()} CPU threads of {platform.machine()}, processor time",
               "torch": torch.__version__}  # fmt: skip
        rows.append(row)
        print(f"{what:<48}{row['milliseconds']:>9}{row['ratio']:>8}  {row['low']}-{row['high']}  {same}")

    for kind, values in seconds.items():
        add(kind, values, seconds["vanilla"])
    products_by_form = forms()
    of_form = in_turns(products_by_form, options.rounds)
    for name, (product, usual, _) in products_by_form.items():
        expected = usual().clone()
        add(name, of_form[name], of_form[name.partition(",")[0]], torch.equal(product(), expected))
    if options.out:
        with options.out.open("w", newline="") as file:
            writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)


if __name__ == "__main__":
    main()
