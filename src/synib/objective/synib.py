"""The SynIB objective: correct with all modalities intact, uncertain as soon as one is corrupted."""

import copy
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from synib import keys, tokens
from synib.checks import check_choice, check_flag, check_kind, check_whole, shown, warn_once
from synib.masks import HideTokens, Mask, Noise, RandomMask, ShuffledNoise
from synib.objective.base import Batch, Parts
from synib.objective.checks import check_batch
from synib.objective.corruption import corrupt
from synib.objective.counterfactuals import Counterfactual, Subsets, counted, deal, kinds, predicted_classes
from synib.objective.families import Family
from synib.objective.model import MultimodalModel, Predict
from synib.objective.penalised import Constant, Penalised, weight_over, weighted_mean
from synib.objective.references import Reference
from synib.objective.wrappers import as_multimodal
from synib.tokens import Modality

DRAWS = 16  # by default, where a draw is cheap


class SynIB(Penalised):
    r"""The Synergistic Information Bottleneck (Eq. synib-loss; n modalities as in its footnote).

    .. math:: \mathcal L = \mathrm{CE}\big(q(y \mid x_1..x_n)\big)
              + \lambda \sum_i D_\mathrm{KL}\Big(\tfrac1K \textstyle\sum_k q(y \mid \tilde x_i^{(k)}, x_{\neg i})
              \,\Big\|\, r\Big)

    where :math:`\tilde x_i` is modality *i* with masked coordinates replaced by noise. The paper uses ``draws`` = K =
    1. With K > 1, predictions are averaged over draws before the KL, which approximates marginalising the modality out:
    a prediction that depends on the interaction averages out and is not penalised.

    Masks act on the modalities as passed to the objective; :class:`~synib.OnLatents` applies them to the encoders'
    outputs.

    Args:
        mask: Which coordinates to corrupt. Default: ``RandomMask(1.0)``, the whole modality.
        noise: The replacement values. Default: :class:`ShuffledNoise`, the values of another example.
        reference: The distribution that the corrupted prediction should fall back to. Default: :class:`Uniform`.
        family: The predictive distribution. Default: ``Categorical()``.
        weight: λ, a number or a schedule such as :class:`LinearWarmup`. Default: 10 if ``steps`` is given, otherwise 1.
        steps: The number of training steps (calls in training mode). The weight then falls linearly, to a hundredth of
            itself after the first 80 % of them. With the other defaults this is the recipe of the fair comparison, which
            has the same settings on every task.
        unimodal_weight: Weight of the losses of the unimodal heads, if the model has any.
        corrupt: The modalities to corrupt; all by default.
        subsets: Corrupt ``"each"`` modality alone, or every ``"proper"`` subset of them.
        sample: Number of counterfactuals drawn for each example in a step, to reduce the cost; ``None`` for all.
        draws: K. Masks and noise are redrawn each time; a learned mask is searched only once. Default: 16 with
            ``debias``; otherwise 1 with ``steps``; without, 16 if whole modalities are swapped and the model encodes each
            as a vector, so that a draw only repeats the fusion head, and 1 if not.
        debias: Remove the upward bias, about (classes - 1) / 2K, of the KL of an average of K draws: twice the KL of
            all draws minus the mean KL of their two halves, which cancels the 1/K term. Needs an even K.
        check: When to check the values of a batch, see :class:`Objective`.

    Example:
        >>> import torch, synib
        >>> model = synib.FusionModel.mlp({"image": 8, "text": 4}, hidden=[16], classes=3)
        >>> objective = synib.SynIB(steps=1000)  # the length of the training
        >>> batch = {"image": torch.randn(32, 8), "text": torch.randn(32, 4)}
        >>> loss, parts = objective(model, batch, torch.randint(3, (32,)))
        >>> loss.backward()
        >>> sorted(parts)
        ['penalty/image', 'penalty/text', 'task', 'weight']
    """

    with_heads = "swaps values within the classes that unimodal heads predict"

    def __init__(
        self,
        mask: Mask | None = None,
        noise: Noise | None = None,
        reference: Reference | None = None,
        family: Family | None = None,
        weight: float | Constant | None = None,
        *,
        steps: int | None = None,
        unimodal_weight: float = 1.0,
        corrupt: Sequence[str] | None = None,
        subsets: Subsets = "each",
        sample: int | None = None,
        draws: int | None = None,
        debias: bool = False,
        check: bool | None = None,
    ) -> None:
        super().__init__(weight_over(weight, steps), reference, family, unimodal_weight, check)
        self.mask = check_kind("mask", mask, Mask, "RandomMask(0.5)") if mask is not None else RandomMask(1.0)
        self.noise = check_kind("noise", noise, Noise, "ShuffledNoise()") if noise is not None else ShuffledNoise()
        self.debias = check_flag("debias", debias)
        automatic = DRAWS if debias else None if steps is None else 1  # debiasing needs several
        self.draws = automatic if draws is None else check_whole("draws", draws)
        self.sample = check_whole("sample", sample) if sample is not None else None
        self.subsets = check_choice("subsets", subsets, Subsets)
        self.corrupt = None if corrupt is None else tuple(corrupt)
        if isinstance(corrupt, str) or self.corrupt == ():
            raise ValueError(f"corrupt must list names of modalities, such as ['image']; got {shown(corrupt)}.")
        if debias and draws is not None and draws % 2:
            raise ValueError(f"draws must be even with debias=True; got draws={draws}.")
        if self.mask.probes and isinstance(self.noise, HideTokens):
            raise ValueError(
                f"{type(self.mask).__name__} mixes noise into the values, but HideTokens has no values to mix in."
            )
        if self.noise.within_classes and not (self.mask.whole and self.family.discrete):
            raise ValueError(
                f"{type(self.noise).__name__} swaps whole modalities between examples of one predicted class: use "
                f"RandomMask(1.0) with Bernoulli() or Categorical(); got {self.mask!r} and {self.family!r}."
            )

        self._kinds: dict[tuple[str, ...], list[Counterfactual]] = {}

    def loss(self, model: MultimodalModel, batch: Batch, key: Tensor) -> tuple[Tensor, Parts]:
        counterfactuals = self._plan(batch, key)
        corrupted, mask_losses = corrupt(
            model, batch, counterfactuals, self.mask, self.noise, self.family, self.draws or 1, key
        )
        latents, batches, draws = self._encode(model, batch, counterfactuals, corrupted, key)
        if separate := bool(counterfactuals) and model.mixes_rows():
            self._warn_of_batch_norm(model)
        prediction, *uncertain = self.predictions(model, batches, separate)

        total, parts, heads = self.supervised(model, latents, prediction, batch)
        weight = self.scheduled_weight() if self.weight.changes else self.weight.weight
        if counterfactuals:
            penalties = [
                self._penalty(c, u, draws, heads, batch) for c, u in zip(counterfactuals, uncertain, strict=True)
            ]
            total = total + weight * torch.stack(penalties).sum()
            parts |= {f"penalty/{c.label}": p.detach() for c, p in zip(counterfactuals, penalties, strict=True)}
        parts["weight"] = weight.detach()
        for name, searched in mask_losses.items():
            own = torch.stack(searched).mean()
            total = total + (own - own.detach())  # trains the mask, leaves the value alone
            parts[f"mask/{name}"] = own.detach()
        return total, parts

    def counterfactuals(
        self,
        predict: Predict | MultimodalModel,
        modalities: Mapping[str, Modality],
        target: Tensor,
        key: Tensor | None = None,
    ) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
        """The inputs of the fusion for a batch: intact, and with each modality (or subset) corrupted.

        Noise statistics are not updated.

        Args:
            predict: The model, as in a call of the objective.
            modalities, target: The batch.
            key: Key of all random draws; by default drawn from torch's generator.

        Returns:
            Modality → its input to the fusion; and the same for each counterfactual, with ``draws`` times as many rows.
        """
        model = as_multimodal(predict)
        check_batch(modalities, target, model.names, key=key, check=self.check)
        key = keys.fresh() if key is None else key
        batch = Batch(modalities, target)
        planned = self._plan(batch, key)
        noise = copy.deepcopy(self.noise)  # it may follow the data
        corrupted, _ = corrupt(model, batch, planned, self.mask, noise, self.family, self.draws or 1, key)
        _, (intact, *changed), _ = self._encode(model, batch, planned, corrupted, key)
        return intact, {c.label: inputs for c, inputs in zip(planned, changed, strict=True)}

    def _plan(self, batch: Batch, key: Tensor) -> list[Counterfactual]:
        """The counterfactuals of this step; none if the batch is a single example, which cannot take values from another."""
        names = tuple(batch.modalities)
        planned = self._kinds.get(names)
        if planned is None:
            planned = self._kinds[names] = kinds(names, self.subsets, self.corrupt)
        if self.noise.shuffles and batch.target.shape[0] < 2:
            warn_once(
                self,
                "A batch of one example has no other example to take values from, so its penalty is skipped. Use "
                "drop_last=True to skip such batches.",
                stacklevel=5,
            )
            return []
        if self.sample is None:
            return planned
        return deal(planned, self.sample, batch.target.shape[0], keys.fold(key, "plan"), batch.target.device)

    def _encode(
        self,
        model: MultimodalModel,
        batch: Batch,
        counterfactuals: Sequence[Counterfactual],
        corrupted: Mapping[tuple[str, str], Modality],
        key: Tensor,
    ) -> tuple[dict[str, Any], list[dict[str, Any]], int]:
        """Latents of the intact batch; the fusion inputs: intact, then each counterfactual; and the number of draws."""
        latents: dict[str, Any] = {}
        intact: dict[str, Any] = {}
        changed: dict[tuple[str, str], Any] = {}
        for name, x in batch.modalities.items():
            mine = [which for which in corrupted if which[0] == name]
            if mine and not model.mixes_rows(name):  # each encoder sees intact and corrupted rows in one batch
                pieces: list[Any] = [x, *(corrupted[which] for which in mine)]
                plain = isinstance(x, Tensor)
                sizes = [len(piece) if plain else len(piece.values) for piece in pieces]
                z = model.encode(name, torch.cat(pieces) if plain else tokens.join(pieces))
                projected = model.project(name, z)
                intact[name], *rest = (
                    projected.split(sizes) if isinstance(projected, Tensor) else tokens.split(projected, sizes)
                )
                latents[name] = z[: sizes[0]] if isinstance(z, Tensor) else tokens.split(z, sizes)[0]
            else:
                if mine:
                    self._warn_of_batch_norm()
                latents[name] = model.encode(name, x)
                intact[name] = model.project(name, latents[name])
                rest = [model.project(name, model.encode(name, corrupted[which])) for which in mine]
            changed |= dict(zip(mine, rest, strict=True))
        batches, n, classes = [intact], batch.target.shape[0], {}
        draws = self.draws or (DRAWS if self._draws_are_cheap(model, intact) else 1)
        if self.noise.within_classes and counterfactuals:
            self.require_heads(model, latents)
            classes = predicted_classes(model, latents, self.family)
        for c in counterfactuals:
            inputs: dict[str, Any] = {}
            for name, z in intact.items():
                if name not in c.corrupted:
                    inputs[name] = z if c.rows is None and draws == 1 else tokens.repeat(z, c.rows, draws)
                elif corrupted:
                    inputs[name] = changed[name, "" if c.rows is None else c.label]
                else:
                    own = keys.fold(key, name, "", "noise")
                    chosen = self.noise.chosen(own, n, draws, batch.target.device, c.rows, classes.get(name))
                    inputs[name] = tokens.take(z, chosen)
            batches.append(inputs)
        return latents, batches, draws

    def _draws_are_cheap(self, model: MultimodalModel, projected: Mapping[str, Any]) -> bool:
        """Whether a draw only repeats a fusion head of vectors."""
        vectors = all(isinstance(z, Tensor) and z.ndim == 2 for z in projected.values())
        return self.mask.whole and self.noise.shuffles and model.names is not None and vectors

    def _penalty(
        self, counterfactual: Counterfactual, uncertain: Tensor, draws: int, heads: Mapping[str, Tensor], batch: Batch
    ) -> Tensor:
        """KL of the corrupted prediction to the reference, averaged over the examples of this counterfactual.

        An example that lacks the corrupted modality has no counterfactual and is ignored.
        """
        rows = counterfactual.rows
        intact: dict[str, Tensor] = {}
        if self.reference.needs_unimodal:
            others = {name: p for name, p in heads.items() if name not in counterfactual.corrupted}
            intact = {name: (p if rows is None else p[rows]).detach() for name, p in others.items()}
            if not intact:
                raise ValueError(
                    "The Unimodal reference needs a unimodal predictor for a modality other than "
                    f"{counterfactual.label!r}: give the FusionModel heads, or pass unimodal={{name: predictor}}."
                )
        drawn = uncertain.unflatten(0, (draws, -1))
        divergence = self._of_draws(drawn, intact)
        if self.debias:
            halves = drawn.unflatten(0, (2, -1))
            of_halves = 0.5 * (self._of_draws(halves[0], intact) + self._of_draws(halves[1], intact))
            divergence = 2 * divergence - of_halves
        first = batch.modalities[counterfactual.corrupted[0]]
        equal = batch.sample_weight is None and batch.present is None and isinstance(first, Tensor)
        weight = None if equal else counted(counterfactual, batch)
        if weight is None:
            # Of dealt rows too the expectation is that of the mean over all rows; where there are none, 0.
            return divergence.sum() / max(divergence.shape[0], 1)
        return weighted_mean(divergence, weight)

    def _of_draws(self, draws: Tensor, intact: Mapping[str, Tensor]) -> Tensor:
        prediction = draws[0] if draws.shape[0] == 1 else self.family.average(draws)
        if self.reference.neutral:
            return self.family.kl(prediction)
        return self.family.kl(prediction, self.reference(prediction, self.family, intact))

    def _warn_of_batch_norm(self, model: MultimodalModel | None = None) -> None:
        if model is None or model.names is not None:  # of a plain function nothing is known, and nothing was promised
            warn_once(
                self,
                "A BatchNorm layer in training mode mixes the rows of a batch, so intact and corrupted rows take "
                "separate passes and the step is as slow as a plain loop.",
                stacklevel=5,
            )
