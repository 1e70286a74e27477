"""Logistic regressions on one modality."""

import torch

from synib import Tokens
from synib.data import Dataset, Split
from synib.studies.unimodal import as_vectors, regress, unimodal_labels


def test_a_regression_finds_what_is_linear_and_ignores_a_constant_feature():
    g = torch.Generator().manual_seed(0)
    x = [5 + 3 * torch.randn(n, 3, generator=g) for n in (400, 200, 500)]
    y = [(part[:, 0] - part[:, 1] > 0).long() for part in x]
    predicted = regress(x, y[:2])
    assert (predicted == y[2]).double().mean() > 0.95
    with_constant = [torch.cat([part, torch.full((len(part), 1), 7.0)], 1) for part in x]
    assert torch.equal(regress(with_constant, y[:2]), predicted)


def test_the_penalty_is_chosen_on_validation_labels():
    g = torch.Generator().manual_seed(0)
    x = [torch.randn(n, 20, generator=g) for n in (60, 200, 500)]
    y = [(part[:, 0] > 0).long() for part in x]
    right, wrong = (regress(x, [y[0], labels]) for labels in (y[1], 1 - y[1]))
    assert (right == y[2]).double().mean() > (wrong == y[2]).double().mean()


def test_tokens_are_averaged_without_padding():
    tokens = Tokens(torch.tensor([[[2.0], [4.0], [9.0]]] * 70).half(), torch.tensor([[False, False, True]] * 70))
    assert as_vectors(tokens).flatten().tolist() == [3.0] * 70
    vectors = torch.randn(3, 2)
    assert as_vectors(vectors) is vectors


def test_every_modality_has_its_own_regression():
    g = torch.Generator().manual_seed(0)

    def split(n):
        x, noise = torch.randn(n, 2, generator=g), torch.randn(n, 2, generator=g)
        return Split({"informative": x, "noise": noise}, (x[:, 0] > 0).long())

    data = Dataset(split(200), split(100), split(300))
    labels = unimodal_labels(data)
    accuracy = {name: (predicted == data.test.target).double().mean() for name, predicted in labels.items()}
    assert accuracy["informative"] > 0.9 > 0.6 > accuracy["noise"]
