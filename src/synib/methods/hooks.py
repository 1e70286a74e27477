"""What a method may need of a trainer beyond its loss, each declared by a class to inherit from.

A method is an :class:`~synib.objective.Objective`. Most say everything in their loss, and any loop can train them. One that
does more inherits from the classes here as well, and a trainer asks ``isinstance(method, TrainsInStages)``:

=========================  ==============================================================
:class:`WeighsGradients`   has several losses, and a rule that makes one step of their gradients
:class:`TrainsInStages`    trains some parameters only, which may change with the epoch
:class:`RevisesWeights`    changes parameters or its own buffers between epochs
:class:`AddsModules`       has modules that are made from the model
:class:`FitsAtEnd`         fits something on validation data when training is over
=========================  ==============================================================

All of them run under ``torch.func.vmap``, as the loss does. Parameters are named ``model.encoders.<modality>.…``,
``model.heads.<modality>.…``, ``model.fusion.…`` and ``method.…``.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor

from synib.objective import Batch, MultimodalModel, Objective, Parts


class WeighsGradients:
    """A method that weighs the gradients of several losses against each other."""

    def losses(self, model: MultimodalModel, batch: Batch, key: Tensor) -> tuple[dict[str, Tensor], Parts]:
        """The losses by name, and the parts to report."""
        raise NotImplementedError(f"{type(self).__name__} must define losses(model, batch, key).")

    def direction(
        self, gradients: Mapping[str, Tensor], losses: Sequence[str], parts: Parts, key: Tensor
    ) -> dict[str, Tensor]:
        """The gradient that the optimiser is given, for each parameter.

        Args:
            gradients: For each parameter the gradients of all losses, stacked in front.
            losses: The losses, in that order.
            parts: What :meth:`losses` reported.
            key: For methods that draw.
        """
        raise NotImplementedError(f"{type(self).__name__} must define direction(gradients, losses, parts, key).")


class TrainsInStages:
    """A method that trains some parameters only; which, may depend on the epoch."""

    def begin(self, epoch: int) -> None:
        """Called before every epoch, counted from 0."""

    def trains(self, parameter: str) -> bool:
        """Whether a parameter changes in this epoch."""
        return True


class RevisesWeights:
    """A method that sets parameters, or buffers of its own, anew between epochs, from all training and validation data."""

    def revises(self, epoch: int) -> bool:
        """Whether :meth:`revise` is to be called after this epoch, unless it is the last: nothing would train after it."""
        raise NotImplementedError(f"{type(self).__name__} must define revises(epoch).")

    def revise(
        self, model: Any, train: Batch, validation: Batch, initial: Mapping[str, Tensor], key: Tensor
    ) -> dict[str, Tensor]:
        """New values of parameters; buffers of the method are changed by assigning a new tensor.

        Args:
            model: The model as it is.
            train, validation: All their examples.
            initial: The model's parameters as they were before training.
            key: Decides every draw.

        Returns:
            Parameter (named as the model names it) → its new value, for those that change.
        """
        raise NotImplementedError(f"{type(self).__name__} must define revise(model, train, validation, initial, key).")


class AddsModules:
    """A method with modules of its own that are made from the model's parts."""

    def attach(self, model: Any) -> None:
        """Make them; called once, before the optimiser is made."""
        raise NotImplementedError(f"{type(self).__name__} must define attach(model).")


class FitsAtEnd:
    """A method that fits buffers of its own on validation data, once, when training is over."""

    def settle(self, model: Any, validation: Batch) -> None:
        """Fit them."""
        raise NotImplementedError(f"{type(self).__name__} must define settle(model, validation).")


HOOKS = {
    WeighsGradients: "weighs the gradients of several losses",
    TrainsInStages: "trains some parameters only",
    RevisesWeights: "changes weights between epochs",
    AddsModules: "adds modules to the model",
    FitsAtEnd: "fits on validation data at the end",
}


def needs_trainer(method: Objective) -> str:
    """What a method does that a loop around its loss would not do, in words; empty if its loss says everything."""
    return ", ".join(does for hook, does in HOOKS.items() if isinstance(method, hook))
