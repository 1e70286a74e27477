"""What every training objective is: a loss from (model, modalities, target), and its parts for logging."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from synib import keys
from synib.checks import check_flag, check_kind, check_number
from synib.masks import Noise
from synib.objective.checks import check_finite, check_modalities, check_model, check_rows, explain
from synib.objective.families import Categorical, Family
from synib.objective.fusible import Fusible, Predict, Whole
from synib.tokens import Modality, values

Parts = dict[str, Tensor]


class Batch(NamedTuple):
    """What an objective learns from in one step.

    Args:
        modalities: Name → tensor (or :class:`~synib.Tokens`), batch first.
        target: What is to be predicted.
        examples: Which training examples these are, for masks that treat them differently.
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

    A method may do more than a loss can say: answer otherwise than by the fusion (:meth:`predict`), weigh gradients
    (:meth:`losses`, :meth:`direction`), train in stages (:meth:`begin`, :meth:`trains`), change parameters between epochs
    (:meth:`revises`, :meth:`revise`), bring modules of its own (:meth:`attach`) or fit something at the end (:meth:`settle`).
    All of them do nothing by default, and all run under ``vmap`` as :meth:`loss` does.

    Attributes:
        cost: Roughly what a training step costs, in vanilla steps; only progress bars ask.
        with_classes: What it does with classes, for a method that needs some ("compares probabilities of classes").
        with_heads: What it does with unimodal heads, for a method that calls :meth:`require_heads`.
    """

    cost: float = 1.0
    with_classes: str = ""
    with_heads: str = ""

    def __init__(self, family: Family | None = None, unimodal_weight: float = 1.0, check: bool | None = None) -> None:
        super().__init__()
        self.family = check_kind("family", family, Family, "Bernoulli()") if family is not None else Categorical()
        self.unimodal_weight = check_number("unimodal_weight", unimodal_weight, least=0)
        self.check = check_flag("check", check, none=True)
        self._looked = False
        if self.with_classes and not self.family.discrete:
            raise ValueError(
                f"{type(self).__name__} {self.with_classes}: use Bernoulli() or Categorical(); got {self.family!r}."
            )

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
            examples: Which training examples these are, for masks that treat them differently.
            unimodal: Name → that modality's own predictor, for a plain callable whose mask or reference needs one.

        Returns:
            The total loss, and its parts by name, detached.
        """
        model, batch, key = self._checked(predict, modalities, target, key, examples, unimodal)
        if torch.compiler.is_compiling():
            return self.loss(model, batch, key)
        try:
            return self.loss(model, batch, key)
        except (RuntimeError, TypeError) as mistake:
            explain(mistake, model, modalities)
            raise

    def backward(
        self,
        predict: nn.Module,
        modalities: Mapping[str, Modality],
        target: Tensor,
        *,
        key: Tensor | None = None,
        examples: Tensor | None = None,
    ) -> tuple[Tensor, Parts]:
        """The loss of a batch, with the parameters' gradients filled in: ``loss.backward()`` for every method.

        Methods that weigh the gradients of several losses against each other need this instead of ``loss.backward()``;
        parameters that a method does not train in this epoch get no gradient.

        Args:
            predict, modalities, target, key, examples: As for calling the objective.
        """
        model, batch, key = self._checked(predict, modalities, target, key, examples, None)
        if not isinstance(predict, nn.Module):
            raise ValueError(
                f"backward fills in the gradients of a module's parameters; got {type(predict).__name__}: call the objective, "
                "then loss.backward()."
            )
        if not torch.is_grad_enabled():
            raise ValueError("backward needs gradients, and torch.no_grad() switches them off: call it outside.")
        owned = [("model", predict), ("method", self)]
        parameters = {f"{who}.{name}": p for who, module in owned for name, p in module.named_parameters()}
        trained = {name: p for name, p in parameters.items() if p.requires_grad and self.trains(name)}
        try:
            losses, parts = self.losses(model, batch, key)
        except (RuntimeError, TypeError) as mistake:
            explain(mistake, model, modalities)
            raise
        if not trained:
            raise ValueError("There is nothing to train: no parameter of the model or the method takes a gradient now.")
        gradients = [torch.autograd.grad(loss, list(trained.values()), retain_graph=True, materialize_grads=True)
                     for loss in losses.values()]  # fmt: skip
        stacked = {
            name: torch.stack(tensors) for name, tensors in zip(trained, zip(*gradients, strict=True), strict=True)
        }
        for name, gradient in self.direction(stacked, list(losses), parts, keys.fold(key, "direction")).items():
            p = trained[name]
            p.grad = gradient if p.grad is None else p.grad + gradient
        return torch.stack(list(losses.values())).sum().detach(), parts

    def _checked(
        self,
        predict: Predict | Fusible,
        modalities: Mapping[str, Modality],
        target: Tensor,
        key: Tensor | None,
        examples: Tensor | None,
        unimodal: Mapping[str, Callable[[Modality], Tensor]] | None,
    ) -> tuple[Fusible, Batch, Tensor]:
        """What :meth:`loss` takes, if it can be taken."""
        compiling = torch.compiler.is_compiling()
        if not compiling:
            check_model(predict, unimodal, modalities)
        model = predict if isinstance(predict, Fusible) else Whole(predict, unimodal or {})
        look = False
        if not compiling:
            check_modalities(modalities, model.names)
            name, first = next((name, values(x)) for name, x in modalities.items())
            examples = torch.as_tensor(examples) if examples is not None else None
            check_rows(target, examples, name, first)
            look = self.check if self.check is not None else first.device.type == "cpu" or not self._looked
            if look:
                check_finite(modalities)
                self._looked = True
        if key is not None:
            key = key if compiling else keys.check_key(key)
        else:
            # On the host, where folding it is free; inside a compiled graph, with everything else.
            key = keys.fresh(values(next(iter(modalities.values()))).device if compiling else None)
        return model, Batch(modalities, target, examples, look), key

    def loss(self, model: Fusible, batch: Batch, key: Tensor) -> tuple[Tensor, Parts]:
        """The loss itself and its parts, with nothing checked but shapes, and values where ``batch.look`` says so."""
        raise NotImplementedError(f"{type(self).__name__} must define loss(model, batch, key).")

    def losses(self, model: Fusible, batch: Batch, key: Tensor) -> tuple[dict[str, Tensor], Parts]:
        """The losses whose gradients :meth:`direction` weighs against each other; by default there is one."""
        found = self.loss(model, batch, key)
        if not (isinstance(found, tuple) and len(found) == 2 and isinstance(found[0], Tensor)):
            kinds = [type(part).__name__ for part in found] if isinstance(found, tuple) else [type(found).__name__]
            raise ValueError(
                f"{type(self).__name__}.loss returns (total, parts), a tensor and a dict; got {', '.join(kinds)}."
            )
        total, parts = found
        if total.ndim:
            raise ValueError(
                f"{type(self).__name__}.loss returns one number as its total; got shape {tuple(total.shape)}: take the mean."
            )
        return {"total": total}, parts

    def direction(
        self, gradients: Mapping[str, Tensor], losses: Sequence[str], parts: Parts, key: Tensor
    ) -> dict[str, Tensor]:
        """What the optimiser is given; by default the sum of the gradients.

        Args:
            gradients: For each parameter (``model.encoders.<modality>.…``, ``model.heads.…``, ``method.…``) the gradients of
                all losses, stacked in front.
            losses: The losses, in that order.
            parts: What :meth:`losses` reported.
            key: For methods that draw.
        """
        return {name: g[0] if len(losses) == 1 else g.sum(0) for name, g in gradients.items()}

    def predict(self, model: Fusible, modalities: Mapping[str, Modality]) -> Tensor:
        """What the trained model answers: parameters of the predictive distribution."""
        return self.intact(model, modalities)[1]

    def prepare(self, model: Any, modalities: Mapping[str, Modality]) -> None:
        """Make room for what the first batch would bring, where it cannot: under ``vmap``, before a checkpoint is read.

        Args:
            model: The model.
            modalities: A few examples.
        """
        for part in self.modules():
            if isinstance(part, Noise):
                for name, x in modalities.items():
                    part.prepare(x, name)

    def attach(self, model: Any) -> None:
        """Make what the method needs beside the model, from the model's own parts; before the optimiser is made."""

    def begin(self, epoch: int) -> None:
        """Called before every epoch, counted from 0."""

    def trains(self, parameter: str) -> bool:
        """Whether a parameter (named as in :meth:`direction`) changes in this epoch."""
        return True

    def revises(self, epoch: int) -> bool:
        """Whether :meth:`revise` is to be called after this epoch, unless it is the last: nothing would train after it."""
        return False

    def revise(
        self, model: Any, train: Batch, validation: Batch, initial: Mapping[str, Tensor], key: Tensor
    ) -> dict[str, Tensor]:
        """New values of parameters, set between epochs from the whole training and validation data.

        Args:
            model: The model as it is.
            train, validation: All their examples.
            initial: The model's parameters as they were before training.
            key: Decides every draw.

        Returns:
            Parameter (named as the model names it) → its new value, for those that change.
        """
        raise NotImplementedError(f"{type(self).__name__} must define revise, since it revises.")

    def settle(self, model: Any, validation: Batch) -> None:
        """Called once after training: fit buffers of the method on validation data."""

    @staticmethod
    def intact(model: Fusible, modalities: Mapping[str, Modality]) -> tuple[dict[str, Any], Tensor]:
        """The latents and the prediction of an intact batch."""
        latents = {name: model.encode(name, x) for name, x in modalities.items()}
        return latents, model.combine({name: model.project(name, z) for name, z in latents.items()})

    def require_heads(self, model: Fusible, names: Iterable[str]) -> None:
        """Raise ``ValueError`` naming the modalities of which the model has no unimodal head."""
        missing = [name for name in names if not model.has_head(name)]
        if missing:
            names = ", ".join(map(repr, missing))
            raise ValueError(
                f"{type(self).__name__} {self.with_heads}, and the model has none for {names}: give the FusionModel unimodal "
                "heads (head_hidden=[] for linear ones)."
            )

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
            if own.shape[1:].numel() != prediction.shape[1:].numel():
                raise ValueError(
                    f"The head of {name!r} predicts {tuple(own.shape)}, the fusion {tuple(prediction.shape)}: give it as many "
                    "outputs."
                )
            own_loss = self.family.nll(own, target).mean()
            parts[f"unimodal/{name}"] = own_loss.detach()
            total = total + self.unimodal_weight * own_loss
        return total, parts, alone

    def extra_repr(self) -> str:
        return f"family={self.family!r}, unimodal_weight={self.unimodal_weight}"
