"""Products of two modalities' features: detects weak synergy that a network does not learn from few examples."""

from collections.abc import Mapping

import torch
from numpy.typing import ArrayLike
from torch import Tensor

from synib.checks import check_choice
from synib.measure.arrays import Array, Of, as_numbers, check_unimodal
from synib.measure.combination import Predictions, best_additive, log_probabilities, read
from synib.measure.detectors import Detectors, OneOf
from synib.measure.interaction_gain import InteractionGain, cross_validation, gain_over
from synib.measure.stats import check_resampling, group_numbers

COMPONENTS, ROWS_EACH = 64, 50  # principal components of a modality, at most, and examples per component


def product_gain(
    unimodal: Mapping[str, Predictions],
    modalities: Mapping[str, ArrayLike | Tensor],
    target: ArrayLike | Tensor,
    *,
    given: Of = "logits",
    groups: ArrayLike | None = None,
    folds: int = 5,
    seed: int = 0,
) -> InteractionGain:
    r"""The gain of products of two modalities' features over the best additive combination, on held-out examples.

    :func:`~synib.measure.interaction_gain` evaluates a trained fusion model; this measure needs none: it is the product
    detector of :class:`~synib.measure.detectors.Detectors`, among up to 64 principal components, with 50 examples for
    each. Let r be the residual of the additive combination (1 or 0 minus the probability) and a, b the leading
    principal components of two modalities, whitened. For each pair of modalities and each class, the leading singular
    vectors u, v of the mean of :math:`r\,a\,b^\top` give one score, :math:`(u \cdot a)(v \cdot b)`, which a logistic
    regression adds to the combination. Few parameters are fitted, so a product is detected from far fewer examples than
    a network needs; but interactions that are not products of directions (the sign of a difference of lengths, a parity
    of three) are not detected.

    The baseline includes the products that each modality can form alone: if two modalities contain the same variable, a
    product of both is a square of one, which a unimodal model may have missed.

    Everything is fitted on the other folds: the directions on part of them, the weights on the rest, in turn. Only the
    principal components use all examples, without their labels.

    Args:
        unimodal: Modality → out-of-sample predictions of its unimodal model, as in
            :func:`~synib.measure.interaction_gain`; predictions of an additive model may be included.
        modalities: Modality → features ``(n, width)``, at least two; all 0 for a modality that an example lacks.
        target: The true labels, from 0.
        given: Whether predictions are ``"logits"`` or ``"probabilities"``.
        groups: The group of each example, if examples of one group are dependent.
        folds: Number of folds, at least 3.
        seed: Seed for the fold assignment.

    Returns:
        The gain of all products, as "fusion", over the combination with products within modalities.
    """
    check_choice("given", given, Of)
    check_resampling(seed)
    check_unimodal(unimodal)
    examples = read(unimodal, next(iter(unimodal.values())), target, given)
    y = examples.y
    group = None if groups is None else group_numbers(groups, len(y), least=3)
    part = cross_validation(y, group, folds, seed, least=3)
    x = _numbers(modalities, len(y))
    best, candidates, combined = best_additive(examples.unimodal, y, part)
    all_rows = torch.ones(len(y), dtype=torch.bool)
    count = max(1, min(COMPONENTS, len(y) // ROWS_EACH))
    detectors = Detectors(x, dict.fromkeys(x, all_rows), torch.from_numpy(part), seed, only_products=count)
    response = OneOf(torch.from_numpy(y), examples.classes)
    compared = detectors.compare(response, _predictor(examples.unimodal), _predictor(combined))
    (products,) = compared.detectors.values()
    additive, fused = (log_probabilities(eta, "logits", "eta") for eta in (products.without, products.extended))
    return gain_over(additive, fused, y, group, best, candidates)


def _numbers(modalities: Mapping[str, ArrayLike | Tensor], n: int) -> dict[str, Tensor]:
    """The modalities as tensors ``(n, width)``; invalid ones raise ``ValueError``."""
    if not isinstance(modalities, Mapping) or len(modalities) < 2:
        raise ValueError("Products need at least 2 modalities, as a dict of name → (examples, width).")
    tensors = {}
    for name, values in modalities.items():
        x = torch.from_numpy(as_numbers(values, name))
        if x.ndim != 2 or len(x) != n or not x.shape[1] or not x.isfinite().all():
            raise ValueError(
                f"{name} must be finite numbers of shape ({n}, width), one row for each label; got {tuple(x.shape)}."
            )
        tensors[name] = x
    return tensors


def _predictor(log_probability: Array) -> Tensor:
    """The linear predictor of log-probabilities: the log-odds of the second of two classes, or one score per class."""
    eta = torch.from_numpy(log_probability)
    return eta[..., 1:] - eta[..., :1] if eta.shape[-1] == 2 else eta
