"""What every training objective is: a loss from (model, modalities, target), and its parts for logging."""

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
    """What an objective learns from in one step.

    Args:
        modalities: Name → tensor (or :class:`~synib.Tokens`), batch first.
        target: What is to be predicted.
        examples: Which training examples these are, for masks that treat them differently.
        sample_weight: How much each example counts, ``(batch,)``; equally by default.
        present: Name → which examples have that modality, where the modalities themselves do not say so.
        group: Processes that train copies of the model together, for statistics of the joint batch.
        check_values: Whether to look at the target's values, and not only at its shape.
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
    """Base of all objectives: checks what comes in, and shares the supervised part of the loss.

    Subclasses write :meth:`loss`, a pure function of the model's parameters, the batch, the key and the objective's
    buffers: the same lines run in a plain loop and under ``torch.func.vmap``. An objective that needs more than a loss (stages,
    weighed gradients, changes between epochs) says so by a class of :mod:`synib.methods.hooks`.

    Args:
        family: The predictive distribution.
        unimodal_weight: Weight of the unimodal predictors' own losses, where the model has such predictors.
        check: Look at the batch's values (finite modalities, targets inside the family's support): always, never, or
            with ``None`` always on the CPU but only at the first call on an accelerator, where looking means waiting.

    Attributes:
        with_classes: What it does with classes, for a method that needs some ("compares probabilities of classes").
        with_heads: What it does with unimodal heads, for a method that calls :meth:`require_heads`.
        predicts_by_fusion: Whether :meth:`predict` is the fusion's prediction.
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
            predict: A :class:`~synib.FusionModel`, also inside DistributedDataParallel, FSDP, ``torch.compile`` or a PEFT
                model, or any callable from modalities to the family's parameters.
            modalities: Name → tensor (or :class:`~synib.Tokens`), batch first.
            target: What is to be predicted.
            key: Decides every random draw; by default drawn from torch's generator.
            examples: Which training examples these are, for masks that treat them differently.
            sample_weight: How much each example counts, ``(batch,)``: 2 is as if it were there twice. In what MCR, OGM, AGM and
                ReconBoost add to the task loss, examples count equally.
            unimodal: Name → that modality's own predictor, for a plain callable whose mask or reference needs one.
            group: The process group that trains copies of the model together; by default that of its wrapper, if any.

        Returns:
            The total loss, and its parts by name, detached.
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
        """Whether its loss runs backward passes of its own, as a mask does that searches."""
        return any(isinstance(part, Mask) and part.probes for part in self.modules())

    def value_check(self) -> bool | None:
        """Whether the next batch's values are looked at; ``None``: where that does not mean to wait for a device."""
        first, self._checked_values = not self._checked_values, True
        return True if first and self.check is None else self.check

    def loss(self, model: MultimodalModel, batch: Batch, key: Tensor) -> tuple[Tensor, Parts]:
        """The loss itself and its parts; only shapes are checked, and values where ``batch.check_values`` says so."""
        raise NotImplementedError(f"{type(self).__name__} must define loss(model, batch, key).")

    def predict(self, model: MultimodalModel, modalities: Mapping[str, Modality]) -> Tensor:
        """The trained model's prediction: parameters of the predictive distribution."""
        return self.intact(model, modalities)[1]

    def prepare(self, model: Any, modalities: Mapping[str, Modality]) -> None:
        """Allocate buffers whose size only the data tell, where the first batch cannot: under ``vmap``, before loading a state.

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
        """The prediction of each batch of fusion inputs, in one call of the fusion unless ``separate`` ones are needed."""
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
        """Raise ``ValueError`` naming the modalities of which the model has no unimodal head."""
        missing = [name for name in names if not model.has_head(name)]
        if missing:
            names = ", ".join(map(repr, missing))
            raise ValueError(
                f"{type(self).__name__} {self.with_heads}, and the model has none for {names}: give the FusionModel unimodal "
                "heads (head_hidden=[] for linear ones)."
            )

    def supervised(
        self, model: MultimodalModel, latents: Mapping[str, Any], prediction: Tensor, batch: Batch
    ) -> tuple[Tensor, Parts, dict[str, Tensor]]:
        """Task loss on the intact prediction, plus the unimodal predictors' losses: total, parts, their predictions."""
        losses, heads = self.each_loss(model, latents, prediction, batch)
        total = losses["task"]
        for name in heads:
            total = total + self.unimodal_weight * losses[f"unimodal/{name}"]
        return total, {name: loss.detach() for name, loss in losses.items()}, heads

    def each_loss(
        self, model: MultimodalModel, latents: Mapping[str, Any], prediction: Tensor, batch: Batch
    ) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        """The losses of the intact prediction and of each unimodal predictor, by name; and the latters' predictions."""
        losses = {"task": self.task_loss(prediction, batch)}
        heads = {name: model.head(name, z) for name, z in latents.items() if model.has_head(name)}
        for name, own in heads.items():
            if own.shape[1:].numel() != prediction.shape[1:].numel():
                raise ValueError(
                    f"The head of {name!r} predicts {tuple(own.shape)}, the fusion {tuple(prediction.shape)}: give it as many "
                    "outputs."
                )
            losses[f"unimodal/{name}"] = self.family.mean_nll(own, batch.target, batch.sample_weight)
        return losses, heads

    def task_loss(self, prediction: Tensor, batch: Batch) -> Tensor:
        """The mean negative log-likelihood of the targets, once they are known to fit the prediction."""
        self.family.check_target(prediction, batch.target, values=batch.check_values)
        return self.family.mean_nll(prediction, batch.target, batch.sample_weight)

    def extra_repr(self) -> str:
        return settings_repr(self)
