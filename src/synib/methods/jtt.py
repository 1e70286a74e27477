"""Just Train Twice: upweights the errors of a first model when training the second."""

import copy
from typing import Any

import torch
from torch import Tensor, nn

from synib.checks import check_number, check_whole, shown
from synib.masks.base import undisturbed
from synib.methods.hooks import AddsModules, TrainsInStages
from synib.methods.vanilla import Vanilla
from synib.objective import Batch, MultimodalModel, Parts


class JTT(Vanilla, AddsModules, TrainsInStages):
    """Plain fusion in which the errors of an identification model have weight ``weight`` (Just Train Twice, Liu et al. 2021).

    For the first ``identify`` epochs a copy of the model is trained by plain fusion, and the model is not trained. Then
    the copy is frozen and the model is trained from the same initial weights: training examples that the copy
    misclassifies have weight ``weight``. The paper repeats them instead; the expected gradient is the same up to the
    total weight of the batch.

    Both stages share the epochs of one training run, so that all methods have the same number; a run must be longer
    than ``identify`` epochs.

    Args:
        identify: T, epochs of the identification model.
        weight: Weight of misclassified examples.
        settings: ``family`` (a discrete one), ``unimodal_weight``, ``check``, see :class:`Objective`.
    """

    with_classes = "compares predicted classes with the targets"
    weight: Tensor

    def __init__(self, identify: int = 5, weight: float = 5.0, **settings: Any) -> None:
        super().__init__(**settings)
        self.identify = check_whole("identify", identify)
        number = check_number("weight", weight, above=0)
        self.register_buffer("weight", torch.tensor(float(number)), persistent=False)
        self.identifies = True
        self.first: Any = None

    def attach(self, model: Any) -> None:
        if not isinstance(model, nn.Module) or not isinstance(model, MultimodalModel):
            raise ValueError(f"JTT first trains a copy of the model, which must be a FusionModel; got {shown(model)}.")
        self.first = copy.deepcopy(model)

    def begin(self, epoch: int) -> None:
        self.identifies = epoch < self.identify

    def trains(self, parameter: str) -> bool:
        return parameter.startswith("method.first.") == self.identifies

    def loss(self, model: MultimodalModel, batch: Batch, key: Tensor) -> tuple[Tensor, Parts]:
        if self.first is None:
            raise ValueError("JTT has no identification model yet: call attach(model) before creating the optimiser.")
        if self.identifies:
            total, parts = super().loss(self.first, batch, key)
            return total, {f"first/{name}": loss for name, loss in parts.items()}
        with torch.no_grad(), undisturbed([self.first]):
            prediction = self.intact(self.first, batch.modalities)[1]
        self.family.check_target(prediction, batch.target, values=batch.check_values)
        wrong = self._wrong(prediction, batch.target)
        counts = torch.where(wrong, self.weight, 1.0)
        weighed = batch._replace(sample_weight=counts if batch.sample_weight is None else counts * batch.sample_weight)
        total, parts = super().loss(model, weighed, key)
        return total, parts | {"identified": wrong.to(total.dtype).mean()}

    def _wrong(self, prediction: Tensor, target: Tensor) -> Tensor:
        """Which examples are misclassified; with several labels, in any of them."""
        predicted = self.family.predict(prediction)
        if target.is_floating_point():  # of soft targets the most probable class
            classes = target.ndim > predicted.ndim
            target = target.argmax(-1) if classes else (target > 0.5).to(predicted.dtype)
        different = predicted.reshape(predicted.shape[0], -1) != target.reshape(predicted.shape[0], -1)
        return different.any(1)
