"""A trained model combined with the encoder networks of its raw modalities, so that both can be trained together."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from synib.measure.stats import Scale
from synib.methods import Experts, OnLatents
from synib.objective import Objective, SynIB
from synib.own.raw.rows import RawRows
from synib.tokens import Modality, Tokens, values
from synib.training import Learner


class SharedNetwork(nn.Module):
    """A transformers network as a function of row numbers.

    Several parts of a learner encode the same batch, so the vectors of the last batch are cached. The network always runs in
    evaluation mode, without dropout and SpecAugment, as it did for the vectors from which training starts.

    Args:
        rows: The rows, and the network.
    """

    def __init__(self, rows: RawRows) -> None:
        super().__init__()
        self.network = rows.encoder.network
        self.rows = rows
        self._last: tuple[Any, Any, Any] = (None, None, None)  # row numbers, network state, vectors

    def forward(self, numbers: Tensor, present: Tensor) -> Tensor:
        """Vectors of some rows, ``(batch, width)``; 0 for those that lack the modality."""
        trained = next((p for p in self.network.parameters() if p.requires_grad), None)
        state = (torch.is_grad_enabled(), self.training, trained is not None and trained._version)
        last, last_state, result = self._last
        if last is numbers and last_state == state and result is not None:
            return torch.as_tensor(result)
        self.network.eval()
        places = numbers.reshape(len(present))[present].tolist()
        size = len(places) if torch.is_grad_enabled() else self.rows.encoder.batch
        pieces = [self.rows.inputs(places[at : at + size]) for at in range(0, len(places), max(size, 1))]
        vectors = [self.rows.encoder.pool(piece).float() for piece in pieces]
        result = torch.zeros(len(present), self.rows.encoder.width, device=numbers.device)
        if vectors:
            result = result.index_put((present.nonzero().flatten(),), torch.cat(vectors))
        self._last = (numbers, state, result)
        return result

    def forget(self) -> None:
        """Free the vectors of the last batch."""
        self._last = (None, None, None)


class TunedEncoder(nn.Module):
    """Maps row numbers to latents: the network, the scaling of its vectors, and the encoder that was trained on them.

    Args:
        shared: The network.
        scale: The scaling of its vectors.
        inner: The encoder of the scaled vectors.
    """

    mean: Tensor
    factor: Tensor

    def __init__(self, shared: SharedNetwork, scale: Scale, inner: nn.Module) -> None:
        super().__init__()
        self.shared, self.inner = shared, inner
        self.register_buffer("mean", torch.from_numpy(scale.mean).float(), persistent=False)
        self.register_buffer("factor", torch.from_numpy(scale.factor).float(), persistent=False)

    def forward(self, x: Modality) -> Any:
        numbers = values(x)
        lacks = x.padding if isinstance(x, Tokens) else torch.zeros_like(numbers, dtype=torch.bool)
        vectors = (self.shared(numbers, ~lacks[:, 0]) - self.mean) * self.factor
        return self.inner(Tokens(vectors[:, None], x.padding) if isinstance(x, Tokens) else vectors)


def attach(learner: Learner, shared: Mapping[str, SharedNetwork], scales: Mapping[str, Scale]) -> Objective:
    """Prepend networks to a learner's encoders, in place.

    SynIB then exchanges latents between rows instead of whole modalities, which is equivalent and encodes each row once.

    Returns:
        The original method, for :func:`detach`.
    """
    method = learner.method
    for model in _models(learner):
        for name, network in shared.items():
            model.encoders[name] = TunedEncoder(network, scales[name], model.encoders[name])
    if isinstance(method, Experts):
        objective = method.synergy
        method.synergy = OnLatents(objective) if isinstance(objective, SynIB) else objective
        return objective
    learner.method = OnLatents(method) if isinstance(method, SynIB) else method
    return method


def detach(learner: Learner, objective: Objective) -> None:
    """Remove the networks, which undoes :func:`attach`."""
    for model in _models(learner):
        for name, encoder in list(model.encoders.items()):
            if isinstance(encoder, TunedEncoder):
                model.encoders[name] = encoder.inner
    if isinstance(learner.method, Experts):
        learner.method.synergy = objective
    else:
        learner.method = objective


def vectors_of(shared: SharedNetwork, present: NDArray[np.bool_]) -> NDArray[np.float32]:
    """The network's vectors of all rows, ``(rows, width)``; 0 for those that lack the modality."""
    shared.eval()
    with torch.no_grad():
        numbers = torch.arange(len(present))[:, None]
        vectors = shared(numbers, torch.from_numpy(present))
    shared.forget()
    return vectors.cpu().numpy()


def _models(learner: Learner) -> list[Any]:
    models = [learner.model]
    return [*models, learner.method.apart] if isinstance(learner.method, Experts) else models
