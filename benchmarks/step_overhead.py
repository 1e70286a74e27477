"""What a SynIB step costs, as a multiple of a vanilla step of the same model, measured in the same run.

Two models: a late-fusion MLP (encoders 32 → 1024 → 1024, a fusion head, no unimodal heads), and the paper's PID-XOR
network, which is that with unimodal heads 1024 → 1024 → 1. Batch 128; a step is forward, backward and a fused Adam
update. "naive" makes a full forward pass for the intact batch and for each counterfactual.

In every round all steps take turns and each is divided by that round's vanilla step, so that a slow moment of the
machine hits both; the table gives the median over rounds and its quartiles.

    python benchmarks/step_overhead.py [--rounds 15] [--device cpu] [--model PID-XOR] [--processor-time] [--out FILE.csv]

On a busy machine ``--processor-time`` with one thread (OMP_NUM_THREADS=1) counts what the process itself used.
"""

import argparse
import csv
import platform
import statistics
import time
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

import synib
from synib.methods import Vanilla
from synib.models import pid_xor_model
from synib.objective import Objective

BATCH, WIDTH = 128, 32
REPEATS = 5


Batch = Mapping[str, Tensor]
Step = Callable[[], None]


def naive(model: synib.FusionModel, batch: Batch, target: Tensor) -> Tensor:
    """SynIB as one would write it first: 1 + n forward passes through the whole model."""
    family = synib.Bernoulli()
    total = family.nll(model(batch), target).mean()
    for name, x in batch.items():
        corrupted = torch.where(torch.rand_like(x) < 0.5, torch.randn_like(x), x)
        prediction = model({**batch, name: corrupted})
        total = total + 10.0 * family.kl(prediction, torch.zeros_like(prediction[:1])).mean()
    return total


def steps(n: int, heads: bool, device: str) -> dict[str, Step]:
    """A training step of each kind, on models of equal shape."""
    names = [f"x{i + 1}" for i in range(n)]
    batch = {name: torch.randn(BATCH, WIDTH, device=device) for name in names}
    target = torch.randint(2, (BATCH,), device=device)
    family = synib.Bernoulli()
    filled: dict[str, Any] = {"noise": synib.StandardNoise(), "family": family, "weight": 10.0}
    swapped: dict[str, Any] = {"noise": synib.ShuffledNoise(), "family": family, "weight": 10.0, "draws": 16}

    def step(loss: Callable[[synib.FusionModel], Tensor]) -> Step:
        widths = dict.fromkeys(names, WIDTH)
        model = (
            pid_xor_model(widths) if heads else synib.FusionModel.mlp(widths, [1024, 1024], fusion_hidden=[128, 128])
        )
        model.to(device)
        optimiser = torch.optim.Adam(model.parameters(), lr=3e-5, fused=True)

        def run() -> None:
            optimiser.zero_grad(set_to_none=True)
            loss(model).backward()
            optimiser.step()

        return run

    def on_inputs(objective: Objective) -> Step:
        return step(lambda model: objective(model, batch, target)[0])

    def on_latents(objective: Objective) -> Step:
        return step(lambda model: objective(model.on_latents(), model.encode_all(batch), target)[0])

    kinds = {
        "vanilla": on_inputs(Vanilla(family)),
        "input masks": on_inputs(synib.SynIB(synib.RandomMask(0.5), **filled)),
        "latent masks": on_latents(synib.SynIB(synib.RandomMask(0.5), **filled)),
        "marginal, 16 draws": on_inputs(synib.SynIB(synib.RandomMask(1.0), **swapped)),
    }
    if heads:
        for inner in (4, 20):
            kinds[f"learned masks, {inner} steps"] = on_inputs(synib.SynIB(synib.LearnedMask(steps=inner), **filled))
    else:
        kinds["input masks, naive"] = step(lambda model: naive(model, batch, target))
    return kinds


def measure(
    runs: Mapping[str, Step], rounds: int, device: str, clock: Callable[[], float] = time.perf_counter
) -> dict[str, list[float]]:
    """Seconds of each step in each round, taking turns; two rounds to warm up.

    Each step is repeated five times, also a long one: its first repetition finds the caches filled by the other steps.
    """
    wait: Step = torch.cuda.synchronize if device.startswith("cuda") else lambda: None
    seconds: dict[str, list[float]] = {kind: [] for kind in runs}
    for turn in range(rounds + 2):
        for kind, run in runs.items():
            wait()
            start = clock()
            for _ in range(REPEATS):
                run()
            wait()
            if turn >= 2:
                seconds[kind].append((clock() - start) / REPEATS)
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--model", choices=("late fusion", "PID-XOR"), help="both by default")
    parser.add_argument("--processor-time", action="store_true", help="seconds of the processor, not of the clock")
    parser.add_argument("--out", help="also write the table there")
    options = parser.parse_args()
    torch.manual_seed(0)
    where = (
        torch.cuda.get_device_name() if options.device.startswith("cuda") else f"{torch.get_num_threads()} CPU threads"
    )
    clock = time.perf_counter
    if options.processor_time:
        clock, where = time.process_time, f"{where}, processor time"
    print(f"batch {BATCH}, torch {torch.__version__}, {platform.machine()}, {where}, {options.rounds} rounds")
    print(f"{'model':<14}{'n':>2}  {'step':<26}{'ms':>9}{'x vanilla':>11}  quartiles")
    rows = []
    for model, n, heads in (("late fusion", 2, False), ("late fusion", 3, False), ("PID-XOR", 2, True)):
        if options.model not in (None, model):
            continue
        seconds = measure(steps(n, heads, options.device), options.rounds, options.device, clock)
        for kind, values in seconds.items():
            low, middle, high = statistics.quantiles(
                [a / b for a, b in zip(values, seconds["vanilla"], strict=True)], n=4
            )
            milliseconds = 1e3 * statistics.median(values)
            print(f"{model:<14}{n:>2}  {kind:<26}{milliseconds:>9.2f}{middle:>11.2f}  {low:.2f}-{high:.2f}")
            rows.append({"model": model, "modalities": n, "step": kind, "milliseconds": round(milliseconds, 3),
                         "ratio": round(middle, 3), "low": round(low, 3), "high": round(high, 3),
                         "rounds": options.rounds, "device": where, "torch": torch.__version__})  # fmt: skip
    if options.out:
        with open(options.out, "w", newline="") as file:
            writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)


if __name__ == "__main__":
    main()
