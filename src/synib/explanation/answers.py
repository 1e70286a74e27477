"""Evidence for an answer: one number per row, linear in the model's parameters, so that contributions add up."""

import torch
from numpy.typing import ArrayLike
from torch import Tensor

from synib.checks import is_whole
from synib.measure.arrays import as_tensor, described
from synib.objective import Bernoulli, Family, Gaussian, MultiLabel

EVIDENCE = {
    "number": "the predicted number",
    "label": "the log-odds of the label",
    "class": "the log-odds of the answer",
    "classes": "the mean log-odds of the answer against each other class",
}


class Readout:
    r"""The explained quantity: the evidence of each row, computed from the family's parameters.

    - ``Bernoulli``: the log-odds of the answer;
    - ``Categorical``: :math:`\ell_a - \frac1{K - 1} \sum_{k \ne a} \ell_k`, the mean log-odds of the answer against each
      other class (for two classes: the log-odds);
    - ``MultiLabel``: the log-odds of one label, for or against it as the model predicts;
    - ``Gaussian``: one predicted mean.

    All of them are linear in the parameters, so that means over draws, differences and sums are evidence too.

    Args:
        family: The predictive distribution.
        prediction: The model's parameters for each row.
        answer: The answer of each row: the class, or the index of a label or of a predicted number. By default the predicted
            class, the label with the most confident prediction, or the first number.

    Attributes:
        answer: The same as integers, ``(rows,)``.
        weights: The weight of each parameter, ``(rows, parameters)``.
        kind: A key of ``EVIDENCE``.
    """

    def __init__(self, family: Family, prediction: Tensor, answer: ArrayLike | Tensor | None = None) -> None:
        family.check_parameters(prediction)
        self.family = family
        flat = prediction.reshape(len(prediction), -1)
        n, outputs = flat.shape
        choices = 2 if type(family) is Bernoulli else family.dim if isinstance(family, Gaussian) else outputs
        self.answer = self._own_answer(flat) if answer is None else _given_answer(answer, n, choices, flat.device)
        rows = torch.arange(n, device=flat.device)
        self.weights = torch.zeros_like(flat)
        if type(family) is Bernoulli:
            self.kind = "class"
            self.weights[:, 0] = 2.0 * self.answer - 1.0
        elif isinstance(family, MultiLabel):
            self.kind = "label"
            is_predicted = flat[rows, self.answer] > 0
            self.weights[rows, self.answer] = torch.where(is_predicted, 1.0, -1.0).to(flat)
        elif isinstance(family, Gaussian):
            self.kind = "number"
            self.weights[rows, self.answer] = 1.0
        else:
            self.kind = "class" if outputs == 2 else "classes"
            self.weights -= 1.0 / (outputs - 1)
            self.weights[rows, self.answer] = 1.0

    def __call__(self, parameters: Tensor) -> Tensor:
        """Evidence, ``(..., rows)``, of parameters ``(..., rows, parameters)``."""
        return (parameters * self.weights).sum(-1)

    def log_probability(self, parameters: Tensor) -> Tensor:
        """The log-probability of each row's answer; NaN for labels and numbers."""
        if not self.family.discrete:
            return torch.full_like(parameters[:, 0], torch.nan)
        return -self.family.unweighted().nll(parameters, self.answer)

    def probability(self, probabilities: Tensor) -> Tensor:
        """The probability of the explained answer, from the result of :func:`synib.measure.arrays.probabilities`."""
        picked = probabilities.gather(-1, self._column().expand(*probabilities.shape[:-1], 1)).squeeze(-1)
        negative = self.weights.gather(1, self._column()).squeeze(1) < 0
        return torch.where(negative, 1 - picked, picked)

    def _column(self) -> Tensor:
        column = torch.zeros_like(self.answer) if type(self.family) is Bernoulli else self.answer
        return column[:, None]

    def _own_answer(self, flat: Tensor) -> Tensor:
        if isinstance(self.family, Gaussian):
            return torch.zeros(len(flat), dtype=torch.int64, device=flat.device)
        if isinstance(self.family, MultiLabel):
            return flat.abs().argmax(1)
        return self.family.predict(flat)


def _given_answer(answer: ArrayLike | Tensor, rows: int, choices: int, device: torch.device) -> Tensor:
    """The given answer for each row; ``ValueError`` if it is not one of the choices."""
    if is_whole(answer):
        chosen = torch.full((rows,), int(answer), device=device)  # type: ignore[arg-type]
    else:
        try:
            chosen = as_tensor(answer, device).reshape(-1)
        except (TypeError, ValueError, RuntimeError):
            raise ValueError(
                f"answer must be an integer from 0, or one for each row; got {described(answer)}."
            ) from None
    are_integers = not chosen.is_floating_point() or bool((chosen == chosen.round()).all())
    if len(chosen) != rows or not are_integers or bool(((chosen < 0) | (chosen >= choices)).any()):
        raise ValueError(
            f"answer must be an integer from 0 to {choices - 1}, one for each of {rows} rows; got {described(answer)}."
        )
    return chosen.long()
