"""ReconBoost: trains modalities in turn, each on the residual of the others."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from synib.checks import check_number, check_whole
from synib.methods.hooks import AddsModules, TrainsInStages
from synib.objective import Batch, MultimodalModel, Objective, Parts
from synib.tokens import Modality


class ReconBoost(Objective, TrainsInStages, AddsModules):
    r"""An ensemble of the unimodal heads, trained one modality at a time (Hua et al., ICML 2024; App. "Baselines").

    In the stage of modality k only its encoder and head are trained:

    .. math:: \mathrm{CE}(p_k) - \lambda\, D_\mathrm{KL}(p_{-k} \,\|\, p_k)
        + \alpha \lVert \nabla \mathrm{CE}(p_k) - \nabla \mathrm{CE}(p_{k-1}) \rVert^2

    :math:`p_{-k}` has the summed logits of all other heads, and gradients are taken with respect to a head's own
    logits; the other modalities are constant here. With λ = 1 the first two terms have the gradient :math:`p_{-k} - y`:
    modality k fits the residual of the others, as in gradient boosting. (The authors' code detaches both sides of the
    last term, so that it has no effect; here it acts on modality k.)

    After the stages of all modalities, all encoders and heads are trained on the cross-entropy of the summed logits
    (global rectification), and a new round starts. The method predicts by this sum, without the fusion.

    Args:
        stage: Epochs of a modality's stage.
        rectify: Epochs of rectification at the end of a round; a round has ``modalities · stage + rectify``.
        reconcile: λ. The negative KL has no lower bound: the larger λ, the faster the logits grow.
        consistency: α. Defaults are those of the authors' code, relative to the cross-entropy.
        settings: ``family``, ``check``, see :class:`Objective`; ``unimodal_weight`` has no effect.
    """

    with_classes = "sums class logits"
    predicts_by_fusion = False
    with_heads = "consists of unimodal heads"

    def __init__(
        self, stage: int = 4, rectify: int = 4, reconcile: float = 0.25, consistency: float = 0.5, **settings: Any
    ) -> None:
        super().__init__(**settings)
        self.stage, self.rectify = check_whole("stage", stage), check_whole("rectify", rectify, least=0)
        self.reconcile = check_number("reconcile", reconcile, least=0)
        self.consistency = check_number("consistency", consistency, least=0)
        self.epoch = 0
        self.names: tuple[str, ...] = ()

    def attach(self, model: Any) -> None:
        self.names = model.names

    def begin(self, epoch: int) -> None:
        # The first epoch of the stage: with a number that changes in every epoch, steps would be recorded in every epoch.
        stages = len(self.names)
        at = epoch % (stages * self.stage + self.rectify) if stages else epoch
        self.epoch = self.stage * min(at // self.stage, stages) if stages else epoch

    def turn(self, names: Sequence[str]) -> int | None:
        """The modality whose stage this epoch belongs to; ``None`` in rectification."""
        at = self.epoch % (len(names) * self.stage + self.rectify) // self.stage
        return at if at < len(names) else None

    def trains(self, parameter: str) -> bool:
        if not self.names:
            raise ValueError(
                "ReconBoost trains modalities in turn and does not know them yet: call attach(model) first."
            )
        k = self.turn(self.names)
        mine = "" if k is None else f"{self.names[k]}."
        return parameter.startswith((f"model.encoders.{mine}", f"model.heads.{mine}"))

    def loss(self, model: MultimodalModel, batch: Batch, key: Tensor) -> tuple[Tensor, Parts]:
        target, nll, weight = batch.target, self.family.nll, batch.sample_weight
        names = model.names or tuple(batch.modalities)
        logits = self._logits(model, batch.modalities)
        joint = torch.stack([logits[name] for name in names]).sum(0)
        task = self.task_loss(joint, batch)
        losses = {name: self.family.mean_nll(logits[name], target, weight) for name in names}
        parts = {"task": task.detach()} | {f"unimodal/{name}": own.detach() for name, own in losses.items()}
        k = self.turn(names)
        if k is None:
            return task, parts
        own, previous = logits[names[k]], logits[names[k - 1]].detach()
        rest = torch.stack([logits[name].detach() for name in names if name != names[k]]).sum(0)
        reconcile = self.family.kl(rest, own).mean()
        slope = torch.func.grad(lambda parameters: nll(parameters, target).sum())
        consistency = (slope(own) - slope(previous)).square().sum() / len(target)
        parts |= {"reconcile": reconcile.detach(), "consistency": consistency.detach()}
        return losses[names[k]] - self.reconcile * reconcile + self.consistency * consistency, parts

    def predict(self, model: MultimodalModel, modalities: Mapping[str, Modality]) -> Tensor:
        return torch.stack(list(self._logits(model, modalities).values())).sum(0)

    def _logits(self, model: MultimodalModel, modalities: Mapping[str, Modality]) -> dict[str, Tensor]:
        self.require_heads(model, modalities)
        # Through heads that other methods train detached, too: here their losses are all that trains an encoder.
        return {name: model.head(name, model.encode(name, x), through=True) for name, x in modalities.items()}
