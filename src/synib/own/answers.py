"""A trained learner in parts: a projection of each modality, and the function that combines them into a prediction."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from synib.methods import Additive, Ensemble, Experts, UnimodalModel
from synib.tokens import Modality, Tokens
from synib.training import Learner


class Frequencies(nn.Module):
    """A constant prediction: the class frequencies, or the mean and log-variance of a number.

    Args:
        names: The modalities; none is used.
        parameters: The parameters of the predictive distribution.
    """

    constant: Tensor

    def __init__(self, names: tuple[str, ...], parameters: Tensor) -> None:
        super().__init__()
        self.names, self.outputs = names, len(parameters)
        self.register_buffer("constant", parameters.double())

    def encode(self, name: str, x: Modality) -> Tensor:
        """Zeros, ``(rows, outputs)``: the prediction does not depend on any modality."""
        rows = x.values if isinstance(x, Tokens) else x
        return rows.new_zeros(rows.shape[0], self.outputs).double()

    def combine(self, projected: Mapping[str, Tensor]) -> Tensor:
        return next(iter(projected.values())) * 0 + self.constant


class Answers(nn.Module):
    """A trained learner in parts: modalities are encoded one by one, and combined as the method does for its prediction.

    With it, an ensemble, a unimodal model or experts can be measured like a ``FusionModel``, for example by exchanging a
    modality between examples (:mod:`synib.measure`, :meth:`Predictor.predict`).

    Args:
        learner: A trained model and its method.
        outputs: Number of outputs of a prediction.
    """

    def __init__(self, learner: Learner, outputs: int) -> None:
        super().__init__()
        method = learner.method
        if not method.predicts_by_fusion and not isinstance(method, UnimodalModel | Ensemble | Experts):
            raise ValueError(f"{type(method).__name__} overrides prediction, so it cannot be split into modalities.")
        self.learner, self.outputs = learner, outputs
        self.names: tuple[str, ...] = learner.model.names

    def encode(self, name: str, x: Modality) -> Tensor:
        """The modality's input to the fusion, concatenated with the prediction of its unimodal head."""
        model, method = self.learner.model, self.learner.method
        unimodal: Any = method.apart if isinstance(method, Experts) else model
        projected = model.project(name, model.encode(name, x))
        unimodal_prediction = unimodal.head(name, unimodal.encode(name, x), through=True)
        return torch.cat([projected, unimodal_prediction.reshape(unimodal_prediction.shape[0], self.outputs)], -1)

    def project(self, name: str, latent: Tensor) -> Tensor:
        return latent

    def combine(self, projected: Mapping[str, Tensor]) -> Tensor:
        method = self.learner.method
        unimodal = {name: z[..., -self.outputs :] for name, z in projected.items()}
        if isinstance(method, UnimodalModel):
            return unimodal[method.modality]
        if isinstance(method, Additive):  # before Ensemble, its base class
            return torch.stack([unimodal[name] for name in self.names]).sum(0)
        if isinstance(method, Ensemble):
            return method.family.average(torch.stack([unimodal[name] for name in self.names]))
        fused = self.learner.model.combine({name: z[..., : -self.outputs] for name, z in projected.items()})
        if isinstance(method, Experts):
            predictions = torch.stack([fused, *(unimodal[name] for name in self.names)])
            return torch.tensordot(method.weights, predictions, 1) + method.bias
        return fused

    def forward(self, modalities: Mapping[str, Modality]) -> Tensor:
        return self.combine({name: self.encode(name, modalities[name]) for name in self.names})

    def has_head(self, name: str) -> bool:
        return False

    def head(self, name: str, latent: Tensor, through: bool = False) -> Tensor:
        raise ValueError("The predictions of a learner have no unimodal heads: use the learner's model.")

    def unimodal_modules(self, name: str) -> list[nn.Module]:
        return []

    def mixes_rows(self) -> bool:
        return False
