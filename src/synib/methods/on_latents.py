"""SynIB on latents: corrupts the outputs of the encoders instead of the modalities."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from synib import tokens
from synib.checks import check_kind
from synib.masks.base import undisturbed
from synib.objective import Batch, MultimodalModel, Parts, SynIB
from synib.objective.base import Objective
from synib.objective.checks import check_batch
from synib.objective.model import Predict
from synib.objective.wrappers import as_multimodal
from synib.tokens import Modality


class OnLatents(Objective):
    """SynIB with masks that act on latents: the encoders run on intact data only.

    It is equivalent to ``objective(model.on_latents(), model.encode_all(batch), target)``.

    Args:
        objective: The objective behind the encoders.

    Example:
        >>> import synib
        >>> objective = synib.OnLatents(synib.SynIB(synib.RandomMask(0.5), weight=1.0))
    """

    def __init__(self, objective: SynIB) -> None:
        check_kind("objective", objective, SynIB, "SynIB(weight=1.0)")
        super().__init__(objective.family, objective.unimodal_weight, objective.check)
        self.objective = objective

    def loss(self, model: MultimodalModel, batch: Batch, key: Tensor) -> tuple[Tensor, Parts]:
        latents = {name: model.encode(name, x) for name, x in batch.modalities.items()}
        # Latents are tensors: which rows lack a modality, only the modality itself says.
        present = {name: tokens.present(x) for name, x in batch.modalities.items()}
        optional = present if any(rows is not None for rows in present.values()) else None
        return self.objective.loss(model.on_latents(), batch._replace(modalities=latents, present=optional), key)

    def counterfactuals(
        self,
        predict: Predict | MultimodalModel,
        modalities: Mapping[str, Modality],
        target: Tensor,
        key: Tensor | None = None,
    ) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
        """See :meth:`SynIB.counterfactuals`."""
        model = as_multimodal(predict)
        check_batch(modalities, target, model.names, key=key, check=self.check)
        behind = model.on_latents()
        latents = {name: model.encode(name, x) for name, x in modalities.items()}
        return self.objective.counterfactuals(behind, latents, target, key)

    def prepare(self, model: Any, modalities: Mapping[str, Modality]) -> None:
        device = next(model.parameters()).device
        with torch.no_grad(), undisturbed([model]):
            latents = {name: model.encode(name, tokens.move(x, device)) for name, x in modalities.items()}
        self.objective.prepare(model, latents)
