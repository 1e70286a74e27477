"""The corrupted modalities of a batch: a mask chooses coordinates, and noise replaces their values."""

from collections.abc import Sequence

from torch import Tensor

from synib import keys, tokens
from synib.masks import Mask, Noise, Probe
from synib.masks.base import undisturbed
from synib.objective.base import Batch
from synib.objective.counterfactuals import Counterfactual
from synib.objective.families import Family
from synib.objective.model import MultimodalModel
from synib.objective.probes import unimodal_probe
from synib.tokens import Modality

Which = tuple[str, str]  # a modality, and the label of the counterfactual if it applies to some rows only


def corrupt(
    model: MultimodalModel,
    batch: Batch,
    counterfactuals: Sequence[Counterfactual],
    mask: Mask,
    noise: Noise,
    family: Family,
    draws: int,
    key: Tensor,
) -> tuple[dict[Which, Modality], dict[str, list[Tensor]]]:
    """All corrupted modalities that the counterfactuals need, and the losses of the masks.

    There are none if whole modalities are swapped between rows, for which latents suffice.

    Args:
        model: The model, for masks that search with its unimodal heads.
        batch: The batch.
        counterfactuals: What to corrupt.
        mask: Which coordinates.
        noise: The replacement values.
        family: The predictive distribution of the heads.
        draws: Number of draws of mask and noise.
        key: Key of all random draws.
    """
    if noise.follows_data:
        for name, x in batch.modalities.items():
            noise.observe(x, name, batch.group, batch.sample_weight)
    corrupted: dict[Which, Modality] = {}
    mask_losses: dict[str, list[Tensor]] = {}
    if mask.whole and noise.shuffles:
        return corrupted, mask_losses
    if batch.check_values and batch.examples is not None:
        mask.check_examples(batch.examples)
    for counterfactual in counterfactuals:
        for name in counterfactual.corrupted:
            which = (name, "" if counterfactual.rows is None else counterfactual.label)
            if which not in corrupted:
                values, loss = _corrupted(model, which, batch, counterfactual.rows, mask, noise, family, draws, key)
                corrupted[which] = values
                if loss is not None:
                    mask_losses.setdefault(name, []).append(loss)
    return corrupted, mask_losses


def _corrupted(
    model: MultimodalModel,
    which: Which,
    batch: Batch,
    rows: Tensor | None,
    mask: Mask,
    noise: Noise,
    family: Family,
    draws: int,
    key: Tensor,
) -> tuple[Modality, Tensor | None]:
    """A corrupted modality, and the loss of its mask if it has one."""
    name, _ = which
    whole, key = batch.modalities[name], keys.fold(key, *which)
    mask_key, noise_key = keys.fold(key, "mask"), keys.fold(key, "noise")
    x = whole if rows is None else tokens.take(whole, rows)
    examples = batch.examples if rows is None or batch.examples is None else batch.examples[rows]

    def fill(k: Tensor) -> Tensor:
        return noise.fill(whole, k, name, 1, rows)

    if not mask.probes:
        coordinates = mask(x, mask_key, Probe(name, fill, None, examples), draws)
        return noise.corrupt(whole, coordinates, noise_key, name, draws, rows), None
    target = batch.target if rows is None else batch.target[rows]
    look = batch.check_values

    def nll(prediction: Tensor) -> Tensor:
        nonlocal look
        family.check_target(prediction, target, values=look)  # a searching mask meets the target first
        look = False
        return family.nll(prediction, target)

    with undisturbed(model.unimodal_modules(name)):
        probe = unimodal_probe(model, name, x, fill, nll, examples)
        coordinates = mask(x, mask_key, probe, draws)
        mask_loss = mask.loss(x, mask_key, probe)
    return noise.corrupt(whole, coordinates, noise_key, name, draws, rows), mask_loss
