"""Training hooks: what a method may need from a trainer beyond its loss, each declared by a base class.

A method is an :class:`~synib.objective.Objective`. Most methods consist of a loss that any training loop can use. A
method that does more also inherits from the classes here, and a trainer checks ``isinstance(method, TrainsInStages)``:

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
    """A method that combines the gradients of several losses."""

    def losses(self, model: MultimodalModel, batch: Batch, key: Tensor) -> tuple[dict[str, Tensor], Parts]:
        """The losses by name, and the parts to log."""
        raise NotImplementedError(f"{type(self).__name__} must define losses(model, batch, key).")

    def direction(
        self, gradients: Mapping[str, Tensor], losses: Sequence[str], parts: Parts, key: Tensor
    ) -> dict[str, Tensor]:
        """The gradient for the optimiser, for each parameter.

        Args:
            gradients: Parameter → the gradients of all losses, stacked along the first dimension.
            losses: The losses, in that order.
            parts: The parts returned by :meth:`losses`.
            key: Key of random draws.
        """
        raise NotImplementedError(f"{type(self).__name__} must define direction(gradients, losses, parts, key).")


class TrainsInStages:
    """A method that trains only some parameters, depending on the epoch."""

    def begin(self, epoch: int) -> None:
        """Called before every epoch; epochs count from 0."""

    def trains(self, parameter: str) -> bool:
        """Whether a parameter changes in this epoch."""
        return True


class RevisesWeights:
    """A method that resets parameters, or its own buffers, between epochs, using all training and validation data."""

    def revises(self, epoch: int) -> bool:
        """Whether to call :meth:`revise` after this epoch; never called after the last epoch."""
        raise NotImplementedError(f"{type(self).__name__} must define revises(epoch).")

    def revise(
        self, model: Any, train: Batch, validation: Batch, initial: Mapping[str, Tensor], key: Tensor
    ) -> dict[str, Tensor]:
        """New values of parameters; buffers of the method are changed by assigning new tensors.

        Args:
            model: The current model.
            train, validation: All their examples.
            initial: The model's parameters before training.
            key: Key of random draws.

        Returns:
            Parameter name (as in the model) → new value, for the parameters that change.
        """
        raise NotImplementedError(f"{type(self).__name__} must define revise(model, train, validation, initial, key).")


class AddsModules:
    """A method with additional modules that are constructed from the model's parts."""

    def attach(self, model: Any) -> None:
        """Construct the modules; called once, before the optimiser is created."""
        raise NotImplementedError(f"{type(self).__name__} must define attach(model).")


class FitsAtEnd:
    """A method that fits its buffers on validation data, once, after training."""

    def settle(self, model: Any, validation: Batch) -> None:
        """Fit the buffers."""
        raise NotImplementedError(f"{type(self).__name__} must define settle(model, validation).")


HOOKS = {
    WeighsGradients: "weighs the gradients of several losses",
    TrainsInStages: "trains only some parameters",
    RevisesWeights: "changes weights between epochs",
    AddsModules: "adds modules to the model",
    FitsAtEnd: "fits on validation data at the end",
}


def needs_trainer(method: Objective) -> str:
    """What a method does beyond its loss, as text for an error message; empty if a loop around its loss is enough."""
    return ", ".join(does for hook, does in HOOKS.items() if isinstance(method, hook))
