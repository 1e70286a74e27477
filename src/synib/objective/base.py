"""What every training objective is: a loss from (model, modalities, target), and its parts for logging."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor, nn

from synib import keys
from synib.objective.checks import check_finite, check_modalities
from synib.objective.families import Categorical, Family
from synib.objective.fusible import Fusible, Predict, Whole
from synib.objective.references import Reference, Uniform
from synib.objective.weights import Constant
from synib.tokens import Modality, values

Parts = dict[str, Tensor]


class Batch(NamedTuple):
    """What an objective learns from in one step.

    Args:
        modalities: Name → tensor (or :class:`~synib.Tokens`), batch first.
        target: What is to be predicted.
        examples: Which training examples these are, for masks that remember what they found.
        look: Whether to look at the target's values, and not only at its shape.
    """

    modalities: Mapping[str, Modality]
    target: Tensor
    examples: Tensor | None = None
    look: bool = False

    @property
    def size(self) -> int:
        """Number of examples."""
        return values(next(iter(self.modalities.values()))).shape[0]


class Objective(nn.Module):
    """Base of all objectives: checks what comes in, and shares the supervised part of the loss.

    Subclasses write :meth:`loss`, a pure function of the model's parameters, the batch, the key and the objective's
    buffers: the same lines run in a plain loop and under ``torch.func.vmap``.

    Args:
        family: The predictive distribution.
        unimodal_weight: Weight of the unimodal predictors' own losses, where the model has such predictors.
        check: Look at the batch's values (finite modalities, targets inside the family's support): always, never, or
            with ``None`` always on the CPU but only at the first call on an accelerator, where looking means waiting.

    Attributes:
        cost: Roughly what a training step costs, in vanilla steps; only progress bars ask.
    """

    cost: float = 1.0

    def __init__(self, family: Family | None = None, unimodal_weight: float = 1.0, check: bool | None = None) -> None:
        super().__init__()
        if not unimodal_weight >= 0:
            raise ValueError(f"unimodal_weight is at least 0; got {unimodal_weight}.")
        self.family = family if family is not None else Categorical()
        self.unimodal_weight = unimodal_weight
        self.check = check
        self._looked = False

    def forward(
        self,
        predict: Predict | Fusible,
        modalities: Mapping[str, Modality],
        target: Tensor,
        *,
        key: Tensor | None = None,
        examples: Tensor | None = None,
        unimodal: Mapping[str, Callable[[Modality], Tensor]] | None = None,
    ) -> tuple[Tensor, Parts]:
        """The loss of a batch.

        Args:
            predict: A :class:`~synib.FusionModel`, or any callable from modalities to the family's parameters.
            modalities: Name → tensor (or :class:`~synib.Tokens`), batch first.
            target: What is to be predicted.
            key: Decides every random draw; by default drawn from torch's generator.
            examples: Which training examples these are, for masks that remember what they found.
            unimodal: Name → that modality's own predictor, for a plain callable whose mask or reference needs one.

        Returns:
            The total loss, and its parts by name, detached.
        """
        model = predict if isinstance(predict, Fusible) else Whole(predict, unimodal or {})
        look = False
        if not torch.compiler.is_compiling():
            check_modalities(modalities, model.names)
            first = values(next(iter(modalities.values())))
            if target.shape[:1] != first.shape[:1]:
                raise ValueError(
                    f"The target needs a row for each of {first.shape[0]} examples; got shape {tuple(target.shape)}."
                )
            look = self.check if self.check is not None else first.device.type == "cpu" or not self._looked
            if look:
                check_finite(modalities)
                self._looked = True
        if key is None:
            # On the host, where folding it is free; inside a compiled graph, with everything else.
            compiling = torch.compiler.is_compiling()
            key = keys.fresh(values(next(iter(modalities.values()))).device if compiling else None)
        return self.loss(model, Batch(modalities, target, examples, look), key)

    def loss(self, model: Fusible, batch: Batch, key: Tensor) -> tuple[Tensor, Parts]:
        """The loss itself and its parts, with nothing checked but shapes, and values where ``batch.look`` says so."""
        raise NotImplementedError(f"{type(self).__name__} must define loss(model, batch, key).")

    @staticmethod
    def intact(model: Fusible, modalities: Mapping[str, Modality]) -> tuple[dict[str, Any], Tensor]:
        """The latents and the prediction of an intact batch."""
        latents = {name: model.encode(name, x) for name, x in modalities.items()}
        return latents, model.combine({name: model.project(name, z) for name, z in latents.items()})

    def supervised(
        self, model: Fusible, latents: Mapping[str, Any], prediction: Tensor, batch: Batch
    ) -> tuple[Tensor, Parts, dict[str, Tensor]]:
        """Task loss on the intact prediction, plus the unimodal predictors' losses: total, parts, their predictions."""
        target = batch.target
        self.family.check_target(prediction, target, values=batch.look)
        total = self.family.nll(prediction, target).mean()
        parts = {"task": total.detach()}
        alone = {name: model.head(name, z) for name, z in latents.items() if model.has_head(name)}
        for name, own in alone.items():
            own_loss = self.family.nll(own, target).mean()
            parts[f"unimodal/{name}"] = own_loss.detach()
            total = total + self.unimodal_weight * own_loss
        return total, parts, alone

    def extra_repr(self) -> str:
        return f"family={self.family!r}, unimodal_weight={self.unimodal_weight}"


class Penalised(Objective):
    """An objective that adds a weighted penalty against a reference; the weight may follow the training step.

    Args:
        weight: λ, a number or a schedule.
        reference: What the penalised prediction is compared with. Default: :class:`Uniform`.
        family, unimodal_weight, check: See :class:`Objective`.
    """

    step: Tensor

    def __init__(
        self,
        weight: float | Constant = 1.0,
        reference: Reference | None = None,
        family: Family | None = None,
        unimodal_weight: float = 1.0,
        check: bool | None = None,
    ) -> None:
        super().__init__(family, unimodal_weight, check)
        self.reference = reference if reference is not None else Uniform()
        self.weight = weight if isinstance(weight, nn.Module) else Constant(weight)
        self.register_buffer("step", torch.zeros((), dtype=torch.int64))

    def weight_of_step(self) -> Tensor:
        """λ now; in training mode the step counts on."""
        weight = self.weight(self.step)
        if self.training:
            self.step = self.step + 1
        return cast(Tensor, weight)
