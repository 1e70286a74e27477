"""The control: vanilla fusion trained on modalities shuffled within each class."""

import torch

from synib.data import Split
from synib.studies import HatefulMemes
from synib.studies.control import CONTROL, REAL, SHUFFLED, shuffled


def test_shuffling_keeps_the_examples_of_each_class_and_breaks_their_pairs():
    x = torch.arange(40.0)[:, None]
    split = Split({"a": x, "b": -x}, torch.arange(40) % 2, columns={"id": range(40)})
    mixed = shuffled(split, seed=0)
    assert torch.equal(mixed.target, split.target)
    assert not torch.equal(mixed.modalities["a"], -mixed.modalities["b"])
    for label in (0, 1):
        rows = split.target == label
        for name, values in split.modalities.items():
            assert sorted(mixed.modalities[name][rows].flatten().tolist()) == sorted(values[rows].flatten().tolist())
    assert not torch.equal(shuffled(split, seed=1).modalities["a"], mixed.modalities["a"])


def test_only_vanilla_fusion_has_a_control_which_the_summary_names_as_a_method_that_leads_over_nobody():
    experiment = HatefulMemes(methods=("vanilla", "experts"), seeds=2)
    cells = experiment.cells()
    trainings = [(cell.method, cell.factors["training"]) for cell in cells if cell.seed == 0]
    assert trainings == [("vanilla", REAL), ("vanilla", SHUFFLED), ("experts", REAL)]
    results = [
        {"method": c.method, **c.factors, "seed": c.seed, "test_accuracy": 0.5, "auroc": 0.5, "subset_accuracy": 0.5}
        for c in cells
    ]
    summary = experiment.summary(results)
    assert {row["method"] for row in summary} == {"vanilla", CONTROL, "experts"}
    assert {row["method"] for row in summary if "_over_" in row["metric"]} == {"vanilla", "experts"}
