"""A trained learner taken apart: what each modality brings, and how the method makes one answer of it."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from synib.methods import Additive, Ensemble, Experts, UnimodalModel
from synib.tokens import Modality, Tokens
from synib.training import Learner


class Frequencies(nn.Module):
    """A model that says the same of every row: how often each class is (of a number: its mean and log-variance).

    Args:
        names: The modalities, of which it uses none.
        parameters: The family's parameters.
    """

    constant: Tensor

    def __init__(self, names: tuple[str, ...], parameters: Tensor) -> None:
        super().__init__()
        self.names, self.outputs = names, len(parameters)
        self.register_buffer("constant", parameters.double())

    def encode(self, name: str, x: Modality) -> Tensor:
        """Nothing of a modality matters, ``(rows, outputs)``."""
        rows = x.values if isinstance(x, Tokens) else x
        return rows.new_zeros(rows.shape[0], self.outputs).double()

    def combine(self, projected: Mapping[str, Tensor]) -> Tensor:
        return next(iter(projected.values())) * 0 + self.constant


class Answers(nn.Module):
    """A trained learner as a model in parts: modalities are encoded one by one, and their combination is the method's answer.

    This is what lets an ensemble, a modality alone or experts be asked the questions that a ``FusionModel`` can be asked: what
    would be said if a modality were another example's (:mod:`synib.measure`, :meth:`Predictor.predict`)?

    Args:
        learner: A model and its method, trained.
        outputs: How many numbers a prediction has.
    """

    def __init__(self, learner: Learner, outputs: int) -> None:
        super().__init__()
        method = learner.method
        if not method.predicts_by_fusion and not isinstance(method, UnimodalModel | Ensemble | Experts):
            raise ValueError(f"{type(method).__name__} answers in a way of its own, which cannot be taken apart.")
        self.learner, self.outputs = learner, outputs
        self.names: tuple[str, ...] = learner.model.names

    def encode(self, name: str, x: Modality) -> Tensor:
        """What a modality brings to the fusion, and beside it what its own head says."""
        model, method = self.learner.model, self.learner.method
        alone: Any = method.apart if isinstance(method, Experts) else model
        brought = model.project(name, model.encode(name, x))
        own = alone.head(name, alone.encode(name, x), through=True)
        return torch.cat([brought, own.reshape(own.shape[0], self.outputs)], -1)

    def project(self, name: str, latent: Tensor) -> Tensor:
        return latent

    def combine(self, projected: Mapping[str, Tensor]) -> Tensor:
        method = self.learner.method
        own = {name: z[..., -self.outputs :] for name, z in projected.items()}
        if isinstance(method, UnimodalModel):
            return own[method.modality]
        if isinstance(method, Additive):  # which is an Ensemble too
            return torch.stack([own[name] for name in self.names]).sum(0)
        if isinstance(method, Ensemble):
            return method.family.average(torch.stack([own[name] for name in self.names]))
        fused = self.learner.model.combine({name: z[..., : -self.outputs] for name, z in projected.items()})
        if isinstance(method, Experts):
            said = torch.stack([fused, *(own[name] for name in self.names)])
            return torch.tensordot(method.weights, said, 1) + method.bias
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
