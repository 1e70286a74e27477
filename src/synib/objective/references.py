"""The reference r(y): the distribution that the prediction should fall back to when a modality is corrupted."""

import math
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn

from synib.checks import check_kind, check_tensor, shown
from synib.objective.families import Bernoulli, Categorical, Family


class Reference(nn.Module):
    """Base class of all references: returns the parameters of r for a counterfactual.

    Attributes:
        neutral: Whether it is the family's neutral distribution, which families provide themselves.
        needs_unimodal: Whether it depends on the unimodal predictions of the intact modalities.
    """

    neutral: bool = False
    needs_unimodal: bool = False

    def forward(self, like: Tensor, family: Family, unimodal: Mapping[str, Tensor]) -> Tensor:
        """Parameters of r.

        Args:
            like: The prediction that is compared with r.
            family: The family of both distributions.
            unimodal: Detached unimodal predictions of the intact modalities, if ``needs_unimodal``.
        """
        raise NotImplementedError(f"{type(self).__name__} must define forward(like, family, unimodal).")


class Uniform(Reference):
    """The neutral distribution: equal probabilities of all classes, the standard normal for real targets (the
    paper's choice).
    """

    neutral = True

    def forward(self, like: Tensor, family: Family, unimodal: Mapping[str, Tensor]) -> Tensor:
        return torch.zeros_like(like[:1])


class Fixed(Reference):
    r"""A fixed reference :math:`\rho` (App. "Categorical Variational Family").

    Args:
        rho: Class probabilities that sum to 1; for a Bernoulli family either the probability of 1, or those of 0 and 1.

    Example:
        >>> import synib
        >>> synib.Fixed([0.7, 0.2, 0.1])
        Fixed(rho=[0.7, 0.2, 0.1])
    """

    def __init__(self, rho: Sequence[float] | float) -> None:
        super().__init__()
        try:
            p = torch.as_tensor(rho, dtype=torch.float64).flatten()
        except (TypeError, ValueError, RuntimeError):
            raise ValueError(f"rho must be probabilities such as [0.7, 0.3]; got {shown(rho)}.") from None
        if len(p) == 1:
            p = torch.cat([1 - p, p])
        if not ((p > 0).all() and abs(p.sum().item() - 1) < 1e-6):
            raise ValueError(f"rho must be positive and sum to 1; got {p.tolist()}.")
        self.register_buffer("log_rho", p.log().float())

    log_rho: Tensor

    def forward(self, like: Tensor, family: Family, unimodal: Mapping[str, Tensor]) -> Tensor:
        if isinstance(family, Categorical):
            if len(self.log_rho) != like.shape[-1]:
                raise ValueError(
                    f"The reference has {len(self.log_rho)} classes, but the prediction has {like.shape[-1]}."
                )
            return self.log_rho[None]
        if isinstance(family, Bernoulli):
            if len(self.log_rho) != 2:
                raise ValueError(f"The reference has {len(self.log_rho)} classes, but a Bernoulli prediction has 2.")
            return (self.log_rho[1] - self.log_rho[0]).reshape((1,) * like.ndim)
        raise ValueError(
            f"Fixed is a reference of class probabilities; for {family!r} use Uniform() or Prior(target, family)."
        )

    def extra_repr(self) -> str:
        return f"rho={[round(p, 4) for p in self.log_rho.exp().tolist()]}"


class Prior(Reference):
    """The distribution of the training targets: class frequencies, or mean and variance.

    Args:
        target: All training targets.
        family: The family of the targets.
    """

    def __init__(self, target: Tensor, family: Family) -> None:
        super().__init__()
        check_kind("family", family, Family, "Bernoulli()")
        self.register_buffer("parameters_of_prior", family.from_targets(check_tensor("The target", target)))
        if not self.parameters_of_prior.isfinite().all():
            raise ValueError("A prior needs targets that differ; all of the given targets are equal.")

    parameters_of_prior: Tensor

    def forward(self, like: Tensor, family: Family, unimodal: Mapping[str, Tensor]) -> Tensor:
        prior = self.parameters_of_prior
        if prior.numel() != math.prod(like.shape[1:]):
            raise ValueError(
                f"The prior has {prior.numel()} parameters, but the prediction has {math.prod(like.shape[1:])}."
            )
        return prior.to(torch.promote_types(like.dtype, torch.float32)).reshape(1, *like.shape[1:])


class Unimodal(Reference):
    """The detached unimodal predictions of the intact modalities (App. CREMA-D, the complementary modality).

    With several intact modalities, it is the average of their predictions.
    """

    needs_unimodal = True

    def forward(self, like: Tensor, family: Family, unimodal: Mapping[str, Tensor]) -> Tensor:
        predictions = list(unimodal.values())
        return predictions[0] if len(predictions) == 1 else family.average(torch.stack(predictions))
