"""Temperature scaling: softens or sharpens predictions so that they are calibrated."""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import logsigmoid

from synib.checks import shown
from synib.objective import Bernoulli, Family, Gaussian, MultiLabel


def temperature(
    parameters: Tensor,
    target: Tensor,
    family: Family,
    pseudocount: float = 0.0,
    sample_weight: Tensor | None = None,
) -> float:
    r"""The temperature at which predictions are best calibrated: :math:`\arg\min_T` of the mean log-loss of logits / T.

    Fit it on validation data, and divide the logits of new predictions by it (Guo et al., ICML 2017). The predicted
    class does not change, only its confidence. For a Gaussian, the standard deviation is multiplied by it instead.

    Args:
        parameters: The family's parameters: logits, or mean and log-variance.
        target: Classes or real values.
        family: Bernoulli, MultiLabel, Categorical or Gaussian.
        pseudocount: Weight of one additional example of each class (for a Gaussian: of one additional value as far off
            as predicted), so that a model that is correct on all of n rows gets no confidence above about 1 - 1 / n
            (the rule of succession).
        sample_weight: Weight of each example; only ratios matter.
    """
    has_logits = family.discrete or isinstance(family, MultiLabel)
    if not has_logits and not (isinstance(family, Gaussian) and family.dim == 1):
        raise ValueError(f"family must be Bernoulli(), MultiLabel(), Categorical() or Gaussian(); got {shown(family)}.")
    family.check_target(parameters, target)
    values = parameters.detach().double()
    if not has_logits:
        mean, log_variance = values.unbind(-1)
        squares = (target.double().reshape(mean.shape) - mean).square() / log_variance.exp()
        if sample_weight is not None:
            squares = squares * (sample_weight / sample_weight.double().mean())
        return math.sqrt((float(squares.sum()) + pseudocount) / (len(values) + pseudocount))
    from scipy.optimize import minimize_scalar  # slow to import

    def loss(log_t: float) -> float:
        logits = values / np.exp(log_t)
        total = float(family.mean_nll(logits, target, sample_weight))
        return total + pseudocount / len(values) * _every_class(family, logits) if pseudocount else total

    return float(np.exp(minimize_scalar(loss, bounds=(-5.0, 5.0), method="bounded").x))


def tempered(family: Family, parameters: NDArray[Any], by: Any) -> NDArray[Any]:
    """Predictions at a temperature: logits divided by it; for a Gaussian, the standard deviation multiplied by it."""
    if not isinstance(family, Gaussian):
        return parameters / by
    log_variance = np.broadcast_to(2 * np.log(by), parameters[..., 1:].shape)
    return parameters + np.concatenate([np.zeros_like(parameters[..., :1]), log_variance], -1)


def _every_class(family: Family, logits: Tensor) -> float:
    """The mean log-loss of one example of each class, summed over the classes (for several labels: over both values
    of each).
    """
    if isinstance(family, Bernoulli):  # includes MultiLabel
        logits = logits.reshape(len(logits), -1)
        return -float((logsigmoid(logits) + logsigmoid(-logits)).sum(1).mean())
    return -float(logits.log_softmax(1).sum(1).mean())
