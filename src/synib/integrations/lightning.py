"""SynIB in an existing LightningModule."""

import inspect
import logging
from collections.abc import Callable, Mapping
from typing import Any, cast

from torch import Tensor

from synib.checks import shown
from synib.integrations import check_objective, processes
from synib.objective import Objective, Parts
from synib.objective.model import MultimodalModel, Predict
from synib.tokens import Modality
from synib.training.gradient_hooks import watches_gradients
from synib.training.recorded_step import RecordedStep, fill_in

log = logging.getLogger(__name__)


class SynIBMixin:
    """Adds :meth:`synib_loss` to a LightningModule of ``lightning`` or ``pytorch_lightning``.

    ``self.objective`` is an ordinary submodule: its schedule and statistics are in the checkpoints, the parameters of a
    mask network are in ``self.parameters()``, and it does not change in validation.

    Example:
        >>> import torch, synib
        >>> from lightning.pytorch import LightningModule
        >>> from synib.integrations.lightning import SynIBMixin
        >>> class Mine(SynIBMixin, LightningModule):
        ...     def __init__(self):
        ...         super().__init__()
        ...         self.both = torch.nn.Linear(5, 2)
        ...         self.objective = synib.SynIB(synib.RandomMask(0.5), weight=1.0)
        ...
        ...     def forward(self, image, text):
        ...         return self.both(torch.cat([image, text], 1))
        ...
        ...     def training_step(self, batch, index):
        ...         image, text, label = batch
        ...         loss, parts = self.synib_loss({"image": image, "text": text}, label)
        ...         self.log_dict(parts)
        ...         return loss
    """

    objective: Objective
    synib_not_recorded: str

    def synib_loss(
        self,
        modalities: Mapping[str, Modality],
        target: Tensor,
        predict: Predict | MultimodalModel | None = None,
        *,
        examples: Tensor | None = None,
        sample_weight: Tensor | None = None,
        unimodal: Mapping[str, Callable[[Modality], Tensor]] | None = None,
    ) -> tuple[Tensor, Parts]:
        """The loss that ``training_step`` returns, and its parts for ``self.log_dict``.

        Args:
            modalities: Name → tensor (or :class:`~synib.Tokens`), batch first.
            target: The targets.
            predict: A :class:`~synib.FusionModel`, or any callable from modalities to the family's parameters. Default:
                this module's ``forward``, with each modality as the keyword argument of its name.
            examples, sample_weight, unimodal: As in a call of the objective.
        """
        objective = check_objective("self.objective", getattr(self, "objective", None))
        model = self._forward if predict is None else predict
        return objective(  # type: ignore[no-any-return]
            model,
            modalities,
            target,
            examples=examples,
            sample_weight=sample_weight,
            unimodal=unimodal,
            group=processes(),
        )

    def synib_step(
        self,
        modalities: Mapping[str, Modality],
        target: Tensor,
        predict: Predict | MultimodalModel | None = None,
        *,
        clip: float | None = None,
        examples: Tensor | None = None,
        sample_weight: Tensor | None = None,
        unimodal: Mapping[str, Callable[[Modality], Tensor]] | None = None,
    ) -> tuple[Tensor, Parts]:
        """A whole step for ``training_step``: gradients, clipping and the optimizer's update, replayed as a CUDA graph.

        The module sets ``self.automatic_optimization = False``, has one optimizer, and steps its schedulers itself.
        Where a step cannot be recorded it runs as Lightning's manual optimisation does, with the same results;
        ``self.synib_not_recorded`` says why. See :func:`synib.recorded` for what a recording needs.

        Args:
            modalities, target, examples, sample_weight: As for :meth:`synib_loss`.
            predict, unimodal: As for :meth:`synib_loss`, and the same in every step.
            clip: Largest norm of the gradient; no clipping by default.

        Returns:
            The loss and its parts, detached.
        """
        module, given = cast(Any, self), {"examples": examples, "sample_weight": sample_weight}
        optimizer = module.optimizers()
        if module.automatic_optimization or isinstance(optimizer, list):
            raise ValueError(
                "synib_step takes the step itself, with one optimizer: set self.automatic_optimization = False in "
                "__init__, or call synib_loss."
            )
        step = vars(self).get("_synib_step")
        if step is None or step.optimizer is not optimizer.optimizer:
            objective = check_objective("self.objective", getattr(self, "objective", None))
            step = _Step(objective, module, optimizer.optimizer, clip)
            vars(self)["_synib_step"] = step
        before, self.synib_not_recorded = getattr(self, "synib_not_recorded", ""), _obstacle(module) or step.reason
        if self.synib_not_recorded:
            loss, parts = SynIBMixin.synib_loss(self, modalities, target, predict, unimodal=unimodal, **given)
            optimizer.zero_grad()
            module.manual_backward(loss)
            if clip is not None:
                module.clip_gradients(optimizer, gradient_clip_val=clip, gradient_clip_algorithm="norm")
            optimizer.step()
            loss = loss.detach()
        else:
            step.predict, step.unimodal = self._forward if predict is None else predict, unimodal
            if clip != step.clip:
                step.clip = clip
                step.forget()
            optimizer._on_before_step()  # Lightning counts the step
            loss, parts = step(modalities, target, **given)
            optimizer._on_after_step()
            self.synib_not_recorded = step.reason
        if self.synib_not_recorded not in ("", before):
            log.info("Steps are not recorded: %s.", self.synib_not_recorded)
        return loss, parts

    def _forward(self, modalities: Mapping[str, Modality]) -> Tensor:
        module = cast(Any, self)
        try:
            inspect.signature(module.forward).bind(**modalities)
        except TypeError as e:
            raise ValueError(
                f"forward is called with the modalities as keyword arguments, but {shown(str(e))}: name the "
                "modalities like its arguments, or pass predict=, a function of the dict of modalities."
            ) from None
        return module(**modalities)


class _Step(RecordedStep):
    """A step whose loss is that of ``synib_loss``; dropout draws from torch's generator, as in other modules."""

    predict: Any
    unimodal: Any

    def _gradients(
        self, modalities: Any, target: Tensor, key: Tensor, more: Mapping[str, Tensor]
    ) -> tuple[Tensor, Parts]:
        loss, parts = self.objective(self.predict, modalities, target, key=key, unimodal=self.unimodal, **more)
        fill_in(loss, [p for p in self.model.parameters() if p.requires_grad])
        return loss.detach(), parts


def _obstacle(module: Any) -> str:
    """Why Lightning must take the steps of a module; empty if they may be recorded."""
    trainer = module.trainer
    if trainer.world_size > 1:
        return "the model is trained by several processes"
    if str(trainer.precision) != "32-true":
        return f"the precision is {trainer.precision}; steps are recorded in 32-true"
    watching = next((x for x in (module, *trainer.callbacks) if watches_gradients(x)), None)
    return "" if watching is None else f"{type(watching).__name__} has a hook that looks at gradients"
