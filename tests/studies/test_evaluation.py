"""Predictions in batches, and calibration before and after temperature scaling."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

from synib import Tokens
from synib.data import Dataset, Split
from synib.measure import calibration, temperature
from synib.objective import Bernoulli
from synib.studies.evaluation import calibration_scores, predictions


class Sums:
    """A method that predicts the sum of an example's numbers, and notes the sizes of its batches."""

    def __init__(self):
        self.sizes = []

    def predict(self, model, modalities):
        self.sizes.append(len(modalities["a"]))
        return modalities["a"].sum(1) + modalities["b"].values.sum((1, 2))


def test_predictions_do_not_depend_on_the_batch_size():
    modalities = {"a": torch.randn(10, 2), "b": Tokens(torch.randn(10, 3, 2), torch.zeros(10, 3, dtype=torch.bool))}
    method = Sums()
    predicted = predictions(SimpleNamespace(model=None, method=method), modalities, 4)
    assert method.sizes == [4, 4, 2]
    torch.testing.assert_close(predicted, Sums().predict(None, modalities))


def test_the_temperature_is_fitted_on_validation_labels_alone():
    g = torch.Generator().manual_seed(0)
    y = torch.randint(0, 2, (2, 400), generator=g)
    overconfident = [6 * (2 * part - 1 + 2 * torch.randn(400, generator=g)) for part in y]
    validation, test = (Split({}, part) for part in y)
    data = Dataset(validation, validation, test)
    scores = calibration_scores(*overconfident, data, Bernoulli())
    t = temperature(overconfident[0], y[0], Bernoulli())
    assert scores["temperature"] == t > 1.2
    for name, logits in (("ece", overconfident[1]), ("ece_calibrated", overconfident[1] / t)):
        assert scores[name] == pytest.approx(calibration(logits, y[1], family=Bernoulli()).error)
    assert scores["ece_calibrated"] < scores["ece"]
    flipped = replace(data, test=Split({}, 1 - y[1]))
    assert calibration_scores(*overconfident, flipped, Bernoulli())["temperature"] == t
