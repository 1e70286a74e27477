"""Which predictions are right, in all examples and in groups."""

import torch

from synib.measure import accuracies, correct
from synib.objective import Bernoulli, Categorical


def test_a_prediction_is_right_where_the_most_probable_class_is_the_target():
    logits = torch.tensor([[2.0, 0.0, 1.0], [0.0, 3.0, 1.0]])
    assert correct(Categorical(), logits, torch.tensor([0, 2])).tolist() == [1.0, 0.0]
    assert correct(Bernoulli(), torch.tensor([[1.0], [-1.0]]), torch.tensor([0, 0])).tolist() == [0.0, 1.0]


def test_accuracies_are_means_over_all_and_over_each_groups_examples():
    hits = torch.tensor([[1.0, 0.0, 1.0, 1.0], [0.0, 0.0, 1.0, 0.0]])
    groups = {"first": torch.tensor([[1.0, 1.0, 0.0, 0.0]] * 2), "none": torch.zeros(2, 4)}
    found = accuracies(hits, groups, "accuracy")
    assert list(found) == ["accuracy", "accuracy_first", "accuracy_none"]
    assert found["accuracy"].tolist() == [0.75, 0.25]
    assert found["accuracy_first"].tolist() == [0.5, 0.0]
    assert found["accuracy_none"].isnan().all()
