"""PID of continuous features by neural networks: the batch estimator of Liang et al. 2023."""

from collections.abc import Callable
from copy import deepcopy

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor
from torch.nn import functional as F

from synib import logistic
from synib.checks import check_number
from synib.keys.generators import seeded_generators
from synib.measure.arrays import Array
from synib.measure.pid.alignment import Alignment, aligned_information
from synib.measure.pid.decomposition import PIDEstimate, decompose
from synib.measure.pid.estimate import Pointwise, checked, estimate, in_halves
from synib.measure.stats import check_resampling, standardisation
from synib.models.mlp import mlp

CHUNK = 1024  # held-out examples that are aligned with each other at once
RIDGE = 2e-6  # penalty of the recalibration
LOWEST = -20.0  # lower bound of log-probabilities, so that no single example dominates a slope


def pid_neural(
    x1: ArrayLike | Tensor,
    x2: ArrayLike | Tensor,
    y: ArrayLike | Tensor,
    *,
    hidden: int = 64,
    epochs: int = 60,
    align_steps: int = 150,
    sinkhorn_steps: int = 20,
    batch: int = 256,
    lr: float = 2e-3,
    nulls: int = 5,
    level: float = 0.95,
    groups: ArrayLike | None = None,
    seed: int = 0,
    device: str | torch.device = "cpu",
) -> PIDEstimate:
    r"""Redundant, unique and synergistic information of two sources of continuous features, in bits.

    On one half of the examples, stratified by class, three small networks learn p(y|x1), p(y|x2) and p(y|x1,x2), with
    early stopping on a fifth of that half. An :class:`Alignment` network learns a joint :math:`q(x_1, x_2, y)` over the
    pairs of a batch, scaled by Sinkhorn's iterations to the marginals of the first two, with minimal information about
    Y: :math:`\min_q I_q(X_1, X_2; Y)`. The other half is used to evaluate the information, and the components follow as
    in :func:`broja` (Liang et al., "Quantifying & Modeling Multimodal Interactions", NeurIPS 2023, their BATCH).

    Overconfident networks claim information that does not exist. Predictions are therefore recalibrated on the held-out
    half by a logistic regression (one slope, one intercept for each class; for p(y|x1,x2) the slopes of all three
    networks). The mean entropy of a prediction then equals its cross-entropy, so only predictive information is
    counted.

    A fusion network that is too small lowers S, and an alignment that is too short moves R and S to the unique parts. S
    may be negative. The interval is over the held-out examples, given the networks; retraining with another seed also
    changes the result, and the null, for which everything is retrained on permuted labels, shows at least by how much.

    Args:
        x1, x2: Features, one row per example; standardised internally.
        y: Class of each example; at least 10 examples per class.
        hidden: Width of the networks, which have two hidden layers.
        epochs: Maximum number of epochs of the predictors.
        align_steps: Number of steps of the alignment network.
        sinkhorn_steps: Sinkhorn iterations in each step; four times as many at the end.
        batch: Number of examples per step.
        lr: Learning rate of Adam.
        nulls: Number of permutations of the labels, within each half. Each costs as much as the estimate, and p cannot
            be below 1 / (nulls + 1): 5 show the bias, 19 are the minimum for p = 0.05.
        level: Confidence level.
        groups: The group of each example (a speaker, a video) if examples of one group are dependent: halves keep
            groups together, the null permutes by group (:func:`~synib.measure.stats.permutations`), and intervals are
            over groups.
        seed: Seed of all random draws.
        device: Device to train on: the CPU or a CUDA device.
    """
    steps = {"epochs": epochs, "align_steps": align_steps, "sinkhorn_steps": sinkhorn_steps}
    check_resampling(seed, level, hidden=hidden, **steps, batch=batch)
    check_number("lr", lr, above=0)
    device = _device(device)
    cuda = [torch.cuda.current_device() if device.index is None else device.index] if device.type == "cuda" else []
    first, second, labels, classes = checked(x1, x2, y, nulls, least=40, each=10)
    parts, group = in_halves(labels, seed, groups)
    fitted, held_out = (torch.as_tensor(rows, device=device) for rows in parts)
    sources = [_standardised(x, fitted, device) for x in (first, second)]

    def measured(labels: Array, number: int) -> Pointwise:
        with seeded_generators(int(np.random.SeedSequence([seed, number]).generate_state(1)[0]), cuda):
            target = torch.as_tensor(labels, device=device)
            views = [sources[0], sources[1], torch.cat(sources, 1)]
            scores = [_scores(view, target, fitted, classes, hidden, epochs, batch, lr) for view in views]
            singles = [_recalibrated([score], target, held_out) for score in scores[:2]]
            both = _recalibrated(scores, target, held_out)
            prior = F.one_hot(target[held_out], classes).to(both.dtype).mean(0)
            aligner = _aligner(sources, singles, prior, fitted, hidden, align_steps, sinkhorn_steps, batch, lr)
            information = [
                _information_shares(p[held_out], prior, target[held_out]) for p in (both, singles[0], singles[1])
            ]
            aligned = _aligned(aligner, sources, singles, prior, target, held_out, 4 * sinkhorn_steps)
        return {
            name: x.cpu().numpy()
            for name, x in decompose(information[0], information[1], information[2], aligned).items()
        }

    return estimate(measured, labels, parts, parts[1], nulls, seed, level, group)


def _device(device: str | torch.device) -> torch.device:
    try:
        chosen = torch.device(device)
    except (RuntimeError, TypeError) as e:
        raise ValueError(f"device must be 'cpu', 'cuda', or a CUDA device such as 'cuda:1'; got {device!r}.") from e
    if chosen.type not in ("cpu", "cuda"):  # others lack float64 or a random state that can be restored
        raise ValueError(f"device must be 'cpu', 'cuda', or a CUDA device such as 'cuda:1'; got {device!r}.")
    if chosen.type == "cuda" and (chosen.index or 0) >= torch.cuda.device_count():
        raise ValueError(
            f"Device {str(chosen)!r} does not exist: torch finds {torch.cuda.device_count()} CUDA devices."
        )
    return chosen


def _standardised(x: Array, fitted: Tensor, device: torch.device) -> Tensor:
    return torch.as_tensor(standardisation(x, fitted.cpu().numpy())(x), dtype=torch.float32, device=device)


def _scores(
    x: Tensor, target: Tensor, fitted: Tensor, classes: int, hidden: int, epochs: int, batch: int, lr: float
) -> Tensor:
    """Class log-probabilities of every example, by a network trained on some of the fitted examples."""
    model = mlp([x.shape[1], hidden, hidden, classes], dropout=0.5).to(x.device)
    stopping = max(1, len(fitted) // 5)
    stop_rows, train_rows = fitted[:stopping], fitted[stopping:]
    optimiser = torch.optim.AdamW(model.parameters(), lr, weight_decay=1e-2)
    best, weights, waited = float("inf"), deepcopy(model.state_dict()), 0
    for _ in range(epochs):
        model.train()
        for rows in _batches(train_rows, batch):
            optimiser.zero_grad()
            F.cross_entropy(model(x[rows]), target[rows]).backward()
            optimiser.step()
        model.eval()
        with torch.no_grad():
            loss = F.cross_entropy(model(x[stop_rows]), target[stop_rows]).item()
        waited = 0 if loss < best else waited + 1
        if loss < best:
            best, weights = loss, deepcopy(model.state_dict())
        if waited >= 10:
            break
    model.load_state_dict(weights)
    with torch.no_grad():
        return model.eval()(x).log_softmax(1).double()


def _recalibrated(scores: list[Tensor], target: Tensor, held_out: Tensor) -> Tensor:
    """Class probabilities of every example: scores times slopes plus intercepts, fitted on the held-out examples.

    A single slope is non-negative: a network worse than chance is uninformative, not inverted. Ridge keeps slopes
    finite if the classes are separable.
    """
    stacked = torch.stack(scores).clamp(min=LOWEST)
    stacked = stacked - stacked.mean(2, keepdim=True)
    slopes, intercepts = logistic.fit(stacked[:, held_out], target[held_out], ridge=RIDGE, bias_ridge=RIDGE)
    if len(scores) == 1 and slopes[0] <= 0:
        prior = torch.bincount(target[held_out], minlength=stacked.shape[2]).double() / len(held_out)
        return prior.clamp(min=1e-12).expand(stacked.shape[1], -1)
    return (torch.tensordot(slopes, stacked, 1) + intercepts).softmax(1).clamp(min=1e-12)


def _information_shares(p: Tensor, prior: Tensor, target: Tensor) -> Tensor:
    """The contribution of each example to the information in predictions; the mean is that of KL(p(y | x) || p(y))."""
    expected = (p * (p.log() - prior.log())).sum(1)
    seen = p.gather(1, target[:, None])[:, 0].log() - prior.log()[target]
    return _centred(seen) + expected.mean()  # labels are random too, so their variance belongs to the interval


def _aligned(
    aligner: Callable[[Tensor, Tensor], Tensor], sources: list[Tensor], singles: list[Tensor], prior: Tensor,
    target: Tensor, held_out: Tensor, scalings: int,
) -> Tensor:  # fmt: skip
    """The contribution of each held-out example to I_q, both as an x1 and as an x2.

    The gradient with respect to p(y | x) gives the effect of a label that differs from its prediction.
    """
    shares = torch.empty(len(held_out), dtype=prior.dtype, device=prior.device)
    for part in torch.arange(len(held_out), device=held_out.device).tensor_split(-(-len(held_out) // CHUNK)):
        rows = held_out[part]
        n = len(rows)
        with torch.no_grad():
            kernel = aligner(*(x[rows] for x in sources)).to(prior.dtype)
        p = [single[rows].clone().requires_grad_() for single in singles]
        pairs = aligned_information(kernel, p[0], p[1], prior, scalings)
        gradients = torch.autograd.grad(pairs.sum(), p)
        surprise = [F.one_hot(target[rows], len(prior)) - p_single.detach() for p_single in p]
        labels = torch.stack([n * (g * d).sum(1) for g, d in zip(gradients, surprise, strict=True)]).sum(0)
        pairs = pairs.detach()
        shares[part] = (pairs.sum(0) + pairs.sum(1)) / 2 * n + _centred(labels)
    return shares


def _centred(x: Tensor) -> Tensor:
    return x - x.mean()


def _aligner(
    sources: list[Tensor], singles: list[Tensor], prior: Tensor, fitted: Tensor, hidden: int, steps: int, scalings: int,
    batch: int, lr: float,
) -> Alignment:  # fmt: skip
    """The alignment network, trained to minimise the information of the aligned pairs."""
    x1, x2 = sources
    model = Alignment((x1.shape[1], x2.shape[1]), len(prior), hidden).to(x1.device)
    optimiser = torch.optim.Adam(model.parameters(), lr)
    p1, p2 = (p.float() for p in singles)
    for _ in range(steps):
        rows = _batches(fitted, batch)[0]
        optimiser.zero_grad()
        aligned_information(model(x1[rows], x2[rows]), p1[rows], p2[rows], prior.float(), scalings).sum().backward()
        optimiser.step()
    return model


def _batches(rows: Tensor, size: int) -> tuple[Tensor, ...]:
    return rows[torch.randperm(len(rows)).to(rows.device)].split(size)
