"""SynIB in an existing LightningModule."""

import inspect
from collections.abc import Callable, Mapping
from typing import Any, cast

from torch import Tensor

from synib.checks import shown
from synib.integrations import check_objective, processes
from synib.objective import Objective, Parts
from synib.objective.model import MultimodalModel, Predict
from synib.tokens import Modality


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
