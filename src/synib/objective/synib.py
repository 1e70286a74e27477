"""The SynIB objective: be right with every modality intact, and unsure as soon as one is corrupted."""

import warnings
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor

from synib import keys, tokens
from synib.checks import check_flag, check_kind, check_number, check_whole, shown
from synib.masks import HideTokens, Mask, Noise, Probe, RandomMask, ShuffledNoise
from synib.masks.base import undisturbed
from synib.objective.base import Batch, Parts
from synib.objective.counterfactuals import Counterfactual, Subsets, plan
from synib.objective.families import Family
from synib.objective.fusible import Fusible, Whole
from synib.objective.penalised import Constant, Penalised
from synib.objective.references import Reference
from synib.tokens import Modality, values

Space = Literal["inputs", "latents"]


class SynIB(Penalised):
    r"""The Synergistic Information Bottleneck (Eq. synib-loss; n modalities as in its footnote).

    .. math:: \mathcal L = \mathrm{CE}\big(q(y \mid x_1..x_n)\big)
              + \lambda \sum_i D_\mathrm{KL}\Big(\tfrac1K \textstyle\sum_k q(y \mid \tilde x_i^{(k)}, x_{\neg i})
              \,\Big\|\, r\Big)

    where :math:`\tilde x_i` is modality *i* with masked coordinates replaced by noise. ``draws`` = K = 1 is the paper.
    With K > 1 predictions are averaged over draws before the KL, which approaches marginalising the modality out: a
    prediction that rests on the interaction averages out by itself and is not penalised.

    Masks act on the modalities as they are given, or with ``space="latents"`` on what a model's encoders make of them.

    Args:
        mask: What to corrupt. Default: ``RandomMask(1.0)``, the whole modality.
        noise: What to put there. Default: :class:`ShuffledNoise`, another example's values.
        reference: What the corrupted prediction should fall back to. Default: :class:`Uniform`.
        family: The predictive distribution. Default: ``Categorical()``.
        weight: λ, a number or a schedule such as :class:`LinearWarmup`.
        unimodal_weight: Weight of the unimodal predictors' own losses, where the model has such predictors.
        subsets: Corrupt ``"each"`` modality alone, or every ``"proper"`` subset of them.
        sample: How many of those each example meets in a step (the paper's open point on cost); ``None`` for all.
        draws: K. Masks and noise are drawn afresh for each; a learned mask is searched once.
        debias: Remove the upward bias, about (classes - 1) / 2K, that a KL of an average of K draws has: twice the KL of
            all draws minus the mean KL of their two halves, which is free of the 1/K term. Needs an even K.
        space: Corrupt ``"inputs"``, or ``"latents"``: encoders then run on intact data only.
        shares: Modality → how much its own penalty counts beside the weight; 1 for those not named.
        fused: Join intact and corrupted rows into one batch. Default: yes for a ``FusionModel``, unless a layer mixes
            rows (BatchNorm in training mode), and no for a plain callable, of which one cannot know.
        check: When to look at the batch's values, see :class:`Objective`.

    Example:
        >>> import torch, synib
        >>> model = synib.FusionModel.mlp({"image": 8, "text": 4}, hidden=[16], classes=3)
        >>> objective = synib.SynIB(weight=1.0)
        >>> batch = {"image": torch.randn(32, 8), "text": torch.randn(32, 4)}
        >>> loss, parts = objective(model, batch, torch.randint(3, (32,)))
        >>> loss.backward()
        >>> sorted(parts)
        ['penalty/image', 'penalty/text', 'task', 'weight']
    """

    with_heads = "swaps within the classes that unimodal heads predict"

    def __init__(
        self,
        mask: Mask | None = None,
        noise: Noise | None = None,
        reference: Reference | None = None,
        family: Family | None = None,
        weight: float | Constant = 1.0,
        *,
        unimodal_weight: float = 1.0,
        subsets: Subsets = "each",
        sample: int | None = None,
        draws: int = 1,
        debias: bool = False,
        space: Space = "inputs",
        shares: Mapping[str, float] | None = None,
        fused: bool | None = None,
        check: bool | None = None,
    ) -> None:
        super().__init__(weight, reference, family, unimodal_weight, check)
        if subsets not in ("each", "proper"):
            raise ValueError(f"subsets is 'each' or 'proper'; got {subsets!r}.")
        self.draws, self.debias = check_whole("draws", draws), check_flag("debias", debias)
        if debias and draws % 2:
            raise ValueError(f"draws is even with debias=True; got draws={draws}.")
        self.mask = check_kind("mask", mask, Mask, "RandomMask(0.5)") if mask is not None else RandomMask(1.0)
        self.noise = check_kind("noise", noise, Noise, "ShuffledNoise()") if noise is not None else ShuffledNoise()
        if self.mask.probes and isinstance(self.noise, HideTokens):
            raise ValueError(f"{type(self.mask).__name__} mixes noise into the values, and HideTokens has none to mix.")
        if space not in ("inputs", "latents"):
            raise ValueError(f"space is 'inputs' or 'latents'; got {space!r}.")
        if not isinstance(shares, Mapping | None):
            raise ValueError(f"shares are a dict of modality → number; got {shown(shares)}.")
        if shares is not None and subsets != "each":
            raise ValueError("shares weigh the penalties of single modalities: leave subsets at 'each'.")
        self.space = space
        self.shares = {
            name: check_number(f"The share of {name!r}", share, least=0) for name, share in (shares or {}).items()
        }
        if self.noise.within_classes and not (self.mask.whole and self.family.discrete):
            raise ValueError(
                f"{type(self.noise).__name__} swaps whole modalities that predict one class: use RandomMask(1.0), and "
                f"Bernoulli() or Categorical(); got {self.mask!r} and {self.family!r}."
            )
        self.subsets, self.fused = subsets, check_flag("fused", fused, none=True)
        self.sample = check_whole("sample", sample) if sample is not None else None
        self.cost = 1.5 + 0.1 * draws + self.mask.cost
        self._said = False

    def loss(self, model: Fusible, batch: Batch, key: Tensor) -> tuple[Tensor, Parts]:
        given = batch.modalities
        if self.space == "latents":
            model, batch = _on_latents(model, batch)
        if batch.look and batch.examples is not None:
            self.mask.check_examples(batch.examples)
        fused = self._is_fused(model)
        scenes, pieces, latents, batches = self._batches(model, batch, key, fused)
        prediction, *uncertain = _combine(model, batches, fused)

        total, parts, alone = self.supervised(model, latents, prediction, batch)
        penalties = [self._penalty(s, u, alone, given) for s, u in zip(scenes, uncertain, strict=True)]
        weight = self.weight_of_step()
        total = total + weight * torch.stack([self._shared(s, p) for s, p in zip(scenes, penalties, strict=True)]).sum()
        parts |= {f"penalty/{s.label}": p.detach() for s, p in zip(scenes, penalties, strict=True)}
        parts["weight"] = weight.detach()
        for name in batch.modalities:
            searched = [p.loss for (of, _), p in pieces.items() if of == name and p.loss is not None]
            if searched:
                own = torch.stack(searched).mean()
                total = total + (own - own.detach())  # trains the mask, leaves the value alone
                parts[f"mask/{name}"] = own.detach()
        return total, parts

    def counterfactuals(
        self, predict: Fusible, modalities: Mapping[str, Modality], target: Tensor, key: Tensor | None = None
    ) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
        """What the fusion is given of a batch: intact, and with each modality (or subset of them) corrupted.

        Args:
            predict: The model.
            modalities, target: The batch.
            key: Decides every draw; by default drawn from torch's generator.

        Returns:
            Modality → what it brings to the fusion; and the same for each counterfactual, ``draws`` times as many rows.
        """
        model, batch, key = self._checked(predict, modalities, target, key, None, None)
        if self.space == "latents":
            model, batch = _on_latents(model, batch)
        scenes, _, _, (intact, *corrupted) = self._batches(model, batch, key, self._is_fused(model))
        return intact, {scene.label: one for scene, one in zip(scenes, corrupted, strict=True)}

    def prepare(self, model: Any, modalities: Mapping[str, Modality]) -> None:
        if self.space == "latents":
            device = next(model.parameters()).device
            with torch.no_grad(), undisturbed([model]):
                here = {name: tokens.move(x, device) for name, x in modalities.items()}
                modalities = _on_latents(model, Batch(here, torch.empty(0)))[1].modalities
        super().prepare(model, modalities)

    def _batches(self, model: Fusible, batch: Batch, key: Tensor, fused: bool) -> "_Batches":
        modalities, device = batch.modalities, batch.target.device
        if unknown := [name for name in self.shares if name not in modalities]:
            raise ValueError(f"shares name {unknown[0]!r}; the modalities are {', '.join(map(repr, modalities))}.")
        scenes = plan(list(modalities), self.subsets, self.sample, batch.size, keys.fold(key, "plan"), device)
        swaps = self.mask.whole and self.noise.shuffles
        for name, x in modalities.items():
            self.noise.observe(x, name)
        pieces = {} if swaps else self._corrupt(model, batch, scenes, key)
        latents, intact, brought = _encode(model, modalities, pieces, fused)
        classes = self._classes(model, latents) if self.noise.within_classes else {}
        batches = [intact]
        for scene in scenes:
            changed: dict[str, Any] = {}
            for name in scene.corrupted:
                changed[name] = (
                    tokens.take(intact[name], self._swap(key, name, scene, batch.size, device, classes.get(name)))
                    if swaps
                    else brought[_which(name, scene)]
                )
            batches.append({name: changed.get(name, _repeat(z, scene.rows, self.draws)) for name, z in intact.items()})
        return _Batches(scenes, pieces, latents, batches)

    def _classes(self, model: Fusible, latents: Mapping[str, Any]) -> dict[str, Tensor]:
        """What each modality's own head predicts."""
        self.require_heads(model, latents)
        found = {}
        for name, z in latents.items():
            with undisturbed(model.unimodal_modules(name)), torch.no_grad():
                found[name] = self.family.predict(model.head(name, z))
        return found

    def _shared(self, scene: Counterfactual, penalty: Tensor) -> Tensor:
        return penalty * self.shares[scene.label] if scene.label in self.shares else penalty

    def _corrupt(
        self, model: Fusible, batch: Batch, scenes: Sequence[Counterfactual], key: Tensor
    ) -> dict[tuple[str, str], "_Piece"]:
        """Every corrupted modality that the counterfactuals need; those of all rows share one."""
        pieces: dict[tuple[str, str], _Piece] = {}
        for scene in scenes:
            for name in scene.corrupted:
                which = _which(name, scene)
                if which not in pieces:
                    pieces[which] = self._piece(model, name, batch, scene.rows, keys.fold(key, *which))
        return pieces

    def _piece(self, model: Fusible, name: str, batch: Batch, rows: Tensor | None, key: Tensor) -> "_Piece":
        family, noise, look = self.family, self.noise, batch.look
        x, target, examples = batch.modalities[name], batch.target, batch.examples
        if rows is not None:
            x, target, examples = tokens.take(x, rows), target[rows], None if examples is None else examples[rows]

        def unimodal_loss(v: Tensor) -> Tensor:
            nonlocal look
            own = model.head(name, model.encode(name, tokens.with_values(x, v)), through=True)
            family.check_target(own, target, values=look)  # a searching mask meets the target first
            look = False
            return family.nll(own, target)

        probe = Probe(name, lambda k: noise(x, k, name), unimodal_loss if model.has_head(name) else None, examples)
        mask_key = keys.fold(key, "mask")
        if self.mask.probes:
            with undisturbed(model.unimodal_modules(name)):
                mask = self.mask(x, mask_key, probe, self.draws)
                mask_loss = self.mask.loss(x, mask_key, probe)
        else:
            mask, mask_loss = self.mask(x, mask_key, probe, self.draws), None
        return _Piece(noise.corrupt(x, mask, keys.fold(key, "noise"), name, self.draws), mask_loss)

    def _swap(
        self, key: Tensor, name: str, scene: Counterfactual, batch: int, device: torch.device, classes: Tensor | None
    ) -> Tensor:
        """Which rows fill a modality that is swapped whole."""
        known = () if classes is None else (classes,)
        rows = self.noise.rows(keys.fold(key, name, "", "noise"), batch, self.draws, device, *known)
        return rows if scene.rows is None else rows.view(self.draws, batch)[:, scene.rows].reshape(-1)

    def _penalty(
        self,
        scene: Counterfactual,
        uncertain: Tensor,
        alone: Mapping[str, Tensor],
        given: Mapping[str, Modality],
    ) -> Tensor:
        """KL of the corrupted prediction to the reference, averaged over the examples of this counterfactual.

        An example that lacks what is corrupted has no counterfactual, and does not count.
        """
        intact = {}
        if self.reference.needs_unimodal:
            intact = {
                name: (p if scene.rows is None else p[scene.rows]).detach()
                for name, p in alone.items()
                if name not in scene.corrupted
            }
            if not intact:
                raise ValueError(
                    f"The Unimodal reference needs a unimodal predictor of a modality other than {scene.label!r}: give the "
                    "FusionModel heads, or pass unimodal={name: predictor}."
                )
        draws = uncertain.unflatten(0, (self.draws, -1))
        divergence = self._divergence(draws, intact)
        if self.debias:
            halves = draws.unflatten(0, (2, -1))
            of_halves = 0.5 * (self._divergence(halves[0], intact) + self._divergence(halves[1], intact))
            divergence = 2 * divergence - of_halves
        # Of dealt rows too the expectation is that of the mean over all rows; where a batch is too small to deal any, 0.
        there = _any_present([given[name] for name in scene.corrupted], scene.rows)
        if there is None:
            return divergence.sum() / max(divergence.shape[0], 1)
        return torch.where(there, divergence, 0.0).sum() / there.sum().clamp(min=1)

    def _divergence(self, draws: Tensor, intact: Mapping[str, Tensor]) -> Tensor:
        prediction = draws[0] if draws.shape[0] == 1 else self.family.average(draws)
        return self.family.kl(prediction, self.reference(prediction, self.family, intact))

    def _is_fused(self, model: Fusible) -> bool:
        wanted = self.fused if self.fused is not None else not isinstance(model, Whole)
        if wanted and model.mixes_rows():
            if not self._said:
                self._said = True
                warnings.warn(
                    "A BatchNorm layer in training mode mixes the rows of a batch, so intact and corrupted rows take "
                    "separate passes, as in a plain loop, and the step costs as much as one.",
                    stacklevel=4,
                )
            return False
        return wanted

    def extra_repr(self) -> str:
        return (
            f"{super().extra_repr()}, subsets={self.subsets!r}, sample={self.sample}, draws={self.draws}, "
            f"debias={self.debias}, space={self.space!r}{f', shares={self.shares}' if self.shares else ''}"
        )


class _Batches(NamedTuple):
    """What the fusion is given, and what it was made from."""

    scenes: list[Counterfactual]
    pieces: dict[tuple[str, str], "_Piece"]
    latents: dict[str, Any]
    batches: list[dict[str, Any]]


class _Piece(NamedTuple):
    """A corrupted modality, and the loss of the mask that corrupted it if it has one."""

    value: Modality
    loss: Tensor | None


def _on_latents(model: Fusible, batch: Batch) -> tuple[Fusible, Batch]:
    """The model behind its encoders, and what they make of the batch."""
    if not hasattr(model, "on_latents"):
        given = shown(model.predict) if isinstance(model, Whole) else type(model).__name__
        raise ValueError(f"space='latents' needs a model with encoders, such as FusionModel; got {given}.")
    latents = {name: model.encode(name, x) for name, x in batch.modalities.items()}
    return model.on_latents(), batch._replace(modalities=latents)


def _any_present(corrupted: Sequence[Modality], rows: Tensor | None) -> Tensor | None:
    """Which rows have any of some modalities; ``None`` where all have."""
    known = [tokens.present(x) for x in corrupted]
    found = [one for one in known if one is not None]
    if not found or len(found) < len(known):
        return None
    there = torch.stack(found).any(0)
    return there if rows is None else there[rows]


def _which(name: str, scene: Counterfactual) -> tuple[str, str]:
    """Which corrupted piece of a modality a counterfactual takes: its own if it has its own rows."""
    return name, "" if scene.rows is None else scene.label


def _encode(
    model: Fusible, modalities: Mapping[str, Modality], pieces: Mapping[tuple[str, str], _Piece], fused: bool
) -> tuple[dict[str, Any], dict[str, Any], dict[tuple[str, str], Any]]:
    """Intact latents, what they bring to the fusion, what the corrupted pieces bring; fused, each encoder runs once."""
    latents: dict[str, Any] = {}
    intact: dict[str, Any] = {}
    brought: dict[tuple[str, str], Any] = {}
    for name, x in modalities.items():
        mine = [which for which in pieces if which[0] == name]
        if fused:
            stack = [x, *(pieces[which].value for which in mine)]
            sizes = [values(s).shape[0] for s in stack]
            z = model.encode(name, tokens.join(stack))
            intact[name], *rest = tokens.split(model.project(name, z), sizes)
            latents[name] = tokens.split(z, sizes)[0]
        else:
            latents[name] = model.encode(name, x)
            intact[name] = model.project(name, latents[name])
            rest = [model.project(name, model.encode(name, pieces[which].value)) for which in mine]
        brought |= dict(zip(mine, rest, strict=True))
    return latents, intact, brought


def _combine(model: Fusible, batches: Sequence[Mapping[str, Any]], fused: bool) -> list[Tensor]:
    """The prediction of each batch; fused, the fusion runs once."""
    if not fused:
        return [model.combine(b) for b in batches]
    names = list(batches[0])
    joined = {name: tokens.join([b[name] for b in batches]) for name in names}
    sizes = [values(b[names[0]]).shape[0] for b in batches]
    return list(model.combine(joined).split(sizes))


def _repeat(z: Modality, rows: Tensor | None, draws: int) -> Modality:
    """An intact modality as a counterfactual sees it: its rows, once for each draw."""
    chosen = z if rows is None else tokens.take(z, rows)
    return chosen if draws == 1 else tokens.join([chosen] * draws)
