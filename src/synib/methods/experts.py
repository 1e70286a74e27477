"""A synergy expert and unimodal experts, each trained for its own purpose, combined by weights fitted on validation data."""

import copy
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from synib import logistic
from synib.checks import check_kind, check_number, shown
from synib.methods.ensemble import Ensemble
from synib.methods.hooks import AddsModules, FitsAtEnd, needs_trainer
from synib.methods.synib import synib_marginal
from synib.methods.unimodal import own_prediction
from synib.methods.vanilla import Vanilla
from synib.objective import Batch, Family, MultimodalModel, Objective, Parts
from synib.tokens import Modality

RIDGE = 1e-6  # on the biases: nothing where they are determined, and finite for a class that validation data lack


class Experts(Objective, AddsModules, FitsAtEnd):
    r"""A fusion model trained for the interaction, unimodal models, and a logistic regression that combines them.

    .. math:: \log q(y \mid x_1..x_n) = w_0 \log q_\mathrm{syn}(y \mid x_1..x_n)
              + \textstyle\sum_i w_i \log q_i(y \mid x_i) + b_y + \mathrm{const}

    A strong penalty makes a fusion model learn the synergy but lose unimodal evidence. Here it does not have to keep
    that: copies of the model's encoders and heads, with the same initial weights and separate parameters, are trained
    as an :class:`Ensemble`. The model itself is trained by the synergy objective alone. After training, the combination
    weights are fitted to the validation data (stacked generalisation, Wolpert 1992; see :func:`stack`), so the
    validation accuracy is that of a fit. Until then the fusion predicts alone.

    Args:
        synergy: The objective of the fusion model: a method without training hooks, such as SynIB and the confidence
            penalty.
        l2: Weight of the squared weights in the logistic regression, for log-odds scaled to 1.
    """

    with_classes = "adds class log-odds"
    predicts_by_fusion = False
    with_heads = "trains copies of the unimodal heads"
    weights: Tensor
    bias: Tensor

    def __init__(self, synergy: Objective, l2: float = 1e-3) -> None:
        check_kind("synergy", synergy, Objective, "SynIB()")
        super().__init__(synergy.family, synergy.unimodal_weight, synergy.check)
        if more := needs_trainer(synergy):
            raise ValueError(f"Experts needs a method without training hooks; {type(synergy).__name__} also {more}.")
        # Without a penalty separable classes would have no best weights.
        self.synergy, self.l2 = synergy, check_number("l2", l2, above=0)
        self.members = Ensemble(family=self.family)
        self.apart: Any = None

    def prepare(self, model: Any, modalities: Mapping[str, Modality]) -> None:
        self.synergy.prepare(model, modalities)

    def attach(self, model: Any) -> None:
        if not isinstance(model, nn.Module) or not isinstance(model, MultimodalModel) or model.names is None:
            raise ValueError(f"Experts copies the encoders and heads of a FusionModel; got {shown(model)}.")
        self.require_heads(model, model.names)
        self.apart = copy.deepcopy(model)
        self.apart.fusion = None
        last = list(self.apart.heads[model.names[0]].parameters())[-1].detach()  # a row for each number of a prediction
        self.register_buffer("weights", torch.eye(1, 1 + len(model.names)).to(last).flatten())
        self.register_buffer("bias", last.new_zeros(last.shape[0]))

    def loss(self, model: MultimodalModel, batch: Batch, key: Tensor) -> tuple[Tensor, Parts]:
        total, parts = self.synergy.loss(model, batch, key)
        own, apart = self.members.loss(self._apart(), batch, key)
        return total + own, parts | {name.replace("unimodal", "apart"): loss for name, loss in apart.items()}

    def answers(self, model: MultimodalModel, modalities: Mapping[str, Modality]) -> Tensor:
        """The predictions of all experts, the fusion first: ``(experts, batch, logits)``."""
        apart = self._apart()
        predictions = [self.intact(model, modalities)[1]]
        predictions += [own_prediction(self, apart, name, modalities) for name in apart.names]
        stacked = torch.stack([p.reshape(p.shape[0], -1) for p in predictions])
        if stacked.shape[-1] != self.bias.shape[0]:
            raise ValueError(
                f"Experts needs heads whose last layer has as many outputs as a prediction, {stacked.shape[-1]}; "
                f"the last parameter of the head of {apart.names[0]!r} has {self.bias.shape[0]}."
            )
        return stacked

    def predict(self, model: MultimodalModel, modalities: Mapping[str, Modality]) -> Tensor:
        return _weigh(self.answers(model, modalities), self.weights, self.bias)

    def settle(self, model: Any, validation: Batch) -> None:
        answers = self.answers(model, validation.modalities)
        weights, bias = stack(self.family, answers, validation.target, self.l2, validation.sample_weight)
        self.weights, self.bias = weights.to(self.weights), bias.to(self.bias)

    def _apart(self) -> Any:
        if self.apart is None:
            raise ValueError("Experts has no unimodal experts yet: call attach(model) before creating the optimiser.")
        return self.apart


def stack(
    family: Family, answers: Tensor, target: Tensor, l2: float, sample_weight: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    r"""Weights of several predictions: a logistic regression on their log-odds, by damped Newton steps.

    .. math:: \min_{w, b}\; \mathrm{mean}\big(\mathrm{nll}\big(\textstyle\sum_e w_e \ell_e + b\big)\big)
              + \tfrac12 \mathtt{l2} \textstyle\sum_e (w_e s_e)^2

    where :math:`s_e` is the root mean square of expert *e*'s log-odds between two classes: an expert that predicts
    correctly with a confidence of .53 should not be penalised for a weight of 20.

    Args:
        family: Bernoulli or Categorical.
        answers: Logits of each expert, ``(experts, batch, logits)``.
        target: Classes.
        l2: Weight of the squared weights.
        sample_weight: Weight of each example.

    Returns:
        One weight per expert and one bias per logit, in double precision.
    """
    x, width = answers.double(), answers.shape[-1]
    # Squared log-odds; between two of several logits they are twice the logits' variance in the mean.
    square = x.square().mean((1, 2)) if width == 1 else 2 * x.var(-1).mean(1)
    scale = square.sqrt().clamp(min=1e-12)
    counts = family.counts(target) if family.weighs_examples else None
    weight = counts if sample_weight is None else sample_weight if counts is None else counts * sample_weight
    weights, bias = logistic.fit(
        x / scale[:, None, None], target, ridge=l2, bias_ridge=RIDGE, sample_weight=weight, tolerance=None
    )
    return weights / scale, bias


def _weigh(answers: Tensor, weights: Tensor, bias: Tensor) -> Tensor:
    return (weights[:, None, None] * answers).sum(0) + bias


def experts(*, weight: float = 10.0, draws: int = 16, l2: float = 1e-3, **settings: Any) -> Experts:
    """Experts with a fusion model trained by SynIB that marginalises a modality out, with a strong penalty."""
    return Experts(synib_marginal(weight=weight, draws=draws, **settings), l2)


def stacked(*, l2: float = 1e-3, **settings: Any) -> Experts:
    """Experts with a fusion model trained by plain fusion: the control of :func:`experts`, which is the same at weight 0."""
    return Experts(Vanilla(**settings), l2)
