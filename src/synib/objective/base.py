"""The base class of training objectives: a loss from (model, modalities, target), with its parts for logging."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from synib import keys, tokens
from synib.checks import check_flag, check_kind, check_number, settings_repr
from synib.masks import Mask, Noise
from synib.objective.checks import check_batch, explain
from synib.objective.families import Categorical, Family
from synib.objective.model import MultimodalModel, Predict
from synib.objective.wrappers import as_forward, as_multimodal, replicas
from synib.tokens import Modality, values

Parts = dict[str, Tensor]


class Batch(NamedTuple):
    """The input of an objective for one training step.

    Args:
        modalities: Name → tensor (or :class:`~synib.Tokens`), batch first.
        target: The targets.
        examples: Indices of the examples in the training data, for masks that treat examples differently.
        sample_weight: Weight of each example, ``(batch,)``; equal weights by default.
        present: Name → boolean mask of the examples that have that modality, where the modality itself has no padding
            mask.
        group: Process group that trains replicas of the model, for statistics over the whole distributed batch.
        check_values: Whether to check the values of the target as well as its shape.
    """

    modalities: Mapping[str, Modality]
    target: Tensor
    examples: Tensor | None = None
    sample_weight: Tensor | None = None
    present: Mapping[str, Tensor | None] | None = None
    group: Any = None
    check_values: bool = False

    @property
    def size(self) -> int:
        """Number of examples."""
        return values(next(iter(self.modalities.values()))).shape[0]


class Objective(nn.Module):
    """Base class of all objectives: checks the inputs and computes the supervised part of the loss.

    Subclasses implement :meth:`loss`, a pure function of the model's parameters, the batch, the key and the objective's
    buffers: the same code runs in a plain loop and under ``torch.func.vmap``. An objective that needs more than a loss
    (several stages, modulated gradients, changes between epochs) also inherits from a class of
    :mod:`synib.methods.hooks`.

    Args:
        family: The predictive distribution.
        unimodal_weight: Weight of the losses of the unimodal heads, if the model has any.
        check: Whether to check the values of each batch (finite modalities, targets inside the family's support).
            ``None`` checks every batch on the CPU, but only the first one on an accelerator, where the check forces a
            synchronisation.

    Attributes:
        with_classes: For a method that needs classes: how it uses them, for the error message ("compares probabilities
            of classes").
        with_heads: For a method that calls :meth:`require_heads`: how it uses unimodal heads, for the error message.
        predicts_by_fusion: Whether :meth:`predict` returns the prediction of the fusion.
    """

    with_classes: str = ""
    with_heads: str = ""
    predicts_by_fusion: bool = True

    def __init__(self, family: Family | None = None, unimodal_weight: float = 1.0, check: bool | None = None) -> None:
        super().__init__()
        self.family = check_kind("family", family, Family, "Bernoulli()") if family is not None else Categorical()
        self.unimodal_weight = check_number("unimodal_weight", unimodal_weight, least=0)
        self.check = check_flag("check", check, none=True)
        self._checked_values = False
        if self.with_classes and not self.family.discrete:
            raise ValueError(
                f"{type(self).__name__} {self.with_classes}: use Bernoulli() or Categorical(); got {self.family!r}."
            )

    def forward(
        self,
        predict: Predict | MultimodalModel,
        modalities: Mapping[str, Modality],
        target: Tensor,
        *,
        key: Tensor | None = None,
        examples: Tensor | None = None,
        sample_weight: Tensor | None = None,
        unimodal: Mapping[str, Callable[[Modality], Tensor]] | None = None,
        group: Any = None,
    ) -> tuple[Tensor, Parts]:
        """The loss of a batch.

        Args:
            predict: A :class:`~synib.FusionModel`, possibly wrapped in DistributedDataParallel, FSDP, ``torch.compile``
                or a PEFT model, or any callable from modalities to the family's parameters.
            modalities: Name → tensor (or :class:`~synib.Tokens`), batch first.
            target: The targets.
            key: Key of all random draws; by default drawn from torch's generator.
            examples: Indices of the examples in the training data, for masks that treat examples differently.
            sample_weight: Weight of each example, ``(batch,)``: weight 2 equals two copies of the example. The terms
                that MCR, OGM, AGM and ReconBoost add to the task loss weight all examples equally.
            unimodal: Name → unimodal predictor of that modality, for a plain callable whose mask or reference needs
                one.
            group: The process group that trains replicas of the model; by default that of the model's wrapper, if any.

        Returns:
            The total loss, and its detached parts by name.
        """
        if isinstance(predict, MultimodalModel) and not unimodal:
            model = predict
        else:
            model = as_multimodal(predict, unimodal, modalities)
        compiling = torch.compiler.is_compiling()
        look = False
        if not compiling:
            examples = torch.as_tensor(examples) if examples is not None else None
            look = check_batch(modalities, target, model.names, examples, sample_weight, key, self.value_check())
        if key is None:
            # On the host, where folding it is free; inside a compiled graph, with everything else.
            key = keys.fresh(target.device if compiling else None)
        if group is None and predict is not model:
            group = replicas(predict)
        batch = Batch(modalities, target, examples, sample_weight, group=group, check_values=look)
        if compiling:
            return self.loss(model, batch, key)
        try:
            if predict is model and not hasattr(model, "set_requires_gradient_sync"):
                return self.loss(model, batch, key)
            return as_forward(predict, lambda: self.loss(model, batch, key), self.searches)
        except (RuntimeError, TypeError) as mistake:
            explain(mistake, model, modalities)
            raise

    @property
    def searches(self) -> bool:
        """Whether the loss runs backward passes inside the forward pass, as learned masks do in their search."""
        return any(isinstance(part, Mask) and part.probes for part in self.modules())

    def value_check(self) -> bool | None:
        """Whether to check the values of the next batch; ``None`` means only where that needs no synchronisation."""
        first, self._checked_values = not self._checked_values, True
        return True if first and self.check is None else self.check

    def loss(self, model: MultimodalModel, batch: Batch, key: Tensor) -> tuple[Tensor, Parts]:
        """The loss and its parts. Only shapes are checked, and values if ``batch.check_values`` is true."""
        raise NotImplementedError(f"{type(self).__name__} must define loss(model, batch, key).")

    def predict(self, model: MultimodalModel, modalities: Mapping[str, Modality]) -> Tensor:
        """The trained model's prediction: parameters of the predictive distribution."""
        return self.intact(model, modalities)[1]

    def uses(self, modality: str) -> bool:
        """Whether the loss and the prediction depend on a modality; those of large files are not read otherwise."""
        return True

    def prepare(self, model: Any, modalities: Mapping[str, Modality]) -> None:
        """Allocate buffers whose size depends on the data before the first batch: for ``vmap``, and before loading a
        state dict.

        Args:
            model: The model.
            modalities: A few examples.
        """
        for part in self.modules():
            if isinstance(part, Noise):
                for name, x in modalities.items():
                    part.prepare(x, name)

    @staticmethod
    def intact(model: MultimodalModel, modalities: Mapping[str, Modality]) -> tuple[dict[str, Any], Tensor]:
        """The latents and the prediction of an intact batch."""
        latents = {name: model.encode(name, x) for name, x in modalities.items()}
        return latents, model.combine({name: model.project(name, z) for name, z in latents.items()})

    @staticmethod
    def predictions(
        model: MultimodalModel, batches: Sequence[Mapping[str, Any]], separate: bool = False
    ) -> list[Tensor]:
        """The predictions for several batches of fusion inputs, in one call of the fusion unless ``separate`` calls
        are needed.
        """
        if separate or len(batches) == 1:
            return [model.combine(b) for b in batches]
        joined: dict[str, Any] = {}
        for name in batches[0]:
            pieces = [b[name] for b in batches]
            plain = isinstance(pieces[0], Tensor)
            sizes = [len(piece) if plain else len(piece.values) for piece in pieces]
            joined[name] = torch.cat(pieces) if plain else tokens.join(pieces)
        return list(model.combine(joined).split(sizes))

    def require_heads(self, model: MultimodalModel, names: Iterable[str]) -> None:
        """Raise ``ValueError`` naming the modalities for which the model has no unimodal head."""
        missing = [name for name in names if not model.has_head(name)]
        if missing:
            names = ", ".join(map(repr, missing))
            raise ValueError(
                f"{type(self).__name__} {self.with_heads}, but the model has no head for {names}: give the "
                "FusionModel unimodal heads (head_hidden=[] for linear heads)."
            )

    def supervised(
        self, model: MultimodalModel, latents: Mapping[str, Any], prediction: Tensor, batch: Batch
    ) -> tuple[Tensor, Parts, dict[str, Tensor]]:
        """The task loss of the intact prediction plus the losses of the unimodal heads: total, parts, and the heads'
        predictions.
        """
        losses, heads = self.each_loss(model, latents, prediction, batch)
        total = losses["task"]
        for name in heads:
            total = total + self.unimodal_weight * losses[f"unimodal/{name}"]
        return total, {name: loss.detach() for name, loss in losses.items()}, heads

    def each_loss(
        self, model: MultimodalModel, latents: Mapping[str, Any], prediction: Tensor, batch: Batch
    ) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        """The losses of the intact prediction and of each unimodal head by name, and the predictions of the heads."""
        losses = {"task": self.task_loss(prediction, batch)}
        heads = {name: model.head(name, z) for name, z in latents.items() if model.has_head(name)}
        for name, own in heads.items():
            if own.shape[1:].numel() != prediction.shape[1:].numel():
                raise ValueError(
                    f"The head of {name!r} returns shape {tuple(own.shape)}, but the fusion returns "
                    f"{tuple(prediction.shape)}: give both the same number of outputs."
                )
            losses[f"unimodal/{name}"] = self.family.mean_nll(own, batch.target, batch.sample_weight)
        return losses, heads

    def task_loss(self, prediction: Tensor, batch: Batch) -> Tensor:
        """The mean negative log-likelihood of the targets, after checking that they match the prediction."""
        self.family.check_target(prediction, batch.target, values=batch.check_values)
        return self.family.mean_nll(prediction, batch.target, batch.sample_weight)

    def extra_repr(self) -> str:
        return settings_repr(self)
