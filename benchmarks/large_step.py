"""What a SynIB step costs on a large model, as a multiple of a vanilla step, measured in the same run.

The model is that of Hateful Memes with random weights: CLIP ViT-B/16 and DeBERTa-v3-base, a fusion transformer of 2 layers over
all their tokens. Batch 32, 64 words, bfloat16 autocast on a GPU; a step is forward, backward and a fused Adam update of what
trains. Encoders are fine-tuned, frozen (they run forward in every step), or cached (their latents were computed before).
"synib" masks latents: encoders run once, the fusion sees intact and corrupted rows in one batch. It replaces each coordinate
with probability 1/2 by a normal draw; "synib, swapped" takes the whole modality of another example, and draws hardly anything.
"synib, 1 + n passes" is SynIB as one would write it first: the whole model again for every counterfactual. A small step takes
as long as the host needs to launch its kernels; with --compile all that lies behind the encoders (masks, fusion, heads, loss
and gradients) is one compiled graph, for vanilla fusion and SynIB alike: `torch.compile(objective, mode="reduce-overhead")`.

In every round all steps take turns and each is divided by that round's vanilla step of the same encoders, so that a slow moment
of the machine hits both; the table gives medians over rounds and quartiles. "x uncached" is the time of the same step with
frozen encoders over the time here: how much faster cached latents are. Batches lie on the device; the last rows say what it
takes to get one there from memory (inputs) or a memory-mapped file (latents), which a thread can do while the device computes.

    python benchmarks/large_step.py [--device cuda] [--rounds 20] [--out FILE.csv]
    python benchmarks/large_step.py --small        (a tiny model on the CPU, to see that it runs)
"""

import argparse
import csv
import gc
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

import synib
from synib.data import Dataset, Split
from synib.methods import Vanilla
from synib.models import cache_features, memes_model
from synib.objective import Objective
from synib.tokens import Modality, move, take

Batch = Mapping[str, Modality]
Step = Callable[[], None]
SMALL: dict[str, dict[str, Any]] = {
    "vision": {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "image_size": 32},
    "text": {"vocab_size": 100, "hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2},
    "fusion": {"width": 16, "heads": 2},
}  # fmt: skip


def memes(tune: Any, small: bool) -> synib.FusionModel:
    sizes = SMALL if small else {"vision": {}, "text": {}, "fusion": {}}
    return memes_model(sizes["vision"], sizes["text"], tune=tune, **sizes["fusion"])


def examples(n: int, words: int, small: bool) -> Split:
    """Random pictures as bytes, random texts of a third to all of the words, and labels."""
    size, vocabulary = (32, 100) if small else (224, 128_000)
    image = torch.randint(0, 256, (n, 3, size, size), dtype=torch.uint8)
    text = torch.randint(1, vocabulary, (n, words))
    text[torch.arange(words) >= torch.randint(max(1, words // 3), words + 1, (n, 1))] = 0
    return Split({"image": image, "text": text}, torch.randint(2, (n,)))


def naive(model: synib.FusionModel, batch: Batch, target: Tensor) -> Tensor:
    """SynIB on latents as one would write it first: 1 + n forward passes through the whole model."""
    family, noise = synib.Categorical(), synib.StandardNoise()
    latents = model.encode_all(batch)
    prediction = model.on_latents()(latents)
    total = family.nll(prediction, target).mean()
    for name, z in latents.items():
        total = total + family.nll(model.head(name, z), target).mean()
    for name in batch:
        latents = model.encode_all(batch)
        z = latents[name].values
        mask = torch.rand_like(z) < 0.5
        latents[name] = noise.corrupt(latents[name], mask, synib.keys.fresh(), name)
        uncertain = model.on_latents()(latents)
        total = total + family.kl(uncertain, torch.zeros_like(uncertain[:1])).mean()
    return total


def steps(model: synib.FusionModel, batch: Batch, target: Tensor, device: str, compiled: str | None) -> dict[str, Step]:
    """A training step of each kind; they share the model, so that its memory is paid once."""
    forms = {
        "synib": synib.SynIB(synib.RandomMask(0.5), synib.StandardNoise(), weight=1.0),
        "synib, swapped": synib.SynIB(synib.RandomMask(1.0), synib.ShuffledNoise(), weight=1.0),
    }
    objectives: dict[str, Objective] = {"vanilla": Vanilla()}
    # Compiled, latents are what is given.
    objectives |= {name: form if compiled else synib.OnLatents(form) for name, form in forms.items()}
    trained = [p for p in model.parameters() if p.requires_grad]
    optimiser = torch.optim.Adam(trained, lr=1e-5, fused=True)
    kind = torch.device(device).type

    def step(loss: Callable[[], Tensor]) -> Step:
        def run() -> None:
            optimiser.zero_grad(set_to_none=True)
            with torch.autocast(kind, torch.bfloat16):
                total = loss()
            total.backward()
            optimiser.step()

        return run

    def loss(objective: Objective) -> Callable[[], Tensor]:
        if not compiled:
            return lambda: objective(model, batch, target)[0]
        mode = "reduce-overhead" if kind == "cuda" and compiled == "inductor" else None
        graph = torch.compile(objective, dynamic=False, fullgraph=True, backend=compiled, mode=mode)
        objective.to(device)  # a weight that lies on the host keeps the graph from being recorded
        behind = model.on_latents()
        return lambda: graph(behind, model.encode_all(batch), target)[0]

    steps = {name: step(loss(objective)) for name, objective in objectives.items()}
    return steps if compiled else steps | {"synib, 1 + n passes": step(lambda: naive(model, batch, target))}


def measure(runs: Mapping[str, Step], rounds: int, device: str, repeats: int) -> dict[str, list[float]]:
    """Milliseconds of each step in each round, taking turns; three rounds to warm up."""
    wait: Step = torch.cuda.synchronize if device.startswith("cuda") else lambda: None
    times: dict[str, list[float]] = {kind: [] for kind in runs}
    for turn in range(rounds + 3):
        for kind, run in runs.items():
            wait()
            start = time.perf_counter()
            for _ in range(repeats):
                run()
            wait()
            if not turn and time.perf_counter() - start > 10:
                print(
                    f"({kind}: {time.perf_counter() - start:.0f} s to compile and start)", file=sys.stderr, flush=True
                )
            if turn >= 3:
                times[kind].append(1e3 * (time.perf_counter() - start) / repeats)
    return times


def fetch(split: Split, batch: int, device: str) -> Step:
    """Random rows of a split, from where they lie to the device."""

    def run() -> None:
        rows = torch.randperm(len(split))[:batch]
        for x in split.modalities.values():
            move(take(x, rows), device)

    return run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default=None, help="cuda by default, cpu with --small")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--repeats", type=int, default=3, help="steps of each kind in a round")
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--words", type=int, default=64)
    parser.add_argument("--small", action="store_true", help="a tiny model, to see that it runs")
    parser.add_argument(
        "--compile",
        nargs="?",
        const="inductor",
        choices=("inductor", "cudagraphs", "aot_eager"),
        help="compile what lies behind the encoders: inductor writes kernels, cudagraphs only records those there are",
    )
    parser.add_argument("--only", action="append", help="only these encoders: full, lora or frozen (with cached)")
    parser.add_argument("--out", help="also write the table there")
    options = parser.parse_args()
    device = options.device or ("cpu" if options.small else "cuda")
    if device.startswith("cuda") and not torch.cuda.is_available():
        parser.error("there is no GPU here: --small runs a tiny model on the CPU.")
    if options.rounds < 2:
        parser.error("quartiles need --rounds of at least 2.")
    torch.manual_seed(0)
    where = torch.cuda.get_device_name() if device.startswith("cuda") else f"{torch.get_num_threads()} CPU threads"
    import transformers

    sizes = "a tiny model" if options.small else "CLIP ViT-B/16 + DeBERTa-v3-base"
    versions = f"torch {torch.__version__}, transformers {transformers.__version__}"
    print(f"{sizes}, batch {options.batch}, {options.words} words; {versions}; {where}, {options.rounds} rounds")
    print(f"{'encoders':<12}{'step':<22}{'ms':>9}{'x vanilla':>11}  {'quartiles':<11}{'x uncached':>11}{'GiB':>7}")
    split = examples(4 * options.batch, options.words, options.small)
    target = split.target[: options.batch].to(device)
    rows: list[dict[str, Any]] = []
    uncached: dict[str, float] = {}

    def report(encoders: str, runs: Mapping[str, Step]) -> None:
        if device.startswith("cuda"):
            torch.cuda.reset_peak_memory_stats()
        times = measure(runs, options.rounds, device, options.repeats)
        memory = torch.cuda.max_memory_allocated() / 2**30 if device.startswith("cuda") else 0.0
        for kind, ms in times.items():
            of_vanilla = [1.0] * len(ms)
            if "vanilla" in times:  # fetching a batch is no step, and has none to compare with
                of_vanilla = [a / b for a, b in zip(ms, times["vanilla"], strict=True)]
            low, middle, high = (round(q, 4) for q in statistics.quantiles(of_vanilla, n=4))
            median = statistics.median(ms)
            if encoders == "frozen":
                uncached[kind] = median
            faster = uncached[kind] / median if encoders in ("frozen", "cached") and kind in uncached else None
            compared = f"{middle:>11.3f}  {f'{low:.2f}-{high:.2f}':<11}" if "vanilla" in times else " " * 24
            print(
                f"{encoders:<12}{kind:<22}{median:>9.2f}{compared}{'' if faster is None else f'{faster:.2f}':>11}{memory:>7.1f}"
            )
            rows.append({"encoders": encoders, "step": kind, "milliseconds": round(median, 3), "ratio": middle,
                         "low": low, "high": high,
                         "times_faster_than_uncached": "" if faster is None else round(faster, 3), "batch": options.batch,
                         "words": options.words, "compiled": options.compile or "no",
                         "peak_gib": round(memory, 2), "rounds": options.rounds, "device": where,
                         "torch": torch.__version__, "transformers": transformers.__version__})  # fmt: skip

    batch = {name: move(take(x, slice(options.batch)), device) for name, x in split.modalities.items()}
    for tune, called in (("full", "fine-tuned"), ("lora", "LoRA"), ("frozen", "frozen")):
        if options.only and tune not in options.only:
            continue
        model = memes(tune, options.small).to(device).train()
        report(called, steps(model, batch, target, device, options.compile))
        if tune != "frozen":
            del model
            gc.collect()
            if device.startswith("cuda"):
                torch.cuda.empty_cache()
    if options.only and "frozen" not in options.only:
        parser.error("cached latents are those of frozen encoders: give --only frozen too.")
    with tempfile.TemporaryDirectory() as folder:
        cached, behind = cache_features(model, Dataset(split, split, None), folder, options.batch, device)
        latents = {name: move(take(x, slice(options.batch)), device) for name, x in cached.train.modalities.items()}
        report("cached", steps(behind, latents, target, device, options.compile))
        report(
            "(to fetch)",
            {"inputs": fetch(split, options.batch, device), "latents": fetch(cached.train, options.batch, device)},
        )
    if options.out:
        with open(options.out, "w", newline="") as file:
            writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)


if __name__ == "__main__":
    main()
