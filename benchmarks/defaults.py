"""What `synib.SynIB(steps=...)` gives in an ordinary loop, beside other settings, on small data that nobody tuned on.

The label is the XOR of two signs, one in each modality; in nine of ten training examples the first modality also shows the
label (a shortcut). Test examples have no shortcut, so that chance is 0.5. The ceiling is plain fusion trained on as many
examples without a shortcut.

    python benchmarks/defaults.py [--seeds 5] [--workers 2] --out docs/results/benchmarks/defaults.csv
"""

import argparse
import csv
import multiprocessing
import statistics
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor, nn

import synib

ROWS, BATCH, EPOCHS = 2000, 100, 50
STEPS = ROWS // BATCH * EPOCHS
FALL = 4 * STEPS // 5
Rows = tuple[dict[str, Tensor], Tensor]
OBJECTIVES: dict[str, Callable[[], synib.objective.Objective]] = {
    "plain fusion": lambda: synib.Vanilla(),
    "confidence penalty, annealed from 3": lambda: synib.Confidence(weight=synib.Annealing(3.0, FALL)),
    "SynIB(steps=...)": lambda: synib.SynIB(steps=STEPS),
    "SynIB(steps=..., draws=16)": lambda: synib.SynIB(steps=STEPS, draws=16),
    "SynIB(LearnedMask(4, 0.5, 0.01), steps=...)": lambda: synib.SynIB(synib.LearnedMask(4, 0.5, 0.01), steps=STEPS),
    "SynIB(steps=..., weight=3)": lambda: synib.SynIB(steps=STEPS, weight=3.0),
    "SynIB()": lambda: synib.SynIB(),
    "SynIB(draws=1)": lambda: synib.SynIB(draws=1),
}
KINDS: dict[str, list[int] | None] = {
    "FusionModel with heads": [],
    "FusionModel without heads": None,
    "plain function": None,
}  # head_hidden

CEILING = "ceiling: plain fusion without shortcuts"


def rows(count: int, shortcut: float, generator: torch.Generator) -> Rows:
    """Examples of which this share has the shortcut."""
    x = {name: torch.randn(count, 8, generator=generator) for name in ("image", "text")}
    label = ((x["image"][:, 0] > 0) ^ (x["text"][:, 0] > 0)).long()
    shown = torch.rand(count, generator=generator) < shortcut
    x["image"][:, 1] = torch.where(shown, 3.0 * (2.0 * label - 1.0), x["image"][:, 1])
    return x, label


def accuracy(kind: str, objective: synib.objective.Objective, train: Rows, test: Rows, seed: int) -> float:
    """Test accuracy after training with Adam."""
    torch.manual_seed(seed)
    x, label = train
    model: nn.Module
    if kind != "plain function":
        model = synib.FusionModel.mlp({"image": 8, "text": 8}, hidden=[64], classes=2, head_hidden=KINDS[kind])
        predict: Callable[[dict[str, Tensor]], Tensor] = model
    else:
        model = nn.Sequential(nn.Linear(16, 128), nn.ReLU(), nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, 2))
        network = model
        predict = lambda m: network(torch.cat([m["image"], m["text"]], 1))  # noqa: E731
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)
    for _ in range(EPOCHS):
        for batch in torch.randperm(ROWS).split(BATCH):
            loss, _ = objective(predict, {name: v[batch] for name, v in x.items()}, label[batch])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    model.eval()
    with torch.no_grad():
        return float((predict(test[0]).argmax(1) == test[1]).float().mean())


Job = tuple[str, str, int]  # kind of model, name of the objective, seed


def score(job: Job) -> float:
    """The test accuracy of one model."""
    torch.set_num_threads(1)
    kind, name, seed = job
    generator = torch.Generator().manual_seed(seed)
    train = rows(ROWS, 0.0 if name == CEILING else 0.9, generator)
    make = OBJECTIVES["plain fusion" if name == CEILING else name]
    return accuracy(kind, make(), train, rows(10_000, 0.0, generator), seed)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    # Learned masks need unimodal heads.
    kinds = [
        (kind, name)
        for kind, heads in KINDS.items()
        for name in (*OBJECTIVES, CEILING)
        if heads is not None or "LearnedMask" not in name
    ]
    jobs = [(*kind, seed) for kind in kinds for seed in range(options.seeds)]
    with multiprocessing.get_context("spawn").Pool(options.workers) as pool:
        scores = dict(zip(jobs, pool.imap(score, jobs), strict=True))
    table = []
    for kind in kinds:
        own = [scores[*kind, seed] for seed in range(options.seeds)]
        error = statistics.stdev(own) / len(own) ** 0.5 if len(own) > 1 else 0.0
        table.append((*kind, len(own), round(statistics.mean(own), 4), round(error, 4)))
        print("|", " | ".join(str(cell) for cell in table[-1]), "|", flush=True)
    with options.out.open("w", newline="") as text:
        writer = csv.writer(text, lineterminator="\n")
        writer.writerows([("model", "objective", "seeds", "accuracy", "standard_error"), *table])


if __name__ == "__main__":
    main()
